//! Provided values that threads cannot share.

#![allow(unused)]

use outlast::JobError;
use outlast::prelude::*;
use std::rc::Rc;

struct Smtp;

#[job]
async fn send_mail(to: String, smtp: Data<Rc<Smtp>>) -> Result<(), JobError> {
    Ok(())
}

#[workflow]
async fn remind(flow: Flow, to: String, smtp: Data<Rc<Smtp>>) -> FlowResult<()> {
    Ok(())
}

fn start(engine: outlast::engine::EngineBuilder) {
    let _ = engine.provide(Rc::new(Smtp));
}

fn main() {}
