//! Rules about repairs: each edits a row by hand, since no verb leaves one that needs a repair.
//!
//! [`repair_suite!`](crate::repair_suite) makes a test of each, for a store whose database can be
//! edited.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "these are tests: the name of each is its sentence, and an unexpected error fails it"
)]

use crate::Subject;
use crate::vocabulary::*;
use async_trait::async_trait;
use outlast_core::{
    ChildRange, ClosePolicy, Due, Instance, InstanceId, Join, JoinSet, Joined, Liveness, Note,
    Park, RepairAnswer, RepairNeed, RepairScope, Status, Until, Verb,
};

/// Edits the database of a subject, past its store.
#[async_trait]
pub trait Editor: Send + Sync {
    /// Runs `update instances set CHANGES where id = ID`. Lists are JSON arrays in the text, and
    /// `TIME(N)` is a moment in microseconds since 1970.
    async fn edit(&self, id: InstanceId, changes: &str);
}

/// Makes one test of every rule about repairs.
///
/// Takes the path of an `async fn() -> (Subject, impl Editor)` that opens an empty store.
#[macro_export]
macro_rules! repair_suite {
    ($open:path) => {
        $crate::repair_suite! { $open;
            a_wait_whose_signal_is_in_its_inbox_is_repaired,
            a_wait_for_other_names_than_it_parked_with_is_repaired,
            a_wait_that_keeps_signals_needs_no_repair_until_a_later_one_comes,
            a_sleep_without_a_deadline_is_repaired,
            a_wait_without_names_is_repaired,
            a_group_that_lacks_nothing_is_repaired,
            a_group_that_awaits_a_signal_of_its_inbox_is_repaired,
            a_workflow_that_waits_for_children_and_has_its_signal_is_repaired,
            a_join_that_miscounts_is_counted_again,
            a_join_that_is_decided_is_repaired,
            a_failed_child_beside_a_living_sibling_decides_a_join_that_fails_fast,
            a_failed_child_that_no_join_counted_is_counted,
            a_quorum_that_is_reached_is_repaired,
            a_workflow_is_repaired_when_a_child_has_failed_beside_a_living_sibling,
            a_workflow_is_repaired_when_a_failed_child_was_not_counted,
            a_workflow_is_repaired_when_one_of_several_sets_has_a_failed_child,
            a_workflow_is_repaired_when_the_first_of_its_children_was_not_counted,
            a_workflow_that_waits_for_no_set_of_children_is_repaired,
            a_workflow_that_handled_a_failed_child_needs_no_repair,
            an_instance_behind_a_free_key_is_let_through,
            a_child_gets_a_place_in_a_window_in_which_none_runs,
            several_instances_are_repaired_together_and_each_is_recorded,
            a_repair_changes_nothing_that_something_will_wake,
        }
    };
    ($open:path; $($rule:ident,)*) => {
        $(
            #[test]
            fn $rule() {
                let editor = ::std::cell::OnceCell::new();
                let open = async || {
                    let (subject, edits) = $open().await;
                    let _ = editor.set(edits);
                    subject
                };
                $crate::try_rule($crate::Threads::One, open, async |subject: &$crate::Subject| {
                    $crate::repairs::$rule(subject, editor.get().expect("it is open")).await;
                });
            }
        )*
    };
}

/// Asserts that an instance needs this repair, alone, and that the repair is made and recorded.
async fn assert_repaired(subject: &Subject, id: InstanceId, need: RepairNeed) -> Instance {
    assert_eq!(subject.needing_repair().await, [(id, need)]);
    let before = subject.get(id).await;
    assert_eq!(before.liveness(Some(need)), Liveness::RepairNeeded);
    let (_, row) = repair(subject, id, need).await;
    assert_eq!(
        (row.status, row.eligible_at),
        (Status::Runnable, subject.now())
    );
    assert_eq!(row.await_deadline, None);
    assert_eq!(row.revision, before.revision, "no claim is touched");
    row
}

