//! Deliveries that claim the woken instances for a worker.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Claim, ClaimOffer, Delivered, Delivery, ErrorKind, InstanceId, MachineVersion, NewInstance,
    NewSignal, Status, WorkerId, limits,
};

/// Parks a new instance on `go`.
async fn park(subject: &Subject, worker: WorkerId, row: NewInstance) -> InstanceId {
    let id = subject.insert(row).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_for(&["go"])).await;
    id
}

fn woke(delivery: Delivery) -> bool {
    matches!(delivery, Delivery::Delivered { woke: true, .. })
}

pub async fn a_delivery_for_a_worker_claims_the_woken_instance(subject: &Subject) {
    let (worker, id) = subject.parked(&["paid"]).await;
    let parked = subject.get(id).await;
    subject.pass(seconds(3));
    let delivered = subject.deliver_for(worker, vec![signal(id, "paid")]).await;
    assert!(woke(delivered.answers[0]));
    assert!(delivered.woken.is_empty(), "no row is left to claim");
    let [claim] = delivered.claims.as_slice() else {
        panic!("{:?}", delivered.claims);
    };
    assert_eq!((claim.id, claim.revision), (id, parked.revision.next()));
    assert_eq!(names_of(&claim.inbox), ["paid"]);

    let row = subject.get(id).await;
    assert_eq!(row.status, Status::Executing);
    assert_eq!(
        (row.locked_by, row.revision),
        (Some(worker), claim.revision)
    );
    assert_eq!(
        (row.eligible_at, row.updated_at),
        (subject.now(), subject.now())
    );
    assert_eq!(row.awaits, Some(vec!["paid".into()]), "kept for the step");
    assert_eq!(row.await_deadline, None);
    assert_eq!(subject.claim_ids(worker, 1).await, []);
    assert_eq!(subject.commit(claim, done()).await, Status::Done);
}

pub async fn a_claim_at_delivery_equals_a_later_claim(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    let child = task().priority(7).correlation_key("k").trace("a trace");
    subject.commit(&parent, fan_out(vec![child])).await;
    let tried = subject.claim_one(worker).await;
    subject.commit(&tried, keep("second")).await;
    let held = Claim {
        revision: tried.revision.next(),
        ..tried
    };
    let outcome = wait_at_most(&["a", "b"], seconds(60));
    subject.commit(&held, outcome).await;
    subject.arrives(signal(held.id, "other")).await;
    subject.arrives(signal(held.id, "a").dedup_key("1")).await;
    let again = subject.claim_the(worker, held.id).await;
    let outcome = wait_at_most(&["a", "b"], seconds(60));
    subject.commit(&again, outcome).await;

    let delivered = subject
        .deliver_for(worker, vec![signal(held.id, "b")])
        .await;
    let [at_delivery] = delivered.claims.as_slice() else {
        panic!("{:?}", delivered.claims);
    };
    assert_eq!(names_of(at_delivery.awaited()), ["a", "b"]);
    assert_eq!(at_delivery.waited, seconds(0));
    subject.release(at_delivery, seconds(0)).await;
    let mut later = subject.claim_the(worker, held.id).await;
    assert!(later.revision > at_delivery.revision);
    later.revision = at_delivery.revision;
    assert_eq!(&later, at_delivery);
}

pub async fn a_delivery_claims_only_instances_the_worker_could_claim_at_once(subject: &Subject) {
    let worker = subject.worker().await;
    let machines = [
        MachineVersion::new("task", 1),
        MachineVersion::new("task", 2),
    ];
    let mut parked = Vec::new();
    for row in [
        task(),
        task().partition_key("p"),
        task().version(2),
        task().queue("mail"),
        task().queue("still"),
    ] {
        let queue = row.queue.clone();
        let id = subject.insert(row).await;
        let request = outlast_core::ClaimRequest {
            worker,
            queue,
            machines: machines.clone().into(),
            max: 1,
        };
        let claims = subject.store.claim(request).await.unwrap().claims;
        assert_eq!(ids_of(&claims), [id]);
        subject.commit(&claims[0], wait_for(&["go"])).await;
        parked.push(id);
    }
    subject.store.pause("still", note()).await.unwrap();
    let offer = ClaimOffer {
        queues: vec![QUEUE.into(), "still".into()],
        ..offer(worker)
    };
    let signals: Vec<NewSignal> = parked.iter().map(|id| signal(*id, "go")).collect();
    let delivered = subject.store.deliver(signals, Some(offer)).await.unwrap();
    assert!(delivered.answers.iter().all(|answer| woke(*answer)));
    assert_eq!(ids_of(&delivered.claims), parked[..1]);
    for id in &parked[1..] {
        let row = subject.get(*id).await;
        assert_eq!((row.status, row.locked_by), (Status::Runnable, None));
    }
    for queue in [QUEUE, "mail", "still"] {
        assert!(delivered.woken.contains(queue), "{queue}");
    }
}

