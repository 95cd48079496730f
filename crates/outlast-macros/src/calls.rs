//! Finds calls of the flow with a mistake that the compiler would not explain.

use crate::errors::Errors;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprClosure, ExprMethodCall, ExprPath, ExprTry, Item, ReturnType, Stmt};

/// The methods of a flow that return something to await.
const AWAITED: [&str; 9] = [
    "step",
    "run",
    "spawn",
    "all",
    "select",
    "sleep",
    "deadline",
    "signal",
    "uncancellable",
];

/// Reports such calls in a body. `flow` is the name of the parameter.
pub(crate) fn check(body: &Block, flow: &str, errors: &mut Errors) {
    CallSearch { flow, errors }.visit_block(body);
}

struct CallSearch<'a> {
    flow: &'a str,
    errors: &'a mut Errors,
}

impl CallSearch<'_> {
    fn is_of_flow(&self, call: &ExprMethodCall) -> bool {
        matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident(self.flow))
    }

    /// Returns whether a call returns something to await, perhaps after settings of it.
    fn is_to_await(&self, call: &ExprMethodCall) -> bool {
        match &*call.receiver {
            Expr::MethodCall(before) => self.is_to_await(before),
            _ => self.is_of_flow(call) && AWAITED.iter().any(|method| call.method == method),
        }
    }
}

impl Visit<'_> for CallSearch<'_> {
    /// Reports an error that is not returned.
    fn visit_stmt(&mut self, statement: &Stmt) {
        if let Stmt::Expr(Expr::MethodCall(call), Some(_)) = statement
            && self.is_of_flow(call)
            && (call.method == "fail" || call.method == "continue_as_new")
        {
            let (flow, method) = (self.flow, &call.method);
            let message = format!("this does nothing alone: write `return {flow}.{method}(..)`");
            self.errors.at(call, message);
        }
        visit::visit_stmt(self, statement);
    }

    /// Reports a call whose `?` comes before its `.await`.
    fn visit_expr_try(&mut self, question: &ExprTry) {
        if let Expr::MethodCall(call) = &*question.expr
            && self.is_to_await(call)
        {
            let message = "a call has no result before it is awaited: write `.await?`";
            self.errors.at(question.question_token, message);
        }
        visit::visit_expr_try(self, question);
    }

    /// Reports a step whose type of errors is nowhere written.
    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        if self.is_of_flow(call)
            && call.method == "step"
            && call.turbofish.is_none()
            && let Some(Expr::Closure(closure)) = call.args.last()
            && let Some(ok) = ok_without_error(closure)
        {
            let message = "the type of the error is not known here: write \
                           `Ok::<_, outlast::workflow::StepFailure>(..)`, which takes any error";
            self.errors.at(ok, message);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item(&mut self, _: &Item) {}
}

/// Returns the `Ok` with which a closure ends, if nothing else in it can be its error.
///
/// `?` says nothing about the error that it converts into.
fn ok_without_error(closure: &ExprClosure) -> Option<&ExprPath> {
    let has_type = matches!(closure.output, ReturnType::Type(..));
    if has_type || may_return_error(closure.body.to_token_stream()) {
        return None;
    }
    let mut end = &*closure.body;
    loop {
        let block = match end {
            Expr::Block(block) => &block.block,
            Expr::Async(block) => &block.block,
            Expr::Call(call) => match &*call.func {
                Expr::Path(path) if path.path.is_ident("Ok") => return Some(path),
                _ => return None,
            },
            _ => return None,
        };
        match block.stmts.last() {
            Some(Stmt::Expr(last, None)) => end = last,
            _ => return None,
        }
    }
}

/// Returns whether code has an `Err`, a `return`, or a macro, which may expand to one.
fn may_return_error(code: TokenStream) -> bool {
    code.into_iter().any(|token| match token {
        TokenTree::Group(group) => may_return_error(group.stream()),
        TokenTree::Ident(word) => word == "Err" || word == "return",
        TokenTree::Punct(mark) => mark.as_char() == '!',
        TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::errors::Errors;
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn errors(body: TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        let body = syn::parse2(quote!({ #body })).unwrap();
        check(&body, "flow", &mut errors);
        testing::errors(errors.into_compile_errors().collect())
    }

    #[test]
    fn an_error_that_is_not_returned_is_answered_with_what_to_write() {
        let body = quote! {
            if order.is_late() {
                flow.fail("too late");
            }
            flow.continue_as_new(order);
        };
        let messages = [
            "this does nothing alone: write `return flow.fail(..)`",
            "this does nothing alone: write `return flow.continue_as_new(..)`",
        ];
        assert_eq!(errors(body), messages);
    }

    #[test]
    fn an_error_that_is_used_is_not_reported() {
        let body = quote! {
            let Some(paid) = paid else { return flow.fail("not paid") };
            flow.fail::<()>("anyhow")?;
            let failed: FlowResult<()> = flow.fail("later");
            other.fail("nothing of ours");
            fn inner() { flow.fail("another flow"); }
            flow.fail("the result of the block")
        };
        assert!(errors(body).is_empty());
    }

    #[test]
    fn a_question_mark_before_the_await_is_answered_with_what_to_write() {
        let message = "a call has no result before it is awaited: write `.await?`";
        let body = quote! {
            let label = flow.run(print_label::with(7))?;
            let paid = flow.signal::<Paid>().timeout(DAY)?.await;
            flow.all((flow.sleep(DAY), flow.sleep(DAY))).cancel_rest()?;
        };
        assert_eq!(errors(body), [message; 3]);
        let body = quote! {
            let label = flow.run(print_label::with(find()?)).await?;
            let price = flow.data::<Prices>()?.of(label)?;
            other.run(label)?;
        };
        assert!(errors(body).is_empty());
    }

    #[test]
    fn a_step_without_a_type_of_its_error_is_answered_with_what_to_write() {
        let message = "the type of the error is not known here: write \
                       `Ok::<_, outlast::workflow::StepFailure>(..)`, which takes any error";
        let steps = [
            quote!(flow.step("a", async || Ok(5)).await?),
            quote!(flow.step("a", async move || {
                let hold = reserve(5).await?;
                Ok(hold)
            })),
            quote!(flow.step("a", || async { Ok(reserve(5).await?) })),
            quote!(flow.all((flow.step("a", || async move { { Ok(5) } }), flow.sleep(DAY)))),
        ];
        for step in steps {
            assert_eq!(errors(quote!(#step;)), [message], "{step}");
        }
    }

    #[test]
    fn a_step_whose_error_may_be_known_is_not_reported() {
        let body = quote! {
            flow.step("a", async || reserve(5).await).await?;
            flow.step("a", async || Ok::<_, MyError>(5)).await?;
            flow.step("a", async || -> Result<u8, MyError> { Ok(5) }).await?;
            flow.step::<_, MyError, _, _>("a", async || Ok(5)).await?;
            flow.step("a", async || { if late { return Err(MyError) } Ok(5) }).await?;
            flow.step("a", async || { if late { bail!("late") } Ok(5) }).await?;
            flow.step("a", async || Result::Ok(5)).await?;
            other.step("a", async || Ok(5)).await?;
        };
        assert!(errors(body).is_empty());
    }
}
