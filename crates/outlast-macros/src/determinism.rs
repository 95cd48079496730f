//! Finds calls in the body of a workflow that answer differently when it runs again.
//!
//! Only calls by a path that is clearly one of these are reported: a name that was imported, such
//! as `sleep(..)`, may be anything. Closures, `async` blocks, nested items and the tokens of
//! macros are not searched, because the code of a step is written there.

use crate::errors::Errors;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAsync, ExprCall, ExprClosure, Item, Path};

/// Reports such calls in a body. `flow` is the name of the parameter, for the messages.
pub(crate) fn check(body: &Block, flow: &str, errors: &mut Errors) {
    Search { flow, errors }.visit_block(body);
}

struct Search<'a> {
    flow: &'a str,
    errors: &'a mut Errors,
}

impl Visit<'_> for Search<'_> {
    fn visit_expr_call(&mut self, call: &ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(message) = message(&function.path, self.flow)
        {
            self.errors.at(&function.path, message);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_closure(&mut self, _: &ExprClosure) {}

    fn visit_expr_async(&mut self, _: &ExprAsync) {}

    fn visit_item(&mut self, _: &Item) {}
}

/// Returns what to write instead of a call of this path.
fn message(path: &Path, flow: &str) -> Option<String> {
    let segments: Vec<String> = path
        .segments
        .iter()
        .map(|it| it.ident.to_string())
        .collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let instead = time(&segments)
        .or_else(|| tasks(&segments))
        .or_else(|| clock(&segments))
        .or_else(|| random(&segments))
        .or_else(|| outside(&segments))?;
    Some(instead.replace("{flow}", flow))
}

/// Timers that live in the process.
fn time(path: &[&str]) -> Option<&'static str> {
    match path {
        ["tokio", "time", "sleep" | "sleep_until"] | ["time", "sleep" | "sleep_until"] => {
            Some("use `{flow}.sleep(..)`: a timer of tokio is forgotten at a restart")
        }
        ["std", "thread", "sleep"] | ["thread", "sleep"] => {
            Some("use `{flow}.sleep(..)`: this blocks the worker, and is forgotten at a restart")
        }
        ["tokio", "time", "timeout" | "timeout_at"] | ["time", "timeout" | "timeout_at"] => Some(
            "use `.timeout(..)` of the call, such as `{flow}.run(..).timeout(..)`: a timer of \
             tokio is forgotten at a restart",
        ),
        ["tokio", "time", "interval" | "interval_at"] | ["time", "interval" | "interval_at"] => {
            Some("use `{flow}.sleep(..)` in a loop: a timer of tokio is forgotten at a restart")
        }
        _ => None,
    }
}

/// Tasks and threads, which replay knows nothing of.
fn tasks(path: &[&str]) -> Option<&'static str> {
    match path {
        ["tokio", "spawn"]
        | ["tokio", "task", "spawn" | "spawn_local"]
        | ["task", "spawn_local"]
        | ["std", "thread", "spawn"]
        | ["thread", "spawn"] => Some(
            "use `{flow}.spawn(..)` for another job or workflow, or `{flow}.all(..)` for calls \
             side by side",
        ),
        ["tokio", "task", "spawn_blocking"] | ["task", "spawn_blocking"] => {
            Some("call it inside `{flow}.step(..)`: its result is recorded there")
        }
        _ => None,
    }
}

/// Clocks, by a type that is known for its clock.
fn clock(path: &[&str]) -> Option<&'static str> {
    match path {
        [
            ..,
            "SystemTime" | "Instant" | "Utc" | "Local" | "Zoned",
            "now",
        ]
        | ["jiff", "Timestamp", "now"]
        | [.., "OffsetDateTime", "now_utc" | "now_local"] => {
            Some("use `{flow}.now()`: the clock differs when the workflow runs again")
        }
        _ => None,
    }
}

/// Random numbers and ids.
fn random(path: &[&str]) -> Option<&'static str> {
    match path {
        [
            "rand",
            "random" | "random_range" | "random_bool" | "rng" | "thread_rng",
        ]
        | ["fastrand" | "getrandom", _] => {
            Some("use `{flow}.random()`: another number comes when the workflow runs again")
        }
        [.., "Uuid", "new_v4" | "now_v1" | "now_v6" | "now_v7"] => {
            Some("use `{flow}.uuid()`: another id comes when the workflow runs again")
        }
        _ => None,
    }
}

