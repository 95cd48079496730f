//! The updates of the load. Journeys take two kinds, one with a handler and one as a call; desks
//! take the third.

use super::journey::Step;
use super::{Effects, Paid, Payment, Sale};
use outlast::prelude::*;
use std::fmt;

/// What the code is to do with an update. The id of the update says it too, for the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Reply at once.
    Plain,
    /// Reply with the result of a step.
    Step,
    /// Start a child and signal it, then reply.
    Child,
    Bad,
    Refused,
}

impl Way {
    pub(crate) const ALL: [Way; 5] = [Way::Plain, Way::Step, Way::Child, Way::Bad, Way::Refused];

    fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Step => "step",
            Way::Child => "child",
            Way::Bad => "bad",
            Way::Refused => "refused",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the id of an update: its name, its way and its number.
pub(crate) fn update_id(name: &str, way: Way, number: u64) -> String {
    format!("{name}:{way}:{number}")
}

/// Returns the parts of the id of an update.
pub(crate) fn of_update_id(id: &str) -> Option<(&str, Way, u64)> {
    let mut parts = id.splitn(3, ':');
    let (name, way, number) = (parts.next()?, parts.next()?, parts.next()?);
    let way = Way::ALL.into_iter().find(|it| it.name() == way)?;
    Some((name, way, number.parse().ok()?))
}

/// Returns the name of the step that an update makes.
pub(crate) fn step_of(number: u64) -> String {
    format!("ask {number}")
}

/// An update that the handler of a journey takes.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
pub(crate) struct Ask {
    pub(crate) number: u64,
    pub(crate) way: Way,
}

/// An update that a journey takes as a call.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
pub(crate) struct Plea {
    pub(crate) number: u64,
    pub(crate) way: Way,
}

/// An update that a desk takes.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
pub(crate) struct Query {
    pub(crate) number: u64,
    pub(crate) way: Way,
}

/// Registers the handler of a journey.
pub(super) fn handle_asks(flow: &Flow, effects: &Effects) -> FlowResult<()> {
    let effects = effects.clone();
    flow.on_update(move |flow, ask| answer(effects.clone(), flow, ask))?
        .validate(|ask| match ask.way {
            Way::Refused => Err("refused"),
            Way::Plain | Way::Step | Way::Child | Way::Bad => Ok(()),
        });
    Ok(())
}

async fn answer(effects: Effects, flow: Flow, ask: Ask) -> FlowResult<u64> {
    let Ask { number, way } = ask;
    match way {
        Way::Plain | Way::Refused => Ok(number),
        Way::Step => {
            let step = Step {
                effects,
                name: step_of(number),
                follows: vec![number],
                is_bad: false,
            };
            step.call(&flow).await
        }
        Way::Child => {
            let sale = Sale::Offer {
                token: number,
                patience_ms: 500,
            };
            let sale = flow.spawn(Payment::with(sale)).await?;
            sale.child().signal(Paid { amount: number }).await?;
            Ok(number)
        }
        Way::Bad => flow.fail("a bad ask"),
    }
}
