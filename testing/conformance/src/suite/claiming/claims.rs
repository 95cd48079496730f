//! Claims: which instances come first, which worker gets them, and when.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Claim, ClaimRef, ClaimRequest, Error, MachineVersion, NewInstance, Release, ReleaseAnswer,
    Start, Status, WorkerId,
};

/// Claims any instance, for a worker with these machines.
async fn claim_as(subject: &Subject, worker: WorkerId, machines: &[MachineVersion]) -> Vec<Claim> {
    let request = ClaimRequest {
        worker,
        queue: QUEUE.into(),
        machines: machines.into(),
        max: 10,
    };
    subject.store.claim(request).await.unwrap().claims
}

pub async fn an_empty_queue_gives_nothing(subject: &Subject) {
    let worker = subject.worker().await;
    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert_eq!(claimed.claims, []);
    assert_eq!(claimed.next_due_in, None);
    assert!(!claimed.more && !claimed.paused);
}

pub async fn a_claim_makes_the_row_executing_at_the_next_revision(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    assert_eq!(claim.revision, FIRST_CLAIM);
    let row = subject.get(claim.id).await;
    assert_eq!(row.status, Status::Executing);
    assert_eq!(row.revision, FIRST_CLAIM);
    assert_eq!(row.locked_by, Some(worker));
    assert_eq!(subject.claim_ids(worker, 10).await, []);
}

