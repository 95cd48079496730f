//! The judge: what a schedule left behind, against what must be true and what callers were told.

use super::act::{Act, Told, ending, request, saw_all};
use super::scheduler::{Scenario, Schedule};
use super::stage::Stage;
use super::world::{Row, World, Written};
use outlast_core::{
    CascadeRequest, Claim, InstanceId, Json, NewSignal, ReapRequest, SignalId, Status, Store, Until,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How often work is claimed and ended before a state counts as one that never comes to rest.
const ROUNDS_MAX: usize = 12;

/// The judgements so far. Schedules that end alike, history and answers included, are judged once.
#[derive(Default)]
pub(crate) struct Verdicts(HashMap<String, Vec<String>>);

impl Verdicts {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) async fn judge(
        &mut self,
        scenario: &Scenario,
        world: &World,
        stage: &Stage,
        schedule: &Schedule,
    ) -> Vec<String> {
        let ending = format!(
            "{}\n{:?} {}",
            world.ending().await,
            schedule.told,
            schedule.deadlocked
        );
        if let Some(known) = self.0.get(&ending) {
            return known.clone();
        }
        let mut violations = world.violations(&stage.received).await;
        let history = world.history().await;
        if schedule.deadlocked && !scenario.may_deadlock {
            violations.push("a deadlock".into());
        }
        violations.extend(illegal_moves(&history));
        violations.extend(early_joins(world, &history).await);
        violations.extend(starts_after_a_cancel(world, schedule, &history).await);
        violations.extend(lost_children(world, &history).await);
        violations.extend(overtaking(world, &history).await);
        violations.extend(untrue_answers(schedule, &history));
        violations.extend(lost_signals(world, stage, schedule).await);
        violations.extend(untrue_histories(world, stage, schedule).await);
        // Last, because it goes on from there.
        let retries = scenario.count(|act| matches!(act, Act::Retry(_)));
        violations.extend(unrest(world, stage, retries > 0).await);
        self.0.insert(ending, violations.clone());
        violations
    }
}

/// I3, I4: revisions grow one by one, and statuses go only where they may.
fn illegal_moves(history: &[Written]) -> Vec<String> {
    let mut violations = Vec::new();
    for written in history {
        let (Some((was, old)), Some((is, new))) = (&written.was, &written.is) else {
            continue;
        };
        let (from, to) = (status(was), status(is));
        if *new != old + 1 && new != old {
            violations.push(format!(
                "I3: {} went from revision {old} to {new}",
                written.id
            ));
        }
        if from != to && !from.may_become(to) {
            violations.push(format!("I4: {} went from {from} to {to}", written.id));
        }
        if from == to && from.is_terminal() {
            violations.push(format!("I4: {} ended twice as {to}", written.id));
        }
    }
    violations
}

