//! Counts the kinds of answers. So a generator that stops producing a case is noticed.

mod expected;

use super::calls::{Call, Reply};
use super::state::State;
use expected::EXPECTED;
use outlast_core::{
    Answer, CancelAnswer, Cascaded, Claim, Commit, Count, DeleteAnswer, Delivery, Flowing,
    Heartbeat, Inserted, Instance, Joined, Outcome, Proceed, ReleaseAnswer, RepairAnswer,
    RetryAnswer, SignalledOrInserted, Status, TerminateAnswer, UpdateState,
};
use std::collections::BTreeMap;
use std::fmt;

/// How often each kind of answer came.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    pub(super) fn add(&mut self, other: Coverage) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// Returns the expected kinds that did not occur.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let expected = EXPECTED.iter().flat_map(|line| line.split(", "));
        expected
            .filter(|what| !self.0.contains_key(*what))
            .collect()
    }

    /// Counts one verb: its answer, and its changes to `before`.
    pub(super) fn count(&mut self, call: &Call, reply: &Reply, before: &State, after: &State) {
        for what in kinds_of(call, reply) {
            self.note(what);
        }
        if let (Call::Commit(commits), Reply::Committed(committed)) = (call, reply) {
            let answers = commits.iter().zip(&committed.answers);
            let met = answers.filter_map(|(it, answer)| cancel_kind(it, answer, before));
            met.for_each(|what| self.note(what));
            let answers = commits.iter().zip(&committed.answers);
            let names_signal = answers.filter_map(|(it, answer)| signal_kind(it, answer));
            names_signal.for_each(|what| self.note(what));
            for (commit, answer) in commits.iter().zip(&committed.answers) {
                for what in reply_kinds(commit, answer, before) {
                    self.note(what);
                }
            }
        }
        for ((id, _), found) in &after.updates {
            let is_live = after
                .instance(*id)
                .is_some_and(|row| !row.status.is_terminal());
            match found.as_ref().map(|update| &update.state) {
                Some(UpdateState::Ended) if is_live => self.note("update: ended before a retry"),
                Some(UpdateState::Ended) => self.note("update: ended"),
                Some(UpdateState::Pending) => self.note("update: pending"),
                Some(UpdateState::Replied(_)) => self.note("update: replied"),
                None => self.note("update: none"),
            }
        }
        for old in &before.instances {
            let Some(new) = after.instance(old.id) else {
                continue;
            };
            if old.status == Status::AwaitingChildren && new.status == old.status {
                match new.children_pending - old.children_pending {
                    0 => {}
                    1.. => self.note("join: one more again"),
                    _ => self.note("join: one less"),
                }
            }
            if old.status == Status::AwaitingChildren && new.status == Status::Runnable {
                self.note("join: released");
            }
            if old.joining.is_some() && old.status == Status::AwaitingChildren {
                if new.status == Status::Runnable {
                    self.note(format!("workflow woken: {}", name_of(call)));
                } else if new.children_pending < old.children_pending {
                    self.note("workflow: one less");
                }
            }
            let sets = new.joining.as_deref().unwrap_or_default();
            if new.round > old.round && sets.iter().any(|part| part.ranges.len() > 1) {
                self.note("workflow: waits for several rounds");
            }
            if new.revision > old.revision && sets.len() > 1 {
                self.note("workflow: waits for several sets");
            }
            self.count_missing(old, new);
            if let Some(joined) = new.barrier.and_then(|it| it.joined)
                && old.barrier.and_then(|it| it.joined).is_none()
            {
                self.note(format!("joined: {joined}"));
            }
            match (old.held, new.held) {
                (Some(true), Some(false)) if new.status.is_terminal() => {
                    self.note("window: ended without a place");
                }
                (Some(true), Some(false)) => self.note("window: a place was passed on"),
                _ => {}
            }
            if old.holds_key && !new.holds_key && !new.status.is_terminal() {
                self.note("key: released alive");
            }
        }
        if let Call::Deregister(worker) = call {
            let knows = |state: &State| state.workers.iter().any(|it| it.id == *worker);
            match (knows(before), knows(after)) {
                (true, true) => self.note("deregister: expired"),
                (true, false) => self.note("deregister: removed"),
                (false, _) => self.note("deregister: unknown"),
            }
        }
    }

    /// Counts the partial progress of a workflow that needs all, and the event that then woke it.
    fn count_missing(&mut self, old: &Instance, new: &Instance) {
        let names = |row: &Instance| row.awaits.as_ref().map_or(0, Vec::len);
        if !old.needs_all {
            return;
        }
        if !new.needs_all {
            let is_bad = new.barrier.and_then(|it| it.joined) == Some(Joined::Failure);
            self.note(match is_bad {
                true => "needs all: woken by a bad end",
                false => "needs all: woken",
            });
            return;
        }
        if old.status != new.status {
            self.note("needs all: the ends have come");
        }
        if names(new) < names(old) {
            self.note("needs all: a signal has come");
        }
        if old.await_deadline.is_some() && new.await_deadline.is_none() {
            self.note("needs all: the moment has come");
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>8}  {what}")?;
        }
        Ok(())
    }
}