pub async fn a_claim_carries_everything_the_step_may_look_at(subject: &Subject) {
    let row = NewInstance::new("task", "weigh", json(r#"{"b":1,"a":[2]}"#))
        .priority(3)
        .partition_key("scales")
        .correlation_key("parcel:7");
    let worker = subject.worker().await;
    let id = subject.insert(row).await;
    subject.arrives(signal(id, "hurry").dedup_key("s1")).await;
    let arrived = subject.now();
    subject.pass(seconds(5));

    let claim = subject.claim_the(worker, id).await;
    assert_eq!((claim.machine.as_str(), claim.version), ("task", 1));
    assert_eq!(claim.step, "weigh");
    assert_eq!(claim.state.as_str(), r#"{"b":1,"a":[2]}"#);
    assert_eq!((claim.queue.as_str(), claim.priority), (QUEUE, 3));
    assert_eq!((claim.attempt, claim.crashes, claim.round), (0, 0, 0));
    assert_eq!(claim.partition_key.as_deref(), Some("scales"));
    assert_eq!(claim.correlation_key.as_deref(), Some("parcel:7"));
    assert_eq!((claim.parent, claim.awaits.len()), (None, 0));
    assert_eq!((claim.children.len(), claim.dropped.len()), (0, 0));
    assert_eq!(claim.waited, seconds(5));
    let signal = &claim.inbox[0];
    assert_eq!((claim.inbox.len(), signal.name.as_str()), (1, "hurry"));
    assert_eq!(signal.payload.as_str(), r#"{"v":1}"#);
    assert_eq!(signal.dedup_key.as_deref(), Some("s1"));
    assert_eq!(signal.inserted_at, arrived);
}

pub async fn a_lower_priority_number_goes_first(subject: &Subject) {
    let worker = subject.worker().await;
    let priorities = [0, i16::MAX, -1, i16::MIN, 1];
    let rows = priorities.map(|priority| task().priority(priority));
    let ids = subject.insert_all(rows.into()).await;
    let expected = [ids[3], ids[2], ids[0], ids[4], ids[1]];
    assert_eq!(subject.claim_ids(worker, 10).await, expected);
}

pub async fn at_equal_priority_the_earlier_eligible_instance_goes_first(subject: &Subject) {
    let worker = subject.worker().await;
    let now = subject.now();
    let rows = [30, 10, 20].map(|ago| task().start(Start::At(now - seconds(ago))));
    let ids = subject.insert_all(rows.into()).await;
    let expected = [ids[0], ids[2], ids[1]];
    assert_eq!(subject.claim_ids(worker, 10).await, expected);
}

pub async fn at_equal_priority_and_time_the_lower_id_goes_first(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(20)).await;
    assert!(ids.is_sorted(), "ids are given in the caller's order");
    assert_eq!(subject.claim_ids(worker, 20).await, ids);
}

pub async fn priority_goes_before_time(subject: &Subject) {
    let worker = subject.worker().await;
    let patient = subject.insert(task().priority(1)).await;
    subject.pass(seconds(30));
    let urgent = subject.insert(task().priority(0)).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [urgent, patient]);
}

pub async fn a_claim_takes_from_its_queue_only(subject: &Subject) {
    let worker = subject.worker().await;
    let here = subject.insert(task()).await;
    let there = subject.insert(task().queue("mail")).await;
    assert_eq!(subject.claim_ids(worker, 10).await, [here]);
    let mail = subject.ask(worker, "mail", 10).await.claims;
    assert_eq!(ids_of(&mail), [there]);
}

pub async fn a_claim_takes_no_more_instances_than_requested(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(5)).await;
    let first = subject.ask(worker, QUEUE, 2).await;
    assert_eq!(ids_of(&first.claims), ids[..2]);
    assert!(first.more, "three instances are left");
    assert_eq!(first.next_due_in, None);
    assert_eq!(subject.claim_ids(worker, 10).await, ids[2..]);
}

pub async fn a_claim_of_zero_instances_takes_none(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(task()).await;
    assert_eq!(subject.ask(worker, QUEUE, 0).await.claims, []);
    assert_eq!(subject.status(id).await, Status::Runnable);
}

/// Defect 15 (docs/protocol.md).
pub async fn a_claim_takes_only_the_machines_and_versions_it_names(subject: &Subject) {
    let worker = subject.worker().await;
    let other = subject
        .insert(NewInstance::new("other", "start", json("{}")))
        .await;
    let old = subject.insert(task()).await;
    let new = subject.insert(task().version(2)).await;

    assert_eq!(claim_as(subject, worker, &[]).await, []);
    let unknown = MachineVersion::new("other", 2);
    assert_eq!(claim_as(subject, worker, &[unknown]).await, []);
    let version_two = claim_as(subject, worker, &[MachineVersion::new("task", 2)]).await;
    assert_eq!(ids_of(&version_two), [new]);
    assert_eq!(version_two[0].version, 2);
    let rest = [
        MachineVersion::new("task", 1),
        MachineVersion::new("other", 1),
    ];
    assert_eq!(
        ids_of(&claim_as(subject, worker, &rest).await),
        [other, old]
    );
}

/// Defect 15 (docs/protocol.md): rows that this worker cannot run must not fill its claim either.
pub async fn foreign_instances_at_the_head_do_not_hide_the_instances_behind_them(
    subject: &Subject,
) {
    let worker = subject.worker().await;
    let foreign = NewInstance::new("foreign", "start", json("{}")).priority(-1);
    subject.insert_all(vec![foreign; 300]).await;
    let mine = subject.insert(task()).await;
    assert_eq!(subject.claim_ids(worker, 1).await, [mine]);
}

/// I10.
pub async fn an_instance_is_not_claimed_before_it_is_eligible(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(later(task(), seconds(10))).await;
    subject.pass(seconds(10) - std::time::Duration::from_micros(1));
    assert_eq!(subject.claim_ids(worker, 10).await, []);
    subject.pass(std::time::Duration::from_micros(1));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(claim.waited, seconds(0));
}

pub async fn a_claim_says_when_the_next_row_comes_due(subject: &Subject) {
    let worker = subject.worker().await;
    let rows = [30, 10, 20].map(|delay| later(task(), seconds(delay)));
    subject.insert_all(rows.into()).await;
    let ready = subject.insert(task()).await;

    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert_eq!(ids_of(&claimed.claims), [ready]);
    assert_eq!(claimed.next_due_in, Some(seconds(10)));
    subject.pass(seconds(10));
    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert_eq!(claimed.claims.len(), 1);
    assert_eq!(claimed.next_due_in, Some(seconds(10)));
}

pub async fn the_next_due_time_covers_all_priorities_of_its_queue_only(subject: &Subject) {
    let worker = subject.worker().await;
    let rows = vec![
        later(task().priority(-5), seconds(40)),
        later(task().priority(7), seconds(25)),
        later(task().queue("mail"), seconds(5)),
    ];
    subject.insert_all(rows).await;
    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert_eq!(claimed.next_due_in, Some(seconds(25)));
}

pub async fn many_delayed_urgent_rows_do_not_hide_a_due_row(subject: &Subject) {
    let worker = subject.worker().await;
    let delayed = later(task().priority(-1), seconds(60));
    subject.insert_all(vec![delayed; 500]).await;
    let due = subject.insert(task().priority(1)).await;
    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert_eq!(ids_of(&claimed.claims), [due]);
    assert_eq!(claimed.next_due_in, Some(seconds(60)));
}

pub async fn a_row_with_a_start_in_the_past_goes_before_a_row_eligible_later(subject: &Subject) {
    let worker = subject.worker().await;
    let now_row = subject.insert(task()).await;
    let past = subject.now() - seconds(100);
    let past_row = subject.insert(task().start(Start::At(past))).await;
    let claims = subject.claim(worker, 10).await;
    assert_eq!(ids_of(&claims), [past_row, now_row]);
    assert_eq!(claims[0].waited, seconds(100));
}

pub async fn a_paused_queue_gives_nothing_and_says_so(subject: &Subject) {
    let worker = subject.worker().await;
    let id = subject.insert(task()).await;
    subject.store.pause(QUEUE, note()).await.unwrap();
    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert!(claimed.paused && claimed.claims.is_empty());
    subject.store.resume(QUEUE, note()).await.unwrap();
    let claimed = subject.ask(worker, QUEUE, 10).await;
    assert!(!claimed.paused);
    assert_eq!(ids_of(&claimed.claims), [id]);
}

pub async fn a_worker_that_never_registered_cannot_claim(subject: &Subject) {
    let id = subject.insert(task()).await;
    let request = ClaimRequest {
        worker: WorkerId(987_654),
        queue: QUEUE.into(),
        machines: machines(),
        max: 1,
    };
    let refused = subject.store.claim(request).await;
    assert!(matches!(refused, Err(Error::LeaseExpired { .. })));
    assert_eq!(subject.status(id).await, Status::Runnable);
}

pub async fn one_call_returns_ten_thousand_claims_in_order(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(10_050)).await;
    let claims = subject.claim(worker, 10_000).await;
    assert_eq!(ids_of(&claims), ids[..10_000]);
    assert_eq!(claims[9_999].state.as_str(), "9999");
    assert_eq!(subject.claim_ids(worker, 100).await, ids[10_000..]);
}