/// I6: when a parent is released, each child of the round has ended, or does in the same transaction; or as many have as
/// decide its join; or its deadline has come, or a cancel.
async fn early_joins(world: &World, history: &[Written]) -> Vec<String> {
    let released = |written: &Written| written.is_move("awaiting_children", "runnable");
    let mut violations = Vec::new();
    for (place, release) in history.iter().enumerate().filter(|(_, w)| released(w)) {
        let mut before: BTreeMap<i64, Status> = BTreeMap::new();
        // Where each child was before the sessions, then what was written up to the release.
        for written in history.iter().rev() {
            if let Some((was, _)) = &written.was {
                before.insert(written.id, status(was));
            }
        }
        for (at, written) in history.iter().enumerate() {
            if let Some((is, _)) = &written.is
                && (at < place || written.txid == release.txid)
            {
                before.insert(written.id, status(is));
            }
        }
        let instances = world.instances().await;
        let Some(parent) = instances.iter().find(|row| row.id == release.id) else {
            continue;
        };
        // A machine waits for one thing, a workflow perhaps for several: for what is nearest.
        let numbers = parent.joining.iter().flatten().map(|(_, part)| *part);
        let sets: Vec<Option<i32>> = match &parent.joining {
            None => vec![None],
            Some(_) => numbers.map(Some).collect(),
        };
        let mut nearest: Option<Vec<(i64, Status)>> = None;
        let mut failed = 0;
        for part in sets {
            let is_awaited = |child: &&Row| match (&parent.joining, child.parent_round, part) {
                (Some(rounds), Some(round), Some(part)) => rounds.contains(&(round, part)),
                (None, ..) | (_, None, _) | (.., None) => true,
            };
            let mut pending = Vec::new();
            let children = instances.iter().filter(|c| c.parent_id == Some(release.id));
            for child in children.filter(is_awaited) {
                let then = before.get(&child.id).copied();
                match then.unwrap_or_else(|| status(&child.status)) {
                    Status::Done => {}
                    Status::Failed | Status::Cancelled => failed += 1,
                    then @ (Status::Runnable
                    | Status::Executing
                    | Status::AwaitingSignal
                    | Status::Sleeping
                    | Status::AwaitingChildren) => pending.push((child.id, then)),
                }
            }
            if nearest.as_ref().is_none_or(|it| pending.len() < it.len()) {
                nearest = Some(pending);
            }
        }
        let pending = nearest.unwrap_or_default();
        let decided = until(parent).decided(parent.started, pending.len() as i32, failed);
        let is_right = match parent.joined.as_deref() {
            Some("deadline") => true,
            Some(joined) => decided.is_some_and(|decided| decided.as_str() == joined),
            // A workflow may have been woken by a signal.
            None => parent.is_asked || parent.joining.is_some(),
        };
        if !is_right {
            let (child, then) = pending.first().copied().unwrap_or((0, Status::Done));
            violations.push(format!(
                "I6: parent {} was released while child {child} was {then}: {:?}",
                release.id, parent.joined
            ));
        }
    }
    violations
}

fn until(parent: &Row) -> Until {
    match parent.needs {
        Some(needs) => Until::Quorum(needs.unsigned_abs()),
        None if parent.fails_fast => Until::FailFast,
        None => Until::All,
    }
}

/// I13: who was asked to end while it ran has started nobody since. What it ran then was not an answer.
async fn starts_after_a_cancel(
    world: &World,
    schedule: &Schedule,
    history: &[Written],
) -> Vec<String> {
    let instances = world.instances().await;
    let mut violations = Vec::new();
    for told in schedule.told.iter().flatten() {
        let Told::Asked {
            id,
            was: Status::Executing,
        } = told
        else {
            continue;
        };
        let started = history.iter().filter(|written| written.was.is_none());
        for started in started {
            let child = instances.iter().find(|row| row.id == started.id);
            if child.is_some_and(|child| child.parent_id == Some(id.0)) {
                violations.push(format!(
                    "I13: {id} was asked to end, and has started {}",
                    started.id
                ));
            }
        }
    }
    violations
}

/// Defect 6 (docs/protocol.md): no child is removed while its parent lives.
async fn lost_children(world: &World, history: &[Written]) -> Vec<String> {
    let removed: Vec<i64> = history
        .iter()
        .filter(|written| written.is.is_none())
        .map(|written| written.id)
        .collect();
    let kept = world.instances().await;
    let mut violations = Vec::new();
    for parent in kept.iter().filter(|parent| parent.round > 0) {
        let id = parent.id;
        let children = kept
            .iter()
            .filter(|child| child.parent_id == Some(id))
            .count();
        let started = parent.started;
        if !status(&parent.status).is_terminal() && (children as i32) < started {
            violations.push(format!(
                "I6: parent {id} lives, and {children} of its {started} children are left; removed: {removed:?}"
            ));
        }
    }
    violations
}

/// I8: nobody starts while an elder of its key has stood in line since the beginning.
async fn overtaking(world: &World, history: &[Written]) -> Vec<String> {
    let instances = world.instances().await;
    let key_of = |id: i64| {
        let found = instances.iter().find(|instance| instance.id == id);
        found.and_then(|instance| instance.partition_key.clone())
    };
    let mut violations = Vec::new();
    for (place, claimed) in history.iter().enumerate() {
        let key = key_of(claimed.id);
        if key.is_none() || !claimed.is_move("runnable", "executing") {
            continue;
        }
        for elder in instances
            .iter()
            .filter(|i| i.id < claimed.id && i.partition_key == key)
        {
            let moved = history[..place]
                .iter()
                .any(|written| written.id == elder.id);
            let later = history[place..]
                .iter()
                .find(|written| written.id == elder.id);
            let stood = match later.and_then(|written| written.was.as_ref()) {
                Some((was, _)) => was == "runnable",
                None => elder.status == "runnable",
            };
            if stood && !moved {
                violations.push(format!("I8: {} started before {}", claimed.id, elder.id));
            }
        }
    }
    violations
}

