//! Batches of inserts, verbs with nothing to do, whole workloads, and closed stores.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Claim, ClaimRef, ClaimRequest, CollectRequest, Collected, Committed, Delivered, Error,
    ErrorKind, Inserted, Inserts, MachineVersion, Outcome, Release, Released, RepairScope, Scope,
    SignalOrInsert, Start, Status,
};
use std::time::Duration;

pub async fn ids_are_given_in_the_callers_order(subject: &Subject) {
    let rows = (0..200).rev();
    let rows = rows.map(|n| task().priority(n).correlation_key(format!("k{n}")));
    let ids = subject.insert_all(rows.collect()).await;
    assert!(ids.is_sorted());
    assert_eq!(subject.get(ids[0]).await.priority, 199);
    assert_eq!(subject.get(ids[199]).await.priority, 0);
}

pub async fn an_insert_hints_at_queues_with_claimable_rows(subject: &Subject) {
    let rows = vec![
        task().queue("now"),
        later(task().queue("later"), seconds(9)),
    ];
    let woken = subject.store.insert(rows, None).await.unwrap().woken;
    assert!(woken.contains("now") && !woken.contains("later"));
}

pub async fn an_insert_can_claim_its_rows(subject: &Subject) {
    let worker = subject.worker().await;
    let inserts = subject.store.insert(tasks(2), Some(worker)).await.unwrap();
    for row in &inserts.rows {
        let Inserted::New { id, claimed } = row else {
            panic!("{row:?}");
        };
        assert_eq!(*claimed, Some(FIRST_CLAIM));
        let row = subject.get(*id).await;
        assert_eq!((row.status, row.revision), (Status::Executing, FIRST_CLAIM));
        assert_eq!((row.locked_by, row.attempt), (Some(worker), 0));
    }
    assert_eq!(subject.claim_ids(worker, 10).await, []);
    let id = inserts.rows[0].new_id().unwrap();
    let claim = ClaimRef {
        id,
        revision: FIRST_CLAIM,
    };
    let commit = outlast_core::Commit {
        claim,
        received: vec![],
        outcome: done(),
        answers_cancel: false,
        links: outlast_core::Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    };
    subject.commit_all(vec![commit]).await;
    assert_eq!(subject.status(id).await, Status::Done);
}

pub async fn a_claim_at_the_insert_equals_a_later_claim(subject: &Subject) {
    let worker = subject.worker().await;
    let mut row = task().priority(7).correlation_key("k");
    row.version = 3;
    row.trace = Some("a trace".into());
    let inserts = subject.store.insert(vec![row.clone()], Some(worker));
    let id = inserts.await.unwrap().rows[0].new_id().unwrap();
    let at_insert = Claim::at_insert(row, id, FIRST_CLAIM);

    let release = Release {
        claim: at_insert.reference(),
        pause: Duration::ZERO,
    };
    subject.store.release(vec![release]).await.unwrap();
    let request = ClaimRequest {
        worker,
        queue: at_insert.queue.clone(),
        machines: [MachineVersion::new("task", 3)].into(),
        max: 1,
    };
    let mut later = subject.store.claim(request).await.unwrap().claims.remove(0);
    assert!(later.revision > at_insert.revision);
    assert_eq!(later.claimed_at, Some(subject.store.now().await.unwrap()));
    (later.revision, later.waited) = (at_insert.revision, at_insert.waited);
    later.claimed_at = None;
    assert_eq!(later, at_insert);
    assert_eq!(later.links(), at_insert.links());
}

