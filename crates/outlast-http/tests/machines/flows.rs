//! Workflows for the API tests and the browser tests: one with every kind of call, its child, one
//! with a window, one that takes updates, and one whose code cannot be replayed.

use crate::team::{Piece, Work};
use outlast::JobError;
use outlast::prelude::*;
use outlast::store::ClosePolicy;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The input of [`fulfil`].
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

/// The signal that [`fulfil`] waits for.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Approved {
    pub(crate) by: String,
}

/// Asks [`fulfil`] what it has done.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = Vec<String>)]
pub(crate) struct Doings {
    /// Only what contains this. A shop sells no unicorns, so that one is an error.
    pub(crate) about: Option<String>,
}

/// Reserves, insures, packs, and waits for an approval and further checks. Then it is done, or
/// continues as new.
#[workflow]
pub(crate) async fn fulfil(flow: Flow, errand: Errand) -> FlowResult<String> {
    let doings = Arc::new(Mutex::new(vec!["begun".to_owned()]));
    let seen = doings.clone();
    flow.on_query(move |query: Doings| {
        let about = query.about.unwrap_or_default();
        if about == "unicorns" {
            return Err("a shop sells no unicorns".into());
        }
        let doings = seen.lock().map_err(|error| error.to_string())?;
        Ok(doings
            .iter()
            .filter(|it| it.contains(&about))
            .cloned()
            .collect())
    })?;
    let note = errand.note.clone();
    let note = flow.step("reserve", async move || Ok::<_, String>(note));
    let note = note.await?;
    if let Err(refused) = flow.run(insure::with(note.clone())).await {
        flow.step("log", async move || Ok::<_, String>(refused.to_string()))
            .await?;
    }
    let parcels = errand.parcels_ms.iter();
    let parcels: Vec<_> = parcels.map(|ms| flow.run(pack::with(*ms))).collect();
    flow.all((flow.run(label::with(note)), parcels)).await?;
    let packed = format!("packed {}", errand.parcels_ms.len());
    flow.publish("progress", &packed)?;
    if let Ok(mut doings) = doings.lock() {
        doings.push(packed);
    }
    flow.sleep(Duration::from_millis(50)).await?;
    let checks = errand.checks.iter().map(|what| {
        let piece = Piece::with(Work::Begin { what: what.clone() });
        flow.run(piece.on_parent_close(ClosePolicy::RequestCancel))
    });
    let checks: Vec<_> = checks.collect();
    let checked = flow
        .all((flow.signal::<Approved>(), checks))
        .timeout(HOUR)
        .await?;
    let Some((approved, _)) = checked else {
        return flow.fail("nobody approved");
    };
    flow.publish("progress", &format!("approved by {}", approved.by))?;
    if errand.repeats > 0 {
        return flow.continue_as_new(Errand {
            repeats: errand.repeats - 1,
            ..errand
        });
    }
    Ok(format!("approved by {}", approved.by))
}

/// Fails: it refuses every insurance.
#[job]
pub(crate) async fn insure(_what: String) -> Result<(), JobError> {
    Err(JobError::fatal("too fragile to be insured"))
}

/// Packs a parcel for the given number of milliseconds.
#[job]
pub(crate) async fn pack(ms: u64) -> Result<String, JobError> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(format!("a parcel, packed in {ms} ms"))
}

/// Prints a label.
#[workflow]
pub(crate) async fn label(flow: Flow, text: String) -> FlowResult<String> {
    flow.sleep(Duration::from_millis(20)).await?;
    flow.step("print", async move || Ok::<_, String>(text))
        .await
}

/// Starts the given number of pieces that wait, two at a time.
#[workflow]
pub(crate) async fn crowd(flow: Flow, pieces: u32) -> FlowResult<usize> {
    let wait = || Work::Begin {
        what: "wait".into(),
    };
    let pieces = (0..pieces).map(|_| flow.run(Piece::with(wait())));
    let pieces = flow.all(pieces.collect::<Vec<_>>()).window(2).await?;
    Ok(pieces.len())
}

/// Asks a [`shelf`] to take books. The reply is the number of its books.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
pub(crate) struct TakeBooks {
    pub(crate) books: u64,
}

/// Takes at most ten books, until it is approved.
#[workflow]
pub(crate) async fn shelf(flow: Flow) -> FlowResult<u64> {
    let held = Arc::new(AtomicU64::new(0));
    let filled = held.clone();
    flow.on_update(move |flow: Flow, take: TakeBooks| {
        let filled = filled.clone();
        async move {
            let sum = filled.load(Ordering::Relaxed).saturating_add(take.books);
            if sum > 10 {
                return flow.fail("the shelf is full");
            }
            filled.store(sum, Ordering::Relaxed);
            Ok(sum)
        }
    })?
    .validate(|take| match take.books {
        0 => Err("no book is given"),
        _ => Ok(()),
    });
    flow.signal::<Approved>().await?;
    Ok(held.load(Ordering::Relaxed))
}

/// Awaits a future that is not a call of its flow, so it is blocked.
#[workflow]
pub(crate) async fn stuck(flow: Flow) -> FlowResult<()> {
    flow.step("begin", async || Ok::<_, String>(())).await?;
    std::future::pending().await
}
