//! One bad row among good ones: the store reports it and writes the others.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    Answer, ErrorKind, Inspect, Join, Json, ManualClock, NewSignal, Outcome, Proceed, Status, Store,
};
use outlast_sqlite::Sqlite;
use rusqlite::Connection;

#[tokio::test]
async fn an_outcome_that_cannot_be_written_is_rejected_alone() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let ids = scene::insert(&store, vec![scene::order(); 3]).await;
    let claims = scene::claim(&store, worker, 3).await.claims;
    let bad = ids[1].0;
    let trigger = format!(
        "create trigger refuse before update on instances when new.id = {bad}
         begin select raise(abort, 'refused by the test'); end"
    );
    Connection::open(&path)
        .unwrap()
        .execute_batch(&trigger)
        .unwrap();

    let commits = vec![
        scene::done(claims[0].reference()),
        scene::done(claims[1].reference()),
        scene::next(claims[2].reference(), "{}", Proceed::Requeue),
    ];
    let answers = store.commit(commits.into()).await.unwrap().answers;
    let Answer::Rejected(invalid) = &answers[1] else {
        panic!("{answers:?}");
    };
    assert!(invalid.to_string().contains("refused by the test"));
    assert_eq!(scene::committed(&answers), 2);

    let statuses = [Status::Done, Status::Executing, Status::Runnable];
    for (id, status) in ids.iter().zip(statuses) {
        let row = store.get(*id).await.unwrap().unwrap();
        assert_eq!(row.status, status);
    }
    store.close().await;
}

/// The children of a rejected fan-out are not stored.
#[tokio::test]
async fn a_rejected_outcome_leaves_nothing_behind() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let worker = scene::worker(&store).await;
    let id = scene::insert(&store, vec![scene::order()]).await[0];
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    let trigger = "create trigger refuse before update on instances when new.round = 1
         begin select raise(abort, 'refused by the test'); end";
    Connection::open(&path)
        .unwrap()
        .execute_batch(trigger)
        .unwrap();

    let mut fan_out = scene::done(claim.reference());
    fan_out.outcome = Outcome::FanOut {
        children: vec![scene::order(); 5],
        join: Join::default(),
        step: "join".into(),
        state: claim.state.clone(),
    };
    let answers = store.commit(vec![fan_out].into()).await.unwrap().answers;
    assert!(matches!(answers[0], Answer::Rejected(_)), "{answers:?}");
    assert_eq!(store.children(id, None, None).await.unwrap(), []);

    let answers = store
        .commit(vec![scene::done(claim.reference())].into())
        .await
        .unwrap()
        .answers;
    assert_eq!(scene::committed(&answers), 1, "the claim is still held");
    store.close().await;
}

/// A write past the store left a row that no check saw (docs/protocol.md, defect 12).
#[tokio::test]
async fn a_row_that_cannot_be_read_fails_alone_and_does_not_stop_its_queue() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::options()
        .clock(ManualClock::default())
        .open(&path)
        .unwrap();
    let worker = scene::worker(&store).await;
    let ids = scene::insert(&store, vec![scene::order(); 3]).await;
    Connection::open(&path)
        .unwrap()
        .execute(
            "update instances set awaits = '[1]' where id = ?1",
            [ids[0].0],
        )
        .unwrap();

    let claimed = scene::claim(&store, worker, 1).await;
    assert!(claimed.claims.is_empty() && claimed.more, "more may follow");
    let claimed = scene::claim(&store, worker, 10).await;
    assert_eq!(scene::ids(&claimed.claims), ids[1..]);
    let row = store.get(ids[0]).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Failed);
    assert!(row.last_error.unwrap().contains("cannot be read"));
    store.close().await;
}

/// The same for what a claim loads besides its row.
#[tokio::test]
async fn an_instance_whose_signals_or_children_cannot_be_read_fails_alone() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::options()
        .clock(ManualClock::default())
        .open(&path)
        .unwrap();
    let worker = scene::worker(&store).await;
    let parents = scene::insert(&store, vec![scene::order(); 2]).await;
    let claims = scene::claim(&store, worker, 2).await.claims;
    let (step, state) = ("then".to_owned(), Json::null());
    let outcomes = [
        Outcome::Wait {
            names: vec!["go".into()],
            step: step.clone(),
            state: state.clone(),
            timeout: None,
        },
        Outcome::FanOut {
            children: vec![scene::order()],
            join: Join::default(),
            step,
            state,
        },
    ];
    let commits: Vec<_> = claims
        .iter()
        .zip(outcomes)
        .map(|(claim, outcome)| {
            let mut commit = scene::done(claim.reference());
            commit.outcome = outcome;
            commit
        })
        .collect();
    store.commit(commits.into()).await.unwrap();
    let child = scene::claim(&store, worker, 1).await.claims.remove(0);
    let ended = vec![scene::done(child.reference())];
    store.commit(ended.into()).await.unwrap();
    let signal = NewSignal::new(parents[0].into(), "go", Json::null());
    store.deliver(vec![signal], None).await.unwrap();
    let neighbour = scene::insert(&store, vec![scene::order()]).await;
    let by_hand = format!(
        "pragma ignore_check_constraints = on;
         update signals set payload = null where target_id = {};
         update instances set on_parent_close = 'unheard of' where id = {}",
        parents[0], child.id
    );
    Connection::open(&path)
        .unwrap()
        .execute_batch(&by_hand)
        .unwrap();

    let claimed = scene::claim(&store, worker, 10).await;
    assert_eq!(scene::ids(&claimed.claims), neighbour);
    for id in parents {
        let row = store.get(id).await.unwrap().unwrap();
        assert_eq!(row.status, Status::Failed);
        assert!(row.last_error.unwrap().contains("cannot be read"));
    }
    store.close().await;
}

#[tokio::test]
async fn a_read_of_an_unreadable_row_fails_as_corrupt() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let id = scene::insert(&store, vec![scene::order()]).await[0];
    Connection::open(&path)
        .unwrap()
        .execute("update instances set awaits = '[1]'", [])
        .unwrap();
    let error = store.get(id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    store.close().await;
}
