//! Group commit: the writer commits waiting verbs together, and a failed verb is undone alone.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

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

/// Sends a verb without waiting for its answer.
async fn sent<'a, T>(verb: impl Future<Output = T> + Send + 'a) -> Pending<'a, T> {
    let mut verb: Pending<'a, T> = Box::pin(verb);
    std::future::poll_fn(|cx| {
        assert!(
            verb.as_mut().poll(cx).is_pending(),
            "a verb returns only after its commit"
        );
        Poll::Ready(())
    })
    .await;
    verb
}

/// Keeps every other connection from writing, as another process can.
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
    assert_eq!(store.transactions() - before, 1, "the verbs were one group");
    assert_eq!(stored(&store).await, Count::Exactly(2));
    store.close().await;
}

/// This trigger has the effect of a full disk: SQLite itself rolls back the whole transaction.
#[tokio::test]
async fn every_verb_of_a_lost_transaction_returns_an_error() {
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
    assert_eq!(
        stored(&store).await,
        Count::Exactly(1),
        "the store continues"
    );
    store.close().await;
}

fn refuse_step(connection: &Connection, step: &str, how: &str) {
    let trigger = format!(
        "create trigger refuse before insert on instances when new.step = '{step}'
         begin select raise({how}, 'refused by the test'); end"
    );
    connection.execute_batch(&trigger).unwrap();
}

/// A clock that panics while its flag is set. It stands for a fault inside a verb.
#[derive(Clone, Debug, Default)]
struct FaultyClock(Arc<AtomicBool>);

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "the clock is broken");
        SystemClock.now()
    }
}

#[tokio::test]
async fn a_panic_inside_a_verb_is_returned_as_an_error_and_the_store_continues() {
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
async fn a_verb_whose_caller_was_dropped_before_its_turn_does_not_run() {
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
