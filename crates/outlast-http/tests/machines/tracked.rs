//! A machine that records its states, for the API tests and the browser tests.

use outlast::prelude::*;

/// Packs, weighs at the second attempt, waits for `cleared`, and is done.
pub(crate) struct Tracked;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Parcel {
    Pack { note: String },
    Weigh { note: String, grams: u64 },
    Ship { note: String, grams: u64 },
}

/// The signal that [`Tracked`] waits for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Cleared {}

impl Signal for Cleared {
    const NAME: &'static str = "cleared";
}

impl Machine for Tracked {
    const NAME: &'static str = "tracked";
    const HISTORY: History = History::States;
    type State = Parcel;
    type Output = String;

    async fn step(&self, parcel: Parcel, cx: &Context) -> StepResult<Self> {
        Ok(match parcel {
            Parcel::Pack { note } => Outcome::next(Parcel::Weigh { note, grams: 0 }),
            Parcel::Weigh { .. } if cx.attempt() == 0 => {
                Outcome::retry(Duration::ZERO, "<b>the scales are taken</b>")
            }
            Parcel::Weigh { note, .. } => wait_for([Cleared::NAME])
                .timeout(Duration::from_secs(3600))
                // Larger than the largest exact integer in JavaScript.
                .then(Parcel::Ship {
                    note,
                    grams: 9_007_199_254_740_993,
                }),
            Parcel::Ship { grams, .. } => match cx.received::<Cleared>()? {
                Some(Cleared {}) => Outcome::done(format!("{grams} g on their way")),
                None => Outcome::fail("never cleared"),
            },
        })
    }
}
