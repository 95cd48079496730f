//! `#[workflow]`: turns an `async fn` into a workflow.

use crate::errors::Errors;
use crate::function::{Function, Kind, type_arguments};
use crate::parameters::Parameters;
use crate::settings::Settings;
use crate::spelling::written;
use crate::{calls, determinism};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Block, ReturnType, Type};

/// Expands `#[workflow]`.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = match Function::read(Kind::Workflow, item) {
        Ok(function) => function,
        Err(expanded) => return expanded,
    };
    let mut errors = Errors::default();
    let settings = Settings::read(Kind::Workflow, arguments, &mut errors);
    let parameters = function
        .check(Kind::Workflow, &mut errors)
        .filter(|_| returns_flow_error(&function, &settings, &mut errors));
    let Some(parameters) = parameters else {
        return function.wrong(errors);
    };
    check_body(&function, &parameters, &mut errors);
    let unit_type = function.unit_type();
    let implementation = implementation(&function, &settings, &parameters);
    let errors = errors.into_compile_errors();
    quote!(#unit_type #implementation #(#errors)*)
}

fn check_body(function: &Function, parameters: &Parameters, errors: &mut Errors) {
    // The compiler reports a body that cannot be parsed.
    if let Ok(body) = syn::parse2::<Block>(function.body.to_token_stream()) {
        let flow = parameters.flow_name();
        determinism::check(&body, &flow, errors);
        calls::check(&body, &flow, errors);
    }
}

fn implementation(
    function: &Function,
    settings: &Settings,
    parameters: &Parameters,
) -> TokenStream {
    let (ident, cfgs) = (function.ident(), function.cfgs());
    let doc = " Describes an instance that starts with this input.";
    let start = function.start(parameters, doc, quote!(::outlast::Workflow));
    let constants = settings.constants(function.name());
    let step_timeout = settings.step_timeout.iter();
    let input = parameters.argument_type();
    let returned = function.returns();
    // An error about the return type points at it.
    let output = quote_spanned! {returned.span()=>
        <#returned as ::outlast::__private::Returned>::Output
    };
    let result = quote_spanned!(returned.span()=> ::outlast::FlowResult<Self::Output>);
    // The compiler does not suggest to change the return type when it is an expression of a macro.
    let value = Ident::new("__returned", Span::mixed_site().located_at(returned.span()));
    let needs = parameters.needs();
    let inner = function.inner();
    let data = parameters.take_data(&quote!(__flow));
    let values = parameters.values(&quote!(__input), &quote!(__flow));
    let typed = settings.error.as_ref().map(|error| {
        // An error about the type of the errors points at it.
        let typed = quote_spanned!(error.span()=> __error.typed::<Self>());
        quote!(.map_err(|__error| #typed))
    });
    let fails = settings.error.as_ref().map(|error| {
        quote! {
            #cfgs
            impl ::outlast::Fails for #ident {
                type Error = #error;
            }
        }
    });
    quote! {
        #start

        #cfgs
        impl ::outlast::Durable for #ident {
            #constants
            type Input = #input;
            type Output = #output;
        }

        #cfgs
        impl ::outlast::Workflow for #ident {
            #(const STEP_TIMEOUT: ::core::time::Duration = #step_timeout;)*

            #needs

            async fn run(
                &self,
                __flow: ::outlast::Flow,
                __input: #input,
            ) -> #result {
                #inner
                #data
                let #value = #ident(#values).await;
                #value #typed
            }
        }

        #fails
    }
}

/// Returns whether the error of the return type can be a `FlowError`, or reports it.
///
/// The compiler would report it too, but without what to write.
fn returns_flow_error(function: &Function, settings: &Settings, errors: &mut Errors) -> bool {
    let ReturnType::Type(_, returned) = &function.sig.output else {
        return true;
    };
    let Type::Path(path) = &**returned else {
        return true;
    };
    if !is_called(returned, "Result") {
        return true;
    }
    let has_module = path.path.segments.len() > 1;
    let (output, error) = match type_arguments(returned).as_slice() {
        [output, error] if !is_called(error, "FlowError") => (written(output), written(error)),
        // Such as `std::io::Result<T>`. Without a module it may be an alias with the right error.
        [output] if has_module => (written(output), "..".to_owned()),
        _ => return true,
    };
    let mut message = format!("write `-> FlowResult<{output}>`, where `?` takes any error");
    if settings.error.is_none() {
        message += &format!("; `#[workflow(error = {error})]` stores one with its type");
    }
    errors.at(returned, message);
    false
}