/// Every change was told by the verb that made it, and every change that was told was made.
fn untrue_answers(schedule: &Schedule, history: &[Written]) -> Vec<String> {
    let mut violations = Vec::new();
    for (session, told) in schedule.told.iter().enumerate() {
        let mut written: Vec<&Written> = history
            .iter()
            .filter(|written| written.session == session)
            .collect();
        for told in told {
            match told {
                Told::Changed { .. } => match written.iter().position(|w| is_same(told, w)) {
                    Some(place) => drop(written.remove(place)),
                    None => violations.push(format!(
                        "I3: untrue answer: session {session} was told {told:?}"
                    )),
                },
                Told::Children { all, children } => {
                    let live = children.iter().any(|(_, s)| !s.is_terminal());
                    if *all && (children.len() != 2 || live) {
                        violations.push(format!("I6: a join saw {children:?}"));
                    }
                }
                Told::Started(id) => {
                    let started = |w: &Written| w.session == session && w.was.is_none();
                    if !history.iter().any(|w| started(w) && w.id == id.0) {
                        violations.push(format!("I1: untrue answer: {id} was not started"));
                    }
                }
                Told::Refused(reason) => violations.push(format!("an error: {reason}")),
                Told::Asked { .. }
                | Told::Sent { .. }
                | Told::Consumed(_)
                | Told::Recorded { .. }
                | Told::Nothing(_) => {}
            }
        }
        for written in written.into_iter().filter(|written| is_told(written)) {
            violations.push(format!("I3: session {session} was not told of {written:?}"));
        }
    }
    violations
}

/// What verbs tell of: not children that were started, nor parents that were released.
fn is_told(written: &Written) -> bool {
    written.was.as_ref().is_some_and(|(was, old)| {
        was != "awaiting_children" || written.is.as_ref().is_none_or(|(_, new)| new != old)
    })
}

fn is_same(told: &Told, written: &Written) -> bool {
    let Told::Changed {
        id,
        from,
        to,
        revision,
    } = told
    else {
        return false;
    };
    let was_revision = written.was.as_ref().map(|(_, revision)| *revision);
    let is_revision = written.is.as_ref().map(|(_, revision)| *revision);
    written.id == id.0
        && from.is_none_or(|from| Some(from.0) == was_revision)
        && revision.is_none_or(|revision| Some(revision.0) == is_revision)
        // The row of a sleeping instance is stored as one that awaits a signal.
        && written.is.as_ref().map(|(is, _)| status(is)) == to.map(Status::stored)
}

/// I7: an acknowledged signal is pending, or was consumed by exactly one commit, or its instance ended.
async fn lost_signals(world: &World, stage: &Stage, schedule: &Schedule) -> Vec<String> {
    let mut acknowledged: Vec<(SignalId, InstanceId)> = stage
        .received
        .iter()
        .map(|signal| (*signal, stage.cast[0].id))
        .collect();
    let mut consumed: Vec<SignalId> = Vec::new();
    for told in schedule.told.iter().flatten() {
        match told {
            Told::Sent { id, target } => acknowledged.push((*id, *target)),
            Told::Consumed(signals) => consumed.extend(signals),
            Told::Changed { .. }
            | Told::Started(_)
            | Told::Children { .. }
            | Told::Recorded { .. }
            | Told::Asked { .. }
            | Told::Nothing(_)
            | Told::Refused(_) => {}
        }
    }
    let pending = world.pending_signals().await;
    let living: Vec<i64> = world
        .instances()
        .await
        .into_iter()
        .filter(|instance| !status(&instance.status).is_terminal())
        .map(|instance| instance.id)
        .collect();
    let mut violations = Vec::new();
    for (signal, target) in acknowledged {
        let times = consumed.iter().filter(|c| **c == signal).count();
        let is_pending = pending.contains(&signal);
        let should_be = living.contains(&target.0) && times == 0;
        if times > 1 || is_pending != should_be {
            violations.push(format!(
                "I7: signal {signal} was consumed {times} times and is pending: {is_pending}"
            ));
        }
    }
    violations
}

