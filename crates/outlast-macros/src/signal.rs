//! `#[derive(Signal)]`: the name of a signal, and the type of the reply that it wants.

use crate::errors::Errors;
use crate::settings::text;
use crate::spelling::{plain, snake_case};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Attribute, Data, DeriveInput, Expr, GenericParam, Lit, LitStr, Meta, Token, Type};

const OWNED: &str = "a signal is stored, so its values are owned: remove the lifetime, and write \
                     `String` instead of `&str`";
const USAGE: &str = "write `#[signal(name = \"..\")]` or `#[signal(reply = Type)]`";

/// What `#[signal(..)]` sets.
#[derive(Default)]
struct SignalSettings {
    name: Option<LitStr>,
    reply: Option<Type>,
}

/// Expands `#[derive(Signal)]`.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut errors = Errors::default();
    let settings = settings(&input.attrs, &mut errors);
    let name = settings.name.unwrap_or_else(|| {
        let name = snake_case(&plain(&input.ident));
        LitStr::new(&name, input.ident.span())
    });
    let ident = &input.ident;
    let request = settings.reply.map(|reply| {
        quote! {
            impl ::outlast::machine::Request for #ident {
                type Reply = #reply;
            }
        }
    });
    let implementation = check_type(&input, &mut errors).then(|| {
        quote! {
            impl ::outlast::Signal for #ident {
                const NAME: &'static str = #name;
            }
            #request
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

/// Reads `#[signal(..)]`. A wrong setting is reported and left out.
fn settings(attrs: &[Attribute], errors: &mut Errors) -> SignalSettings {
    let mut settings = SignalSettings::default();
    let mut attrs = attrs.iter().filter(|attr| attr.path().is_ident("signal"));
    let Some(first) = attrs.next() else {
        return settings;
    };
    for second in attrs {
        errors.at(second, "`#[signal(..)]` is written twice: remove this one");
    }
    let Meta::List(list) = &first.meta else {
        errors.at(first, USAGE);
        return settings;
    };
    let read = list.parse_args_with(|input: ParseStream<'_>| settings.read(input));
    if let Err(error) = read {
        errors.push(error);
    }
    settings
}

impl SignalSettings {
    fn read(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.is_empty() || input.peek(Lit) {
            return Err(syn::Error::new(input.span(), USAGE));
        }
        while !input.is_empty() {
            self.read_one(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    /// Reads `key = value`.
    fn read_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let key = Ident::parse_any(input)?;
        let is_given = match key.to_string().as_str() {
            "name" => self.name.is_some(),
            "reply" => self.reply.is_some(),
            _ => {
                let message = format!(
                    "`{key}` is unknown: `#[signal(..)]` takes `name = \"..\"` and `reply = Type`"
                );
                return Err(syn::Error::new(key.span(), message));
            }
        };
        if is_given {
            let message = format!("`{key}` is given twice: remove this one");
            return Err(syn::Error::new(key.span(), message));
        }
        if !input.peek(Token![=]) {
            let value = if key == "name" { "\"..\"" } else { "Type" };
            let message = format!("write `{key} = {value}`");
            return Err(syn::Error::new(key.span(), message));
        }
        input.parse::<Token![=]>()?;
        if key == "reply" {
            if input.peek(Lit) {
                let message = "`reply` is a type: write `reply = Type` without quotes";
                return Err(input.error(message));
            }
            self.reply = Some(input.parse()?);
        } else {
            let value: Expr = input.parse()?;
            self.name = Some(text(&key, &value)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{USAGE, expand};
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
    fn a_signal_with_a_reply_is_a_request() {
        assert_expands(
            expand(quote! {
                #[signal(name = "approve", reply = Option<Receipt>)]
                struct ApproveOrder;
            }),
            quote! {
                impl ::outlast::Signal for ApproveOrder {
                    const NAME: &'static str = "approve";
                }
                impl ::outlast::machine::Request for ApproveOrder {
                    type Reply = Option<Receipt>;
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
            ("#[signal] struct Paid;", USAGE),
            ("#[signal()] struct Paid;", USAGE),
            (r#"#[signal("paid")] struct Paid;"#, USAGE),
            ("#[signal(name)] struct Paid;", "write `name = \"..\"`"),
            (
                r#"#[signal(queue = "a")] struct Paid;"#,
                "`queue` is unknown: `#[signal(..)]` takes `name = \"..\"` and `reply = Type`",
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
                "`name` is given twice: remove this one",
            ),
            ("#[signal(reply)] struct Paid;", "write `reply = Type`"),
            (
                r#"#[signal(reply = "u64")] struct Paid;"#,
                "`reply` is a type: write `reply = Type` without quotes",
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
