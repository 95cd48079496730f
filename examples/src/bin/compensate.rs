//! A trip that undoes its bookings in reverse order when it is cancelled.
//!
//! `on_cancel` sees the current state of the trip and goes to the step that undoes the bookings.
//! These steps are like all others: each is committed, runs again after a crash, and may wait. The
//! last one ends with `Outcome::cancelled`.
//!
//! ```sh
//! cargo run -p outlast-examples --bin compensate
//! ```

use anyhow::{Result, ensure};
use outlast::prelude::*;
use outlast::{CancelAnswer, WaitError};
use std::sync::Mutex;

struct Trip;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Booking {
    Flight,
    Hotel { flight: String },
    Pay { flight: String, hotel: String },
    Travel,
    CancelHotel { flight: String, hotel: String },
    CancelFlight { flight: String },
    Undone,
}

#[derive(Serialize, Deserialize)]
struct Paid;

impl Signal for Paid {
    const NAME: &'static str = "paid";
}

impl Machine for Trip {
    const NAME: &'static str = "trip";
    type State = Booking;
    type Output = String;

    async fn step(&self, booking: Booking, cx: &Context) -> StepResult<Self> {
        Ok(match booking {
            Booking::Flight => Outcome::next(Booking::Hotel {
                flight: effect("book flight"),
            }),
            Booking::Hotel { flight } => {
                let hotel = effect("book hotel");
                wait_for([Paid::NAME]).then(Booking::Pay { flight, hotel })
            }
            Booking::Pay { .. } => Outcome::next(Booking::Travel),
            Booking::Travel => Outcome::done("bon voyage".to_owned()),
            Booking::CancelHotel { flight, hotel } => {
                effect(&format!("undo {hotel}"));
                Outcome::next(Booking::CancelFlight { flight })
            }
            Booking::CancelFlight { flight } => {
                effect(&format!("undo {flight}"));
                Outcome::next(Booking::Undone)
            }
            Booking::Undone => Outcome::cancelled(cx.cancel_reason().unwrap_or("cancelled")),
        })
    }

    async fn on_cancel(&self, booking: Booking, cx: &Context) -> StepResult<Self> {
        Ok(match booking {
            // Nothing is booked yet.
            Booking::Flight => Outcome::cancelled(cx.cancel_reason().unwrap_or("cancelled")),
            Booking::Hotel { flight } => Outcome::next(Booking::CancelFlight { flight }),
            Booking::Pay { flight, hotel } => Outcome::next(Booking::CancelHotel { flight, hotel }),
            // Too late to cancel: continue as before.
            Booking::Travel => Outcome::next(Booking::Travel),
            undoing @ (Booking::CancelHotel { .. }
            | Booking::CancelFlight { .. }
            | Booking::Undone) => Outcome::next(undoing),
        })
    }
}

/// The effects on the outside world, in order.
static EFFECTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn effect(what: &str) -> String {
    println!("{what}");
    if let Ok(mut effects) = EFFECTS.lock() {
        effects.push(what.to_owned());
    }
    what.trim_start_matches("book ").to_owned()
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Trip)
        .queue("default", 10)
        .start()
        .await?;

    let trip = engine.insert(New::<Trip>(Booking::Flight)).await?;
    let Some(id) = trip.id() else {
        anyhow::bail!("its key is free");
    };
    let waits = engine.wait_settled(id, Duration::from_secs(10)).await?;
    ensure!(waits.status == Status::AwaitingSignal);

    let note = Note::by("ada").because("it rains there");
    let answer = engine.cancel(id, note.clone()).await?;
    ensure!(answer == CancelAnswer::Requested(Status::AwaitingSignal));
    match engine.wait(trip, Duration::from_secs(10)).await {
        Err(WaitError::Ended { status, reason, .. }) => {
            println!("{status}: {}", reason.as_deref().unwrap_or_default());
            ensure!(status == Status::Cancelled);
            ensure!(reason.as_deref() == Some("cancelled by ada: it rains there"));
        }
        other => anyhow::bail!("it was cancelled, and not {other:?}"),
    }
    // A second request changes nothing.
    let answer = engine.cancel(id, note).await?;
    ensure!(answer == CancelAnswer::AlreadyEnded(Status::Cancelled));

    let effects = EFFECTS.lock().map(|effects| effects.clone());
    let expected = ["book flight", "book hotel", "undo hotel", "undo flight"];
    ensure!(effects.unwrap_or_default() == expected);
    engine.shutdown().await;
    Ok(())
}
