//! Behind a partition key: held rows cost nothing, and nobody in line is forgotten (I8).
#![allow(clippy::unwrap_used, reason = "what a test cannot do, it fails with")]

mod scene;

use outlast_core::{
    ClaimRequest, Extent, Inspect, InstanceId, Join, MachineVersion, ManualClock, NewInstance,
    Note, ReconcileRequest, Status, Store, WorkerId,
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
    assert!(!claimed.more, "what is held is not looked at again");
    store.close().await;
}

#[tokio::test]
async fn the_line_moves_one_by_one_and_in_order() {
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
async fn terminating_the_first_of_a_line_lets_the_next_through() {
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
        "a hint for the next in line"
    );
    let claims = scene::claim(&store, worker, 10).await.claims;
    assert_eq!(scene::ids(&claims), [ids[2]]);
    store.close().await;
}

/// The first in line is of a machine nobody runs here: the line of the others moves on.
#[tokio::test]
async fn a_machine_without_workers_does_not_stop_the_line_of_another() {
    let store = scene::in_memory(&ManualClock::default());
    let worker = scene::worker(&store).await;
    let foreign = || NewInstance {
        machine: "foreign".into(),
        ..keyed()
    };
    let rows = vec![keyed(), foreign(), foreign(), keyed(), keyed()];
    let ids = scene::insert(&store, rows).await;
    // Both machines run once, so that the rows behind are held.
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
        assert!(claims < 100, "it never comes to an end");
    }
}

#[tokio::test]
async fn rows_of_machines_the_worker_does_not_have_do_not_hide_what_is_behind_them() {
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
        "the head is looked at each time"
    );
    store.close().await;
}

#[tokio::test]
async fn reconcile_frees_what_is_held_behind_a_key_that_nobody_uses() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let ids = scene::insert(&store, vec![keyed(); 3]).await;
    Connection::open(&path)
        .unwrap()
        .execute("update instances set blocked = 1", [])
        .unwrap();
    assert_eq!(scene::claim(&store, worker, 10).await.claims, []);

    let page = ReconcileRequest {
        after: None,
        max: 10,
    };
    let reconciled = store.reconcile(page).await.unwrap();
    assert_eq!(reconciled.holds, [ids[0]]);
    assert!(reconciled.woken.contains("default"));
    let again = store.reconcile(page).await.unwrap();
    assert_eq!(again.holds, [], "the others are rightly held");
    assert_eq!(
        scene::ids(&scene::claim(&store, worker, 10).await.claims),
        [ids[0]]
    );
    store.close().await;
}

#[tokio::test]
async fn reconcile_mends_a_join_that_miscounts() {
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

    let page = ReconcileRequest {
        after: None,
        max: 10,
    };
    let reconciled = store.reconcile(page).await.unwrap();
    assert_eq!(reconciled.joins, [parent]);
    let row = store.get(parent).await.unwrap().unwrap();
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 0));
    store.close().await;
}
