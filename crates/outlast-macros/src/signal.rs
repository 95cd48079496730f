//! `#[derive(Signal)]`: the name of a signal.

use crate::errors::Errors;
use crate::settings::text;
use crate::spelling::{plain, snake_case};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Attribute, Data, DeriveInput, Expr, GenericParam, Lit, LitStr, Meta, Token};

const OWNED: &str = "a signal is stored, so its values are owned: remove the lifetime, and write \
                     `String` instead of `&str`";
const USAGE: &str = "write `#[signal(name = \"..\")]`";

/// Expands `#[derive(Signal)]`.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut errors = Errors::default();
    let name = name(&input.attrs, &mut errors).unwrap_or_else(|| {
        let name = snake_case(&plain(&input.ident));
        LitStr::new(&name, input.ident.span())
    });
    let ident = &input.ident;
    let implementation = check_type(&input, &mut errors).then(|| {
        quote! {
            impl ::outlast::Signal for #ident {
                const NAME: &'static str = #name;
            }
        }
    });
    let errors = errors.into_compile_errors();
    quote!(#implementation #(#errors)*)
}

/// Reports a type that cannot be a signal; returns whether it can.
fn check_type(input: &DeriveInput, errors: &mut Errors) -> bool {
    if let Data::Union(union) = &input.data {
        errors.at(union.union_token, "a signal is a struct or an enum");
        return false;
    }
    for parameter in &input.generics.params {
        let message = match parameter {
            GenericParam::Lifetime(_) => OWNED,
            GenericParam::Type(_) | GenericParam::Const(_) => {
                "a signal has one name, so its type has no parameters: write the type itself"
            }
        };
        errors.at(parameter, message);
    }
    input.generics.params.is_empty()
}

/// Returns the name that `#[signal(name = "..")]` gives.
fn name(attrs: &[Attribute], errors: &mut Errors) -> Option<LitStr> {
    let mut attrs = attrs.iter().filter(|attr| attr.path().is_ident("signal"));
    let first = attrs.next()?;
    for second in attrs {
        errors.at(second, "`#[signal(..)]` is written twice: remove this one");
    }
    let Meta::List(list) = &first.meta else {
        errors.at(first, USAGE);
        return None;
    };
    match list.parse_args_with(parse_name) {
        Ok(name) => Some(name),
        Err(error) => {
            errors.push(error);
            None
        }
    }
}

fn parse_name(input: ParseStream<'_>) -> syn::Result<LitStr> {
    if input.is_empty() || input.peek(Lit) {
        return Err(syn::Error::new(input.span(), USAGE));
    }
    let key = Ident::parse_any(input)?;
    if key != "name" {
        let message = format!("`{key}` is unknown: `#[signal(..)]` takes `name = \"..\"`");
        return Err(syn::Error::new(key.span(), message));
    }
    if !input.peek(Token![=]) {
        return Err(syn::Error::new(key.span(), "write `name = \"..\"`"));
    }
    input.parse::<Token![=]>()?;
    let value: Expr = input.parse()?;
    let name = text(&key, &value)?;
    input.parse::<Option<Token![,]>>()?;
    if !input.is_empty() {
        return Err(input.error("`#[signal(..)]` takes `name = \"..\"` and nothing else"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::testing::{assert_expands, code, errors};
    use quote::quote;

    #[test]
    fn the_name_of_a_signal_is_its_type_in_snake_case() {
        assert_expands(
            expand(quote! {
                struct PaymentConfirmed {
                    amount: u64,
                }
            }),
            quote! {
                impl ::outlast::Signal for PaymentConfirmed {
                    const NAME: &'static str = "payment_confirmed";
                }
            },
        );
    }

    #[test]
    fn an_enum_is_a_signal_with_the_name_that_it_is_given() {
        assert_expands(
            expand(quote! {
                #[signal(name = "order-decided",)]
                enum Decision {
                    Yes,
                    No,
                }
            }),
            quote! {
                impl ::outlast::Signal for Decision {
                    const NAME: &'static str = "order-decided";
                }
            },
        );
    }

    #[test]
    fn a_raw_name_loses_its_prefix() {
        let expanded = expand(quote!(
            struct r#Async;
        ))
        .to_string();
        assert!(expanded.contains("\"async\""), "{expanded}");
    }

    #[test]
    fn a_wrong_name_keeps_the_implementation_so_that_other_code_compiles() {
        let expanded = expand(quote!(
            #[signal(name = 5)]
            struct Paid;
        ));
        assert!(
            expanded
                .to_string()
                .contains("impl :: outlast :: Signal for Paid")
        );
    }

    #[test]
    fn mistakes_are_answered_with_the_line_to_write() {
        let cases = [
            (
                "struct Paid<T>(T);",
                "a signal has one name, so its type has no parameters: write the type itself",
            ),
            (
                "struct Paid<'a>(&'a str);",
                "a signal is stored, so its values are owned: remove the lifetime, and write \
                 `String` instead of `&str`",
            ),
            ("union Paid { a: u8 }", "a signal is a struct or an enum"),
            ("#[signal] struct Paid;", "write `#[signal(name = \"..\")]`"),
            (
                "#[signal()] struct Paid;",
                "write `#[signal(name = \"..\")]`",
            ),
            (
                r#"#[signal("paid")] struct Paid;"#,
                "write `#[signal(name = \"..\")]`",
            ),
            ("#[signal(name)] struct Paid;", "write `name = \"..\"`"),
            (
                r#"#[signal(queue = "a")] struct Paid;"#,
                "`queue` is unknown: `#[signal(..)]` takes `name = \"..\"`",
            ),
            (
                "#[signal(name = paid)] struct Paid;",
                "`name` is a text in quotes: write `name = \"paid\"`",
            ),
            (
                "#[signal(name = 5)] struct Paid;",
                "`name` is a text in quotes: write `name = \"..\"`",
            ),
            (
                r#"#[signal(name = "")] struct Paid;"#,
                "`name` is empty: write a text between the quotes",
            ),
            (
                r#"#[signal(name = "a", name = "b")] struct Paid;"#,
                "`#[signal(..)]` takes `name = \"..\"` and nothing else",
            ),
            (
                r#"#[signal(name = "a")] #[signal(name = "b")] struct Paid;"#,
                "`#[signal(..)]` is written twice: remove this one",
            ),
        ];
        for (item, message) in cases {
            assert_eq!(errors(expand(code(item))), [message], "{item}");
        }
    }
}
