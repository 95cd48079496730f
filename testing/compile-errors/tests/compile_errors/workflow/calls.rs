//! Calls of a flow that are written wrongly.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{FlowError, JobError};

#[job]
async fn print_label(number: u64) -> Result<String, JobError> {
    Ok(format!("label {number}"))
}

#[derive(Serialize, Deserialize)]
struct Paid;

#[workflow]
async fn another_output(flow: Flow, order: u64) -> FlowResult<u64> {
    let label: u64 = flow.run(print_label::with(order)).await?;
    Ok(label)
}

#[workflow]
async fn another_argument(flow: Flow, order: u64) -> FlowResult<String> {
    flow.run(print_label::with("7")).await
}

#[workflow]
async fn no_argument(flow: Flow, order: u64) -> FlowResult<String> {
    flow.run(print_label).await
}

#[workflow]
async fn no_signal(flow: Flow, order: u64) -> FlowResult<()> {
    let Some(paid) = flow.signal::<Paid>().timeout(DAY).await? else {
        return flow.fail("not paid");
    };
    Ok(())
}

#[workflow]
async fn no_await(flow: Flow, order: u64) -> FlowResult<String> {
    let label = flow.run(print_label::with(order))?;
    Ok(label)
}

#[workflow]
async fn no_question_mark(flow: Flow, order: u64) -> FlowResult<String> {
    let label: String = flow.run(print_label::with(order)).await;
    Ok(label)
}

#[workflow]
async fn no_return(flow: Flow, order: u64) -> FlowResult<u64> {
    if order == 0 {
        flow.fail("no such order");
    }
    Ok(order)
}

#[workflow]
async fn awaited_in_a_group(flow: Flow, order: u64) -> FlowResult<()> {
    let (first, second) = flow
        .all((
            flow.run(print_label::with(order)).await?,
            flow.run(print_label::with(order)).await?,
        ))
        .await?;
    Ok(())
}

#[workflow]
async fn an_iterator(flow: Flow, orders: Vec<u64>) -> FlowResult<Vec<String>> {
    flow.all(
        orders
            .into_iter()
            .map(|order| flow.run(print_label::with(order))),
    )
    .await
}

#[workflow]
async fn an_array_of_choices(flow: Flow, order: u64) -> FlowResult<()> {
    flow.select([flow.sleep(DAY), flow.sleep(DAY)]).await?;
    Ok(())
}

#[workflow]
async fn no_error_type(flow: Flow, order: u64) -> FlowResult<u64> {
    match flow.run(an_array_of_choices::with(order)).await {
        Ok(()) => Ok(order),
        Err(error) => match error.downcast::<an_array_of_choices>() {
            Ok(_) => flow.fail("failed"),
            Err(error) => Err(error),
        },
    }
}

fn main() {}
