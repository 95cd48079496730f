//! What the sequences did: a generator that has gone blind shows here.

use super::calls::{Call, Reply};
use super::state::State;
use outlast_core::{
    Answer, CancelAnswer, Count, DeleteAnswer, Delivery, Heartbeat, Inserted, Outcome, Proceed,
    ReleaseAnswer, RetryAnswer, SignalledOrInserted, Status,
};
use std::collections::BTreeMap;
use std::fmt;

/// How often each kind of answer came.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// What should have happened and did not.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let expected = EXPECTED.iter().flat_map(|line| line.split(", "));
        expected
            .filter(|what| !self.0.contains_key(*what))
            .collect()
    }

    /// Counts one verb: its answer, and what it did to `before`.
    pub(super) fn count(&mut self, call: &Call, reply: &Reply, before: &State, after: &State) {
        for what in kinds_of(call, reply) {
            self.note(what);
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

    fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }
}

impl fmt::Display for Tally {
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
                ];
                let with = with.iter().filter(|(has, _)| *has);
                kinds.extend(with.map(|(_, kind)| (*kind).to_owned()));
            }
            kinds
        }
        (Call::Commit(commits), Reply::Committed(committed)) => {
            let answers = commits.iter().zip(&committed.answers);
            answers
                .map(|(it, answer)| commit_kind(&it.outcome, answer))
                .collect()
        }
        (_, reply) => other_kinds(call, reply),
    }
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
    let outcome = match outcome {
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
        Outcome::Done { .. } => "done",
        Outcome::Stop { .. } => "stop",
        Outcome::Cancel { .. } => "cancel",
    };
    match answer {
        Answer::Committed { status, .. } => format!("commit {outcome}: {status}"),
        Answer::Lost => format!("commit {outcome}: lost"),
        Answer::Rejected(_) => format!("commit {outcome}: rejected"),
    }
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
            ]
            .into_iter()
            .flatten()
            .collect()
        }
        Reply::Fired(it) => if_any(&it.woken_instances, "fire: woke")
            .into_iter()
            .collect(),
        Reply::Collected(it) => {
            let more = it.more.then(|| "collect: more".to_owned());
            let removed = if_any(&it.removed, "collect: removed");
            removed.into_iter().chain(more).collect()
        }
        Reply::Cancelled(it) => {
            let kind = |it: &CancelAnswer| match it {
                CancelAnswer::Cancelled(status) => format!("cancel: {status}"),
                CancelAnswer::AlreadyEnded(_) => "cancel: already ended".into(),
                CancelAnswer::NotFound => "cancel: not found".into(),
            };
            it.answers.iter().map(kind).collect()
        }
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
                DeleteAnswer::NotFound => "delete: not found".to_owned(),
            };
            answers.iter().map(kind).collect()
        }
        Reply::Changed(true) => vec![format!("{}: changed", name_of(call))],
        Reply::Changed(false) => vec![format!("{}: as it was", name_of(call))],
        Reply::Reconciled(_) => vec!["reconcile: looked".into()],
        Reply::Surveyed(it) => {
            let more = it.next.map(|_| "survey: more".to_owned());
            let some = if_any(&it.groups, "survey: some");
            some.into_iter().chain(more).collect()
        }
        Reply::Rounds(rounds) => if_any(rounds, "rounds: some").into_iter().collect(),
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
        Call::Deliver(..) => "deliver",
        Call::SignalOrInsert(_) => "signal or insert",
        Call::Register(_) => "register",
        Call::Heartbeat(..) => "heartbeat",
        Call::Deregister(_) => "deregister",
        Call::Reap(_) => "reap",
        Call::Fire(_) => "fire",
        Call::Collect(_) => "collect",
        Call::Reconcile(_) => "reconcile",
        Call::Cancel(..) => "cancel",
        Call::Retry(..) => "retry",
        Call::Delete(..) => "delete",
        Call::Pause(..) => "pause",
        Call::Resume(..) => "resume",
        Call::Survey(_) => "survey",
        Call::Rounds(_) => "rounds",
        Call::Search(_) => "search",
        Call::Record(_) => "record",
    }
}

/// Every kind of answer a run of the usual size must have seen.
const EXPECTED: [&str; 35] = [
    "insert: new, insert: claimed, insert: duplicate, insert: Conflict",
    "claim: some, claim: none, claim: paused, claim: Conflict",
    "claim: with awaited, claim: with a pack, claim: with children, claim: with dropped",
    "claim: later round, claim: keyed, claim: crashed before",
    "commit keep: executing, commit keep: lost",
    "commit requeue: runnable, commit requeue: lost, commit requeue: rejected",
    "commit retry: runnable, commit retry: lost",
    "commit wait: awaiting_signal, commit wait: runnable, commit wait: lost",
    "commit wait: rejected",
    "commit fan out: awaiting_children, commit fan out: runnable, commit fan out: lost",
    "commit done: done, commit done: lost",
    "commit stop: failed, commit stop: lost",
    "commit cancel: cancelled, commit cancel: lost",
    "release: released, release: lost",
    "claims of: some",
    "deliver: woke, deliver: kept, deliver: duplicate, deliver: no target",
    "deliver: claimed, deliver: claimed with a pack, deliver: Conflict",
    "signal or insert: inserted, signal or insert: woke, signal or insert: kept",
    "signal or insert: duplicate, signal or insert: no target, signal or insert: Invalid",
    "register: registered, heartbeat: renewed, heartbeat: gone",
    "deregister: removed, deregister: expired, deregister: unknown",
    "reap: returned, reap: failed, reap: removed, reap: more",
    "fire: woke",
    "collect: removed, collect: more",
    "cancel: runnable, cancel: executing, cancel: awaiting_signal, cancel: awaiting_children",
    "cancel: already ended, cancel: not found",
    "retry: retried, retry: not ended badly, retry: not found",
    "delete: deleted, delete: not ended, delete: parent lives, delete: not found",
    "pause: changed, pause: as it was",
    "resume: changed, resume: as it was",
    "reconcile: looked",
    "survey: some, survey: more, rounds: some, record: recorded",
    "search: some, search: none, search: more",
    "join: one less, join: one more again, join: released",
    "key: released alive",
];