/// Its claim would have to load its children.
pub async fn an_instance_that_has_fanned_out_is_woken_but_not_claimed(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.commit(&claim, fan_out(vec![])).await;
    let joined = subject.claim_the(worker, claim.id).await;
    subject.commit(&joined, wait_for(&["go"])).await;
    let delivered = subject
        .deliver_for(worker, vec![signal(claim.id, "go")])
        .await;
    assert!(woke(delivered.answers[0]));
    assert_eq!(delivered.claims, []);
    assert_eq!(subject.status(claim.id).await, Status::Runnable);
    assert!(delivered.woken.contains(QUEUE));
}

pub async fn a_delivery_does_not_claim_runnable_or_executing_instances(subject: &Subject) {
    let (worker, running) = subject.running(task()).await;
    let runnable = subject.insert(task()).await;
    for id in [running.id, runnable] {
        let before = subject.get(id).await;
        let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
        assert!(!woke(delivered.answers[0]));
        assert_eq!(delivered.claims, []);
        subject.assert_unchanged(&before).await;
    }
}

pub async fn a_delivery_for_an_expired_worker_delivers_nothing(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    let before = subject.get(id).await;
    subject.pass(LEASE);
    for worker in [worker, WorkerId(987_654_321)] {
        let refused = subject
            .store
            .deliver(vec![signal(id, "go")], Some(offer(worker)));
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.signals(id).await, []);
}

pub async fn a_delivery_claims_after_all_signals_of_its_batch_have_arrived(subject: &Subject) {
    let worker = subject.worker().await;
    let first = park(subject, worker, task()).await;
    let second = park(subject, worker, task()).await;
    let third = park(subject, worker, task().correlation_key("k")).await;
    let batch = vec![
        signal(second, "go"),
        signal(first, "other"),
        signal_to_key("k", "go"),
        signal(first, "go"),
        signal(first, "go"),
        signal_to_key("k", "more"),
        signal(InstanceId(987_654_321), "go"),
    ];
    let Delivered {
        answers,
        woken,
        claims,
    } = subject.deliver_for(worker, batch).await;
    let woke: Vec<bool> = answers.iter().map(|answer| woke(*answer)).collect();
    assert_eq!(woke, [true, false, true, true, false, false, false]);
    assert!(woken.is_empty());
    assert_eq!(ids_of(&claims), [first, second, third]);
    let inboxes: Vec<_> = claims.iter().map(|it| names_of(&it.inbox)).collect();
    let expected: [&[&str]; 3] = [&["other", "go", "go"], &["go"], &["go", "more"]];
    assert_eq!(inboxes, expected);
    subject.finish_all(&claims).await;
}

pub async fn a_claim_at_delivery_is_reaped_like_any_other(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    let delivered = subject.deliver_for(worker, vec![signal(id, "go")]).await;
    assert_eq!(ids_of(&delivered.claims), [id]);
    subject.pass(LEASE);
    assert_eq!(subject.reap().await.returned, [id]);
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(claim.awaited()), ["go"]);
    assert_eq!((claim.attempt, claim.crashes), (1, 1));
}

pub async fn deliveries_for_a_worker_are_bounded(subject: &Subject) {
    let (worker, id) = subject.parked(&["go"]).await;
    let before = subject.get(id).await;
    let too_many_queues = ClaimOffer {
        queues: vec![QUEUE.into(); limits::QUEUES_MAX + 1],
        ..offer(worker)
    };
    let nameless = ClaimOffer {
        queues: vec!["a\u{0}".into()],
        ..offer(worker)
    };
    let too_many_machines = ClaimOffer {
        machines: vec![MachineVersion::new("task", 1); limits::MACHINES_MAX + 1].into(),
        ..offer(worker)
    };
    for offer in [too_many_queues, nameless, too_many_machines] {
        let refused = subject.store.deliver(vec![signal(id, "go")], Some(offer));
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let signals = vec![signal(id, "go"); limits::CLAIM_MAX + 1];
    let refused = subject.store.deliver(signals, Some(offer(worker)));
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Invalid);
    subject.assert_unchanged(&before).await;
}
