//! The functions under `#[job]` and `#[workflow]`: how they are read, what both must satisfy, and
//! the unit type that takes their place.
//!
//! The body is not parsed here. Whatever the compiler accepts, these macros accept.

use crate::errors::Errors;
use crate::parameters::Parameters;
use crate::spelling::{plain, written};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Attribute, GenericArgument, GenericParam, LitStr, Path, PathArguments, ReturnType, Safety,
    Signature, Token, Type, Visibility,
};

/// What a function becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Job,
    Workflow,
}

impl Kind {
    /// Returns the word for it.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Job => "job",
            Kind::Workflow => "workflow",
        }
    }

    /// Returns its attribute.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Kind::Job => "#[job]",
            Kind::Workflow => "#[workflow]",
        }
    }

    /// Returns the word for what it starts with.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Kind::Job => "argument",
            Kind::Workflow => "input",
        }
    }

    /// Returns what is wrong with an item that is not a function.
    fn wrong_item(self) -> &'static str {
        match self {
            Kind::Job => {
                "`#[job]` goes on an `async fn`; a type with fields implements `outlast::Job`"
            }
            Kind::Workflow => {
                "`#[workflow]` goes on an `async fn`; a type with fields implements \
                 `outlast::Durable` and `outlast::Workflow`"
            }
        }
    }

    /// Returns how the return type of a function with this output is written.
    fn result(self, output: &str) -> String {
        match self {
            Kind::Job => format!("a job returns a `Result`: write `-> Result<{output}, JobError>`"),
            Kind::Workflow => {
                format!("a workflow returns a `FlowResult`: write `-> FlowResult<{output}>`")
            }
        }
    }
}

/// A function with one of the two attributes.
pub(crate) struct Function {
    pub(crate) sig: Signature,
    attrs: Vec<Attribute>,
    vis: Visibility,
    /// The body with its braces.
    pub(crate) body: Group,
}

impl Function {
    /// Reads a function. Otherwise returns what to expand to: the item as it is, and the error.
    pub(crate) fn read(kind: Kind, item: TokenStream) -> Result<Function, TokenStream> {
        let parse = |input: ParseStream<'_>| Function::parse(kind, input);
        parse.parse2(item.clone()).map_err(|error| {
            let error = error.into_compile_error();
            quote!(#item #error)
        })
    }

    fn parse(kind: Kind, input: ParseStream<'_>) -> syn::Result<Function> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !is_function(input)? {
            return Err(input.error(kind.wrong_item()));
        }
        let sig: Signature = input.parse()?;
        if let Some(receiver) = sig.receiver() {
            let noun = kind.noun();
            let message = format!(
                "a {noun} is a function of its own, outside of `impl`: remove `self`, and take \
                 what it needs as `Data<T>`"
            );
            return Err(syn::Error::new_spanned(receiver, message));
        }
        let body = input.parse()?;
        Ok(Function {
            sig,
            attrs,
            vis,
            body,
        })
    }

    /// Returns the type's name: the function's.
    pub(crate) fn ident(&self) -> &Ident {
        &self.sig.ident
    }

    /// Returns the name that instances are stored with, when no other is given.
    pub(crate) fn name(&self) -> LitStr {
        LitStr::new(&plain(self.ident()), self.ident().span())
    }

    /// Checks the signature and returns what it takes, or reports what is wrong.
    pub(crate) fn check(&self, kind: Kind, errors: &mut Errors) -> Option<Parameters> {
        let before = errors.count();
        check_words(kind, &self.sig, errors);
        check_generics(kind, &self.sig, errors);
        check_output(kind, &self.sig, errors);
        let parameters = Parameters::read(kind, &self.sig, errors);
        (errors.count() == before).then_some(parameters)
    }

