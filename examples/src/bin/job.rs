//! A job: a machine with one step that is retried until it succeeds.
//!
//! The job defines the number of attempts and the backoff; an error says whether a retry is
//! useful. Of three mails, one is sent at the second attempt, one cannot be sent, and one runs out
//! of attempts.
//!
//! ```sh
//! cargo run -p outlast-examples --bin job
//! ```

use outlast::prelude::*;

struct SendMail;

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for SendMail {
    const NAME: &'static str = "send_mail";
    const QUEUE: &'static str = "mail";
    const MAX_ATTEMPTS: u32 = 3;
    type Args = Mail;
    type Output = String;

    async fn perform(&self, mail: Mail, cx: &Context) -> Result<String, JobError> {
        let Some((_, host)) = mail.to.split_once('@') else {
            return Err(JobError::fatal(format!("{:?} is no address", mail.to)));
        };
        match (host, cx.attempt()) {
            // Any error returned by `?` is retried after the backoff.
            ("busy.example", 0) => Err(std::io::Error::other("try again later"))?,
            // The server said when to retry.
            ("away.example", _) => Err(JobError::retry_after(
                Duration::from_millis(20),
                "nobody is there",
            )),
            _ => Ok(format!("sent to {}", mail.to)),
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        Duration::from_millis(50) * attempt
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(SendMail)
        .queue("mail", 5)
        .start()
        .await?;

    let mut endings = Vec::new();
    for to in ["ada@busy.example", "ada", "ada@away.example"] {
        let mail = engine
            .insert(New::<SendMail>(Mail { to: to.into() }))
            .await?;
        let ending = match engine.wait(mail, Duration::from_secs(10)).await {
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
            "sent to ada@busy.example",
            "failed: \"ada\" is no address",
            "failed: gave up after 3 attempts: nobody is there",
        ]
    );

    engine.shutdown().await;
    Ok(())
}
