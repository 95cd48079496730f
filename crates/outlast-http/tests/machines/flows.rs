//! Workflows for both the tests of the API and those in the browser: one that does a little of everything, one that it
//! starts, one with a window, and one whose code cannot be replayed.

use crate::team::{Piece, Work};
use outlast::prelude::*;

/// Reserves, insures, packs, waits for an approval and for what else is to be checked; then it is done, or goes on as new.
pub(crate) struct Fulfil;

/// What to do.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Errand {
    /// What the first step gives back.
    pub(crate) note: String,
    /// How long each parcel takes to be packed.
    pub(crate) parcels_ms: Vec<u64>,
    /// What else is waited for, together with the approval; see [`Piece`].
    pub(crate) checks: Vec<String>,
    /// How often it begins anew.
    pub(crate) repeats: u32,
}

/// What it waits for.
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

/// Never insures anything.
pub(crate) struct Insure;

impl Job for Insure {
    const NAME: &'static str = "insure";
    type Args = String;
    type Output = ();

    async fn perform(&self, _: String, _: &Context) -> Result<(), JobError> {
        Err(JobError::fatal("too fragile to be insured"))
    }
}

/// Packs for so many milliseconds.
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

/// Starts so many pieces that wait, two of them at a time.
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

/// Awaits what nobody would remember, and so is blocked.
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
