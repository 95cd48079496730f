//! Arguments and outputs that cannot be stored.

#![allow(unused)]

use outlast::JobError;
use outlast::prelude::*;

struct Mail {
    to: String,
}

struct Receipt;

#[job]
async fn send_mail(mail: Mail) -> Result<(), JobError> {
    Ok(())
}

#[workflow]
async fn pay(flow: Flow, amount: u64) -> FlowResult<Receipt> {
    Ok(Receipt)
}

fn start(engine: outlast::engine::EngineBuilder) {
    let _ = engine.register(send_mail).register(pay);
    let _ = send_mail::with(Mail { to: String::new() });
}

fn main() {}