/// Repairs an instance, and checks what is recorded. Returns the row before and after.
async fn repair(subject: &Subject, id: InstanceId, need: RepairNeed) -> (Instance, Instance) {
    subject.pass(seconds(1));
    let before = subject.get(id).await;
    let ada = Note::by("ada").because("ticket 7");
    let repaired = subject.store.repair(vec![id], ada.clone()).await.unwrap();
    assert_eq!(repaired.answers, [RepairAnswer::Repaired(need)]);
    let row = subject.get(id).await;
    assert_eq!(
        repaired.woken.contains(QUEUE),
        row.status == Status::Runnable
    );
    let operations = subject.operations_on(id).await;
    let operation = &operations[0];
    assert_eq!((operation.verb, &operation.by), (Verb::Repair, &ada.by));
    assert_eq!(operation.reason, need.note(&ada).reason);
    assert_eq!(operation.status_before, Some(before.status));
    assert_eq!(operation.at, subject.now());
    // A second repair finds nothing, and records nothing.
    subject.assert_sound().await;
    assert_eq!(
        subject.repair(id).await,
        RepairAnswer::NotNeeded(row.status)
    );
    assert_eq!(subject.operations_on(id).await, operations);
    assert_eq!(subject.get(id).await, row);
    (before, row)
}

fn all_of(park: Park) -> Park {
    Park {
        needs_all: true,
        ..park
    }
}

pub async fn a_wait_whose_signal_is_in_its_inbox_is_repaired(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (worker, id) = subject.parked(&["go"]).await;
    subject.deliver(signal(id, "go")).await;
    editor.edit(id, "status = 'awaiting_signal'").await;
    assert_repaired(subject, id, RepairNeed::SignalArrived).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.awaited().count(), 1);
}

pub async fn a_wait_for_other_names_than_it_parked_with_is_repaired(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, id) = subject.parked(&["go"]).await;
    subject.deliver(signal(id, "stop")).await;
    subject.assert_sound().await;
    editor.edit(id, r#"awaits = '["go","stop"]'"#).await;
    assert_repaired(subject, id, RepairNeed::SignalArrived).await;
}

/// Defect 11: signals that the step was handed do not wake the next wait for their names.
pub async fn a_wait_that_keeps_signals_needs_no_repair_until_a_later_one_comes(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (worker, id) = subject.parked(&["go"]).await;
    subject.deliver(signal(id, "go")).await;
    let claim = subject.claim_the(worker, id).await;
    let mut again = commit_of(&claim, wait_for(&["go"]));
    again.received = claim.awaited().map(|it| it.id).collect();
    subject.commit_all(vec![again]).await;
    assert_eq!(subject.status(id).await, Status::AwaitingSignal);
    subject.assert_sound().await;
    subject.pass(seconds(5));
    subject.assert_sound().await;
    subject.deliver(signal(id, "go")).await;
    editor.edit(id, "status = 'awaiting_signal'").await;
    assert_repaired(subject, id, RepairNeed::SignalArrived).await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.awaited().count(), 2);
}

pub async fn a_sleep_without_a_deadline_is_repaired(subject: &Subject, editor: &impl Editor) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit(&claim, wait_at_most(&[], seconds(60))).await;
    assert_eq!(subject.status(claim.id).await, Status::Sleeping);
    subject.assert_sound().await;
    editor.edit(claim.id, "await_deadline = null").await;
    assert_repaired(subject, claim.id, RepairNeed::NothingAwaited).await;
    subject.claim_the(worker, claim.id).await;
}

pub async fn a_wait_without_names_is_repaired(subject: &Subject, editor: &impl Editor) {
    let (_, id) = subject.parked(&["go"]).await;
    editor.edit(id, "awaits = '[]'").await;
    assert_repaired(subject, id, RepairNeed::NothingAwaited).await;
}

pub async fn a_group_that_lacks_nothing_is_repaired(subject: &Subject, editor: &impl Editor) {
    let (_, claim) = subject.running(task()).await;
    let group = all_of(for_signals(&["a", "b"]));
    subject.commit(&claim, park(group)).await;
    subject.deliver(signal(claim.id, "a")).await;
    subject.assert_sound().await;
    subject.deliver(signal(claim.id, "b")).await;
    // The last signal was taken off the awaited names, and the wake-up is lost.
    editor.edit(claim.id, "status = 'awaiting_signal'").await;
    assert_repaired(subject, claim.id, RepairNeed::NothingAwaited).await;
}

pub async fn a_group_that_awaits_a_signal_of_its_inbox_is_repaired(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, claim) = subject.running(task()).await;
    let group = Park {
        deadline: Some(Due::After(seconds(60))),
        ..all_of(for_signals(&["a", "b"]))
    };
    subject.commit(&claim, park(group)).await;
    subject.deliver(signal(claim.id, "a")).await;
    subject.assert_sound().await;
    editor.edit(claim.id, r#"awaits = '["a","b"]'"#).await;
    assert_repaired(subject, claim.id, RepairNeed::SignalArrived).await;
}