fn kinds_of(call: &Call, reply: &Reply) -> Vec<String> {
    match (call, reply) {
        (_, Reply::Refused(kind, _)) => vec![format!("{}: {kind:?}", name_of(call))],
        (_, Reply::Inserted(it)) => it.rows.iter().map(insert_kind).map(Into::into).collect(),
        (_, Reply::Claimed(claimed)) => {
            let mut kinds = vec![match (claimed.paused, claimed.claims.len()) {
                (true, _) => "claim: paused".to_owned(),
                (false, 0) => "claim: none".to_owned(),
                (false, _) => "claim: some".to_owned(),
            }];
            for claim in &claimed.claims {
                let with = [
                    (claim.awaited().count() > 0, "claim: with awaited"),
                    (claim.awaited().count() > 1, "claim: with a pack"),
                    (!claim.children.is_empty(), "claim: with children"),
                    (!claim.dropped.is_empty(), "claim: with dropped"),
                    (claim.round > 1, "claim: later round"),
                    (claim.partition_key.is_some(), "claim: keyed"),
                    (claim.crashes > 0, "claim: crashed before"),
                    (claim.is_to_answer_cancel(), "claim: to answer a cancel"),
                    (claim.first_failure.is_some(), "claim: with a first failure"),
                    (has_error_value(claim), "claim: with a child's error value"),
                    (claim.windowed, "claim: with a place"),
                    (claim.run > 1, "claim: later run"),
                    (claim.events > 0, "claim: with a history"),
                ];
                let with = with.iter().filter(|(has, _)| *has);
                kinds.extend(with.map(|(_, kind)| (*kind).to_owned()));
            }
            kinds
        }
        (Call::Commit(commits), Reply::Committed(committed)) => {
            let answers = commits.iter().zip(&committed.answers);
            let left = committed
                .cascades
                .then(|| "commit: left a cascade".to_owned());
            answers
                .map(|(it, answer)| commit_kind(&it.outcome, answer))
                .chain(left)
                .collect()
        }
        (_, reply) => other_kinds(call, reply),
    }
}

fn has_error_value(claim: &Claim) -> bool {
    let mut failed = claim.children.iter();
    failed.any(|child| child.status == Status::Failed && child.result.is_some())
}

fn insert_kind(row: &Inserted) -> &'static str {
    match row {
        Inserted::New { claimed: None, .. } => "insert: new",
        Inserted::New {
            claimed: Some(_), ..
        } => "insert: claimed",
        Inserted::Duplicate { .. } => "insert: duplicate",
    }
}

fn commit_kind(outcome: &Outcome, answer: &Answer) -> String {
    let has_value = matches!(outcome, Outcome::Fail { error: Some(_), .. });
    let outcome = match has_value {
        true => "fail with a value",
        false => outcome_name(outcome),
    };
    match answer {
        Answer::Committed { status, .. } => format!("commit {outcome}: {status}"),
        Answer::Cancel(_) => format!("commit {outcome}: a cancel first"),
        Answer::Lost => format!("commit {outcome}: lost"),
        Answer::Rejected(_) => format!("commit {outcome}: rejected"),
    }
}

/// Returns how an outcome met an unanswered cancel.
fn cancel_kind(commit: &Commit, answer: &Answer, before: &State) -> Option<String> {
    let row = before.instance(commit.claim.id)?;
    row.cancel.as_ref().filter(|cancel| !cancel.answered)?;
    let outcome = outcome_name(&commit.outcome);
    let met = match commit.answers_cancel {
        true => "answers",
        false => "meets",
    };
    match answer {
        Answer::Committed { .. } => Some(format!("{outcome} {met} a cancel")),
        Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_) => None,
    }
}

