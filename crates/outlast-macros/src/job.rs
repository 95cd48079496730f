//! `#[job]`: turns an `async fn` into a job.

use crate::errors::Errors;
use crate::function::{Function, Kind};
use crate::parameters::Parameters;
use crate::settings::Settings;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

/// Expands `#[job]`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = match Function::read(Kind::Job, item) {
        Ok(function) => function,
        Err(expanded) => return expanded,
    };
    let mut errors = Errors::default();
    let settings = Settings::read(Kind::Job, arguments, &mut errors);
    let Some(parameters) = function.check(Kind::Job, &mut errors) else {
        return function.wrong(errors);
    };
    let unit_type = function.unit_type();
    let implementation = implementation(&function, &settings, &parameters);
    let errors = errors.into_compile_errors();
    quote!(#unit_type #implementation #(#errors)*)
}

fn implementation(
    function: &Function,
    settings: &Settings,
    parameters: &Parameters,
) -> TokenStream {
    let (ident, cfgs) = (function.ident(), function.cfgs());
    let doc = " Describes a job with these arguments.";
    let start = function.start(parameters, doc, quote!(::outlast::Machine));
    let constants = constants(function, settings);
    let args = parameters.argument_type();
    let returned = function.returns();
    // An error about the return type points at it.
    let output = quote_spanned! {returned.span()=>
        <#returned as ::outlast::__private::Returned>::Output
    };
    let error = quote_spanned! {returned.span()=>
        <#returned as ::outlast::__private::Returned>::Error
    };
    let result = quote_spanned! {returned.span()=>
        ::core::result::Result<Self::Output, ::outlast::JobError>
    };
    let map_err = quote_spanned!(returned.span()=> map_err);
    let job_error = quote_spanned! {function.error_span()=>
        ::outlast::__private::job_error!(__error)
    };
    let needs = parameters.needs();
    let inner = function.inner();
    let data = parameters.take_data(&quote!(__cx));
    let values = parameters.values(&quote!(__args), &quote!(__cx));
    quote! {
        #start

        #cfgs
        impl ::outlast::Job for #ident {
            #constants
            type Args = #args;
            type Output = #output;

            #needs

            async fn perform(
                &self,
                __args: #args,
                __cx: &::outlast::Context,
            ) -> #result {
                #inner
                #data
                let __returned = #ident(#values).await;
                __returned.#map_err(|__error| #job_error)
            }
        }

        #cfgs
        impl ::outlast::Fails for #ident {
            type Error = #error;
        }
    }
}

