//! Arguments, outputs and inputs that cannot be stored.

use outlast::prelude::*;
use outlast::{Durable, Job, JobError, Workflow};

struct Mail {
    to: String,
}

struct Receipt;

#[job]
async fn send_mail(mail: Mail) -> Result<(), JobError> {
    Ok(())
}

#[job]
async fn charge(amount: u64) -> Result<Receipt, JobError> {
    Ok(Receipt)
}

#[workflow]
async fn remind(flow: Flow, mail: Mail) -> FlowResult<()> {
    Ok(())
}

#[workflow]
async fn pay(flow: Flow, amount: u64) -> FlowResult<Receipt> {
    Ok(Receipt)
}

struct SendMail;

impl Job for SendMail {
    const NAME: &'static str = "send_mail";
    type Args = Mail;
    type Output = ();

    async fn perform(&self, mail: Mail, _cx: &Context) -> Result<(), JobError> {
        Ok(())
    }
}

struct Remind;

impl Durable for Remind {
    const NAME: &'static str = "remind";
    type Input = Mail;
    type Output = ();
}

impl Workflow for Remind {
    async fn run(&self, flow: Flow, mail: Mail) -> FlowResult<()> {
        Ok(())
    }
}

fn start(engine: outlast::engine::EngineBuilder) {
    let _ = engine.register(send_mail).register(remind);
    let _ = send_mail::with(Mail { to: String::new() });
    let _ = remind::with(Mail { to: String::new() });
}

fn main() {}