/// Returns what became of the replies of an outcome.
fn reply_kinds(commit: &Commit, answer: &Answer, before: &State) -> Vec<String> {
    if commit.replies.is_empty() {
        return Vec::new();
    }
    match answer {
        Answer::Committed { .. } => {}
        Answer::Cancel(_) => return vec!["reply: a cancel first".into()],
        Answer::Lost => return vec!["reply: lost".into()],
        Answer::Rejected(_) => return vec!["reply: rejected".into()],
    }
    let replies = commit.replies.iter();
    let kinds = replies.flat_map(|reply| {
        let row = before.signals.iter().find(|it| it.id == reply.signal);
        let row = row.filter(|it| it.target == commit.claim.id);
        let asked = row.and_then(|it| {
            let id = it.dedup_key.clone().filter(|_| it.wants_reply)?;
            let found = before.updates.get(&(it.target, id))?.as_ref()?;
            Some((it, &found.state))
        });
        let kind = match (row, asked) {
            (None, _) => "reply: to another instance's signal",
            (Some(_), None) => "reply: to a plain signal",
            (_, Some((_, UpdateState::Replied(_)))) => "reply: a second one",
            (_, Some((_, UpdateState::Ended))) => "reply: after a retry",
            (_, Some((it, UpdateState::Pending))) => {
                let to = match it.consumed_at {
                    Some(_) => "reply: to a tombstone",
                    None => "reply: to the inbox",
                };
                let with = format!("reply: with {}", outcome_name(&commit.outcome));
                return vec![to.to_owned(), with];
            }
        };
        vec![kind.to_owned()]
    });
    kinds.collect()
}

/// Returns how an outcome that kept its claim met a signal that came after the claim.
fn signal_kind(commit: &Commit, answer: &Answer) -> Option<String> {
    let Answer::Committed {
        latest_signal: Some(_),
        ..
    } = answer
    else {
        return None;
    };
    let outcome = match commit.outcome.begins_round() {
        true => "flow with children",
        false => outcome_name(&commit.outcome),
    };
    Some(format!("{outcome} names a signal"))
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Next {
            proceed: Proceed::KeepClaim,
            ..
        } => "keep",
        Outcome::Next {
            proceed: Proceed::Requeue,
            ..
        } => "requeue",
        Outcome::Retry { .. } => "retry",
        Outcome::Wait { .. } => "wait",
        Outcome::FanOut { .. } => "fan out",
        Outcome::Flow {
            then: Flowing::Proceed(Proceed::KeepClaim),
            ..
        } => "flow on",
        Outcome::Flow {
            then: Flowing::Proceed(Proceed::Requeue),
            ..
        } => "flow requeued",
        Outcome::Flow {
            then: Flowing::Park(_),
            ..
        } => "park",
        Outcome::ContinueAsNew { .. } => "continue_as_new",
        Outcome::Done { .. } => "done",
        Outcome::Fail { .. } => "fail",
        Outcome::Cancel { .. } => "cancel",
    }
}

fn cascade_kinds(it: &Cascaded) -> Vec<String> {
    let kinds = [
        (it.requested.is_empty(), "cascade: requested"),
        (it.ended.is_empty(), "cascade: ended"),
        (it.running.is_empty(), "cascade: running"),
        (!it.more, "cascade: more"),
        (it != &Cascaded::default(), "cascade: nothing"),
    ];
    let kinds = kinds.into_iter().filter(|(not, _)| !not);
    kinds.map(|(_, kind)| kind.to_owned()).collect()
}