pub async fn a_worker_lists_its_claims_at_their_current_revisions(subject: &Subject) {
    let (worker, other) = (subject.worker().await, subject.worker().await);
    assert_eq!(subject.claims_of(worker).await, []);
    subject.insert_all(tasks(6)).await;
    let claims = subject.claim(worker, 5).await;
    let foreign = subject.claim_one(other).await;
    subject.commit(&claims[0], requeue("later")).await;
    subject.commit(&claims[1], wait_for(&["go"])).await;
    subject.release(&claims[2], seconds(0)).await;
    subject.commit(&claims[3], keep("ahead")).await;

    let moved_on = ClaimRef {
        id: claims[3].id,
        revision: claims[3].revision.next(),
    };
    let held = [moved_on, claims[4].reference()];
    assert_eq!(subject.claims_of(worker).await, held);
    assert_eq!(subject.claims_of(other).await, [foreign.reference()]);
    assert_eq!(subject.claims_of(WorkerId(987_654)).await, []);
}

pub async fn a_worker_lists_its_claims_from_inserts_and_deliveries(subject: &Subject) {
    let (worker, parked) = subject.parked(&["go"]).await;
    subject
        .deliver_for(worker, vec![signal(parked, "go")])
        .await;
    let inserts = subject.store.insert(vec![task()], Some(worker)).await;
    let inserted = inserts.unwrap().rows[0].new_id().unwrap();

    let held = subject.claims_of(worker).await;
    let ids: Vec<_> = held.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [parked, inserted]);
    for claim in held {
        assert_eq!(subject.get(claim.id).await.revision, claim.revision);
        let release = Release {
            claim,
            pause: seconds(0),
        };
        let released = subject.store.release(vec![release]).await.unwrap();
        assert_eq!(released.answers, [ReleaseAnswer::Released]);
    }
    assert_eq!(subject.claims_of(worker).await, []);
}

