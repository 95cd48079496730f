//! Steps of a workflow that are written wrongly.

use outlast::prelude::*;

async fn reserve(order: u64) -> std::io::Result<String> {
    Ok(String::new())
}

struct Parcel;

#[workflow]
async fn not_async(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("reserve", || std::fs::read("order.txt")).await?;
    Ok(())
}

#[workflow]
async fn no_closure(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("reserve", reserve(order)).await?;
    Ok(())
}

#[workflow]
async fn no_result(flow: Flow, order: u64) -> FlowResult<()> {
    let doubled: u64 = flow.step("double", async || order * 2).await?;
    Ok(())
}

#[workflow]
async fn unknown_error(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("double", async || Ok(order * 2)).await?;
    Ok(())
}

#[workflow]
async fn unknown_error_of_several(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("reserve", async || {
        let hold = reserve(order).await?;
        Ok(hold)
    })
    .await?;
    Ok(())
}

#[workflow]
async fn no_serde(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("pack", async || std::io::Result::Ok(Parcel)).await?;
    Ok(())
}

#[workflow]
async fn nested(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("pack", async || flow.sleep(DAY).await).await
}

fn main() {}
