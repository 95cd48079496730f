//! Checks what a schedule left behind: the invariants, and the effects that its verbs reported.

use super::act::{Act, Effect, ending, request, saw_all};
use super::scheduler::{Scenario, Schedule};
use super::stage::Stage;
use super::world::{Row, World, Written};
use outlast_core::{
    CascadeRequest, Claim, Inspect, InstanceId, Json, NewSignal, ReapRequest, RepairNeed,
    RepairScope, SignalId, Status, Store, Until,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How many rounds of work a state may take to come to rest.
const ROUNDS_MAX: usize = 12;

/// The violations found so far, by final state. Schedules with the same final state, history and
/// effects are checked once.
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
            schedule.effects,
            schedule.deadlocked
        );
        if let Some(known) = self.0.get(&ending) {
            return known.clone();
        }
        let mut violations = world.violations(&stage.received).await;
        violations.extend(needless_repairs(world).await);
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
        violations.extend(lost_signals(world, stage, schedule, &history).await);
        violations.extend(untrue_replies(world, schedule, &history).await);
        violations.extend(unnamed_signals(world, schedule, &history).await);
        violations.extend(untrue_histories(world, stage, schedule).await);
        // Last, because it changes the state.
        let retries = scenario.count(|act| matches!(act, Act::Retry(_)));
        violations.extend(unrest(world, stage, retries > 0).await);
        self.0.insert(ending, violations.clone());
        violations
    }
}

/// No instance needs a repair: nothing that the verbs leave behind is taken for lost.
async fn needless_repairs(world: &World) -> Vec<String> {
    let scope = RepairScope::Page {
        after: None,
        max: 100,
    };
    let needing = world.store.needing_repair(scope).await;
    let needing = needing.expect("the instances can be checked").found;
    let violation = |(id, need): (InstanceId, RepairNeed)| format!("I2: {id} is lost: {need}");
    needing.into_iter().map(violation).collect()
}

/// I3, I4: revisions grow by one, and each status may become the next one.
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