pub async fn an_insert_claims_only_rows_that_are_claimable_at_once(subject: &Subject) {
    let worker = subject.worker().await;
    subject.store.pause("still", note()).await.unwrap();
    let until_claimed = Scope::of([Status::Runnable]).unwrap();
    let past = Start::At(subject.now() - seconds(5));
    let rows = vec![
        later(task(), seconds(5)),
        task().partition_key("p"),
        task().correlation("k", until_claimed),
        task().queue("still"),
        task().correlation_key("live"),
        task().start(past),
        later(task(), seconds(0)),
        task().correlation_key("live"),
    ];
    let inserts = subject.store.insert(rows, Some(worker)).await.unwrap();
    let is_claimed = |row: &Inserted| match row {
        Inserted::New { claimed, .. } => Some(claimed.is_some()),
        Inserted::Duplicate { .. } => None,
    };
    let answers: Vec<Option<bool>> = inserts.rows.iter().map(is_claimed).collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(answers, [no, no, no, no, yes, yes, yes, None]);
    for position in [1, 2, 3] {
        let id = inserts.rows[position].new_id().unwrap();
        let row = subject.get(id).await;
        assert_eq!((row.status, row.revision.0), (Status::Runnable, 0));
    }
    let keyed = inserts.rows[2].new_id().unwrap();
    assert!(subject.get(keyed).await.holds_key);
}

pub async fn a_claim_at_the_insert_is_reaped_like_any_other(subject: &Subject) {
    let worker = subject.worker().await;
    let inserts = subject.store.insert(tasks(1), Some(worker)).await.unwrap();
    subject.pass(LEASE);
    let reaped = subject.reap().await;
    assert_eq!(reaped.returned, [inserts.rows[0].new_id().unwrap()]);
}

/// Defect 18 (docs/protocol.md).
pub async fn fifty_thousand_rows_go_in_one_batch(subject: &Subject) {
    let ids = subject.insert_all(tasks(50_000)).await;
    assert!(ids.is_sorted());
    let row = subject.get(ids[49_999]).await;
    assert_eq!(row.state.as_str(), "49999");
}

pub async fn verbs_with_empty_batches_do_nothing(subject: &Subject) {
    let store = &subject.store;
    let worker = subject.worker().await;
    let inserts = store.insert(vec![], Some(worker)).await.unwrap();
    assert_eq!(inserts, Inserts::default());
    assert_eq!(
        store.commit(vec![].into()).await.unwrap(),
        Committed::default()
    );
    assert_eq!(store.release(vec![]).await.unwrap(), Released::default());
    assert_eq!(
        store.deliver(vec![], None).await.unwrap(),
        Delivered::default()
    );
    assert_eq!(store.claims_of(worker).await.unwrap(), []);
    assert_eq!(
        store
            .terminate(vec![], Extent::One, note())
            .await
            .unwrap()
            .answers,
        []
    );
    assert_eq!(store.retry(vec![], note()).await.unwrap().answers, []);
    assert_eq!(store.delete(vec![], note()).await.unwrap(), []);
    assert_eq!(store.operations(None).await.unwrap(), []);
}

/// Returns the outcomes in turn, so that rows of every kind meet rows of every other kind.
fn outcome_by_turns(turn: usize, claim: &Claim) -> Outcome {
    match turn % 9 {
        0 => requeue("again"),
        1 => wait_for(&["go", "stop"]),
        2 => wait_at_most(&["go"], seconds(turn as u64 % 7)),
        3 if claim.round < 2 && claim.parent.is_none() => fan_out(vec![
            task().partition_key("p"),
            task().correlation_key(format!("child-{}", turn % 5)),
            task(),
        ]),
        4 => again(seconds(turn as u64 % 3)),
        5 => stop(),
        6 => keep("ahead"),
        7 if claim.attempt == 0 => again(seconds(0)),
        _ => done(),
    }
}

