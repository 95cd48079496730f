//! What `#[job]` reports about the signature.

#![allow(unused)]

use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::{Client, JobError};

#[job]
fn not_async(number: u64) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn no_result(number: u64) -> u64 {
    number
}

#[job]
async fn no_output(number: u64) {}

#[job]
async fn two_arguments(number: u64, to: String) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn borrowed_text(to: &str) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn borrowed_value(mail: &Mail) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn context_by_value(cx: Context) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn mutable_context(cx: &mut Context) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn borrowed_data(smtp: &Data<Smtp>) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn generic<T: Serialize>(value: T) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn any_type(to: impl Into<String>) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn with_a_flow(flow: Flow) -> FlowResult<()> {
    Ok(())
}

#[job]
struct SendMail {
    smtp: Smtp,
}

impl SendMail {
    #[job]
    async fn send(&self, mail: Mail) -> Result<(), JobError> {
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

struct Smtp;

// The uses of a wrong function lead to no further errors.
async fn start(engine: EngineBuilder, client: Client) -> outlast::Result<()> {
    let _ = engine.register(two_arguments).register(not_async);
    let started = client
        .start(two_arguments::with(7, String::new()).key("7"))
        .await?;
    let number: u64 = started.output().await?;
    Ok(())
}

fn main() {}