pub async fn a_workflow_that_waits_for_children_and_has_its_signal_is_repaired(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, id, _) = subject
        .awaiting(tasks(2), for_anything(for_ends(&[1], &[], 2)))
        .await;
    let name = subject.get(id).await.awaits.unwrap()[0].clone();
    subject.deliver(signal(id, &name)).await;
    assert_eq!(subject.status(id).await, Status::Runnable);
    editor.edit(id, "status = 'awaiting_children'").await;
    assert_repaired(subject, id, RepairNeed::SignalArrived).await;
}

pub async fn a_join_that_miscounts_is_counted_again(subject: &Subject, editor: &impl Editor) {
    let (_, id, children) = subject.joining(tasks(3), Join::default()).await;
    subject.finish_all(&children[..1]).await;
    subject.assert_sound().await;
    editor.edit(id, "children_pending = 7").await;
    let need = RepairNeed::ChildrenMiscounted;
    assert_eq!(subject.needing_repair().await, [(id, need)]);
    let (_, row) = repair(subject, id, need).await;
    assert_eq!(row.status, Status::AwaitingChildren);
    assert_eq!(counts(&row), (2, 0));
    subject.finish_all(&children[1..]).await;
    assert_eq!(subject.status(id).await, Status::Runnable);
}

pub async fn a_join_that_is_decided_is_repaired(subject: &Subject, editor: &impl Editor) {
    let (_, id, children) = subject.joining(tasks(2), Join::default()).await;
    subject.finish_all(&children).await;
    editor
        .edit(id, "status = 'awaiting_children', children_pending = 1")
        .await;
    let row = assert_repaired(subject, id, RepairNeed::ChildrenMiscounted).await;
    assert_eq!((row.children_pending, joined(&row)), (0, Some(Joined::All)));
}

pub async fn a_failed_child_beside_a_living_sibling_decides_a_join_that_fails_fast(
    subject: &Subject,
    editor: &impl Editor,
) {
    let join = Join {
        rest: ClosePolicy::Terminate,
        ..until(Until::FailFast)
    };
    let (_, id, children) = subject.joining(tasks(2), join).await;
    subject.commit(&children[0], stop()).await;
    subject.cascade_all().await;
    // As if the sibling had survived and the wake-up was lost.
    let lives = "status = 'runnable', finished_at = null";
    editor.edit(children[1].id, lives).await;
    let waits = "status = 'awaiting_children', children_pending = 1, joined = null";
    editor.edit(id, waits).await;
    let row = assert_repaired(subject, id, RepairNeed::ChildrenMiscounted).await;
    assert_eq!(joined(&row), Some(Joined::Failure));
    assert_eq!(subject.cascade(10).await.ended, [children[1].id]);
}

pub async fn a_failed_child_that_no_join_counted_is_counted(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, id, children) = subject.joining(tasks(2), until(Until::FailFast)).await;
    subject.commit(&children[0], stop()).await;
    let uncounted = "status = 'awaiting_children', children_pending = 2, children_failed = 0, \
                     first_failure = null, joined = null";
    editor.edit(id, uncounted).await;
    let row = assert_repaired(subject, id, RepairNeed::ChildrenMiscounted).await;
    assert_eq!(counts(&row), (1, 1));
    let barrier = row.barrier.unwrap();
    assert_eq!(barrier.first_failure, Some(children[0].id));
}

pub async fn a_quorum_that_is_reached_is_repaired(subject: &Subject, editor: &impl Editor) {
    let (_, id, children) = subject.joining(tasks(3), until(Until::Quorum(1))).await;
    subject.finish_all(&children[..1]).await;
    let lost = "status = 'awaiting_children', joined = null";
    editor.edit(id, lost).await;
    let row = assert_repaired(subject, id, RepairNeed::ChildrenMiscounted).await;
    assert_eq!(joined(&row), Some(Joined::Quorum));
}

/// The end was counted, and the wake-up is lost.
pub async fn a_workflow_is_repaired_when_a_child_has_failed_beside_a_living_sibling(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (worker, id, children) = subject.awaiting(tasks(2), for_ends(&[1], &[], 2)).await;
    subject.commit(&children[0], stop()).await;
    editor.edit(id, "status = 'awaiting_children'").await;
    assert_repaired(subject, id, RepairNeed::ChildrenFinished).await;
    subject.claim_the(worker, id).await;
}

