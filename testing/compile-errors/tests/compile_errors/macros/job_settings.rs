//! What `#[job(..)]` reports about its settings.

#![allow(unused)]

use outlast::JobError;
use outlast::prelude::*;

#[job(retries = 5)]
async fn unknown() -> Result<(), JobError> {
    Ok(())
}

#[job("send_mail")]
async fn only_text() -> Result<(), JobError> {
    Ok(())
}

#[job(attempts)]
async fn no_value() -> Result<(), JobError> {
    Ok(())
}

#[job(attempts: 5)]
async fn colon() -> Result<(), JobError> {
    Ok(())
}

#[job(attempts = "5")]
async fn text_for_a_number() -> Result<(), JobError> {
    Ok(())
}

#[job(attempts = 0)]
async fn no_attempts() -> Result<(), JobError> {
    Ok(())
}

#[job(queue = mail)]
async fn unquoted() -> Result<(), JobError> {
    Ok(())
}

#[job(timeout = 30)]
async fn seconds() -> Result<(), JobError> {
    Ok(())
}

#[job(history = true)]
async fn history_of_what() -> Result<(), JobError> {
    Ok(())
}

#[job(queue = "mail", queue = "post")]
async fn twice() -> Result<(), JobError> {
    Ok(())
}

#[job(queue = "mail" attempts = 5)]
async fn no_comma() -> Result<(), JobError> {
    Ok(())
}

#[job(attempts = five())]
async fn computed() -> Result<(), JobError> {
    Ok(())
}

fn five() -> u32 {
    5
}

// Each is a job all the same, so that no other errors follow.
fn main() {
    let _ = (unknown::with(), text_for_a_number::with(), no_comma::with());
}
