//! `#[steps]`: serde for the steps of a machine.

use crate::errors::Errors;
use crate::settings::skip_to_comma;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, GenericParam, Item, ItemEnum, Path, Token};

/// The settings of `#[serde(..)]` on the enum that `#[steps]` makes itself.
const OWN_SETTINGS: [&str; 5] = ["tag", "content", "untagged", "rename_all", "crate"];

/// The settings of `#[serde(..)]` on a variant that leave a step without its name.
const NAMELESS: [&str; 5] = [
    "untagged",
    "other",
    "skip",
    "skip_serializing",
    "skip_deserializing",
];

/// Expands `#[steps]`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    if !arguments.is_empty() {
        errors.at(&arguments, "`#[steps]` takes nothing: write `#[steps]`");
    }
    let steps = match syn::parse2(item.clone()) {
        Ok(Item::Enum(steps)) => steps,
        Ok(other) => {
            let message = "`#[steps]` goes on an enum: each variant is a step";
            errors.at_span(keyword(&other).span(), message);
            let errors = errors.into_compile_errors();
            return quote!(#item #(#errors)*);
        }
        Err(error) => {
            errors.push(error);
            let errors = errors.into_compile_errors();
            return quote!(#item #(#errors)*);
        }
    };
    expand_enum(steps, errors)
}

fn expand_enum(mut steps: ItemEnum, mut errors: Errors) -> TokenStream {
    check_shape(&steps, &mut errors);
    let derives_itself = check_derives(&steps.attrs, &mut errors);
    let names_itself = check_serde(&steps.attrs, &mut errors);
    for variant in &mut steps.variants {
        let named = |attr: &Attribute| check_variant(attr, &mut errors);
        variant.attrs.retain(named);
    }

    let errors = errors.into_compile_errors();
    // With an error, what would lead to more errors of serde is left out.
    let derive = (!derives_itself).then(|| {
        quote! {
            #[derive(
                ::outlast::__private::serde::Serialize,
                ::outlast::__private::serde::Deserialize
            )]
        }
    });
    let settings = (!derives_itself && !names_itself).then(|| {
        quote! {
            #[serde(
                crate = "::outlast::__private::serde",
                tag = "step",
                content = "state",
                rename_all = "snake_case"
            )]
        }
    });
    quote!(#derive #settings #steps #(#errors)*)
}

/// Returns the word that says what an item is.
fn keyword(item: &Item) -> TokenStream {
    let word: &dyn ToTokens = match item {
        Item::Struct(item) => &item.struct_token,
        Item::Union(item) => &item.union_token,
        Item::Fn(item) => &item.sig.fn_token,
        Item::Impl(item) => &item.impl_token,
        Item::Trait(item) => &item.trait_token,
        Item::Type(item) => &item.type_token,
        Item::Mod(item) => &item.mod_token,
        _ => item,
    };
    quote!(#word)
}

fn check_shape(steps: &ItemEnum, errors: &mut Errors) {
    if steps.variants.is_empty() {
        errors.at(
            &steps.ident,
            "a machine has at least one step: write a variant, such as `Start`",
        );
    }
    for parameter in &steps.generics.params {
        if let GenericParam::Lifetime(lifetime) = parameter {
            errors.at(
                lifetime,
                "a state is stored, so its values are owned: remove the lifetime, and write \
                 `String` instead of `&str`",
            );
        }
    }
}

/// Reports derives of serde's traits; returns whether there are any.
fn check_derives(attrs: &[Attribute], errors: &mut Errors) -> bool {
    let mut found = false;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("derive")) {
        let paths = Punctuated::<Path, Token![,]>::parse_terminated;
        // The compiler reports a derive that is not a list of paths.
        for path in attr.parse_args_with(paths).unwrap_or_default() {
            let Some(name) = path.segments.last().map(|last| &last.ident) else {
                continue;
            };
            if name == "Serialize" || name == "Deserialize" {
                found = true;
                let message = format!("remove `{name}` from the derive: #[steps] adds it");
                errors.at(&path, message);
            }
        }
    }
    found
}

/// Reports settings that `#[steps]` makes itself; returns whether there are any.
fn check_serde(attrs: &[Attribute], errors: &mut Errors) -> bool {
    let mut found = false;
    for key in attrs.iter().flat_map(serde_keys) {
        if OWN_SETTINGS.iter().any(|own| key == own) {
            found = true;
            let message = format!(
                "remove `{key}` from #[serde(..)]: #[steps] adds tag = \"step\", \
                 content = \"state\", rename_all = \"snake_case\""
            );
            errors.at(&key, message);
        }
    }
    found
}

/// Reports an attribute that leaves a step without its name; returns whether it is fine.
fn check_variant(attr: &Attribute, errors: &mut Errors) -> bool {
    let keys = serde_keys(attr);
    let wrong = keys
        .iter()
        .filter(|key| NAMELESS.iter().any(|name| key == name));
    let mut is_fine = true;
    for key in wrong {
        is_fine = false;
        let message = format!("remove `{key}`: every step is stored with its name");
        errors.at(key, message);
    }
    is_fine
}