    /// Returns the type that the function returns, as it is written.
    pub(crate) fn returns(&self) -> TokenStream {
        match &self.sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, returned) => quote!(#returned),
        }
    }

    /// Returns where the error of the returned `Result` is written, or the whole type.
    pub(crate) fn error_span(&self) -> Span {
        let returned = match &self.sig.output {
            ReturnType::Default => return self.ident().span(),
            ReturnType::Type(_, returned) => returned,
        };
        match type_arguments(returned).as_slice() {
            [_, error] => error.span(),
            _ => returned.span(),
        }
    }

    /// Declares the unit type with the function's name, documentation and visibility.
    pub(crate) fn unit_type(&self) -> TokenStream {
        let attrs = self.attrs.iter().filter(|attr| is_for_type(attr));
        let (vis, ident) = (&self.vis, self.ident());
        quote! {
            #(#attrs)*
            #[allow(non_camel_case_types)]
            #[derive(Clone, Copy, Debug)]
            #vis struct #ident;
        }
    }

    /// Declares the function's name as a type with an error in it, and a value of that type.
    ///
    /// The compiler does not report what else is wrong with such a type. So the code that uses a
    /// function with a wrong signature leads to no further errors.
    pub(crate) fn wrong(&self, errors: Errors) -> TokenStream {
        let (vis, ident, cfgs) = (&self.vis, self.ident(), self.cfgs());
        let mut errors = errors.into_compile_errors();
        let first = errors.next();
        quote! {
            #cfgs
            #[allow(non_camel_case_types, dead_code)]
            #vis type #ident = [(); #first];
            #cfgs
            #[allow(non_upper_case_globals, dead_code)]
            #vis const #ident: #ident = [];
            #(#errors)*
        }
    }

    /// Declares `with` and `key`, so that they need no trait in scope.
    ///
    /// `with` takes the argument without converting it, so a literal has its type. `of` is the
    /// trait whose functions they call.
    pub(crate) fn start(&self, parameters: &Parameters, doc: &str, of: TokenStream) -> TokenStream {
        let (vis, ident, cfgs) = (&self.vis, self.ident(), self.cfgs());
        let (parameter, value) = match parameters.argument() {
            Some(argument) => {
                let (name, ty) = (argument.public_name(ident), &argument.ty);
                (quote!(#name: #ty), quote!(#name))
            }
            None => (quote!(), quote!(())),
        };
        quote! {
            #cfgs
            impl #ident {
                #[doc = #doc]
                #[allow(dead_code)]
                #vis fn with(#parameter) -> ::outlast::New<#ident> {
                    <#ident as #of>::with(#value)
                }

                /// Addresses the instance that holds this key.
                #[allow(dead_code)]
                #vis fn key(
                    key: impl ::core::convert::Into<::outlast::store::KeyText>,
                ) -> ::outlast::Key<#ident> {
                    <#ident as #of>::key(key)
                }
            }
        }
    }

    /// Returns the function as it was written, to stand inside the one that calls it.
    pub(crate) fn inner(&self) -> TokenStream {
        let attrs = self.attrs.iter().filter(|attr| is_for_function(attr));
        let (sig, body) = (&self.sig, &self.body);
        quote!(#(#attrs)* #sig #body)
    }

    /// Returns the attributes that every generated item carries.
    pub(crate) fn cfgs(&self) -> TokenStream {
        let cfgs = self.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
        // A deprecated function is used by what is generated for it.
        let deprecated = self
            .attrs
            .iter()
            .find(|attr| attr.path().is_ident("deprecated"));
        let allow = deprecated.map(|_| quote!(#[allow(deprecated)]));
        quote!(#(#cfgs)* #allow)
    }
}

/// Returns the types in the angle brackets of a type, such as those of a `Result`.
pub(crate) fn type_arguments(ty: &Type) -> Vec<&Type> {
    let Type::Path(path) = ty else {
        return Vec::new();
    };
    let last = path.path.segments.last().map(|last| &last.arguments);
    let Some(PathArguments::AngleBracketed(arguments)) = last else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}

/// Returns whether a function starts here, after its visibility.
fn is_function(input: ParseStream<'_>) -> syn::Result<bool> {
    let ahead = input.fork();
    while ahead.peek(Token![const])
        || ahead.peek(Token![async])
        || ahead.peek(Token![unsafe])
        || ahead.peek(Token![extern])
        || ahead.peek(LitStr)
    {
        ahead.parse::<TokenTree>()?;
    }
    Ok(ahead.peek(Token![fn]))
}

/// Returns whether an attribute describes the unit type.
fn is_for_type(attr: &Attribute) -> bool {
    let names = ["doc", "cfg", "deprecated"];
    names.iter().any(|name| attr.path().is_ident(name)) || is_lint_level(attr)
}

/// Returns whether an attribute belongs to the code of the function.
fn is_for_function(attr: &Attribute) -> bool {
    !is_for_type(attr) || is_lint_level(attr)
}

/// Returns whether an attribute sets the level of a lint. Both the type and the code need it.
fn is_lint_level(attr: &Attribute) -> bool {
    let names = ["allow", "warn", "deny", "forbid"];
    names.iter().any(|name| attr.path().is_ident(name))
}

/// Checks the words before and after the parameters.
fn check_words(kind: Kind, sig: &Signature, errors: &mut Errors) {
    let noun = kind.noun();
    if sig.asyncness.is_none() {
        errors.at(
            sig.fn_token,
            format!("a {noun} is asynchronous: write `async fn`"),
        );
    }
    let mut refuse = |word: &dyn ToTokens, text: &str| {
        errors.at(
            word,
            format!("a {noun} is a plain `async fn`: remove `{text}`"),
        );
    };
    if let Some(word) = &sig.constness {
        refuse(word, "const");
    }
    if let Safety::Unsafe(word) = &sig.safety {
        refuse(word, "unsafe");
    }
    if let Some(abi) = &sig.abi {
        refuse(abi, "extern");
    }
    if let Some(variadic) = &sig.variadic {
        refuse(variadic, "...");
    }
}

fn check_generics(kind: Kind, sig: &Signature, errors: &mut Errors) {
    let noun = kind.noun();
    for parameter in &sig.generics.params {
        let message = match parameter {
            GenericParam::Lifetime(_) => format!(
                "a {noun} takes owned values, so it has no lifetime parameters: remove this one"
            ),
            GenericParam::Type(_) | GenericParam::Const(_) => {
                format!(
                    "a {noun} has one name, so it has no type parameters: write the type itself"
                )
            }
        };
        errors.at(parameter, message);
    }
    if let Some(clause) = &sig.generics.where_clause
        && sig.generics.params.is_empty()
    {
        errors.at(
            clause,
            format!("a {noun} has no type parameters: remove the `where`"),
        );
    }
}

/// The types of the prelude that are easily returned instead of a `Result`.
const NO_RESULTS: [&str; 14] = [
    "Option", "String", "Vec", "Box", "bool", "char", "i32", "i64", "u8", "u16", "u32", "u64",
    "usize", "f64",
];

/// Returns whether a path is one word, whatever is in its angle brackets.
fn is_called(path: &Path, name: &str) -> bool {
    path.segments.len() == 1 && path.segments.iter().all(|segment| segment.ident == name)
}

/// Checks the return type, as far as its spelling says that it is not a `Result`.
fn check_output(kind: Kind, sig: &Signature, errors: &mut Errors) {
    let ReturnType::Type(_, returned) = &sig.output else {
        errors.at_span(sig.paren_token.span.close(), kind.result("()"));
        return;
    };
    match &**returned {
        Type::Tuple(_) | Type::Reference(_) | Type::Slice(_) | Type::Array(_) => {
            errors.at(returned, kind.result(&written(returned)));
        }
        Type::Never(_) | Type::ImplTrait(_) | Type::TraitObject(_) => {
            errors.at(returned, kind.result("()"));
        }
        Type::Path(path) if NO_RESULTS.iter().any(|name| is_called(&path.path, name)) => {
            errors.at(returned, kind.result(&written(returned)));
        }
        // The compiler knows whether another type is a `Result`.
        _ => {}
    }
}