fn constants(function: &Function, settings: &Settings) -> TokenStream {
    let common = settings.constants(function.name());
    let attempts = settings.attempts.iter();
    let timeout = settings.timeout.iter();
    let history = settings.history.iter();
    quote! {
        #common
        #(const MAX_ATTEMPTS: u32 = #attempts;)*
        #(const TIMEOUT: ::core::time::Duration = #timeout;)*
        #(const HISTORY: ::outlast::History = #history;)*
    }
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::testing::{assert_expands, code, count, errors};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn job(item: TokenStream) -> TokenStream {
        expand(TokenStream::new(), item)
    }

    #[test]
    fn a_function_becomes_a_unit_type_that_is_a_job() {
        assert_expands(
            expand(
                quote!(attempts = 5, queue = "mail"),
                quote! {
                    /// Sends a mail.
                    pub async fn send_mail(
                        mail: Mail,
                        smtp: Data<Smtp>,
                        cx: &Context,
                    ) -> Result<MessageId, MailError> {
                        smtp.send(mail, cx.id()).await
                    }
                },
            ),
            quote! {
                /// Sends a mail.
                #[allow(non_camel_case_types)]
                #[derive(Clone, Copy, Debug)]
                pub struct send_mail;

                impl send_mail {
                    /// Describes a job with these arguments.
                    #[allow(dead_code)]
                    pub fn with(mail: Mail) -> ::outlast::New<send_mail> {
                        <send_mail as ::outlast::Machine>::with(mail)
                    }

                    /// Addresses the instance that holds this key.
                    #[allow(dead_code)]
                    pub fn key(
                        key: impl ::core::convert::Into<::outlast::store::KeyText>,
                    ) -> ::outlast::Key<send_mail> {
                        <send_mail as ::outlast::Machine>::key(key)
                    }
                }

                impl ::outlast::Job for send_mail {
                    const NAME: &'static str = "send_mail";
                    const QUEUE: &'static str = "mail";
                    const MAX_ATTEMPTS: u32 = 5;
                    type Args = Mail;
                    type Output =
                        <Result<MessageId, MailError> as ::outlast::__private::Returned>::Output;

                    fn needs(__needs: &mut ::outlast::machine::Needs) {
                        __needs.data::<Smtp>();
                    }

                    async fn perform(
                        &self,
                        __args: Mail,
                        __cx: &::outlast::Context,
                    ) -> ::core::result::Result<Self::Output, ::outlast::JobError> {
                        async fn send_mail(
                            mail: Mail,
                            smtp: Data<Smtp>,
                            cx: &Context,
                        ) -> Result<MessageId, MailError> {
                            smtp.send(mail, cx.id()).await
                        }
                        let __data_0 = __cx.data::<Smtp>()?;
                        let __returned = send_mail(__args, __data_0, __cx).await;
                        __returned.map_err(|__error| ::outlast::__private::job_error!(__error))
                    }
                }

                impl ::outlast::Fails for send_mail {
                    type Error =
                        <Result<MessageId, MailError> as ::outlast::__private::Returned>::Error;
                }
            },
        );
    }

    #[test]
    fn a_job_without_parameters_starts_with_nothing() {
        assert_expands(
            expand(
                quote!(
                    name = "clean-up",
                    version = 2,
                    timeout = MINUTE,
                    history = History::Transitions
                ),
                quote! {
                    async fn clean_up() -> anyhow::Result<()> {
                        Ok(())
                    }
                },
            ),
            quote! {
                #[allow(non_camel_case_types)]
                #[derive(Clone, Copy, Debug)]
                struct clean_up;

                impl clean_up {
                    /// Describes a job with these arguments.
                    #[allow(dead_code)]
                    fn with() -> ::outlast::New<clean_up> {
                        <clean_up as ::outlast::Machine>::with(())
                    }

                    /// Addresses the instance that holds this key.
                    #[allow(dead_code)]
                    fn key(
                        key: impl ::core::convert::Into<::outlast::store::KeyText>,
                    ) -> ::outlast::Key<clean_up> {
                        <clean_up as ::outlast::Machine>::key(key)
                    }
                }

                impl ::outlast::Job for clean_up {
                    const NAME: &'static str = "clean-up";
                    const VERSION: i32 = 2;
                    const TIMEOUT: ::core::time::Duration = MINUTE;
                    const HISTORY: ::outlast::History = History::Transitions;
                    type Args = ();
                    type Output = <anyhow::Result<()> as ::outlast::__private::Returned>::Output;

                    async fn perform(
                        &self,
                        __args: (),
                        __cx: &::outlast::Context,
                    ) -> ::core::result::Result<Self::Output, ::outlast::JobError> {
                        async fn clean_up() -> anyhow::Result<()> {
                            Ok(())
                        }
                        let __returned = clean_up().await;
                        __returned.map_err(|__error| ::outlast::__private::job_error!(__error))
                    }
                }

                impl ::outlast::Fails for clean_up {
                    type Error = <anyhow::Result<()> as ::outlast::__private::Returned>::Error;
                }
            },
        );
    }

    #[test]
    fn parameters_come_in_any_order_and_with_any_pattern() {
        let expanded = job(quote! {
            async fn pack(
                cx: &outlast::Context,
                boxes: outlast::Data<Boxes>,
                Parcel { mut number, .. }: Parcel,
                tape: Data<Vec<Tape>>,
            ) -> Result<(), JobError> {
                Ok(())
            }
        });
        let call = quote! {
            let __data_0 = __cx.data::<Boxes>()?;
            let __data_1 = __cx.data::<Vec<Tape>>()?;
            let __returned = pack(__cx, __data_0, __args, __data_1).await;
        };
        assert_eq!(count(&expanded, call), 1);
        let needs = quote!(__needs.data::<Boxes>(); __needs.data::<Vec<Tape>>(););
        assert_eq!(count(&expanded, needs), 1);
        assert_eq!(count(&expanded, quote!(fn with(__value: Parcel))), 1);
        assert!(errors(expanded).is_empty());
    }

    #[test]
    fn an_argument_may_have_the_name_of_its_job() {
        let expanded = job(quote!(
            async fn mail(mail: Mail) -> Result<()> {
                Ok(())
            }
        ));
        assert_eq!(count(&expanded, quote!(fn with(__value: Mail))), 1);
    }

    #[test]
    fn each_attribute_goes_where_it_works() {
        let expanded = job(quote! {
            /// Documented.
            #[cfg(unix)]
            #[deprecated]
            #[allow(clippy::all)]
            #[tracing::instrument]
            async fn r#move(count: u32) -> Result<()> { Ok(()) }
        });
        let cases = [
            (
                quote!(#[doc = " Documented."] #[cfg(unix)] #[deprecated]),
                1,
            ),
            (quote!(#[cfg(unix)] #[allow(deprecated)] impl), 3),
            (
                quote!(#[allow(clippy::all)] #[allow(non_camel_case_types)]),
                1,
            ),
            (
                quote!(#[allow(clippy::all)] #[tracing::instrument] async fn r#move(count: u32)),
                1,
            ),
            (quote!(#[tracing::instrument]), 1),
            (
                quote!(
                    const NAME: &'static str = "move";
                ),
                1,
            ),
        ];
        for (code, times) in cases {
            assert_eq!(
                count(&expanded, code.clone()),
                times,
                "{code} in {expanded}"
            );
        }
    }

    #[test]
    fn what_is_not_a_function_is_left_as_it_is_and_reported() {
        for item in [
            quote!(
                struct SendMail {
                    smtp: Smtp,
                }
            ),
            quote!(impl SendMail {}),
            quote!(
                enum SendMail {}
            ),
            quote!(
                const SEND_MAIL: u8 = 1;
            ),
            quote!(
                unsafe impl Send for SendMail {}
            ),
            quote!(
                pub(crate) mod send_mail {}
            ),
        ] {
            let expanded = job(item.clone());
            let message =
                "`#[job]` goes on an `async fn`; a type with fields implements `outlast::Job`";
            assert_eq!(errors(expanded.clone()), [message], "{item}");
            assert!(
                expanded.to_string().starts_with(&item.to_string()),
                "{expanded}"
            );
        }
    }

    #[test]
    fn a_method_is_left_as_it_is_and_reported() {
        let method = quote!(
            async fn send(&self, mail: Mail) -> Result<()> {
                Ok(())
            }
        );
        let text = job(method.clone()).to_string();
        assert!(text.starts_with(&method.to_string()), "{text}");
        let message = "a job is a function of its own, outside of `impl`: remove `self`, and take \
                       what it needs as `Data<T>`";
        assert!(text.contains(message), "{text}");
    }

    #[test]
    fn a_wrong_signature_leaves_a_type_and_a_value_that_lead_to_no_other_errors() {
        assert_expands(
            job(quote!(
                #[cfg(unix)]
                pub fn send(mail: Mail) {}
            )),
            quote! {
                #[cfg(unix)]
                #[allow(non_camel_case_types, dead_code)]
                pub type send =
                    [(); ::core::compile_error! { "a job is asynchronous: write `async fn`" }];
                #[cfg(unix)]
                #[allow(non_upper_case_globals, dead_code)]
                pub const send: send = [];
                ::core::compile_error! {
                    "a job returns a `Result`: write `-> Result<(), JobError>`"
                }
            },
        );
    }

    #[test]
    fn a_wrong_setting_leaves_the_whole_job() {
        let expanded = expand(
            quote!(attempts = 0),
            quote!(
                async fn a() -> Result<()> {
                    Ok(())
                }
            ),
        );
        assert!(
            expanded
                .to_string()
                .contains("impl :: outlast :: Job for a"),
            "{expanded}"
        );
        assert_eq!(errors(expanded), ["`attempts` is 1 or more"]);
    }

    #[test]
    fn mistakes_are_answered_with_the_line_to_write() {
        let no_result = "a job returns a `Result`: write `-> Result<(), JobError>`";
        let flow = "a function with a `Flow` is a workflow: write `#[workflow]`";
        let cases = [
            ("fn a() -> R {}", "a job is asynchronous: write `async fn`"),
            (
                "async unsafe fn a() -> R {}",
                "a job is a plain `async fn`: remove `unsafe`",
            ),
            (
                r#"async extern "C" fn a() -> R {}"#,
                "a job is a plain `async fn`: remove `extern`",
            ),
            (
                "const async fn a() -> R {}",
                "a job is a plain `async fn`: remove `const`",
            ),
            (
                "async fn a<T>(b: T) -> R {}",
                "a job has one name, so it has no type parameters: write the type itself",
            ),
            (
                "async fn a<'a>(cx: &'a Context) -> R {}",
                "a job takes owned values, so it has no lifetime parameters: remove this one",
            ),
            (
                "async fn a() -> R where u8: Copy, { }",
                "a job has no type parameters: remove the `where`",
            ),
            ("async fn a() {}", no_result),
            ("async fn a() -> () {}", no_result),
            ("async fn a() -> ! {}", no_result),
            (
                "async fn a() -> (u8, Vec<u8>) {}",
                "a job returns a `Result`: write `-> Result<(u8, Vec<u8>), JobError>`",
            ),
            (
                "async fn a() -> Option<u8> {}",
                "a job returns a `Result`: write `-> Result<Option<u8>, JobError>`",
            ),
            (
                "async fn a(b: u8, c: u8) -> R {}",
                "a job takes one argument: put them into a struct, or write `Data<u8>` for a \
                 provided value",
            ),
            (
                "async fn a(cx: &Context, also: &Context) -> R {}",
                "a job has one `&Context`: remove this one",
            ),
            (
                "async fn a(b: impl Into<String>) -> R {}",
                "the argument of a job is stored, so its type has a name: write that instead of \
              `impl`",
            ),
            (
                "async fn a(context: Context) -> R {}",
                "write `context: &Context`",
            ),
            ("async fn a(_: Context) -> R {}", "write `cx: &Context`"),
            (
                "async fn a(cx: &mut Context) -> R {}",
                "write `cx: &Context`, without `mut`",
            ),
            (
                "async fn a(b: &Data<Smtp>) -> R {}",
                "write `Data<Smtp>`, without `&`",
            ),
            (
                "async fn a(b: &str) -> R {}",
                "the argument of a job is stored, so it must be owned: write `String`",
            ),
            (
                "async fn a(b: &[Mail]) -> R {}",
                "the argument of a job is stored, so it must be owned: write `Vec<Mail>`",
            ),
            (
                "async fn a(b: &'static Mail) -> R {}",
                "the argument of a job is stored, so it must be owned: write `Mail`, or \
              `Data<Mail>` for a provided value",
            ),
            ("async fn a(flow: Flow) -> R {}", flow),
            ("async fn a(flow: &outlast::Flow) -> R {}", flow),
        ];
        for (item, message) in cases {
            let expanded = job(code(item));
            assert_eq!(errors(expanded.clone()), [message], "{item}");
            assert!(expanded.to_string().contains("type a ="), "{expanded}");
        }
    }

    #[test]
    fn several_mistakes_are_reported_together() {
        let expanded = expand(
            quote!(queue = mail),
            quote!(
                fn a(b: &str, c: u8, d: u8) {}
            ),
        );
        assert_eq!(
            errors(expanded),
            [
                "`queue` is a text in quotes: write `queue = \"mail\"`",
                "a job is asynchronous: write `async fn`",
                "a job returns a `Result`: write `-> Result<(), JobError>`",
                "the argument of a job is stored, so it must be owned: write `String`",
                "a job takes one argument: put them into a struct, or write `Data<u8>` for a \
                 provided value",
            ]
        );
    }
}