/// Files and the environment.
fn outside(path: &[&str]) -> Option<&'static str> {
    match path {
        ["std", "env", "var" | "var_os" | "vars" | "vars_os" | "args"]
        | ["env", "var" | "var_os" | "vars" | "vars_os" | "args"] => {
            Some("read it inside `{flow}.step(..)`: it may differ when the workflow runs again")
        }
        ["std" | "tokio", "fs", _, ..] | ["fs", "read" | "read_to_string" | "write"] => {
            Some("use files inside `{flow}.step(..)`: they may differ when the workflow runs again")
        }
        _ => None,
    }
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
    fn calls_that_replay_differently_are_answered_with_what_to_use() {
        let sleep = "use `flow.sleep(..)`: a timer of tokio is forgotten at a restart";
        let block = "use `flow.sleep(..)`: this blocks the worker, and is forgotten at a restart";
        let timeout = "use `.timeout(..)` of the call, such as `flow.run(..).timeout(..)`: a \
                       timer of tokio is forgotten at a restart";
        let interval = "use `flow.sleep(..)` in a loop: a timer of tokio is forgotten at a restart";
        let spawn = "use `flow.spawn(..)` for another job or workflow, or `flow.all(..)` for \
                     calls side by side";
        let blocking = "call it inside `flow.step(..)`: its result is recorded there";
        let now = "use `flow.now()`: the clock differs when the workflow runs again";
        let random = "use `flow.random()`: another number comes when the workflow runs again";
        let uuid = "use `flow.uuid()`: another id comes when the workflow runs again";
        let env = "read it inside `flow.step(..)`: it may differ when the workflow runs again";
        let fs = "use files inside `flow.step(..)`: they may differ when the workflow runs again";
        let cases = [
            (quote!(tokio::time::sleep(DAY).await), sleep),
            (quote!(time::sleep_until(deadline).await), sleep),
            (quote!(::std::thread::sleep(DAY)), block),
            (quote!(thread::sleep(DAY)), block),
            (quote!(tokio::time::timeout(DAY, call).await), timeout),
            (quote!(tokio::time::interval(DAY)), interval),
            (quote!(tokio::spawn(work())), spawn),
            (quote!(tokio::task::spawn_local(work())), spawn),
            (quote!(std::thread::spawn(work)), spawn),
            (quote!(tokio::task::spawn_blocking(work)), blocking),
            (quote!(SystemTime::now()), now),
            (quote!(std::time::Instant::now()), now),
            (quote!(tokio::time::Instant::now()), now),
            (quote!(jiff::Timestamp::now()), now),
            (quote!(chrono::Utc::now()), now),
            (quote!(Local::now()), now),
            (quote!(rand::random::<u64>()), random),
            (quote!(fastrand::u64(..)), random),
            (quote!(Uuid::new_v4()), uuid),
            (quote!(uuid::Uuid::now_v7()), uuid),
            (quote!(std::env::var("HOME")), env),
            (quote!(env::var("HOME")), env),
            (quote!(std::fs::read_to_string(path)), fs),
            (quote!(tokio::fs::File::open(path).await), fs),
            (quote!(fs::write(path, text)), fs),
        ];
        for (call, message) in cases {
            assert_eq!(errors(quote!(let _ = #call;)), [message], "{call}");
        }
    }

    #[test]
    fn calls_are_found_wherever_the_workflow_runs_them() {
        let body = quote! {
            if ready(SystemTime::now())? {
                loop {
                    match flow.run(pack::with(Uuid::new_v4())).await { _ => tokio::spawn(a()) };
                }
            }
        };
        assert_eq!(errors(body).len(), 3);
    }

    #[test]
    fn code_of_a_step_is_not_searched() {
        let body = quote! {
            flow.step("a", || SystemTime::now()).await?;
            flow.step("b", async || tokio::time::sleep(DAY).await).await?;
            flow.step("c", async move |x| { std::fs::read(x) }).await?;
            flow.all((flow.step("d", || Uuid::new_v4()),)).await?;
            let later = async { tokio::spawn(work()) };
            fn helper() -> Instant { Instant::now() }
            tracing::info!(at = SystemTime::now());
        };
        assert!(errors(body).is_empty());
    }

    #[test]
    fn other_functions_of_the_same_name_are_not_reported() {
        let body = quote! {
            sleep(DAY);
            crate::time::sleep(DAY);
            task::spawn(order);
            my::thread::spawn(order);
            flow.now();
            clock.now();
            Timestamp::now();
            fs::path_of(order);
            Uuid::parse_str(text);
            SystemTime::now;
        };
        assert!(errors(body).is_empty());
    }
}
