//! A parent with a configurable join, and children with configurable behaviour, for the API tests
//! and the browser tests.

use outlast::machine::fail_with;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, Joined};
use outlast::{Fails, Outcome};

/// Starts pieces of work, joins them as its plan says, and is done.
pub(crate) struct Team;

#[steps]
pub(crate) enum Teamwork {
    Begin(Plan),
    Join,
}

/// The children of a team, and how it joins them.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Plan {
    /// The behaviour of each child; see [`Piece`].
    pub(crate) children: Vec<String>,
    pub(crate) fail_fast: bool,
    pub(crate) quorum: Option<u32>,
    pub(crate) window: Option<usize>,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) cancel_rest: bool,
    /// The close policy of the children.
    pub(crate) on_close: Option<ClosePolicy>,
}

impl Machine for Team {
    const NAME: &'static str = "team";
    type State = Teamwork;
    type Output = Option<Joined>;

    async fn step(&self, state: Teamwork, cx: &Context) -> StepResult<Self> {
        let plan = match state {
            Teamwork::Begin(plan) => plan,
            Teamwork::Join => return done(cx.joined()),
        };
        let policy = plan.on_close.unwrap_or_default();
        let children = plan.children.into_iter();
        let children =
            children.map(|what| Piece::with(Work::Begin { what }).on_parent_close(policy));
        let mut pieces = fan_out(children);
        if plan.fail_fast {
            pieces = pieces.fail_fast();
        }
        if let Some(needed) = plan.quorum {
            pieces = pieces.quorum(needed);
        }
        if let Some(size) = plan.window {
            pieces = pieces.window(size);
        }
        if let Some(deadline) = plan.deadline_ms {
            pieces = pieces.deadline(Duration::from_millis(deadline));
        }
        if plan.cancel_rest {
            pieces = pieces.cancel_rest();
        }
        pieces.then(Teamwork::Join)
    }
}

/// A piece of work. `done` and `fail` end at once, `wait` waits for a signal, and `run` runs until
/// it is terminated. When it is cancelled, `careful` waits for another signal before it ends.
pub(crate) struct Piece;

#[steps]
pub(crate) enum Work {
    Begin { what: String },
    Finish { what: String },
    Undo,
}

/// The signal that `wait` waits for.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Go {}

/// The signal that a cancelled `careful` waits for before it ends.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Undone {}

/// The error of a [`Piece`] that fails.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("it cannot be done")]
pub(crate) struct CannotBeDone {
    missing: Vec<String>,
}

impl Fails for Piece {
    type Error = CannotBeDone;
}

impl Machine for Piece {
    const NAME: &'static str = "piece";
    type State = Work;
    type Output = String;

    async fn step(&self, state: Work, _: &Context) -> StepResult<Self> {
        match state {
            Work::Begin { what } => match what.as_str() {
                "done" => done(what),
                "fail" => fail_with(CannotBeDone {
                    missing: vec!["screws".into()],
                }),
                "run" => std::future::pending().await,
                _ => wait_for::<Go>().timeout(HOUR).then(Work::Finish { what }),
            },
            Work::Finish { what } => done(what),
            Work::Undo => Ok(Outcome::cancelled("everything is undone")),
        }
    }

    async fn on_cancel(&self, state: Work, cx: &Context) -> StepResult<Self> {
        match state {
            Work::Begin { what } | Work::Finish { what } if what == "careful" => {
                wait_for::<Undone>().timeout(HOUR).then(Work::Undo)
            }
            Work::Begin { .. } | Work::Finish { .. } | Work::Undo => {
                Ok(Outcome::cancelled(cx.cancel_reason().unwrap_or_default()))
            }
        }
    }
}
