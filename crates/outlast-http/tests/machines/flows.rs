//! Workflows for the API tests and the browser tests: one with every kind of call, its child, one
//! with a window, and one whose code cannot be replayed.

use crate::team::{Piece, Work};
use outlast::prelude::*;

/// Reserves, insures, packs, and waits for an approval and further checks. Then it is done, or
/// continues as new.
pub(crate) struct Fulfil;

/// The input of [`Fulfil`].
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Errand {
    /// The result of the first step.
    pub(crate) note: String,
    /// How long it takes to pack each parcel.
    pub(crate) parcels_ms: Vec<u64>,
    /// The pieces that are awaited together with the approval; see [`Piece`].
    pub(crate) checks: Vec<String>,
    /// How often the workflow continues as new.
    pub(crate) repeats: u32,
}

/// The signal that [`Fulfil`] waits for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Approved {
    pub(crate) by: String,
}

impl Signal for Approved {
    const NAME: &'static str = "approved";
}

impl Workflow for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = Errand;
    type Output = String;

    async fn run(&self, flow: Flow, errand: Errand) -> FlowResult<String> {
        let note = errand.note.clone();
        let note = flow.step("reserve", async move || Ok::<_, String>(note));
        let note = note.await?;
        if let Err(refused) = flow.activity(Insure, note.clone()).await {
            flow.step("log", async move || Ok::<_, String>(refused.to_string()))
                .await?;
        }
        let parcels = errand.parcels_ms.iter();
        let parcels: Vec<_> = parcels.map(|ms| flow.activity(Pack, *ms)).collect();
        flow.all((flow.child::<Label>(note), parcels)).await?;
        flow.sleep(Duration::from_millis(50)).await?;
        let checks = errand.checks.iter().map(|what| {
            let begin = Work::Begin { what: what.clone() };
            flow.machine(New::<Piece>(begin))
                .on_parent_close(ClosePolicy::RequestCancel)
        });
        let checks: Vec<_> = checks.collect();
        let hour = Duration::from_secs(3600);
        let checked = flow
            .all((flow.signal::<Approved>(), checks))
            .timeout(hour)
            .await?;
        let Some((approved, _)) = checked else {
            return Err(flow.fail("nobody approved"));
        };
        if errand.repeats > 0 {
            return flow.continue_as_new(Errand {
                repeats: errand.repeats - 1,
                ..errand
            });
        }
        Ok(format!("approved by {}", approved.by))
    }
}

/// Fails: it refuses every insurance.
pub(crate) struct Insure;

impl Job for Insure {
    const NAME: &'static str = "insure";
    type Args = String;
    type Output = ();

    async fn perform(&self, _: String, _: &Context) -> Result<(), JobError> {
        Err(JobError::fatal("too fragile to be insured"))
    }
}

/// Packs a parcel for the given number of milliseconds.
pub(crate) struct Pack;

impl Job for Pack {
    const NAME: &'static str = "pack";
    type Args = u64;
    type Output = String;

    async fn perform(&self, ms: u64, _: &Context) -> Result<String, JobError> {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Ok(format!("a parcel, packed in {ms} ms"))
    }
}

/// Prints a label.
pub(crate) struct Label;

impl Workflow for Label {
    const NAME: &'static str = "label";
    type Input = String;
    type Output = String;

    async fn run(&self, flow: Flow, text: String) -> FlowResult<String> {
        flow.sleep(Duration::from_millis(20)).await?;
        flow.step("print", async move || Ok::<_, String>(text))
            .await
    }
}

/// Starts the given number of pieces that wait, two at a time.
pub(crate) struct Crowd;

impl Workflow for Crowd {
    const NAME: &'static str = "crowd";
    type Input = u32;
    type Output = usize;

    async fn run(&self, flow: Flow, pieces: u32) -> FlowResult<usize> {
        let wait = || Work::Begin {
            what: "wait".into(),
        };
        let pieces = (0..pieces).map(|_| flow.machine(New::<Piece>(wait())));
        let pieces = flow.all(pieces.collect::<Vec<_>>()).window(2).await?;
        Ok(pieces.len())
    }
}

/// Awaits a future that is not a call of its flow, so it is blocked.
pub(crate) struct Stuck;

impl Workflow for Stuck {
    const NAME: &'static str = "stuck";
    type Input = ();
    type Output = ();

    async fn run(&self, flow: Flow, (): ()) -> FlowResult<()> {
        flow.step("begin", async || Ok::<_, String>(())).await?;
        std::future::pending().await
    }
}