/// Returns whether the last word of a type is this one.
fn is_called(ty: &Type, name: &str) -> bool {
    let Type::Path(path) = ty else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident == name)
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::testing::{assert_expands, code, errors};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn workflow(item: TokenStream) -> TokenStream {
        expand(TokenStream::new(), item)
    }

    #[test]
    fn a_function_becomes_a_unit_type_that_is_a_workflow() {
        assert_expands(
            workflow(quote! {
                /// Fulfils an order.
                pub(crate) async fn fulfil(
                    flow: Flow,
                    order: NewOrder,
                    warehouse: Data<Warehouse>,
                    bank: Data<Bank>,
                ) -> FlowResult<Receipt> {
                    flow.step("reserve", async || warehouse.reserve(&order).await).await
                }
            }),
            quote! {
                /// Fulfils an order.
                #[allow(non_camel_case_types)]
                #[derive(Clone, Copy, Debug)]
                pub(crate) struct fulfil;

                impl fulfil {
                    /// Describes an instance that starts with this input.
                    #[allow(dead_code)]
                    pub(crate) fn with(order: NewOrder) -> ::outlast::New<fulfil> {
                        <fulfil as ::outlast::Workflow>::with(order)
                    }

                    /// Addresses the instance that holds this key.
                    #[allow(dead_code)]
                    pub(crate) fn key(
                        key: impl ::core::convert::Into<::outlast::store::KeyText>,
                    ) -> ::outlast::Key<fulfil> {
                        <fulfil as ::outlast::Workflow>::key(key)
                    }
                }

                impl ::outlast::Durable for fulfil {
                    const NAME: &'static str = "fulfil";
                    type Input = NewOrder;
                    type Output = <FlowResult<Receipt> as ::outlast::__private::Returned>::Output;
                }

                impl ::outlast::Workflow for fulfil {
                    fn needs(__needs: &mut ::outlast::machine::Needs) {
                        __needs.data::<Warehouse>();
                        __needs.data::<Bank>();
                    }

                    async fn run(
                        &self,
                        __flow: ::outlast::Flow,
                        __input: NewOrder,
                    ) -> ::outlast::FlowResult<Self::Output> {
                        async fn fulfil(
                            flow: Flow,
                            order: NewOrder,
                            warehouse: Data<Warehouse>,
                            bank: Data<Bank>,
                        ) -> FlowResult<Receipt> {
                            flow.step("reserve", async || warehouse.reserve(&order).await).await
                        }
                        let __data_0 = __flow.data::<Warehouse>()?;
                        let __data_1 = __flow.data::<Bank>()?;
                        let __returned = fulfil(__flow, __input, __data_0, __data_1).await;
                        __returned
                    }
                }
            },
        );
    }

    #[test]
    fn an_error_of_its_own_is_stored_with_its_type() {
        assert_expands(
            expand(
                quote!(
                    name = "refund/all",
                    version = 3,
                    queue = "slow",
                    step_timeout = MINUTE,
                    error = RefundError
                ),
                quote! {
                    async fn refund(flow: Flow) -> FlowResult<()> {
                        Err(RefundError::Late)?
                    }
                },
            ),
            quote! {
                #[allow(non_camel_case_types)]
                #[derive(Clone, Copy, Debug)]
                struct refund;

                impl refund {
                    /// Describes an instance that starts with this input.
                    #[allow(dead_code)]
                    fn with() -> ::outlast::New<refund> {
                        <refund as ::outlast::Workflow>::with(())
                    }

                    /// Addresses the instance that holds this key.
                    #[allow(dead_code)]
                    fn key(
                        key: impl ::core::convert::Into<::outlast::store::KeyText>,
                    ) -> ::outlast::Key<refund> {
                        <refund as ::outlast::Workflow>::key(key)
                    }
                }

                impl ::outlast::Durable for refund {
                    const NAME: &'static str = "refund/all";
                    const VERSION: i32 = 3;
                    const QUEUE: &'static str = "slow";
                    type Input = ();
                    type Output = <FlowResult<()> as ::outlast::__private::Returned>::Output;
                }

                impl ::outlast::Workflow for refund {
                    const STEP_TIMEOUT: ::core::time::Duration = MINUTE;

                    async fn run(
                        &self,
                        __flow: ::outlast::Flow,
                        __input: (),
                    ) -> ::outlast::FlowResult<Self::Output> {
                        async fn refund(flow: Flow) -> FlowResult<()> {
                            Err(RefundError::Late)?
                        }
                        let __returned = refund(__flow).await;
                        __returned.map_err(|__error| __error.typed::<Self>())
                    }
                }

                impl ::outlast::Fails for refund {
                    type Error = RefundError;
                }
            },
        );
    }

    #[test]
    fn code_that_replays_differently_is_reported_with_the_name_of_the_flow() {
        let expanded = workflow(quote! {
            async fn remind(ctx: Flow) -> FlowResult<()> {
                tokio::time::sleep(DAY).await;
                Ok(())
            }
        });
        let implementation = "impl :: outlast :: Workflow for remind";
        assert!(expanded.to_string().contains(implementation), "{expanded}");
        assert_eq!(
            errors(expanded),
            ["use `ctx.sleep(..)`: a timer of tokio is forgotten at a restart"]
        );
    }

    #[test]
    fn a_body_that_cannot_be_parsed_is_left_to_the_compiler() {
        let expanded = workflow(quote!(async fn a(flow: Flow) -> FlowResult<()> { let = ; }));
        assert!(expanded.to_string().contains("{ let = ; }"), "{expanded}");
        assert!(
            !expanded.to_string().contains("compile_error"),
            "{expanded}"
        );
    }

    #[test]
    fn what_is_not_a_function_is_left_as_it_is_and_reported() {
        let expanded = workflow(quote!(
            struct Fulfil {
                bank: Bank,
            }
        ));
        assert_eq!(
            errors(expanded),
            [
                "`#[workflow]` goes on an `async fn`; a type with fields implements \
              `outlast::Durable` and `outlast::Workflow`"
            ]
        );
    }

    #[test]
    fn mistakes_are_answered_with_the_line_to_write() {
        let context =
            "a workflow has a `Flow`: write `flow: Flow`; `&Context` is for jobs and machines";
        let no_result = "a workflow returns a `FlowResult`: write `-> FlowResult<()>`";
        let cases = [
            (
                "fn a(flow: Flow) -> R {}",
                "a workflow is asynchronous: write `async fn`",
            ),
            (
                "async fn a() -> R {}",
                "a workflow takes a flow: write `flow: Flow`",
            ),
            (
                "async fn a(b: u8) -> R {}",
                "a workflow takes a flow: write `flow: Flow`",
            ),
            (
                "async fn a(f: &Flow) -> R {}",
                "write `f: Flow`, without `&`",
            ),
            (
                "async fn a(f: &mut Flow) -> R {}",
                "write `f: Flow`, without `&`",
            ),
            (
                "async fn a(flow: Flow, again: Flow) -> R {}",
                "a workflow has one `Flow`: remove this one",
            ),
            ("async fn a(flow: Flow, cx: &Context) -> R {}", context),
            ("async fn a(flow: Flow, cx: Context) -> R {}", context),
            (
                "async fn a(flow: Flow, b: u8, c: u8) -> R {}",
                "a workflow takes one input: put them into a struct, or write `Data<u8>` for a \
                 provided value",
            ),
            (
                "async fn a(flow: Flow, b: &str) -> R {}",
                "the input of a workflow is stored, so it must be owned: write `String`",
            ),
            (
                "async fn a(flow: Flow, b: &Data<Bank>) -> R {}",
                "write `Data<Bank>`, without `&`",
            ),
            ("async fn a(flow: Flow) {}", no_result),
            ("async fn a(flow: Flow) -> () {}", no_result),
            (
                "async fn a(flow: Flow) -> Result<u8, BankError> {}",
                "write `-> FlowResult<u8>`, where `?` takes any error; \
                 `#[workflow(error = BankError)]` stores one with its type",
            ),
            (
                "async fn a(flow: Flow) -> std::io::Result<()> {}",
                "write `-> FlowResult<()>`, where `?` takes any error; \
                 `#[workflow(error = ..)]` stores one with its type",
            ),
        ];
        for (item, message) in cases {
            let expanded = workflow(code(item));
            assert_eq!(errors(expanded.clone()), [message], "{item}");
            assert!(expanded.to_string().contains("type a ="), "{expanded}");
        }
    }

    #[test]
    fn a_workflow_with_an_error_of_its_own_returns_the_error_of_a_flow_too() {
        let item = code("async fn a(flow: Flow) -> Result<u8, BankError> {}");
        assert_eq!(
            errors(expand(quote!(error = BankError), item)),
            ["write `-> FlowResult<u8>`, where `?` takes any error"]
        );
        let item = code("async fn a(flow: Flow) -> FlowResult<u8> {}");
        assert!(errors(expand(quote!(error = BankError), item)).is_empty());
    }

    #[test]
    fn a_result_with_the_error_of_a_flow_is_fine() {
        for returned in [
            "Result<u8, outlast::FlowError>",
            "Result<u8>",
            "outlast::FlowResult<u8>",
        ] {
            let item = code(&format!("async fn a(flow: Flow) -> {returned} {{}}"));
            assert!(errors(workflow(item)).is_empty(), "{returned}");
        }
    }
}
