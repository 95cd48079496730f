//! A machine that records its states, for the API tests and the browser tests.

use outlast::History;
use outlast::prelude::*;

/// Packs, weighs at the second attempt, waits for `cleared`, and is done.
pub(crate) struct Tracked;

#[steps]
pub(crate) enum Parcel {
    Pack { note: String },
    Weigh { note: String, grams: u64 },
    Ship { note: String, grams: u64 },
}

/// The signal that [`Tracked`] waits for.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Cleared {}

impl Machine for Tracked {
    const NAME: &'static str = "tracked";
    const HISTORY: History = History::States;
    type State = Parcel;
    type Output = String;

    async fn step(&self, parcel: Parcel, cx: &Context) -> StepResult<Self> {
        match parcel {
            Parcel::Pack { note } => next(Parcel::Weigh { note, grams: 0 }),
            Parcel::Weigh { .. } if cx.attempt() == 0 => {
                retry(Duration::ZERO, "<b>the scales are taken</b>")
            }
            Parcel::Weigh { note, .. } => wait_for::<Cleared>()
                .timeout(HOUR)
                // Larger than the largest exact integer in JavaScript.
                .then(Parcel::Ship {
                    note,
                    grams: 9_007_199_254_740_993,
                }),
            Parcel::Ship { grams, .. } => match cx.received::<Cleared>()? {
                Some(Cleared {}) => done(format!("{grams} g on their way")),
                None => fail("never cleared"),
            },
        }
    }
}
