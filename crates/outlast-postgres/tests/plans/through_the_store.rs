//! The same checks through the verbs of the store: they run the explained statements.

use crate::table::{self, Counters};
use outlast_core::{
    Answer, ChildRange, Claim, ClaimOffer, ClaimRef, ClaimRequest, CollectRequest, Commit,
    EventKind, Flowing, Inserted, InstanceId, Join, JoinSet, JoinSets, Json, Links, MachineVersion,
    NewEvent, NewInstance, NewSignal, NewWorker, Outcome, Park, Proceed, ReapRequest, Release,
    SignalOrInsert, Store, Target, WorkerId,
};
use outlast_postgres::Postgres;
use std::time::Duration;
use tokio_postgres::Client;

/// How many rows one claim may set aside: ten searches of up to 1,000 rows (src/verbs/claim.rs).
const SET_ASIDE_MAX: i64 = 10_000;

/// Claims until the rows behind the busy key are set aside.
///
/// That takes two claims, and the second one already takes the rows that come next.
pub(crate) async fn set_the_line_aside(store: &Postgres, schema: &str, admin: &Client) {
    let expected = table::next_in_main(admin, schema, 100).await;
    assert_eq!(table::set_aside(admin, schema).await, 0);
    let first = store.claim(request(100)).await.unwrap();
    let set_aside = table::set_aside(admin, schema).await;
    assert!(first.claims.is_empty() && first.more, "{first:?}");
    assert!(
        (1_000..=SET_ASIDE_MAX).contains(&set_aside),
        "one claim set {set_aside} rows aside"
    );

    let second = store.claim(request(100)).await.unwrap();
    let claimed: Vec<i64> = second.claims.iter().map(|claim| claim.id.0).collect();
    assert_eq!(claimed, expected, "the most urgent rows that are free");
    assert_eq!(table::set_aside(admin, schema).await, 10_000);
    release(store, &second.claims).await;
}

async fn release(store: &Postgres, claims: &[Claim]) {
    let releases = claims.iter().map(|claim| Release {
        claim: claim.reference(),
        pause: Duration::ZERO,
    });
    store.release(releases.collect()).await.unwrap();
}

/// Runs every verb of the engine many times, and asserts that none reads a whole table.
///
/// Closes the given connections, since a server process reports when it ends, and returns a new
/// one.
pub(crate) async fn assert_reads_no_whole_table(
    store: Postgres,
    schema: &str,
    admin: Client,
) -> Client {
    table::close(admin).await;
    let admin = table::connect().await;
    let before = Counters::read(&admin, schema).await;
    for round in 0..100 {
        run_every_verb(&store, round).await;
    }
    store.close().await;
    let after = Counters::after_updates(&admin, schema, before.updates + 100).await;
    assert_eq!(after.seq_scans, before.seq_scans);
    admin
}

async fn run_every_verb(store: &Postgres, round: i64) {
    let claimed = store.claim(request(11)).await.unwrap();
    assert_eq!(claimed.claims.len(), 11);
    let commits: Vec<Commit> = claimed
        .claims
        .iter()
        .zip(outcomes(round))
        .map(commit)
        .collect();
    let committed = store.commit(commits.into()).await.unwrap();
    for answer in &committed.answers {
        assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
    }

    let parked = table::ids(table::PARKED, 200)[round as usize];
    let by_id = Target::Id(InstanceId(parked));
    let by_key = Target::Key {
        machine: "order".into(),
        key: format!("c{}", parked - table::PARKED + table::PARKED_WITH_KEY),
    };
    let signals = [by_id, by_key].map(|target| {
        NewSignal::new(target, "paid", Json::null()).dedup_key(format!("round {round}"))
    });
    store.deliver(signals.into(), None).await.unwrap();
    // This instance has no deadline, so that no `fire` here wakes it.
    let sleeper = Target::Id(InstanceId(parked + 2));
    let offer = ClaimOffer {
        worker: WorkerId(table::WORKER),
        queues: vec!["main".into()],
        machines: [MachineVersion::new("order", 1)].into(),
    };
    let signal = NewSignal::new(sleeper, "paid", Json::null());
    let delivered = store.deliver(vec![signal], Some(offer)).await.unwrap();
    assert_eq!(delivered.claims.len(), 1, "{delivered:?}");
    release(store, &delivered.claims).await;
    // A row at the end of the queue holds the first key, so that no claim here takes it.
    let held = 1_000_000 - 100 * (round + 1) + table::KEYED;
    for key in [format!("c{held}"), format!("unheld {round}")] {
        let unheld = key.starts_with("unheld");
        let request = SignalOrInsert {
            row: NewInstance::new("order", "start", Json::null())
                .queue("started")
                .correlation_key(key),
            name: "paid".into(),
            payload: Json::null(),
            dedup_key: Some(format!("round {round}")),
        };
        let answer = store.signal_or_insert(request).await.unwrap();
        assert_eq!(answer.inserted.is_some(), unheld, "{answer:?}");
    }

    assert_eq!(store.fire(5).await.unwrap().woken_instances.len(), 5);
    let reap = ReapRequest {
        max: 5,
        crashes_max: 3,
    };
    assert_eq!(store.reap(reap).await.unwrap().returned.len(), 5);
    let collect = CollectRequest {
        retention: Duration::from_secs(24 * 3600),
        max: 5,
    };
    assert_eq!(store.collect(collect).await.unwrap().removed.len(), 5);
    let worker = WorkerId(table::WORKER);
    store
        .heartbeat(worker, Duration::from_secs(3600))
        .await
        .unwrap();
}

