//! One writer: what waits together is written together, and each verb stands or falls alone.
#![allow(clippy::unwrap_used, reason = "what a test cannot do, it fails with")]

mod scene;

use outlast_core::{Clock, ErrorKind, Filter, Inspect, ManualClock, Store, SystemClock, Timestamp};
use outlast_core::{Count, WorkerId};
use outlast_sqlite::Sqlite;
use rusqlite::Connection;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends a verb on its way without waiting for its answer.
async fn sent<'a, T>(verb: impl Future<Output = T> + Send + 'a) -> Pending<'a, T> {
    let mut verb: Pending<'a, T> = Box::pin(verb);
    std::future::poll_fn(|cx| {
        assert!(
            verb.as_mut().poll(cx).is_pending(),
            "nothing is answered before its commit"
        );
        Poll::Ready(())
    })
    .await;
    verb
}

/// Keeps every other connection from writing, as another process would.
fn lock(connection: &Connection) {
    connection.execute_batch("begin immediate").unwrap();
}

fn unlock(connection: &Connection) {
    connection.execute_batch("rollback").unwrap();
}

async fn stored(store: &Sqlite) -> Count {
    store.count(Filter::default()).await.unwrap()
}

#[tokio::test]
async fn verbs_that_wait_together_share_one_transaction() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    let before = store.transactions();

    lock(&other);
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(sent(store.insert(vec![scene::order()], None)).await);
    }
    unlock(&other);
    for verb in waiting {
        verb.await.unwrap();
    }
    assert_eq!(store.transactions() - before, 1);
    assert_eq!(stored(&store).await, Count::Exactly(50));
    store.close().await;
}

#[tokio::test]
async fn a_verb_that_fails_is_undone_alone() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    refuse_step(&other, "bad", "abort");
    let before = store.transactions();
    let bad = outlast_core::NewInstance {
        step: "bad".into(),
        ..scene::order()
    };

    lock(&other);
    let first = sent(store.insert(vec![scene::order()], None)).await;
    let half_done = sent(store.insert(vec![scene::order(), bad], None)).await;
    let dead = sent(store.claim(scene::request(WorkerId(7), 1))).await;
    let last = sent(store.insert(vec![scene::order()], None)).await;
    unlock(&other);

    assert!(first.await.is_ok());
    assert_eq!(half_done.await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(dead.await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(last.await.is_ok());
    assert_eq!(store.transactions() - before, 1, "they were one group");
    assert_eq!(stored(&store).await, Count::Exactly(2));
    store.close().await;
}

/// A full disk does what this trigger does: SQLite rolls back the whole transaction by itself.
#[tokio::test]
async fn when_the_transaction_is_lost_nobody_is_told_that_it_succeeded() {
    let (_folder, path) = scene::new_path();
    let store = Sqlite::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    refuse_step(&other, "fatal", "rollback");
    let fatal = outlast_core::NewInstance {
        step: "fatal".into(),
        ..scene::order()
    };

    lock(&other);
    let first = sent(store.insert(vec![scene::order()], None)).await;
    let second = sent(store.insert(vec![fatal], None)).await;
    unlock(&other);

    let error = first.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
    assert!(second.await.is_err());
    assert_eq!(stored(&store).await, Count::Exactly(0));
    scene::insert(&store, vec![scene::order()]).await;
    assert_eq!(stored(&store).await, Count::Exactly(1), "and it goes on");
    store.close().await;
}

fn refuse_step(connection: &Connection, step: &str, how: &str) {
    let trigger = format!(
        "create trigger refuse before insert on instances when new.step = '{step}'
         begin select raise({how}, 'refused by the test'); end"
    );
    connection.execute_batch(&trigger).unwrap();
}

/// Panics when told to: a stand-in for a fault inside a verb.
#[derive(Clone, Debug, Default)]
struct FaultyClock(Arc<AtomicBool>);

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "the clock is broken");
        SystemClock.now()
    }
}

#[tokio::test]
async fn a_panic_inside_a_verb_is_its_answer_and_the_store_goes_on() {
    let clock = FaultyClock::default();
    let store = Sqlite::options().clock(clock.clone()).in_memory().unwrap();
    clock.0.store(true, Ordering::SeqCst);
    let error = store.insert(vec![scene::order()], None).await.unwrap_err();
    assert!(error.to_string().contains("the clock is broken"), "{error}");

    clock.0.store(false, Ordering::SeqCst);
    scene::insert(&store, vec![scene::order()]).await;
    assert_eq!(stored(&store).await, Count::Exactly(1));
    store.close().await;
}

#[tokio::test]
async fn a_verb_whose_asker_went_away_before_its_turn_is_not_run() {
    let (_folder, path) = scene::new_path();
    let clock = ManualClock::default();
    let store = Sqlite::options().clock(clock).open(&path).unwrap();
    let other = Connection::open(&path).unwrap();

    lock(&other);
    let stays = sent(store.insert(vec![scene::order()], None)).await;
    drop(sent(store.insert(vec![scene::order()], None)).await);
    unlock(&other);
    stays.await.unwrap();
    assert_eq!(stored(&store).await, Count::Exactly(1));
    store.close().await;
}
