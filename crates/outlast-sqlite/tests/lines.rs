//! Instances of one partition key: held rows cost nothing, and each instance gets its turn (I8).
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    ClaimRequest, Extent, Inspect, InstanceId, Join, MachineVersion, ManualClock, NewInstance,
    Note, RepairScope, Repaired, Status, Store, WorkerId,
};
use outlast_sqlite::Sqlite;
use rusqlite::Connection;
use std::path::Path;

fn keyed() -> NewInstance {
    scene::order().partition_key("k")
}

fn held(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection
        .query_row(
            "select count(*) from instances where blocked = 1",
            [],
            |row| row.get(0),
        )
        .unwrap()
}

async fn finish(store: &Sqlite, claim: &outlast_core::Claim) {
    let committed = store
        .commit(vec![scene::done(claim.reference())].into())
        .await
        .unwrap();
    assert_eq!(scene::committed(&committed.answers), 1);
}

#[tokio::test]
async fn ten_thousand_rows_behind_a_busy_key_are_walked_once() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let first = scene::insert(&store, vec![keyed(); 10_001]).await[0];
    let others = scene::insert(&store, vec![scene::order(); 3]).await;

    let mut found = Vec::new();
    let mut claims = 0;
    loop {
        let claimed = scene::claim(&store, worker, 10).await;
        claims += 1;
        found.extend(scene::ids(&claimed.claims));
        if !claimed.more {
            break;
        }
    }
    assert_eq!(found, [vec![first], others].concat());
    assert!(claims <= 10_004 / 1_000 + 1, "it took {claims} claims");
    assert_eq!(held(&path), 10_000);

    let later = scene::insert(&store, vec![scene::order()]).await;
    let claimed = scene::claim(&store, worker, 10).await;
    assert_eq!(scene::ids(&claimed.claims), later);
    assert!(!claimed.more, "a claim does not read held rows again");
    store.close().await;
}

#[tokio::test]
async fn instances_of_a_partition_key_run_one_at_a_time_and_in_order() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let ids = scene::insert(&store, vec![keyed(); 5]).await;
    let mut order = Vec::new();
    while let [claim] = scene::claim(&store, worker, 10).await.claims.as_slice() {
        order.push(claim.id);
        finish(&store, claim).await;
    }
    assert_eq!(order, ids);
    assert_eq!(held(&path), 0);
    store.close().await;
}

#[tokio::test]
async fn terminating_the_first_instance_of_a_partition_key_frees_the_next() {
    let store = scene::in_memory(&ManualClock::default());
    let worker = scene::worker(&store).await;
    let ids = scene::insert(&store, vec![keyed(); 3]).await;
    let claims = scene::claim(&store, worker, 10).await.claims;
    finish(&store, &claims[0]).await;
    let terminated = store
        .terminate(vec![ids[1]], Extent::One, Note::by("tester"))
        .await
        .unwrap();
    assert!(
        terminated.woken.contains("default"),
        "the queue of the next instance gets a hint"
    );
    let claims = scene::claim(&store, worker, 10).await.claims;
    assert_eq!(scene::ids(&claims), [ids[2]]);
    store.close().await;
}

/// The next instances of the key are of a machine without a worker. The instances
/// behind them run.
#[tokio::test]
async fn a_machine_without_workers_does_not_hold_another_machine_of_its_key() {
    let store = scene::in_memory(&ManualClock::default());
    let worker = scene::worker(&store).await;
    let foreign = || NewInstance {
        machine: "foreign".into(),
        ..keyed()
    };
    let rows = vec![keyed(), foreign(), foreign(), keyed(), keyed()];
    let ids = scene::insert(&store, rows).await;
    // A claim for both machines takes the first row and holds the rows behind it.
    let both: ClaimRequest = ClaimRequest {
        machines: [
            MachineVersion::new("order", 1),
            MachineVersion::new("foreign", 1),
        ]
        .into(),
        ..scene::request(worker, 10)
    };
    let claims = store.claim(both).await.unwrap().claims;
    assert_eq!(scene::ids(&claims), [ids[0]]);

    let mut order = Vec::new();
    finish(&store, &claims[0]).await;
    while let [claim] = scene::claim(&store, worker, 10).await.claims.as_slice() {
        order.push(claim.id);
        finish(&store, claim).await;
    }
    assert_eq!(order, [ids[3], ids[4]]);
    store.close().await;
}