pub async fn the_claims_of_a_dead_worker_are_listed_until_they_are_reaped(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.pass(LEASE);
    assert_eq!(subject.claims_of(worker).await, [claim.reference()]);
    subject.reap().await;
    assert_eq!(subject.claims_of(worker).await, []);
}

/// A worker that remembers a claim by its revision cannot mistake a later claim for it.
pub async fn the_next_claim_of_an_instance_is_at_least_two_revisions_later(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    let id = claim.id;

    let last = run_ahead(subject, claim).await;
    subject.commit(&last, requeue("again")).await;
    let claim = two_revisions_later(&last, subject.claim_the(worker, id).await);

    let last = run_ahead(subject, claim).await;
    subject.commit(&last, again(seconds(0))).await;
    let claim = two_revisions_later(&last, subject.claim_the(worker, id).await);

    let last = run_ahead(subject, claim).await;
    subject.release(&last, seconds(0)).await;
    let claim = two_revisions_later(&last, subject.claim_the(worker, id).await);

    let last = run_ahead(subject, claim).await;
    subject.commit(&last, wait_for(&["go"])).await;
    let mut delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    let claim = two_revisions_later(&last, delivered.claims.remove(0));

    let last = run_ahead(subject, claim).await;
    subject
        .commit(&last, wait_at_most(&["stop"], seconds(0)))
        .await;
    subject.store.fire(1).await.unwrap();
    let claim = two_revisions_later(&last, subject.claim_the(worker, id).await);

    let last = run_ahead(subject, claim).await;
    subject.commit(&last, fan_out(vec![])).await;
    let claim = two_revisions_later(&last, subject.claim_the(worker, id).await);

    let last = run_ahead(subject, claim).await;
    subject
        .store
        .terminate(vec![id], Extent::One, note())
        .await
        .unwrap();
    subject.store.retry(vec![id], note()).await.unwrap();
    let claim = two_revisions_later(&last, subject.claim_the(worker, id).await);

    let last = run_ahead(subject, claim).await;
    subject.pass(LEASE);
    subject.reap().await;
    let worker = subject.worker().await;
    two_revisions_later(&last, subject.claim_the(worker, id).await);
}

/// Runs one step ahead and returns the claim after it.
async fn run_ahead(subject: &Subject, claim: Claim) -> Claim {
    subject.commit(&claim, keep("ahead")).await;
    let revision = subject.get(claim.id).await.revision;
    assert_eq!(revision, claim.revision.next());
    Claim { revision, ..claim }
}

/// Asserts that `next` is at least two revisions later than `last`, and returns it.
fn two_revisions_later(last: &Claim, next: Claim) -> Claim {
    let earliest = last.revision.next().next();
    assert!(
        next.revision >= earliest,
        "{} after {}",
        next.revision,
        last.revision
    );
    next
}
