//! The macros of `outlast`, which exports them. Programs depend on `outlast` alone.
//!
//! Each macro generates little: `cargo expand` shows an implementation of a public trait that
//! could have been written by hand.

// The examples are not run: a doctest would need `outlast`, which depends on this crate. The
// documentation of `outlast` has the same examples, running.

// New syntax brings new variants of the enums of `syn`. Own enums are matched in full.
#![allow(clippy::wildcard_enum_match_arm)]

use proc_macro::TokenStream;

mod calls;
mod determinism;
mod errors;
mod function;
mod job;
mod parameters;
mod settings;
mod signal;
mod spelling;
mod steps;
#[cfg(test)]
mod testing;
mod workflow;

/// Makes an enum the state of a machine: each variant is a step.
///
/// ```rust,ignore
/// #[steps]
/// enum Order {
///     Reserve { number: u64 },
///     Charge { number: u64 },
/// }
/// ```
///
/// It adds `Serialize`, `Deserialize` and the line of serde that the engine expects, nothing else:
///
/// ```rust,ignore
/// #[derive(Serialize, Deserialize)]
/// #[serde(tag = "step", content = "state", rename_all = "snake_case")]
/// enum Order { .. }
/// ```
///
/// So a step is stored by the name of its variant in snake case, here `reserve` and `charge`.
/// Other derives and attributes stay: `#[serde(rename = "..")]` on a variant keeps the old name of
/// a step that was renamed, and `#[serde(default)]` reads rows from before a field was added.
/// `#[derive(Serialize, Deserialize)]` beside `#[steps]` is an error.
#[proc_macro_attribute]
pub fn steps(arguments: TokenStream, item: TokenStream) -> TokenStream {
    steps::expand(arguments.into(), item.into()).into()
}

/// Makes a struct or an enum a signal.
///
/// ```rust,ignore
/// #[derive(Signal, Serialize, Deserialize)]
/// struct PaymentConfirmed {
///     amount: u64,
/// }
///
/// assert_eq!(PaymentConfirmed::NAME, "payment_confirmed");
/// ```
///
/// The name is the name of the type in snake case. `#[signal(name = "..")]` gives another. A
/// signal is stored with its name, so keep the name when you rename the type.
///
/// `#[signal(reply = Type)]` makes it a request: a signal that wants a reply of this type.
#[proc_macro_derive(Signal, attributes(signal))]
pub fn signal(item: TokenStream) -> TokenStream {
    signal::expand(item.into()).into()
}

/// Makes an `async fn` a job.
///
/// ```rust,ignore
/// #[job(attempts = 5, queue = "mail")]
/// async fn send_mail(mail: Mail, smtp: Data<Smtp>, cx: &Context) -> Result<MessageId, MailError> {
///     smtp.send(mail, cx.idempotency_key()).await
/// }
///
/// let engine = Engine::sqlite("shop.db")?
///     .register(send_mail)
///     .provide(Smtp::connect()?)
///     .start()
///     .await?;
/// engine.start(send_mail::with(mail)).await?;
/// ```
///
/// # Parameters
///
/// They come in any order, and are recognised by the last word of their type:
///
/// | type | what it takes |
/// |---|---|
/// | `Data<T>` | a value that the builder was given with `.provide(..)`; as many as you like |
/// | `&Context` | the context of the attempt |
/// | any other | the argument, which is stored; at most one |
///
/// The function returns a `Result`. The job is retried after an error, unless the error is a
/// `JobError` that says otherwise.
///
/// # Settings
///
/// | setting | default | |
/// |---|---|---|
/// | `name = ".."` | the function's name | the name in the database |
/// | `version = 2` | 1 | see `Machine::VERSION` |
/// | `queue = ".."` | `default` | the queue of its instances |
/// | `attempts = 5` | 20 | how often it is tried at most |
/// | `timeout = MINUTE` | 300 s | how long one attempt may take |
/// | `history = History::Transitions` | `History::Off` | what is recorded of its attempts |
///
/// Numbers, durations and the history may be any constant expression.
///
/// # What it becomes
///
/// A unit type with the function's name that implements `Job` and `Fails`, with the functions
/// `with`, which takes the argument, and `key`. The function itself moves into `Job::perform`. As
/// with every unit type, no variable or parameter beside it can have its name.
#[proc_macro_attribute]
pub fn job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    job::expand(arguments.into(), item.into()).into()
}

/// Makes an `async fn` a workflow.
///
/// ```rust,ignore
/// #[workflow]
/// async fn fulfil(flow: Flow, order: Order, warehouse: Data<Warehouse>) -> FlowResult<Receipt> {
///     let hold = flow.step("reserve", async || warehouse.reserve(&order).await).await?;
///     let label = flow.run(print_label::with(order.number)).await?;
///     Ok(Receipt { hold, label })
/// }
///
/// engine.start(fulfil::with(order)).await?;
/// ```
///
/// # Parameters
///
/// One `Flow`, any number of `Data<T>`, and at most one other, which is the stored input. They
/// come in any order.
///
/// # Settings
///
/// | setting | default | |
/// |---|---|---|
/// | `name = ".."` | the function's name | the name in the database |
/// | `version = 2` | 1 | see `Durable::VERSION` |
/// | `queue = ".."` | `default` | the queue of its instances |
/// | `step_timeout = MINUTE` | 300 s | how long one step may take |
/// | `error = FulfilError` | none | an error that is stored as a value |
///
/// The function returns `FlowResult`, where `?` takes any error. With `error = FulfilError`, an
/// error of that type is stored as a value too, and a parent reads it with `downcast`.
///
/// # Code that runs again
///
/// A workflow runs again from its start after a wait or a restart. The macro reports calls that
/// would answer differently then: `tokio::time::sleep`, `tokio::spawn`, `SystemTime::now`,
/// `Uuid::new_v4`, `std::fs::read` and the like, by their paths. It does not look into closures,
/// because the code of a step is there.
///
/// # What it becomes
///
/// A unit type with the function's name that implements `Durable` and `Workflow`, with the functions
/// `with`, which takes the input, and `key`. As with every unit type, no variable or parameter
/// beside it can have its name.
#[proc_macro_attribute]
pub fn workflow(arguments: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(arguments.into(), item.into()).into()
}
