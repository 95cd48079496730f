//! Jobs and workflows that are called as the functions that they look like.

#![allow(unused)]

use outlast::JobError;
use outlast::prelude::*;

#[job]
async fn send_mail(to: String) -> Result<(), JobError> {
    Ok(())
}

#[workflow]
async fn remind(flow: Flow, to: String) -> FlowResult<()> {
    send_mail(to).await?;
    Ok(())
}

#[workflow]
async fn remind_all(flow: Flow, to: Vec<String>) -> FlowResult<()> {
    for to in to {
        remind(flow.clone(), to).await?;
    }
    flow.run(send_mail(String::new())).await?;
    Ok(())
}

fn start(engine: outlast::engine::EngineBuilder) {
    let _ = engine.register(send_mail());
}

fn main() {}