fn other_kinds(call: &Call, reply: &Reply) -> Vec<String> {
    fn if_any<T>(rows: &[T], kind: &str) -> Option<String> {
        (!rows.is_empty()).then(|| kind.to_owned())
    }
    match reply {
        Reply::Released(it) => {
            let kind = |it: &ReleaseAnswer| match it {
                ReleaseAnswer::Released => "release: released".to_owned(),
                ReleaseAnswer::Lost => "release: lost".to_owned(),
            };
            it.answers.iter().map(kind).collect()
        }
        Reply::Claims(claims) => if_any(claims, "claims of: some").into_iter().collect(),
        Reply::Inbox(None) => vec!["inbox: lost".into()],
        Reply::Inbox(Some(signals)) => if_any(signals, "inbox: some").into_iter().collect(),
        Reply::Delivered(it) => {
            let kind = |it: &Delivery| match it {
                Delivery::Delivered { woke: true, .. } => "deliver: woke".to_owned(),
                Delivery::Delivered { woke: false, .. } => "deliver: kept".to_owned(),
                Delivery::Duplicate { .. } => "deliver: duplicate".to_owned(),
                Delivery::NoTarget => "deliver: no target".to_owned(),
                Delivery::InboxFull { .. } => "deliver: inbox full".to_owned(),
            };
            let claimed = it.claims.iter().map(|claim| match claim.inbox.len() {
                0 | 1 => "deliver: claimed".to_owned(),
                _ => "deliver: claimed with a pack".to_owned(),
            });
            it.answers.iter().map(kind).chain(claimed).collect()
        }
        Reply::SignalledOrInserted(it) => vec![signal_or_insert_kind(it).to_owned()],
        Reply::Beat(Heartbeat::Renewed) => vec!["heartbeat: renewed".into()],
        Reply::Beat(Heartbeat::Gone) => vec!["heartbeat: gone".into()],
        Reply::Reaped(it) => {
            let more = it.more.then(|| "reap: more".to_owned());
            [
                if_any(&it.returned, "reap: returned"),
                if_any(&it.failed, "reap: failed"),
                if_any(&it.removed, "reap: removed"),
                more,
                it.cascades.then(|| "reap: left a cascade".to_owned()),
            ]
            .into_iter()
            .flatten()
            .collect()
        }
        Reply::Fired(it) => {
            let left = it.cascades.then(|| "fire: left a cascade".to_owned());
            let woke = if_any(&it.woken_instances, "fire: woke");
            woke.into_iter().chain(left).collect()
        }
        Reply::TimedOut(it) => {
            let left = it.cascades.then(|| "time out: left a cascade".to_owned());
            let ended = if_any(&it.ended, "time out: ended");
            let running = if_any(&it.running, "time out: running");
            [ended, running, left].into_iter().flatten().collect()
        }
        Reply::Collected(it) => {
            let more = it.more.then(|| "collect: more".to_owned());
            let removed = if_any(&it.removed, "collect: removed");
            removed.into_iter().chain(more).collect()
        }
        Reply::Cancelled(it) => {
            let kind = |it: &CancelAnswer| match it {
                CancelAnswer::Requested(status) => format!("cancel: {status}"),
                CancelAnswer::AlreadyRequested(_) => "cancel: already requested".into(),
                CancelAnswer::NeverStarted => "cancel: never started".into(),
                CancelAnswer::AlreadyEnded(_) => "cancel: already ended".into(),
                CancelAnswer::NotFound => "cancel: not found".into(),
            };
            let left = it.cascades.then(|| "cancel: left a cascade".to_owned());
            it.answers.iter().map(kind).chain(left).collect()
        }
        Reply::Terminated(it) => {
            let kind = |it: &TerminateAnswer| match it {
                TerminateAnswer::Terminated(status) => format!("terminate: {status}"),
                TerminateAnswer::AlreadyEnded(_) => "terminate: already ended".into(),
                TerminateAnswer::NotFound => "terminate: not found".into(),
            };
            let left = it.cascades.then(|| "terminate: left a cascade".to_owned());
            it.answers.iter().map(kind).chain(left).collect()
        }
        Reply::Cascaded(it) => cascade_kinds(it),
        Reply::Retried(it) => {
            let kind = |it: &RetryAnswer| match it {
                RetryAnswer::Retried => "retry: retried".to_owned(),
                RetryAnswer::NotEndedBadly(_) => "retry: not ended badly".to_owned(),
                RetryAnswer::NotFound => "retry: not found".to_owned(),
            };
            it.answers.iter().map(kind).collect()
        }
        Reply::Deleted(answers) => {
            let kind = |it: &DeleteAnswer| match it {
                DeleteAnswer::Deleted => "delete: deleted".to_owned(),
                DeleteAnswer::NotEnded(_) => "delete: not ended".to_owned(),
                DeleteAnswer::ParentLives(_) => "delete: parent lives".to_owned(),
                DeleteAnswer::Cascading => "delete: cascading".to_owned(),
                DeleteAnswer::NotFound => "delete: not found".to_owned(),
            };
            answers.iter().map(kind).collect()
        }
        Reply::Changed(true) => vec![format!("{}: changed", name_of(call))],
        Reply::Changed(false) => vec![format!("{}: as it was", name_of(call))],
        Reply::NeedingRepair(it) => {
            let some = if_any(&it.found, "needing repair: some");
            some.into_iter()
                .chain(["needing repair: looked".into()])
                .collect()
        }
        Reply::Repaired(it) => {
            let kind = |it: &RepairAnswer| match it {
                RepairAnswer::Repaired(need) => format!("repair: {need}"),
                RepairAnswer::NotNeeded(_) => "repair: not needed".to_owned(),
                RepairAnswer::NotFound => "repair: not found".to_owned(),
            };
            it.answers.iter().map(kind).collect()
        }
        Reply::Counted(it) => {
            let more = it.next.map(|_| "count_by_step: more".to_owned());
            let some = if_any(&it.groups, "count_by_step: some");
            some.into_iter().chain(more).collect()
        }
        Reply::Rounds(rounds) => if_any(rounds, "rounds: some").into_iter().collect(),
        Reply::CloseActions(operations) => if_any(operations, "close_actions: some")
            .into_iter()
            .collect(),
        Reply::Family(Some(_)) => vec!["family: counted".into()],
        Reply::History(events) => if_any(events, "history: some").into_iter().collect(),
        Reply::Family(None) => vec!["family: not found".into()],
        Reply::Found(_, Some(_), _) => vec!["search: more".into()],
        Reply::Found(_, None, Count::Exactly(0)) => vec!["search: none".into()],
        Reply::Found(_, None, _) => vec!["search: some".into()],
        Reply::Recorded(it) => if_any(&it.runs, "record: recorded").into_iter().collect(),
        Reply::Registered(_) => vec!["register: registered".into()],
        Reply::Inserted(_)
        | Reply::Claimed(_)
        | Reply::Committed(_)
        | Reply::Deregistered
        | Reply::Refused(..) => Vec::new(),
    }
}

