//! A job that often fails and is retried with backoff.

use super::{happens, work};
use outlast::JobError;
use outlast::prelude::*;

/// The input of the job.
#[derive(Serialize, Deserialize)]
pub(in crate::demo) struct Mail {
    pub(in crate::demo) to: String,
    pub(in crate::demo) invoice: u64,
}

/// Sends an invoice through a mail server that is often busy.
#[job(queue = "mail", attempts = 6)]
pub(in crate::demo) async fn send_invoice(mail: Mail, cx: &Context) -> Result<String, JobError> {
    work(Duration::from_millis(500)).await;
    if happens(3) {
        return Err(JobError::fatal(format!(
            "{} is not a valid address",
            mail.to
        )));
    }
    if happens(55) {
        return Err(JobError::retry("the mail server is busy (451)"));
    }
    Ok(format!(
        "invoice {} sent at attempt {}",
        mail.invoice,
        cx.attempt() + 1
    ))
}
