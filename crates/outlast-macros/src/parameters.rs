//! What the parameters of a job or a workflow take, recognised by their types.

use crate::errors::Errors;
use crate::function::Kind;
use crate::spelling::written;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{
    FnArg, GenericArgument, Pat, PatType, Path, PathArguments, Signature, Type, TypeReference,
};

/// What each parameter takes, in their order.
pub(crate) struct Parameters(Vec<Role>);

/// What one parameter takes.
enum Role {
    Argument(Argument),
    /// A provided value of this type.
    Data(Type),
    Context,
    /// The flow, with the name of the parameter.
    Flow(Option<Ident>),
}

/// The argument of a job, or the input of a workflow.
pub(crate) struct Argument {
    pub(crate) ty: Type,
    name: Option<Ident>,
}

impl Argument {
    /// Returns the parameter's name for callers. A parameter must not have the name of a unit
    /// type, so one of that name gets another.
    pub(crate) fn public_name(&self, unit_type: &Ident) -> Ident {
        match &self.name {
            Some(name) if name.unraw() != unit_type.unraw() => name.clone(),
            _ => format_ident!("__value"),
        }
    }
}

impl Parameters {
    /// Reads the parameters and reports the wrong ones.
    pub(crate) fn read(kind: Kind, sig: &Signature, errors: &mut Errors) -> Parameters {
        let mut roles = Vec::new();
        for parameter in &sig.inputs {
            let FnArg::Typed(parameter) = parameter else {
                continue;
            };
            match role(kind, parameter) {
                Ok(role) => {
                    check_single(kind, &role, &roles, parameter, errors);
                    roles.push(role);
                }
                Err(message) => errors.at(&parameter.ty, message),
            }
        }
        if kind == Kind::Workflow && !sig.inputs.iter().any(is_flow_or_context) {
            errors.at_span(
                sig.paren_token.span.open(),
                "a workflow takes a flow: write `flow: Flow`",
            );
        }
        Parameters(roles)
    }

    /// Returns the argument, if there is one.
    pub(crate) fn argument(&self) -> Option<&Argument> {
        self.0.iter().find_map(|role| match role {
            Role::Argument(argument) => Some(argument),
            Role::Data(_) | Role::Context | Role::Flow(_) => None,
        })
    }

