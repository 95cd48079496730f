//! Steps of a workflow that are written wrongly.

#![allow(unused)]

use outlast::prelude::*;

struct Parcel;

async fn reserve(order: u64) -> std::io::Result<String> {
    Ok(String::new())
}

#[workflow]
async fn not_async(flow: Flow, order: u64) -> FlowResult<Vec<u8>> {
    flow.step("read", || std::fs::read("order.txt")).await
}

#[workflow]
async fn no_closure(flow: Flow, order: u64) -> FlowResult<String> {
    flow.step("reserve", reserve(order)).await
}

#[workflow]
async fn no_result(flow: Flow, order: u64) -> FlowResult<u64> {
    flow.step("double", async || order * 2).await
}

#[workflow]
async fn no_serde(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("pack", async || std::io::Result::Ok(Parcel))
        .await?;
    Ok(())
}

#[workflow]
async fn a_call_in_a_step(flow: Flow, order: u64) -> FlowResult<()> {
    flow.step("wait", async || flow.sleep(DAY).await).await
}

fn main() {}
