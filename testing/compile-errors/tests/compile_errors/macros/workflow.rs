//! What `#[workflow]` reports about the signature and the settings.

#![allow(unused)]

use outlast::prelude::*;

#[workflow]
fn not_async(flow: Flow) -> FlowResult<()> {
    Ok(())
}

#[workflow]
async fn no_flow(order: u64) -> FlowResult<u64> {
    Ok(order)
}

#[workflow]
async fn borrowed_flow(flow: &Flow) -> FlowResult<()> {
    Ok(())
}

#[workflow]
async fn with_a_context(cx: &Context, order: u64) -> FlowResult<u64> {
    Ok(order)
}

#[workflow]
async fn two_inputs(flow: Flow, order: u64, note: String) -> FlowResult<()> {
    Ok(())
}

#[workflow]
async fn borrowed_input(flow: Flow, order: &Order) -> FlowResult<()> {
    Ok(())
}

#[workflow]
async fn borrowed_data(flow: Flow, bank: &Data<Bank>) -> FlowResult<()> {
    Ok(())
}

#[workflow]
async fn no_result(flow: Flow) -> u64 {
    5
}

#[workflow]
async fn no_output(flow: Flow) {}

#[workflow]
async fn own_error(flow: Flow) -> Result<u64, BankError> {
    Err(BankError)
}

#[workflow]
async fn result_of_io(flow: Flow) -> std::io::Result<u64> {
    Ok(5)
}

#[workflow(attempts = 5)]
async fn unknown_setting(flow: Flow) -> FlowResult<()> {
    Ok(())
}

#[workflow(step_timeout = 30)]
async fn seconds(flow: Flow) -> FlowResult<()> {
    Ok(())
}

#[workflow(error = "BankError")]
async fn quoted_error(flow: Flow) -> FlowResult<()> {
    Ok(())
}

#[workflow]
struct Fulfil {
    bank: Bank,
}

impl Fulfil {
    #[workflow]
    async fn run(&self, flow: Flow, order: u64) -> FlowResult<u64> {
        Ok(order)
    }
}

#[derive(Serialize, Deserialize)]
struct Order;

struct Bank;

struct BankError;

fn main() {}
