//! A journey that undoes its bookings in reverse order when it fails or is cancelled.
//!
//! After a cancel request the next call of the workflow returns an error, so its code leaves by
//! `?` as for any other error. The cleanup is `uncancellable`: its calls are recorded, run again
//! after a crash, and may wait, like all others.
//!
//! ```sh
//! cargo run -p outlast-examples --bin saga
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use std::sync::Mutex;

struct Journey {
    agency: Agency,
}

#[derive(Serialize, Deserialize)]
struct Tickets;

impl Signal for Tickets {
    const NAME: &'static str = "tickets";
}

impl Workflow for Journey {
    const NAME: &'static str = "journey";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: Flow, to: String) -> FlowResult<String> {
        let mut booked = Vec::new();
        let error = match self.book(&flow, &to, &mut booked).await {
            Ok(()) => return Ok(format!("bon voyage to {to}")),
            Err(error) => error,
        };
        // If this worker dies in the middle, the next one continues here.
        let undo = async {
            while let Some(booking) = booked.pop() {
                flow.activity(Undo, booking).await?;
            }
            FlowResult::Ok(())
        };
        flow.uncancellable(undo).await?;
        Err(error)
    }
}

impl Journey {
    async fn book(&self, flow: &Flow, to: &str, booked: &mut Vec<String>) -> FlowResult<()> {
        for what in ["train", "hotel", "guide"] {
            // Noted before the attempt: a step that fails may still have booked.
            booked.push(what.to_owned());
            flow.step(what, async || self.agency.book(what, to)).await?;
        }
        flow.signal::<Tickets>().await?;
        Ok(())
    }
}

struct Undo;

impl Job for Undo {
    const NAME: &'static str = "undo_booking";
    type Args = String;
    type Output = ();

    async fn perform(&self, booking: String, _cx: &Context) -> Result<(), JobError> {
        effect(&format!("undo {booking}"));
        Ok(())
    }
}

struct Agency;

impl Agency {
    fn book(&self, what: &str, to: &str) -> Result<(), String> {
        if (what, to) == ("guide", "nowhere") {
            return Err("nobody knows the way".into());
        }
        effect(&format!("book {what}"));
        Ok(())
    }
}

/// The effects on the outside world, in order.
static EFFECTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn effect(what: &str) {
    println!("{what}");
    if let Ok(mut effects) = EFFECTS.lock() {
        effects.push(what.to_owned());
    }
}

fn effects() -> Vec<String> {
    EFFECTS
        .lock()
        .map(|mut it| std::mem::take(&mut *it))
        .unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .workflow(Journey { agency: Agency })
        .machine(Undo)
        .queue("default", 10)
        .start()
        .await?;
    let patience = Duration::from_secs(10);

    // Cancelled while it waits: everything is undone, and the journey ends as cancelled.
    let journey = engine.insert(Run::<Journey>("Rome".into())).await?;
    let id = journey.id().context("it has no key")?;
    let waits = engine.wait_settled(id, patience).await?;
    ensure!(waits.status == Status::AwaitingSignal);
    let note = Note::by("ada").because("it rains there");
    engine.cancel(id, note).await?;
    match engine.wait(journey, patience).await {
        Err(WaitError::Ended { status, reason, .. }) => {
            println!("{status}: {}", reason.as_deref().unwrap_or_default());
            ensure!(status == Status::Cancelled);
            ensure!(reason.as_deref() == Some("cancelled by ada: it rains there"));
        }
        other => anyhow::bail!("it was cancelled, and not {other:?}"),
    }
    let expected = [
        "book train",
        "book hotel",
        "book guide",
        "undo guide",
        "undo hotel",
        "undo train",
    ];
    ensure!(effects() == expected);

    // Failed half-way: everything is undone, and the journey ends as failed.
    let journey = engine.insert(Run::<Journey>("nowhere".into())).await?;
    let error = engine.wait(journey, patience).await;
    let error = error.err().context("there is no way")?.to_string();
    println!("{error}");
    ensure!(error.ends_with("failed: step guide: nobody knows the way"));
    let expected = [
        "book train",
        "book hotel",
        "undo guide",
        "undo hotel",
        "undo train",
    ];
    ensure!(effects() == expected);
    engine.shutdown().await;
    Ok(())
}
