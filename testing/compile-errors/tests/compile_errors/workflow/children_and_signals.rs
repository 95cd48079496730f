//! Calls of a flow with the wrong types.

use outlast::prelude::*;
use outlast::JobError;

#[job]
async fn print_label(number: u64) -> Result<String, JobError> {
    Ok(format!("label {number}"))
}

#[derive(Serialize, Deserialize)]
struct Paid;

#[workflow]
async fn fulfil(flow: Flow, order: u64) -> FlowResult<u64> {
    let wrong_output: u64 = flow.run(print_label::with(order)).await?;
    let wrong_argument = flow.run(print_label::with("7")).await?;
    let no_arguments = flow.run(print_label).await?;
    let no_signal = flow.signal::<Paid>().await?;
    let no_await: String = flow.run(print_label::with(order))?;
    let no_question_mark: String = flow.run(print_label::with(order)).await;
    let no_error_type = match flow.run(fulfil::with(order)).await {
        Ok(_) => return flow.fail("no such order"),
        Err(error) => error.downcast::<fulfil>()?,
    };
    flow.fail("no return");
    Ok(order)
}

fn main() {}