/// I6: a parent is released only when its join is decided.
///
/// Either enough children of the round have ended, at the latest in the same transaction. Or its
/// deadline has come, or it was cancelled.
async fn early_joins(world: &World, history: &[Written]) -> Vec<String> {
    let released = |written: &Written| written.is_move("awaiting_children", "runnable");
    let mut violations = Vec::new();
    for (place, release) in history.iter().enumerate().filter(|(_, w)| released(w)) {
        let mut before: BTreeMap<i64, Status> = BTreeMap::new();
        // The status of each child before the sessions, then with the writes up to the release.
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
        // A machine has one join. A workflow can have several join sets, and the nearest counts.
        let numbers = parent.joining.iter().flatten().map(|(_, set)| *set);
        let sets: Vec<Option<i32>> = match &parent.joining {
            None => vec![None],
            Some(_) => numbers.map(Some).collect(),
        };
        let mut nearest: Option<Vec<(i64, Status)>> = None;
        let mut failed = 0;
        for set in sets {
            let is_awaited = |child: &&Row| match (&parent.joining, child.parent_round, set) {
                (Some(rounds), Some(round), Some(set)) => rounds.contains(&(round, set)),
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
            // A signal may have woken a workflow.
            None => parent.is_cancelled || parent.joining.is_some(),
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

/// I13: an instance that was cancelled while it ran starts no children afterwards. The outcomes
/// here do not answer the cancel.
async fn starts_after_a_cancel(
    world: &World,
    schedule: &Schedule,
    history: &[Written],
) -> Vec<String> {
    let instances = world.instances().await;
    let mut violations = Vec::new();
    for effect in schedule.effects.iter().flatten() {
        let Effect::CancelRequested {
            id,
            was: Status::Executing,
        } = effect
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

/// Defect 6 (docs/protocol.md): no child is removed before its parent has ended.
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

/// I8: no instance starts while an older one of its key has been runnable from the beginning.
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
            let was_runnable = match later.and_then(|written| written.was.as_ref()) {
                Some((was, _)) => was == "runnable",
                None => elder.status == "runnable",
            };
            if was_runnable && !moved {
                violations.push(format!("I8: {} started before {}", claimed.id, elder.id));
            }
        }
    }
    violations
}

/// I3: the verb that made a change reported it, and every reported change was made.
fn untrue_answers(schedule: &Schedule, history: &[Written]) -> Vec<String> {
    let mut violations = Vec::new();
    for (session, effects) in schedule.effects.iter().enumerate() {
        let mut written: Vec<&Written> = history
            .iter()
            .filter(|written| written.session == session)
            .collect();
        for effect in effects {
            match effect {
                Effect::Changed { .. } => match written.iter().position(|w| is_same(effect, w)) {
                    Some(place) => drop(written.remove(place)),
                    None => violations.push(format!(
                        "I3: untrue answer: session {session} got {effect:?}"
                    )),
                },
                Effect::Children { all, children } => {
                    let live = children.iter().any(|(_, s)| !s.is_terminal());
                    if *all && (children.len() != 2 || live) {
                        violations.push(format!("I6: a join saw {children:?}"));
                    }
                }
                Effect::Started(id) => {
                    let started = |w: &Written| w.session == session && w.was.is_none();
                    if !history.iter().any(|w| started(w) && w.id == id.0) {
                        violations.push(format!("I1: untrue answer: {id} was not started"));
                    }
                }
                Effect::Refused(reason) => violations.push(format!("an error: {reason}")),
                Effect::CancelRequested { .. }
                | Effect::Sent { .. }
                | Effect::Named { .. }
                | Effect::Consumed(_)
                | Effect::Replied(_)
                | Effect::Recorded { .. }
                | Effect::Nothing(_) => {}
            }
        }
        for written in written.into_iter().filter(|written| is_reported(written)) {
            violations.push(format!("I3: session {session} did not report {written:?}"));
        }
    }
    violations
}

/// Whether verbs report such a change. They do not report started children and released parents.
fn is_reported(written: &Written) -> bool {
    written.was.as_ref().is_some_and(|(was, old)| {
        was != "awaiting_children" || written.is.as_ref().is_none_or(|(_, new)| new != old)
    })
}

fn is_same(effect: &Effect, written: &Written) -> bool {
    let Effect::Changed {
        id,
        from,
        to,
        revision,
    } = effect
    else {
        return false;
    };
    let was_revision = written.was.as_ref().map(|(_, revision)| *revision);
    let is_revision = written.is.as_ref().map(|(_, revision)| *revision);
    written.id == id.0
        && from.is_none_or(|from| Some(from.0) == was_revision)
        && revision.is_none_or(|revision| Some(revision.0) == is_revision)
        // Stores keep `sleeping` as `awaiting_signal`.
        && written.is.as_ref().map(|(is, _)| status(is)) == to.map(Status::stored)
}

/// I7: an acknowledged signal is pending, or was consumed by exactly one commit, or its instance
/// ended.
async fn lost_signals(
    world: &World,
    stage: &Stage,
    schedule: &Schedule,
    history: &[Written],
) -> Vec<String> {
    let mut acknowledged: Vec<(SignalId, InstanceId)> = stage
        .received
        .iter()
        .map(|signal| (*signal, stage.cast[0].id))
        .collect();
    let mut consumed: Vec<SignalId> = Vec::new();
    for effect in schedule.effects.iter().flatten() {
        match effect {
            Effect::Sent { id, target } => acknowledged.push((*id, *target)),
            Effect::Consumed(signals) => consumed.extend(signals),
            Effect::Changed { .. }
            | Effect::Replied(_)
            | Effect::Named { .. }
            | Effect::Started(_)
            | Effect::Children { .. }
            | Effect::Recorded { .. }
            | Effect::CancelRequested { .. }
            | Effect::Nothing(_)
            | Effect::Refused(_) => {}
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
        // An end empties the inbox, also of an instance that was retried since.
        if was_retried(history, target.0) {
            continue;
        }
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

fn was_retried(history: &[Written], id: i64) -> bool {
    let mut changes = history.iter().filter(|written| written.id == id);
    changes.any(|written| {
        let has_ended = |side: &Option<(String, i64)>| {
            side.as_ref()
                .is_some_and(|(word, _)| status(word).is_terminal())
        };
        has_ended(&written.was) && written.is.is_some() && !has_ended(&written.is)
    })
}

/// I7: an update has a reply if and only if a commit that was written has replied to it.
///
/// Without a reply, it waits in the inbox of its instance, or its instance has ended. If that was
/// retried since, the update says so.
async fn untrue_replies(world: &World, schedule: &Schedule, history: &[Written]) -> Vec<String> {
    let effects = || schedule.effects.iter().flatten();
    let replied: Vec<SignalId> = effects().flat_map(Effect::replied).copied().collect();
    let consumed: Vec<SignalId> = effects().flat_map(Effect::consumed).copied().collect();
    let instances = world.instances().await;
    let mut violations = Vec::new();
    for update in world.updates().await {
        let lives = instances
            .iter()
            .any(|row| row.id == update.target && !status(&row.status).is_terminal());
        let is_open = update.is_pending || consumed.contains(&update.id);
        let expected = match replied.contains(&update.id) {
            true => Some("done"),
            false if lives && !is_open && was_retried(history, update.target) => Some("ended"),
            false => None,
        };
        // The end that follows a retry leaves the mark of the retry.
        let may_be_marked = expected.is_none() && !lives && was_retried(history, update.target);
        let is_right = match update.reply.as_deref() {
            Some("ended") if may_be_marked => true,
            found => found == expected,
        };
        if !is_right {
            violations.push(format!(
                "I7: update {} has the reply {:?} instead of {expected:?}",
                update.id, update.reply
            ));
        }
        if expected.is_none() && lives && !is_open {
            violations.push(format!(
                "I7: update {} left the inbox without a reply",
                update.id
            ));
        }
    }
    violations
}

/// I7: a step that runs ahead is told of every signal that was acknowledged before its commit.
///
/// In a session one verb follows the answer of another. A signal that meets the last commit is
/// noted on the row, for the next one.
async fn unnamed_signals(world: &World, schedule: &Schedule, history: &[Written]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut noted: BTreeMap<i64, SignalId> = BTreeMap::new();
    for effects in &schedule.effects {
        let mut sent: BTreeMap<i64, SignalId> = BTreeMap::new();
        for effect in effects {
            match effect {
                Effect::Sent { id, target } => {
                    sent.insert(target.0, *id);
                    let latest = noted.entry(target.0).or_insert(*id);
                    *latest = (*latest).max(*id);
                }
                Effect::Named { id, latest } if sent.get(&id.0).copied() > *latest => {
                    violations.push(format!(
                        "I7: a commit of {id} named {latest:?} after {:?} was sent",
                        sent.get(&id.0)
                    ));
                }
                Effect::Named { .. }
                | Effect::Changed { .. }
                | Effect::Started(_)
                | Effect::Consumed(_)
                | Effect::Replied(_)
                | Effect::Recorded { .. }
                | Effect::Children { .. }
                | Effect::CancelRequested { .. }
                | Effect::Nothing(_)
                | Effect::Refused(_) => {}
            }
        }
    }
    for row in world.instances().await {
        // A claim that began during the schedule has the earlier signals in its inbox.
        let was_claimed = history.iter().any(|written| {
            let executes = |it: &Option<(String, i64)>| {
                it.as_ref().is_some_and(|(status, _)| status == "executing")
            };
            written.id == row.id && executes(&written.is) && !executes(&written.was)
        });
        let expected = noted.get(&row.id).copied();
        if row.status == "executing" && !was_claimed && row.latest_signal < expected {
            violations.push(format!(
                "I7: {} executes, and {:?} is noted instead of {expected:?}",
                row.id, row.latest_signal
            ));
        }
    }
    violations
}

/// I3: a history has exactly the reported events.
async fn untrue_histories(world: &World, stage: &Stage, schedule: &Schedule) -> Vec<String> {
    let instances = world.instances().await;
    let mut violations = Vec::new();
    for id in stage.cast.iter().map(|claim| claim.id) {
        let effects = schedule.effects.iter().flatten();
        let recorded = effects.filter_map(|effect| match effect {
            Effect::Recorded { id: of, events } => (*of == id).then_some(*events),
            Effect::Changed { .. }
            | Effect::Started(_)
            | Effect::Sent { .. }
            | Effect::Named { .. }
            | Effect::Consumed(_)
            | Effect::Replied(_)
            | Effect::Children { .. }
            | Effect::CancelRequested { .. }
            | Effect::Nothing(_)
            | Effect::Refused(_) => None,
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

/// I2: every instance comes to rest once the work is done, time passes, and waiting instances get
/// their signals.
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
    let mut violations = world.unclosed_children().await;
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
            // A join does not wait for a child that an operator retried after the join.
            if saw_all(claim) && (claim.children.len() != 2 || !(ended || retries)) {
                violations.push(format!("I6: a join saw {:?}", claim.children));
            }
        }
        world
            .store
            .commit(claims.iter().map(ending).collect::<Vec<_>>().into())
            .await?;
        while world.store.cascade(CascadeRequest { max: 10 }).await?.more {}
        violations.extend(world.unclosed_children().await);
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
    word.parse().expect("the schema has only these statuses")
}