fn commit((claim, outcome): (&Claim, Outcome)) -> Commit {
    Commit {
        events: flow(1).1,
        ..Commit::of(claim, outcome)
    }
}

/// One outcome of each kind.
fn outcomes(round: i64) -> [Outcome; 11] {
    let next = |proceed| Outcome::Next {
        step: "pack".into(),
        state: Json::null(),
        proceed,
    };
    let child = NewInstance::new("order", "start", Json::null()).queue("children");
    let park = Park {
        names: vec!["paid".into()],
        join_sets: Some(JoinSets::one(JoinSet {
            ranges: vec![ChildRange::whole(1)],
            children: Vec::new(),
            count: 1,
        })),
        deadline: None,
        needs_all: round % 2 == 1,
    };
    [
        flow(1).0,
        Outcome::Flow {
            children: vec![child.clone()],
            window: Some(1),
            then: Flowing::Park(park),
        },
        Outcome::ContinueAsNew {
            state: Json::null(),
        },
        next(Proceed::KeepClaim),
        next(Proceed::Requeue),
        Outcome::Retry {
            state: Json::null(),
            delay: Duration::from_secs(3600),
            error: None,
        },
        Outcome::Wait {
            names: vec!["paid".into()],
            step: "pack".into(),
            state: Json::null(),
            timeout: None,
        },
        Outcome::FanOut {
            children: vec![
                child.clone(),
                child.correlation_key(format!("child {round}")),
            ],
            join: Join::default(),
            step: "join".into(),
            state: Json::null(),
        },
        Outcome::Done {
            result: Json::null(),
        },
        Outcome::Fail {
            reason: "no more".into(),
            error: Some(Json::null()),
        },
        Outcome::Cancel {
            reason: "no more".into(),
        },
    ]
}

/// Commits `rounds` steps for each of `instances` and keeps the claims, perhaps with a signal to
/// each step. Returns the number of updates.
pub(crate) async fn run_ahead(
    store: &Postgres,
    instances: usize,
    rounds: usize,
    step: impl Fn(usize) -> (Outcome, Vec<NewEvent>),
    with_signals: bool,
) -> i64 {
    let worker = NewWorker {
        name: "runs ahead".into(),
        host: "here".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["main".into()],
        lease: Duration::from_secs(3600),
    };
    let worker = store.register(worker).await.unwrap();
    let rows = vec![NewInstance::new("order", "start", Json::null()).queue("main"); instances];
    let inserted = store.insert(rows, Some(worker)).await.unwrap();
    let mut claims: Vec<_> = inserted.rows.iter().map(claim_of).collect();
    for round in 0..rounds {
        if with_signals {
            let signals = claims
                .iter()
                .map(|claim| NewSignal::new(Target::Id(claim.id), "paid", Json::null()));
            store.deliver(signals.collect(), None).await.unwrap();
        }
        let commits = claims.iter().map(|&claim| {
            let (outcome, events) = step(round);
            Commit {
                claim,
                received: Vec::new(),
                outcome,
                answers_cancel: false,
                links: Links::UNKNOWN,
                events,
                position: None,
                views: Vec::new(),
                replies: Vec::new(),
            }
        });
        store
            .commit(commits.collect::<Vec<_>>().into())
            .await
            .unwrap();
        for claim in &mut claims {
            claim.revision = claim.revision.next();
        }
    }
    (instances * rounds * (1 + usize::from(with_signals))) as i64
}

/// A step of a machine.
pub(crate) fn next(round: usize) -> (Outcome, Vec<NewEvent>) {
    let next = Outcome::Next {
        step: format!("step {round}"),
        state: Json::of(&round).unwrap(),
        proceed: Proceed::KeepClaim,
    };
    (next, Vec::new())
}

/// A step of a workflow, with its event. Every tenth step starts a child.
pub(crate) fn flow(round: usize) -> (Outcome, Vec<NewEvent>) {
    let child = NewInstance::new("order", "start", Json::null()).queue("children");
    let flow = Outcome::Flow {
        children: vec![child; usize::from(round.is_multiple_of(10))],
        window: None,
        then: Flowing::Proceed(Proceed::KeepClaim),
    };
    let event = NewEvent {
        kind: EventKind::StepCompleted,
        call: Some(1),
        name: "reserve".into(),
        data: Json::of(&round).unwrap(),
        at: None,
    };
    (flow, vec![event])
}

fn claim_of(inserted: &Inserted) -> ClaimRef {
    let Inserted::New {
        id,
        claimed: Some(revision),
    } = *inserted
    else {
        panic!("not claimed: {inserted:?}");
    };
    ClaimRef { id, revision }
}

fn request(max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId(table::WORKER),
        queue: "main".into(),
        machines: [MachineVersion::new("order", 1)].into(),
        max,
    }
}