    /// Returns the type of the argument. Without an argument it is `()`.
    pub(crate) fn argument_type(&self) -> TokenStream {
        match self.argument() {
            Some(Argument { ty, .. }) => quote!(#ty),
            None => quote!(()),
        }
    }

    /// Returns the name of the flow, for messages.
    pub(crate) fn flow_name(&self) -> String {
        let name = self.0.iter().find_map(|role| match role {
            Role::Flow(name) => name.as_ref(),
            Role::Argument(_) | Role::Data(_) | Role::Context => None,
        });
        name.map_or_else(|| "flow".to_owned(), Ident::to_string)
    }

    /// Returns the types of the provided values.
    pub(crate) fn data(&self) -> impl Iterator<Item = &Type> {
        self.0.iter().filter_map(|role| match role {
            Role::Data(ty) => Some(ty),
            Role::Argument(_) | Role::Context | Role::Flow(_) => None,
        })
    }

    /// Defines `needs`, when there are provided values.
    pub(crate) fn needs(&self) -> Option<TokenStream> {
        self.data().next()?;
        let types = self.data();
        Some(quote! {
            fn needs(__needs: &mut ::outlast::machine::Needs) {
                #(__needs.data::<#types>();)*
            }
        })
    }

    /// Takes the provided values out of `source` into variables.
    pub(crate) fn take_data(&self, source: &TokenStream) -> TokenStream {
        let data = self.data().enumerate().map(|(position, ty)| {
            let name = data_name(position);
            quote!(let #name = #source.data::<#ty>()?;)
        });
        data.collect()
    }

    /// Returns the values for a call of the function, in the order of its parameters.
    pub(crate) fn values(&self, argument: &TokenStream, source: &TokenStream) -> TokenStream {
        let mut names = (0..).map(data_name);
        let values = self.0.iter().map(|role| match role {
            Role::Argument(_) => argument.clone(),
            Role::Data(_) => names.next().into_token_stream(),
            Role::Context | Role::Flow(_) => source.clone(),
        });
        quote!(#(#values),*)
    }
}

/// Names the variable of a provided value.
fn data_name(position: usize) -> Ident {
    format_ident!("__data_{position}")
}

/// Recognises what a parameter takes, or says what is wrong with its type.
fn role(kind: Kind, parameter: &PatType) -> Result<Role, String> {
    let name = name(&parameter.pat);
    match ungrouped(&parameter.ty) {
        Type::Reference(reference) => by_reference(kind, name, reference),
        Type::Path(ty) if ty.qself.is_none() => by_path(kind, name, &ty.path, &parameter.ty),
        Type::ImplTrait(_) => Err(format!(
            "the {} of a {} is stored, so its type has a name: write that instead of `impl`",
            kind.argument(),
            kind.noun()
        )),
        ty => Ok(Role::Argument(Argument {
            ty: ty.clone(),
            name,
        })),
    }
}

fn by_path(kind: Kind, name: Option<Ident>, path: &Path, ty: &Type) -> Result<Role, String> {
    match (kind, Special::of(path)) {
        (_, Some(Special::Data(ty))) => Ok(Role::Data(ty.clone())),
        (Kind::Job, Some(Special::Context)) => {
            Err(format!("write `{}: &Context`", name_or(name, "cx")))
        }
        (Kind::Workflow, Some(Special::Flow)) => Ok(Role::Flow(name)),
        (Kind::Job, Some(Special::Flow)) => Err(FLOW_IN_JOB.to_owned()),
        (Kind::Workflow, Some(Special::Context)) => Err(CONTEXT_IN_WORKFLOW.to_owned()),
        (_, None) => Ok(Role::Argument(Argument {
            ty: ty.clone(),
            name,
        })),
    }
}

fn by_reference(kind: Kind, name: Option<Ident>, ty: &TypeReference) -> Result<Role, String> {
    let target = ungrouped(&ty.elem);
    let special = match target {
        Type::Path(target) => Special::of(&target.path),
        _ => None,
    };
    match (kind, special) {
        (Kind::Job, Some(Special::Context)) if ty.mutability.is_none() => Ok(Role::Context),
        (Kind::Job, Some(Special::Context)) => Err(format!(
            "write `{}: &Context`, without `mut`",
            name_or(name, "cx")
        )),
        (_, Some(Special::Data(_))) => Err(format!("write `{}`, without `&`", written(target))),
        (Kind::Workflow, Some(Special::Flow)) => Err(format!(
            "write `{}: Flow`, without `&`",
            name_or(name, "flow")
        )),
        (Kind::Job, Some(Special::Flow)) => Err(FLOW_IN_JOB.to_owned()),
        (Kind::Workflow, Some(Special::Context)) => Err(CONTEXT_IN_WORKFLOW.to_owned()),
        (_, None) => Err(format!(
            "the {} of a {} is stored, so it must be owned: write {}",
            kind.argument(),
            kind.noun(),
            owned(target)
        )),
    }
}

const FLOW_IN_JOB: &str = "a function with a `Flow` is a workflow: write `#[workflow]`";
const CONTEXT_IN_WORKFLOW: &str =
    "a workflow has a `Flow`: write `flow: Flow`; `&Context` is for jobs and machines";

/// Reports a second parameter for something that is there once.
fn check_single(
    kind: Kind,
    role: &Role,
    before: &[Role],
    parameter: &PatType,
    errors: &mut Errors,
) {
    let is_same = |other: &Role| match role {
        Role::Argument(_) => matches!(other, Role::Argument(_)),
        Role::Context => matches!(other, Role::Context),
        Role::Flow(_) => matches!(other, Role::Flow(_)),
        Role::Data(_) => false,
    };
    if !before.iter().any(is_same) {
        return;
    }
    let (noun, argument) = (kind.noun(), kind.argument());
    let message = match role {
        Role::Context => "a job has one `&Context`: remove this one".to_owned(),
        Role::Flow(_) => "a workflow has one `Flow`: remove this one".to_owned(),
        Role::Argument(_) | Role::Data(_) => {
            let ty = written(&parameter.ty);
            format!(
                "a {noun} takes one {argument}: put them into a struct, or write `Data<{ty}>` for \
                 a provided value"
            )
        }
    };
    errors.at(parameter, message);
}

/// The types that are not stored.
enum Special<'a> {
    Data(&'a Type),
    Context,
    Flow,
}

impl Special<'_> {
    /// Recognises a type by the last segment of its path.
    fn of(path: &Path) -> Option<Special<'_>> {
        let last = path.segments.last()?;
        match (last.ident.to_string().as_str(), &last.arguments) {
            ("Data", PathArguments::AngleBracketed(arguments)) if arguments.args.len() == 1 => {
                match arguments.args.first() {
                    Some(GenericArgument::Type(ty)) => Some(Special::Data(ty)),
                    _ => None,
                }
            }
            ("Context", PathArguments::None) => Some(Special::Context),
            ("Flow", PathArguments::None) => Some(Special::Flow),
            _ => None,
        }
    }
}

/// Returns whether a parameter takes a flow, or a context in its place, in whatever way.
fn is_flow_or_context(parameter: &FnArg) -> bool {
    let FnArg::Typed(parameter) = parameter else {
        return false;
    };
    let ty = match ungrouped(&parameter.ty) {
        Type::Reference(reference) => ungrouped(&reference.elem),
        ty => ty,
    };
    match ty {
        Type::Path(ty) => matches!(
            Special::of(&ty.path),
            Some(Special::Flow | Special::Context)
        ),
        _ => false,
    }
}

/// Returns a type without parentheses, and without the invisible ones of a declarative macro.
fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        Type::Paren(paren) => ungrouped(&paren.elem),
        ty => ty,
    }
}

/// Returns the name that a pattern binds, if it is only a name.
fn name(pattern: &Pat) -> Option<Ident> {
    match pattern {
        Pat::Ident(pattern) if pattern.subpat.is_none() => Some(pattern.ident.clone()),
        _ => None,
    }
}

fn name_or(name: Option<Ident>, default: &str) -> String {
    name.map_or_else(|| default.to_owned(), |name| name.to_string())
}

/// Says what to write instead of a reference to `target`.
fn owned(target: &Type) -> String {
    match target {
        Type::Path(path) if path.path.is_ident("str") => "`String`".to_owned(),
        Type::Slice(slice) => format!("`Vec<{}>`", written(&slice.elem)),
        target => {
            let target = written(target);
            format!("`{target}`, or `Data<{target}>` for a provided value")
        }
    }
}
