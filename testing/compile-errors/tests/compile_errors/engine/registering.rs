//! `.register(..)` of something else than a definition.

#![allow(unused)]

use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::{Durable, JobError};

#[job]
async fn send_mail(to: String) -> Result<(), JobError> {
    Ok(())
}

struct Invoice;

struct OnlyDurable;

impl Durable for OnlyDurable {
    const NAME: &'static str = "only_durable";
    type Input = u64;
    type Output = u64;
}

async fn no_attribute(to: String) -> Result<(), JobError> {
    Ok(())
}

fn start(engine: EngineBuilder) {
    let _ = engine.register(Invoice);
}

fn start_durable(engine: EngineBuilder) {
    let _ = engine.register(OnlyDurable);
}

fn start_function(engine: EngineBuilder) {
    let _ = engine.register(no_attribute);
}

fn start_call(engine: EngineBuilder) {
    let _ = engine.register(send_mail());
}

fn start_new(engine: EngineBuilder) {
    let _ = engine.register(send_mail::with(String::new()));
}

fn start_reference(engine: EngineBuilder) {
    let _ = engine.register(&send_mail);
}

fn main() {}
