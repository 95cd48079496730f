//! A trip that undoes its bookings in reverse order when it is cancelled.
//!
//! `on_cancel` sees the current state of the trip and goes to the step that undoes the bookings.
//! These steps are like all others: each is committed, runs again after a crash, and may wait. The
//! last one ends with `Outcome::cancelled`.
//!
//! ```sh
//! cargo run -p outlast-examples --bin compensate
//! ```

use outlast::prelude::*;
use outlast::store::CancelAnswer;
use outlast::{Note, Outcome, Status, WaitError};
use std::sync::{Mutex, PoisonError};

struct Trip;

#[steps]
enum Booking {
    Flight,
    Hotel { flight: String },
    Pay { flight: String, hotel: String },
    Travel,
    CancelHotel { flight: String, hotel: String },
    CancelFlight { flight: String },
    Undone,
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

impl Machine for Trip {
    const NAME: &'static str = "trip";
    type State = Booking;
    type Output = String;

    async fn step(&self, booking: Booking, cx: &Context) -> StepResult<Self> {
        match booking {
            Booking::Flight => next(Booking::Hotel {
                flight: effect("book flight"),
            }),
            Booking::Hotel { flight } => {
                let hotel = effect("book hotel");
                wait_for::<Paid>().then(Booking::Pay { flight, hotel })
            }
            Booking::Pay { .. } => next(Booking::Travel),
            Booking::Travel => done("bon voyage".to_owned()),
            Booking::CancelHotel { flight, hotel } => {
                effect(&format!("undo {hotel}"));
                next(Booking::CancelFlight { flight })
            }
            Booking::CancelFlight { flight } => {
                effect(&format!("undo {flight}"));
                next(Booking::Undone)
            }
            Booking::Undone => cancelled(cx),
        }
    }

    async fn on_cancel(&self, booking: Booking, cx: &Context) -> StepResult<Self> {
        match booking {
            // Nothing is booked yet.
            Booking::Flight => cancelled(cx),
            Booking::Hotel { flight } => next(Booking::CancelFlight { flight }),
            Booking::Pay { flight, hotel } => next(Booking::CancelHotel { flight, hotel }),
            // Too late to cancel: continue as before.
            Booking::Travel => next(Booking::Travel),
            undoing @ (Booking::CancelHotel { .. }
            | Booking::CancelFlight { .. }
            | Booking::Undone) => next(undoing),
        }
    }
}

fn cancelled(cx: &Context) -> StepResult<Trip> {
    let reason = cx.cancel_reason().unwrap_or("cancelled");
    Ok(Outcome::cancelled(reason))
}

/// The effects on the outside world, in order.
static EFFECTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn effect(what: &str) -> String {
    println!("{what}");
    let mut effects = EFFECTS.lock().unwrap_or_else(PoisonError::into_inner);
    effects.push(what.to_owned());
    what.trim_start_matches("book ").to_owned()
}

fn effects() -> Vec<String> {
    let effects = EFFECTS.lock().unwrap_or_else(PoisonError::into_inner);
    effects.clone()
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Trip)
        .start()
        .await?;

    let trip = engine.start(Trip::with(Booking::Flight)).await?;
    let waits = trip.settled().timeout(MINUTE).await?;
    assert_eq!(waits.status, Status::AwaitingSignal);

    let note = Note::by("ada").because("it rains there");
    let answer = trip.cancel(note.clone()).await?;
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingSignal));
    match trip.output().timeout(MINUTE).await {
        Err(WaitError::Ended { status, reason, .. }) => {
            println!("{status}: {}", reason.as_deref().unwrap_or_default());
            assert_eq!(status, Status::Cancelled);
            assert_eq!(reason.as_deref(), Some("cancelled by ada: it rains there"));
        }
        other => panic!("it was cancelled, and not {other:?}"),
    }
    // A second request changes nothing.
    let answer = trip.cancel(note).await?;
    assert_eq!(answer, CancelAnswer::AlreadyEnded(Status::Cancelled));

    assert_eq!(
        effects(),
        ["book flight", "book hotel", "undo hotel", "undo flight"]
    );
    engine.shutdown().await
}
