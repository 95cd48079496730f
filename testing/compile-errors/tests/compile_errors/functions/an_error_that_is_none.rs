//! Errors that cannot be turned into text.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{Job, JobError};

#[derive(Debug)]
enum MailError {
    Refused,
}

#[job]
async fn send_mail(to: String) -> Result<(), MailError> {
    Err(MailError::Refused)
}

fn send(to: String) -> Result<(), MailError> {
    Err(MailError::Refused)
}

#[job]
async fn question_mark(to: String) -> Result<(), JobError> {
    send(to)?;
    Ok(())
}

#[job]
async fn boxed(to: String) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

struct SendMail;

impl Job for SendMail {
    const NAME: &'static str = "send_mail";
    type Args = String;
    type Output = ();

    async fn perform(&self, to: String, _cx: &Context) -> Result<(), MailError> {
        send(to)
    }
}

fn main() {}