/// I2: every instance ends, and nothing needs a repair.
pub async fn a_mixed_workload_ends_with_nothing_to_repair(subject: &Subject) {
    let rows = (0..60).map(|n| match n % 4 {
        0 => task().partition_key(format!("p{}", n % 3)),
        1 => task().correlation_key(format!("k{n}")),
        2 => later(task().priority(n % 5 - 2), seconds(n as u64 % 9)),
        _ => task(),
    });
    let ids = subject.insert_all(rows.collect()).await;
    let mut turn = 0;
    for round in 0..40 {
        subject.pass(seconds(2));
        let worker = subject.worker_with(seconds(30)).await;
        for claim in subject.claim(worker, 20).await {
            turn += 1;
            if turn % 11 != 0 {
                subject.commit(&claim, outcome_by_turns(turn, &claim)).await;
            }
        }
        let target = ids[(round * 7) % ids.len()];
        subject.deliver(signal(target, "go")).await;
        subject.store.fire(100).await.unwrap();
        subject.reap().await;
        subject.assert_sound().await;
    }
    end_all(subject).await;
    subject.assert_sound().await;
}

/// Finishes every instance, like workers whose steps always return done.
async fn end_all(subject: &Subject) {
    for _ in 0..60 {
        subject.pass(seconds(60));
        subject.store.fire(1_000).await.unwrap();
        subject.reap().await;
        let live = outlast_core::ListRequest {
            filter: outlast_core::Filter {
                statuses: vec![Status::AwaitingSignal],
                ..Default::default()
            },
            before: None,
            limit: 1_000,
            values: false,
        };
        for row in subject.store.list(live).await.unwrap().instances {
            subject
                .arrives(signal(row.id, &row.awaits.unwrap()[0]))
                .await;
        }
        let worker = subject.worker().await;
        let claims = subject.claim(worker, 1_000).await;
        subject.finish_all(&claims).await;
    }
    let live = outlast_core::Filter {
        statuses: Status::ALL
            .into_iter()
            .filter(|it| !it.is_terminal())
            .collect(),
        ..Default::default()
    };
    let count = subject.store.count(live).await.unwrap();
    assert_eq!(
        count,
        outlast_core::Count::Exactly(0),
        "I2: every instance has ended"
    );
    let everything = CollectRequest {
        retention: seconds(0),
        max: 10_000,
    };
    subject.store.collect(everything).await.unwrap();
    let nothing = subject.store.collect(everything).await.unwrap();
    assert_eq!(nothing, Collected::default());
}

pub async fn a_search_for_repairs_goes_page_by_page(subject: &Subject) {
    let ids = subject.insert_all(tasks(5)).await;
    let mut after = None;
    for expected in [Some(ids[1]), Some(ids[3]), None] {
        let scope = RepairScope::Page { after, max: 2 };
        let page = subject.store.needing_repair(scope).await.unwrap();
        assert_eq!(page.found, []);
        assert_eq!(page.next, expected);
        after = page.next;
    }
}

/// I11.
pub async fn a_closed_store_answers_that_it_is_closed(subject: &Subject) {
    let (worker, claim) = subject.running(task()).await;
    subject.store.close().await;
    let closed = |error: Error| error.kind() == ErrorKind::Closed;
    assert!(subject.store.now().await.is_err_and(closed));
    assert!(
        subject
            .store
            .insert(tasks(1), None)
            .await
            .is_err_and(closed)
    );
    let commits = vec![commit_of(&claim, done())];
    assert!(
        subject
            .store
            .commit(commits.into())
            .await
            .is_err_and(closed)
    );
    let request = SignalOrInsert {
        row: task().correlation_key("k"),
        name: "go".into(),
        payload: json("1"),
        dedup_key: None,
    };
    assert!(
        subject
            .store
            .signal_or_insert(request)
            .await
            .is_err_and(closed)
    );
    assert!(
        subject
            .store
            .heartbeat(worker, LEASE)
            .await
            .is_err_and(closed)
    );
    assert!(subject.store.get(claim.id).await.is_err_and(closed));
    let everything = outlast_core::StepCountRequest {
        after: None,
        limit: 1,
    };
    assert!(
        subject
            .store
            .count_by_step(everything)
            .await
            .is_err_and(closed)
    );
    let now = subject.now();
    assert!(subject.store.run_stats(now).await.is_err_and(closed));
    assert!(subject.store.rounds(claim.id).await.is_err_and(closed));
    subject.store.close().await;
}