/// Neither the count nor the wake-up has happened.
pub async fn a_workflow_is_repaired_when_a_failed_child_was_not_counted(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, id, children) = subject.awaiting(tasks(2), for_ends(&[1], &[], 2)).await;
    let parked_at = subject.now().0;
    subject.pass(seconds(1));
    subject.assert_sound().await;
    subject.commit(&children[0], stop()).await;
    lose_the_end(editor, id, parked_at, "'[2]'", 2).await;
    let row = assert_repaired(subject, id, RepairNeed::ChildrenFinished).await;
    assert_eq!(left(&row), [2], "the counts of a workflow stay");
}

/// Makes the row of a workflow as it was when it parked.
async fn lose_the_end(
    editor: &impl Editor,
    id: InstanceId,
    parked_at: i64,
    left: &str,
    pending: i32,
) {
    let changes = format!(
        "status = 'awaiting_children', joining_left = {left}, children_pending = {pending}, \
         children_failed = 0, first_failure = null, joined = null, \
         eligible_at = TIME({parked_at})"
    );
    editor.edit(id, &changes).await;
}

pub async fn a_workflow_is_repaired_when_one_of_several_sets_has_a_failed_child(
    subject: &Subject,
    editor: &impl Editor,
) {
    let sets = vec![starting(1, 0..=2), starting(1, 3..=3)];
    let (_, id, children) = subject.awaiting(tasks(4), for_join_sets(sets)).await;
    let parked_at = subject.now().0;
    subject.pass(seconds(1));
    subject.commit(&children[1], stop()).await;
    lose_the_end(editor, id, parked_at, "'[3,1]'", 1).await;
    assert_repaired(subject, id, RepairNeed::ChildrenFinished).await;
}

/// The first of two children is there, and the other one lives.
pub async fn a_workflow_is_repaired_when_the_first_of_its_children_was_not_counted(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, id, children) = subject.awaiting(tasks(2), for_ends(&[1], &[], 1)).await;
    let parked_at = subject.now().0;
    subject.pass(seconds(1));
    subject.assert_sound().await;
    subject.finish_all(&children[..1]).await;
    lose_the_end(editor, id, parked_at, "'[1]'", 1).await;
    assert_repaired(subject, id, RepairNeed::ChildrenFinished).await;
}

pub async fn a_workflow_that_waits_for_no_set_of_children_is_repaired(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, id, _) = subject.awaiting(tasks(2), for_ends(&[1], &[], 2)).await;
    editor.edit(id, "joining = '[]', joining_left = '[]'").await;
    assert_repaired(subject, id, RepairNeed::ChildrenFinished).await;
}

/// The range between two awaited children has one that had failed before the park.
pub async fn a_workflow_that_handled_a_failed_child_needs_no_repair(
    subject: &Subject,
    _: &impl Editor,
) {
    let (worker, claim) = subject.flowing(tasks(3)).await;
    let children = subject.claim(worker, 9).await;
    subject.commit(&children[1], stop()).await;
    let set = JoinSet {
        ranges: vec![ChildRange {
            round: 1,
            first: 0,
            last: 2,
        }],
        children: vec![children[0].id, children[2].id],
        count: 2,
    };
    subject.commit(&claim, park(for_join_sets(vec![set]))).await;
    assert_eq!(subject.status(claim.id).await, Status::AwaitingChildren);
    subject.assert_sound().await;
    subject.pass(seconds(1));
    subject.finish_all(&children[..1]).await;
    assert_eq!(subject.status(claim.id).await, Status::AwaitingChildren);
    subject.assert_sound().await;
}

pub async fn an_instance_behind_a_free_key_is_let_through(subject: &Subject, editor: &impl Editor) {
    let keyed = || task().partition_key("key");
    let ids = subject.insert_all(vec![keyed(), keyed()]).await;
    for id in &ids {
        editor.edit(*id, "blocked = true").await;
    }
    let worker = subject.worker().await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    // Only the first in line: the others follow it.
    let need = RepairNeed::KeyIsFree;
    assert_eq!(subject.needing_repair().await, [(ids[0], need)]);
    repair(subject, ids[0], need).await;
    assert_eq!(subject.claim_ids(worker, 9).await, [ids[0]]);
    subject.assert_sound().await;
}

