//! Errors of a workflow that cannot be stored with their type.

#![allow(unused)]

use outlast::prelude::*;

#[derive(Debug)]
struct BankError;

#[workflow(error = BankError)]
async fn pay(flow: Flow) -> FlowResult<()> {
    Ok(())
}

fn charge() -> Result<(), BankError> {
    Err(BankError)
}

#[workflow]
async fn question_mark(flow: Flow) -> FlowResult<()> {
    charge()?;
    Ok(())
}

#[workflow]
async fn boxed(flow: Flow) -> FlowResult<()> {
    let failed: Result<(), Box<dyn std::error::Error>> = Ok(());
    failed?;
    Ok(())
}

fn main() {}