/// I3: a history has what was told to be written, and nothing else.
async fn untrue_histories(world: &World, stage: &Stage, schedule: &Schedule) -> Vec<String> {
    let instances = world.instances().await;
    let mut violations = Vec::new();
    for id in stage.cast.iter().map(|claim| claim.id) {
        let told = schedule.told.iter().flatten();
        let recorded = told.filter_map(|told| match told {
            Told::Recorded { id: of, events } => (*of == id).then_some(*events),
            Told::Changed { .. }
            | Told::Started(_)
            | Told::Sent { .. }
            | Told::Consumed(_)
            | Told::Children { .. }
            | Told::Asked { .. }
            | Told::Nothing(_)
            | Told::Refused(_) => None,
        });
        let is_stored = instances.iter().any(|row| row.id == id.0);
        let expected: usize = if is_stored { recorded.sum() } else { 0 };
        let found = world.events(id).await;
        if found != expected as i64 {
            violations.push(format!(
                "I3: {id} has {found} events, and {expected} were written"
            ));
        }
    }
    violations
}

/// I2: from here everything comes to rest when the work is done, the time passes, and what waits for a
/// signal gets one.
async fn unrest(world: &World, stage: &Stage, retries: bool) -> Vec<String> {
    let before = outlast_core::Clock::now(&world.clock);
    let violations = drive_to_rest(world, stage, retries).await;
    world.clock.set(before);
    violations.unwrap_or_else(|error| vec![format!("an error on the way to rest: {error}")])
}

async fn drive_to_rest(
    world: &World,
    stage: &Stage,
    retries: bool,
) -> outlast_core::Result<Vec<String>> {
    world.clock.advance(Duration::from_secs(48 * 3600));
    let mut stage = stage.clone();
    stage.worker = world.register("to the end", 3600).await;
    let reap = ReapRequest {
        max: 100,
        crashes_max: 100,
    };
    while world.store.cascade(CascadeRequest { max: 1 }).await?.more {}
    let mut violations = world.untold().await;
    for _ in 0..ROUNDS_MAX {
        let fired = world.store.fire(100).await?;
        let reaped = world.store.reap(reap).await?;
        let claims = world.store.claim(request(&stage, 100)).await?.claims;
        let joins = |claim: &&Claim| claim.round > 0 && !stage.is_workflow;
        for claim in claims.iter().filter(joins) {
            let ended = claim
                .children
                .iter()
                .all(|child| child.status.is_terminal());
            // A child that an operator starts again after its join is not waited for.
            if saw_all(claim) && (claim.children.len() != 2 || !(ended || retries)) {
                violations.push(format!("I6: a join saw {:?}", claim.children));
            }
        }
        world
            .store
            .commit(claims.iter().map(ending).collect::<Vec<_>>().into())
            .await?;
        while world.store.cascade(CascadeRequest { max: 10 }).await?.more {}
        violations.extend(world.untold().await);
        if !claims.is_empty() || !fired.woken_instances.is_empty() || !reaped.returned.is_empty() {
            continue;
        }
        let waiting = missing_signals(world).await;
        if waiting.is_empty() {
            break;
        }
        world.store.deliver(waiting, None).await?;
    }
    for instance in world.instances().await {
        if !status(&instance.status).is_terminal() {
            violations.push(format!(
                "I2: {} does not come to rest: it stays {}",
                instance.id, instance.status
            ));
        }
    }
    violations.extend(world.violations(&[]).await);
    Ok(violations)
}

/// A signal for each instance that waits for one.
async fn missing_signals(world: &World) -> Vec<NewSignal> {
    let instances = world.instances().await;
    instances
        .iter()
        .filter(|instance| instance.status == "awaiting_signal")
        .map(|instance| NewSignal::new(InstanceId(instance.id).into(), "go", Json::null()))
        .collect()
}

fn status(word: &str) -> Status {
    word.parse().expect("the schema knows only these")
}
