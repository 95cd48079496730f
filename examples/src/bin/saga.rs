//! A journey that undoes its bookings in reverse order when it fails or is cancelled.
//!
//! A booking fails with an error of its own type, and the workflow reads it back by that type.
//! What is sold out was not booked. Where no answer came, there may be a booking to undo.
//!
//! After a cancel request the next call of the workflow returns an error, so its code leaves by
//! `?` as for any other error. The cleanup is `uncancellable`: its calls are recorded, run again
//! after a crash, and may wait, like all others.
//!
//! ```sh
//! cargo run -p outlast-examples --bin saga
//! ```

use outlast::prelude::*;
use outlast::{Note, Status, WaitError};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Signal, Serialize, Deserialize)]
struct Tickets;

#[workflow]
async fn journey(flow: Flow, to: String) -> FlowResult<String> {
    let mut booked = Vec::new();
    let error = match book_all(&flow, &to, &mut booked).await {
        Ok(()) => return Ok(format!("bon voyage to {to}")),
        Err(error) => error,
    };
    // If this worker dies in the middle, the next one continues here.
    let undo = async {
        while let Some(what) = booked.pop() {
            flow.run(undo_booking::with(what)).await?;
        }
        FlowResult::Ok(())
    };
    flow.uncancellable(undo).await?;
    Err(error)
}

async fn book_all(flow: &Flow, to: &str, booked: &mut Vec<String>) -> FlowResult<()> {
    for what in ["train", "hotel", "guide"] {
        // Noted before the attempt: a booking that fails may exist all the same.
        booked.push(what.to_owned());
        let booking = Booking {
            what: what.to_owned(),
            to: to.to_owned(),
        };
        let Err(error) = flow.run(book::with(booking)).await else {
            continue;
        };
        // Any other error leaves by `?`: a cancel, a panic, a time limit.
        match error.downcast::<book>()? {
            BookingError::SoldOut => {
                booked.pop();
                return flow.fail(format!("the {what} is sold out"));
            }
            BookingError::NoAnswer => {
                return flow.fail(format!("the {what} did not answer"));
            }
        }
    }
    flow.signal::<Tickets>().await?;
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Booking {
    what: String,
    to: String,
}

/// Stored as a value when the job gives up.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
enum BookingError {
    #[error("sold out")]
    SoldOut,
    #[error("no answer")]
    NoAnswer,
}

#[job(attempts = 2)]
async fn book(booking: Booking, agency: Data<Agency>) -> Result<(), BookingError> {
    agency.book(&booking.what, &booking.to)
}

#[job]
async fn undo_booking(what: String, agency: Data<Agency>) -> std::io::Result<()> {
    agency.effect(format!("undo {what}"));
    Ok(())
}

/// A fake of what the jobs call.
#[derive(Clone, Default)]
struct Agency {
    /// Its effects, in order.
    effects: Arc<Mutex<Vec<String>>>,
}

impl Agency {
    fn book(&self, what: &str, to: &str) -> Result<(), BookingError> {
        match (what, to) {
            ("guide", "Atlantis") => return Err(BookingError::SoldOut),
            ("hotel", "the moon") => return Err(BookingError::NoAnswer),
            _ => self.effect(format!("book {what}")),
        }
        Ok(())
    }

    fn effect(&self, what: String) {
        println!("{what}");
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        effects.push(what);
    }

    fn take_effects(&self) -> String {
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *effects).join(", ")
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let agency = Agency::default();
    let engine = outlast_examples::engine()
        .await?
        .register(journey)
        .register(book)
        .register(undo_booking)
        .provide(agency.clone())
        .start()
        .await?;

    // Cancelled while it waits for its tickets: everything is undone.
    let rome = engine.start(journey::with("Rome".into())).await?;
    while rome.settled().timeout(MINUTE).await?.status != Status::AwaitingSignal {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let note = Note::by("ada").because("it rains there");
    rome.cancel(note).await?;
    match rome.output().timeout(MINUTE).await {
        Err(WaitError::Ended { status, reason, .. }) => {
            println!("{status}: {}", reason.as_deref().unwrap_or_default());
            assert_eq!(status, Status::Cancelled);
            assert_eq!(reason.as_deref(), Some("cancelled by ada: it rains there"));
        }
        other => panic!("it was cancelled, and not {other:?}"),
    }
    assert_eq!(
        agency.take_effects(),
        "book train, book hotel, book guide, undo guide, undo hotel, undo train"
    );

    for (to, reason, effects) in [
        // There is no guide to undo.
        (
            "Atlantis",
            "the guide is sold out",
            "book train, book hotel, undo hotel, undo train",
        ),
        // There may be a hotel to undo.
        (
            "the moon",
            "the hotel did not answer",
            "book train, undo hotel, undo train",
        ),
    ] {
        let trip = engine.start(journey::with(to.into())).await?;
        let error = trip.output().timeout(MINUTE).await;
        let error = error.expect_err("there is no way").to_string();
        println!("{error}");
        assert!(error.ends_with(reason), "{error}");
        assert_eq!(agency.take_effects(), effects);
    }
    engine.shutdown().await
}