/// Returns the keys in a `#[serde(..)]` attribute. Serde reports what cannot be read.
fn serde_keys(attr: &Attribute) -> Vec<Ident> {
    let mut keys = Vec::new();
    if attr.path().is_ident("serde")
        && let syn::Meta::List(list) = &attr.meta
    {
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                keys.push(Ident::parse_any(input)?);
                skip_to_comma(input)?;
                input.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        };
        let _ = read.parse2(list.tokens.clone());
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::testing::{assert_expands, code, errors};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn steps(item: TokenStream) -> TokenStream {
        expand(TokenStream::new(), item)
    }

    #[test]
    fn steps_get_serde_and_stay_as_they_are() {
        assert_expands(
            steps(quote! {
                /// An order.
                #[derive(Debug, Clone)]
                #[serde(deny_unknown_fields)]
                pub(crate) enum Order<T> {
                    #[serde(rename = "begin", alias = "start")]
                    Start,
                    Charge { #[serde(default)] amount: u64, note: T },
                    Ship(Address),
                }
            }),
            quote! {
                #[derive(
                    ::outlast::__private::serde::Serialize,
                    ::outlast::__private::serde::Deserialize
                )]
                #[serde(
                    crate = "::outlast::__private::serde",
                    tag = "step",
                    content = "state",
                    rename_all = "snake_case"
                )]
                /// An order.
                #[derive(Debug, Clone)]
                #[serde(deny_unknown_fields)]
                pub(crate) enum Order<T> {
                    #[serde(rename = "begin", alias = "start")]
                    Start,
                    Charge { #[serde(default)] amount: u64, note: T },
                    Ship(Address),
                }
            },
        );
    }

    #[test]
    fn what_is_not_an_enum_is_left_as_it_is_and_reported() {
        let message = "`#[steps]` goes on an enum: each variant is a step";
        for item in [
            quote!(
                struct Order {
                    number: u64,
                }
            ),
            quote!(union Order { number: u64 }),
            quote!(
                fn order() {}
            ),
            quote!(impl Order {}),
        ] {
            let expanded = steps(item.clone());
            assert_eq!(errors(expanded.clone()), [message], "{item}");
            assert!(
                expanded.to_string().starts_with(&item.to_string()),
                "{expanded}"
            );
        }
    }

    #[test]
    fn mistakes_are_answered_with_what_to_change() {
        let cases = [
            (
                "enum Order {}",
                "a machine has at least one step: write a variant, such as `Start`",
            ),
            (
                "enum Order<'a> { Start(&'a str), }",
                "a state is stored, so its values are owned: remove the lifetime, and write \
              `String` instead of `&str`",
            ),
            (
                "#[derive(Debug, serde::Serialize)] enum Order { Start, }",
                "remove `Serialize` from the derive: #[steps] adds it",
            ),
            (
                "#[derive(Deserialize)] enum Order { Start, }",
                "remove `Deserialize` from the derive: #[steps] adds it",
            ),
            (
                r#"#[serde(deny_unknown_fields, tag = "kind")] enum Order { Start, }"#,
                "remove `tag` from #[serde(..)]: #[steps] adds tag = \"step\", \
              content = \"state\", rename_all = \"snake_case\"",
            ),
            (
                r#"#[serde(rename_all(serialize = "lowercase"))] enum Order { Start, }"#,
                "remove `rename_all` from #[serde(..)]: #[steps] adds tag = \"step\", \
              content = \"state\", rename_all = \"snake_case\"",
            ),
            (
                "enum Order { Start, #[serde(untagged)] Ship, }",
                "remove `untagged`: every step is stored with its name",
            ),
            (
                r#"enum Order { Start, #[serde(rename = "x", other)] Ship, }"#,
                "remove `other`: every step is stored with its name",
            ),
        ];
        for (item, message) in cases {
            assert_eq!(errors(steps(code(item))), [message], "{item}");
        }
    }

    #[test]
    fn arguments_are_reported_beside_other_errors() {
        let expanded = expand(
            quote!(tag = "x"),
            quote!(
                enum Order {}
            ),
        );
        assert_eq!(
            errors(expanded),
            [
                "`#[steps]` takes nothing: write `#[steps]`",
                "a machine has at least one step: write a variant, such as `Start`",
            ]
        );
    }

    #[test]
    fn an_error_leaves_nothing_that_serde_would_report_again() {
        let twice = steps(quote!(
            #[derive(Serialize, Deserialize)]
            enum Order {
                Start,
            }
        ));
        assert!(!twice.to_string().contains("__private"), "{twice}");

        let tagged = steps(quote!(
            #[serde(tag = "kind")]
            enum Order {
                Start,
            }
        ));
        assert!(
            tagged
                .to_string()
                .contains("__private :: serde :: Serialize"),
            "{tagged}"
        );
        assert!(
            !tagged.to_string().contains("content = \"state\")"),
            "{tagged}"
        );

        let nameless = steps(quote!(
            enum Order {
                #[serde(skip)]
                Start,
            }
        ));
        assert!(!nameless.to_string().contains("serde (skip)"), "{nameless}");
    }
}