async fn claim_until_nothing(store: &Sqlite, worker: WorkerId) -> (Vec<InstanceId>, usize) {
    let (mut found, mut claims) = (Vec::new(), 0);
    loop {
        let claimed = scene::claim(store, worker, 5).await;
        claims += 1;
        found.extend(scene::ids(&claimed.claims));
        if !claimed.more {
            return (found, claims);
        }
        assert!(claims < 100, "the claims do not come to an end");
    }
}

#[tokio::test]
async fn rows_of_machines_that_a_worker_lacks_do_not_hide_the_rows_behind_them() {
    let store = scene::in_memory(&ManualClock::default());
    let worker = scene::worker(&store).await;
    let foreign = NewInstance {
        machine: "foreign".into(),
        ..scene::order()
    };
    scene::insert(&store, vec![foreign; 5_000]).await;
    let behind = scene::insert(&store, vec![scene::order()]).await;
    let (found, claims) = claim_until_nothing(&store, worker).await;
    assert_eq!(found, behind);
    assert!(claims <= 11, "it took {claims} claims");

    let urgent = scene::insert(&store, vec![scene::order().priority(-1)]).await;
    let claimed = scene::claim(&store, worker, 5).await;
    assert_eq!(
        scene::ids(&claimed.claims),
        urgent,
        "each claim reads the head of the queue"
    );
    store.close().await;
}

/// Returns the instances that need a repair, and repairs them.
async fn repair_all(store: &Sqlite) -> (Vec<InstanceId>, Repaired) {
    let scope = RepairScope::Page {
        after: None,
        max: 10,
    };
    let needing = store.needing_repair(scope).await.unwrap().found;
    let ids: Vec<InstanceId> = needing.into_iter().map(|(id, _)| id).collect();
    let repaired = store.repair(ids.clone(), Note::by("reconciler"));
    (ids, repaired.await.unwrap())
}

#[tokio::test]
async fn a_repair_frees_an_instance_blocked_behind_an_unused_partition_key() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let ids = scene::insert(&store, vec![keyed(); 3]).await;
    Connection::open(&path)
        .unwrap()
        .execute("update instances set blocked = 1", [])
        .unwrap();
    assert_eq!(scene::claim(&store, worker, 10).await.claims, []);

    let (needing, repaired) = repair_all(&store).await;
    assert_eq!(needing, [ids[0]]);
    assert!(repaired.woken.contains("default"));
    let (again, _) = repair_all(&store).await;
    assert_eq!(again, [], "the other holds are correct");
    assert_eq!(
        scene::ids(&scene::claim(&store, worker, 10).await.claims),
        [ids[0]]
    );
    store.close().await;
}

#[tokio::test]
async fn a_repair_counts_a_join_that_miscounts_again() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let parent = scene::insert(&store, vec![scene::order()]).await[0];
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let mut fan_out = scene::done(claim.reference());
    fan_out.outcome = outlast_core::Outcome::FanOut {
        children: vec![scene::order(); 2],
        join: Join::default(),
        step: "join".into(),
        state: claim.state.clone(),
    };
    store.commit(vec![fan_out].into()).await.unwrap();
    for child in scene::claim(&store, worker, 2).await.claims {
        finish(&store, &child).await;
    }
    let tamper =
        "update instances set status = 'awaiting_children', children_pending = 7 where id = ?1";
    Connection::open(&path)
        .unwrap()
        .execute(tamper, [parent.0])
        .unwrap();

    assert_eq!(repair_all(&store).await.0, [parent]);
    let row = store.get(parent).await.unwrap().unwrap();
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 0));
    store.close().await;
}
