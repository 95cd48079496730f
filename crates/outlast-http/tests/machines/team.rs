//! A parent that joins its children as it is told, and children that do as they are told. Both the tests of the API and
//! those in the browser run them.

use outlast::prelude::*;

/// Starts pieces of work, joins them as its plan says, and is done; or ends as it is told when it is asked to.
pub(crate) struct Team;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Teamwork {
    Begin(Plan),
    Join,
}

/// What to start, and what to wait for.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Plan {
    /// What each child does; see [`Piece`].
    pub(crate) children: Vec<String>,
    pub(crate) fail_fast: bool,
    pub(crate) quorum: Option<u32>,
    pub(crate) window: Option<usize>,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) cancel_rest: bool,
    /// What becomes of children that live when the team has ended.
    pub(crate) on_close: Option<ClosePolicy>,
}

impl Machine for Team {
    const NAME: &'static str = "team";
    type State = Teamwork;
    type Output = Option<Joined>;

    async fn step(&self, state: Teamwork, cx: &Context) -> StepResult<Self> {
        let plan = match state {
            Teamwork::Begin(plan) => plan,
            Teamwork::Join => return Ok(Outcome::done(cx.joined())),
        };
        let policy = plan.on_close.unwrap_or_default();
        let children = plan.children.into_iter();
        let children =
            children.map(|what| New::<Piece>(Work::Begin { what }).on_parent_close(policy));
        let mut pieces = fan_out(children);
        if plan.fail_fast {
            pieces = pieces.fail_fast();
        }
        if let Some(needed) = plan.quorum {
            pieces = pieces.quorum(needed);
        }
        if let Some(places) = plan.window {
            pieces = pieces.window(places);
        }
        if let Some(deadline) = plan.deadline_ms {
            pieces = pieces.deadline(Duration::from_millis(deadline));
        }
        if plan.cancel_rest {
            pieces = pieces.cancel_rest();
        }
        Ok(pieces.then(Teamwork::Join))
    }
}

/// A piece of work: `done` and `fail` end at once, `wait` waits for a signal, `run` runs until somebody ends it, and
/// `careful` waits for another signal before it ends when it is asked to.
pub(crate) struct Piece;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(crate) enum Work {
    Begin { what: String },
    Finish { what: String },
    Undo,
}

/// What `wait` waits for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Go {}

impl Signal for Go {
    const NAME: &'static str = "go";
}

/// What `careful` waits for before it ends.
#[derive(Serialize, Deserialize)]
pub(crate) struct Undone {}

impl Signal for Undone {
    const NAME: &'static str = "undone";
}

impl Machine for Piece {
    const NAME: &'static str = "piece";
    type State = Work;
    type Output = String;

    async fn step(&self, state: Work, _: &Context) -> StepResult<Self> {
        Ok(match state {
            Work::Begin { what } => match what.as_str() {
                "done" => Outcome::done(what),
                "fail" => Outcome::fail("it cannot be done"),
                "run" => std::future::pending().await,
                _ => wait_for([Go::NAME])
                    .timeout(Duration::from_secs(3600))
                    .then(Work::Finish { what }),
            },
            Work::Finish { what } => Outcome::done(what),
            Work::Undo => Outcome::cancelled("everything is undone"),
        })
    }

    async fn on_cancel(&self, state: Work, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Work::Begin { what } | Work::Finish { what } if what == "careful" => {
                wait_for([Undone::NAME])
                    .timeout(Duration::from_secs(3600))
                    .then(Work::Undo)
            }
            Work::Begin { .. } | Work::Finish { .. } | Work::Undo => {
                Outcome::cancelled(cx.cancel_reason().unwrap_or_default())
            }
        })
    }
}
