//! The reaper's verb: returns the claims of dead workers to their queues.
//!
//! The engine's reaper calls this, on any number of nodes at once. A row that another transaction
//! is committing is skipped, never waited for. Its outcome is written, or the next reap finds it.

use crate::decode::{column, instance_id};
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, Call, references, value};
use crate::session::tx_settings::TxKind;
use crate::verbs::effects::{
    Effects, add_if, admitting, clearing, closing, joining, letting_through,
};
use outlast_core::{
    ClaimRef, Crash, CrashScene, InstanceId, ReapRequest, Reaped, Result, Revision, WorkerId,
    gave_up,
};
use std::collections::HashMap;
use tokio_postgres::Row;

/// How many dead workers one call looks at. If a deploy kills more, the next call takes them.
const WORKERS_MAX: usize = 1_000;

pub(crate) async fn reap(session: &Session, request: ReapRequest) -> Result<Reaped> {
    request.check().map_err(|invalid| invalid.during("reap"))?;
    session
        .retry("reap", || Box::pin(reap_once(session, request)))
        .await
}

/// Locks the dead workers, then their claims, then writes.
///
/// Three round trips: which crashes count is decided here by the rule of outlast-core, so that all
/// stores judge alike (docs/decisions/0045).
async fn reap_once(session: &Session, request: ReapRequest) -> Result<Reaped, Failure> {
    let mut transaction = session.begin(TxKind::Write).await?;
    let expired = transaction
        .run(&[statement::REAP_WORKERS.with([value(WORKERS_MAX as i64)])])
        .await?;
    let workers: Vec<i64> = expired[0]
        .iter()
        .map(|row| column(row, "id"))
        .collect::<Result<_, _>>()?;
    if workers.is_empty() {
        transaction.finish(&[]).await?;
        return Ok(Reaped::default());
    }
    // A separate statement after the workers' locks: a claim that was committed before is visible,
    // and no new one can begin. Claims, inserts and deliveries for a worker share-lock its row.
    let claims = transaction
        .run(&[statement::REAP_CLAIMS.with([value(workers.clone()), value(request.max as i64)])])
        .await?;
    let verdicts = judge(&claims[0], request)?;
    let more = verdicts.all.len() == request.max || workers.len() == WORKERS_MAX;
    let calls = verdicts.calls(workers);
    let answers = transaction.finish(&calls).await?;
    let reaped = verdicts.answer(&calls, &answers)?;
    Ok(Reaped { more, ..reaped })
}

/// The decision about each claim.
#[derive(Default)]
struct Verdicts {
    all: Vec<ClaimRef>,
    returned: Vec<ClaimRef>,
    returned_counted: Vec<i32>,
    failed: Vec<ClaimRef>,
    failed_counted: Vec<i32>,
    errors: Vec<String>,
    /// Failed claims that have a slot in a window.
    placed: Vec<ClaimRef>,
    /// Failed claims that have fanned out.
    parents: Vec<ClaimRef>,
}

/// Returns the crash scene of each dead worker, by its id.
///
/// The rows are ordered by worker, so only the last worker's rows may be cut off. Such a scene
/// blames no instance: claims that are missing from it may have caused the crash.
fn scenes(rows: &[Row], max: usize) -> Result<HashMap<i64, CrashScene>, Failure> {
    let mut scenes: HashMap<i64, CrashScene> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let scene = scenes.entry(column(row, "locked_by")?).or_default();
        scene.add(column(row, "crashes")?);
        if index + 1 == max {
            scene.set_partial();
        }
    }
    Ok(scenes)
}

/// Decides for each claim whether its instance runs again or fails (docs/protocol.md, defect 14).
fn judge(rows: &[Row], request: ReapRequest) -> Result<Verdicts, Failure> {
    let scenes = scenes(rows, request.max)?;
    let mut verdicts = Verdicts::default();
    for row in rows {
        let claim = ClaimRef {
            id: instance_id(row)?,
            revision: column(row, "revision").map(Revision)?,
        };
        let scene = &scenes[&column(row, "locked_by")?];
        let (crashes, counted) = (column(row, "crashes")?, column(row, "crashes_counted")?);
        let crash = Crash::of(scene, crashes, counted, request.crashes_max);
        verdicts.all.push(claim);
        if crash.gives_up {
            verdicts.failed.push(claim);
            verdicts.failed_counted.push(crash.counted);
            verdicts
                .errors
                .push(gave_up(crash.crashes, &column::<String>(row, "step")?));
            if column::<Option<bool>>(row, "held")?.is_some() {
                verdicts.placed.push(claim);
            }
            if column::<i32>(row, "round")? > 0 {
                verdicts.parents.push(claim);
            }
        } else {
            verdicts.returned.push(claim);
            verdicts.returned_counted.push(crash.counted);
        }
    }
    Ok(verdicts)
}

impl Verdicts {
    /// Returns the statements in the order of their locks: own rows first, as in a commit.
    fn calls(&self, workers: Vec<i64>) -> Vec<Call<'_>> {
        let mut calls = Vec::new();
        if !self.failed.is_empty() {
            let [ids, revisions] = references(&self.failed);
            let errors = self.errors.iter().map(String::as_str).collect::<Vec<_>>();
            let counted = value(self.failed_counted.clone());
            calls.push(statement::REAP_FAIL.with([ids, revisions, value(errors), counted]));
            calls.push(clearing(&self.failed));
        }
        // They keep `awaits`, so that the step that runs again is handed the same signals.
        if !self.returned.is_empty() {
            let [ids, revisions] = references(&self.returned);
            let counted = value(self.returned_counted.clone());
            calls.push(statement::REAP_RETURN.with([ids, revisions, counted]));
        }
        if !self.parents.is_empty() {
            calls.push(closing(&self.parents));
        }
        if !self.placed.is_empty() {
            calls.push(admitting(&self.placed));
        }
        if !self.failed.is_empty() {
            calls.push(joining(&self.failed));
        }
        if !self.all.is_empty() {
            calls.push(letting_through(&self.all));
        }
        // Last, when the claims are returned. A worker keeps its row while one of its claims was
        // skipped or left for the next call. A claim of a removed worker is never reaped.
        calls.push(statement::REAP_REMOVE.with([value(workers)]));
        calls
    }

    fn answer(&self, calls: &[Call<'_>], answers: &[Vec<Row>]) -> Result<Reaped, Failure> {
        let mut reaped = Reaped {
            returned: sorted(&self.returned),
            failed: sorted(&self.failed),
            ..Reaped::default()
        };
        let mut effects = Effects::default();
        for (call, rows) in calls.iter().zip(answers) {
            match call.statement.name {
                name if name == statement::REAP_RETURN.name => {
                    rows.iter()
                        .try_for_each(|row| add_if(&mut effects.woken, row, "eligible"))?;
                }
                name if name == statement::REAP_REMOVE.name => {
                    reaped.removed = rows
                        .iter()
                        .map(|row| column(row, "id").map(WorkerId))
                        .collect::<Result<_, _>>()?;
                }
                _ => effects.add(call.statement, rows)?,
            }
        }
        reaped.woken = effects.woken;
        reaped.cascades = effects.cascades;
        reaped.removed.sort();
        Ok(reaped)
    }
}

fn sorted(claims: &[ClaimRef]) -> Vec<InstanceId> {
    let mut ids: Vec<InstanceId> = claims.iter().map(|claim| claim.id).collect();
    ids.sort();
    ids
}