fn signal_or_insert_kind(it: &SignalledOrInserted) -> &'static str {
    match (it.inserted, it.delivery) {
        (Some(_), _) => "signal or insert: inserted",
        (None, Delivery::Delivered { woke: true, .. }) => "signal or insert: woke",
        (None, Delivery::Delivered { woke: false, .. }) => "signal or insert: kept",
        (None, Delivery::Duplicate { .. }) => "signal or insert: duplicate",
        (None, Delivery::NoTarget) => "signal or insert: no target",
        (None, Delivery::InboxFull { .. }) => "signal or insert: inbox full",
    }
}

fn name_of(call: &Call) -> &'static str {
    match call {
        Call::Insert(..) => "insert",
        Call::Claim(_) => "claim",
        Call::Commit(_) => "commit",
        Call::Release(_) => "release",
        Call::ClaimsOf(_) => "claims of",
        Call::Inbox(_) => "inbox",
        Call::Deliver(..) => "deliver",
        Call::SignalOrInsert(_) => "signal or insert",
        Call::Register(_) => "register",
        Call::Heartbeat(..) => "heartbeat",
        Call::Deregister(_) => "deregister",
        Call::Reap(_) => "reap",
        Call::Fire(_) => "fire",
        Call::TimeOut(_) => "time out",
        Call::Collect(_) => "collect",
        Call::NeedingRepair(_) => "needing repair",
        Call::Repair(..) => "repair",
        Call::Cancel(..) => "cancel",
        Call::Terminate(..) => "terminate",
        Call::Cascade(_) => "cascade",
        Call::Retry(..) => "retry",
        Call::Delete(..) => "delete",
        Call::Pause(..) => "pause",
        Call::Resume(..) => "resume",
        Call::StepCounts(_) => "count_by_step",
        Call::Rounds(_) => "rounds",
        Call::CloseActions(_) => "close_actions",
        Call::Family(_) => "family",
        Call::History(_) => "history",
        Call::Search(_) => "search",
        Call::Record(_) => "record",
    }
}
