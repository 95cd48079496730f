//! Jobs: functions that are retried until they succeed.
//!
//! The attribute says how often a job is tried, and its error says whether a retry is useful. Of
//! three mails, one is sent at the second attempt, one cannot be sent, and one runs out of
//! attempts. A payment fails with an error that the caller reads by its type.
//!
//! ```sh
//! cargo run -p outlast-examples --bin job
//! ```

use outlast::prelude::*;
use outlast::{JobError, WaitError};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

#[job(attempts = 3, queue = "mail", timeout = MINUTE)]
async fn send_mail(mail: Mail, smtp: Data<Smtp>, cx: &Context) -> Result<String, JobError> {
    // Any error returned by `?` is retried after the backoff.
    match smtp.send(&mail.to, cx.idempotency_key())? {
        Reply::Accepted => Ok(format!("sent to {}", mail.to)),
        // The server said when to retry.
        Reply::TryAfter(delay) => Err(JobError::retry_after(delay, "nobody is there")),
        Reply::NoAddress => Err(JobError::fatal(format!("{:?} is no address", mail.to))),
    }
}

/// A mail server that does not answer the first call.
#[derive(Default)]
struct Smtp {
    calls: AtomicU32,
}

enum Reply {
    Accepted,
    TryAfter(Duration),
    NoAddress,
}

impl Smtp {
    fn send(&self, to: &str, _key: String) -> io::Result<Reply> {
        if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(io::Error::other("the server does not answer"));
        }
        Ok(match to.split_once('@') {
            None => Reply::NoAddress,
            Some((_, "away.example")) => Reply::TryAfter(Duration::from_millis(20)),
            Some(_) => Reply::Accepted,
        })
    }
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum ChargeError {
    #[error("the card was declined")]
    Declined,
    #[error("the card expired in {year}")]
    Expired { year: u16 },
}

#[job(attempts = 1)]
async fn charge_card(valid_until: u16) -> Result<String, ChargeError> {
    match valid_until {
        0 => Err(ChargeError::Declined),
        year if year < 2026 => Err(ChargeError::Expired { year }),
        _ => Ok("charged".to_owned()),
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(send_mail)
        .register(charge_card)
        .provide(Smtp::default())
        .queue("mail", 5)
        .start()
        .await?;

    let mut endings = Vec::new();
    for to in ["ada@example.org", "ada", "ada@away.example"] {
        let mail = send_mail::with(Mail { to: to.into() });
        // The first pause, the factor of each further one, the longest pause.
        let mail = mail.backoff(Duration::from_millis(50), 2.0, MINUTE);
        let mail = engine.start(mail).await?;
        let ending = match mail.output().timeout(MINUTE).await {
            Ok(sent) => sent,
            Err(WaitError::Ended { status, reason, .. }) => {
                format!("{status}: {}", reason.unwrap_or_default())
            }
            Err(error) => return Err(error.into()),
        };
        println!("{to}: {ending}");
        endings.push(ending);
    }
    assert_eq!(
        endings,
        [
            "sent to ada@example.org",
            "failed: \"ada\" is no address",
            "failed: gave up after 3 attempts: nobody is there",
        ]
    );

    let payment = engine.start(charge_card::with(2019)).await?;
    let paid = match payment.output().timeout(MINUTE).await {
        Ok(paid) => paid,
        Err(error) => match error.downcast::<charge_card>()? {
            ChargeError::Declined => "ask for another card".to_owned(),
            ChargeError::Expired { year } => format!("ask for a card from after {year}"),
        },
    };
    println!("{paid}");
    assert_eq!(paid, "ask for a card from after 2019");

    engine.shutdown().await
}