pub async fn a_child_gets_a_place_in_a_window_in_which_none_runs(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (worker, claim) = subject.running(task()).await;
    subject
        .commit(&claim, fan_out_with(tasks(3), window(1)))
        .await;
    let ids = subject.child_ids(claim.id, 1).await;
    subject.assert_sound().await;
    editor.edit(ids[0], "held = true, blocked = true").await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    let need = RepairNeed::PlaceIsFree;
    assert_eq!(subject.needing_repair().await, [(ids[0], need)]);
    repair(subject, ids[0], need).await;
    assert_eq!(subject.claim_ids(worker, 9).await, [ids[0]]);
}

pub async fn several_instances_are_repaired_together_and_each_is_recorded(
    subject: &Subject,
    editor: &impl Editor,
) {
    let (_, signalled) = subject.parked(&["go"]).await;
    let (_, lost) = subject.parked(&["go"]).await;
    let (_, sound) = subject.parked(&["go"]).await;
    subject.deliver(signal(signalled, "go")).await;
    editor.edit(signalled, "status = 'awaiting_signal'").await;
    editor.edit(lost, "awaits = '[]'").await;
    let arrived = RepairAnswer::Repaired(RepairNeed::SignalArrived);
    let nothing = RepairAnswer::Repaired(RepairNeed::NothingAwaited);
    let named = vec![sound, lost, InstanceId(999_999), signalled, lost];
    let found = subject
        .store
        .needing_repair(RepairScope::Ids(named.clone()));
    let found = found.await.unwrap();
    let expected = [
        (signalled, RepairNeed::SignalArrived),
        (lost, RepairNeed::NothingAwaited),
    ];
    assert_eq!((&found.found[..], found.next), (&expected[..], None));
    let repaired = subject.store.repair(named, note()).await.unwrap();
    let not_needed = RepairAnswer::NotNeeded(Status::AwaitingSignal);
    let not_found = RepairAnswer::NotFound;
    let answers = [not_needed, nothing, not_found, arrived, nothing];
    assert_eq!(repaired.answers, answers);
    for id in [signalled, lost] {
        assert_eq!(subject.operations_on(id).await.len(), 1);
    }
    assert_eq!(subject.operations_on(sound).await, []);
}

/// One instance in each status that a busy store has.
pub async fn a_repair_changes_nothing_that_something_will_wake(subject: &Subject, _: &impl Editor) {
    let (worker, waits) = subject.parked(&["go"]).await;
    subject.deliver(signal(waits, "other")).await;
    let (_, sleeps) = subject.running(task()).await;
    subject
        .commit(&sleeps, wait_at_most(&[], seconds(60)))
        .await;
    let (_, machine, children) = subject.joining(tasks(2), until(Until::Quorum(2))).await;
    subject.finish_all(&children[..1]).await;
    let group = all_of(for_anything(for_ends(&[1], &[], 2)));
    let (_, flow, kids) = subject.awaiting(tasks(2), group).await;
    subject.finish_all(&kids[..1]).await;
    let (_, running) = subject.running(task().partition_key("key")).await;
    let behind = subject.insert(task().partition_key("key")).await;
    assert_eq!(subject.claim_ids(worker, 9).await, []);
    let (_, windowed) = subject.running(task()).await;
    subject
        .commit(&windowed, fan_out_with(tasks(3), window(1)))
        .await;
    let held = subject.child_ids(windowed.id, 1).await;
    // All deadlines have passed, and nothing has fired.
    subject.pass(seconds(3_600));
    let all = [
        waits,
        sleeps.id,
        machine,
        flow,
        running.id,
        behind,
        windowed.id,
        held[1],
    ];
    let mut before = Vec::new();
    for id in all {
        before.push(subject.get(id).await);
    }
    subject.assert_sound().await;
    let repaired = subject.store.repair(all.to_vec(), note()).await.unwrap();
    let answers = before.iter().map(|row| RepairAnswer::NotNeeded(row.status));
    assert_eq!(repaired.answers, answers.collect::<Vec<_>>());
    assert!(repaired.woken.is_empty() && !repaired.cascades);
    for row in &before {
        subject.assert_unchanged(row).await;
    }
    let operations = subject.store.operations(None).await.unwrap();
    assert!(operations.iter().all(|it| it.verb != Verb::Repair));
}
