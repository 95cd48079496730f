//! Inserts and signals inside the caller's own transaction.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{
    Answer, ClaimRef, Commit, Delivery, Error, ErrorKind, Inserted, Inspect, InstanceId, Invalid,
    Json, ManualClock, NewInstance, NewSignal, Outcome, Scope, Start, Status, Store, Target,
};
use outlast_sqlite::{Sqlite, transaction};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A store, and the caller's own connection to its file.
struct Shop {
    store: Sqlite,
    connection: Connection,
    path: PathBuf,
    _folder: TempDir,
}

impl Shop {
    fn open() -> Shop {
        Shop::open_with(|store| store)
    }

    fn open_with(change: impl FnOnce(outlast_sqlite::Options) -> outlast_sqlite::Options) -> Shop {
        let (folder, path) = scene::new_path();
        let store = change(Sqlite::options()).open(&path).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let table = "create table orders (number integer)";
        connection.execute_batch(table).unwrap();
        Shop {
            store,
            connection,
            path,
            _folder: folder,
        }
    }

    fn begin(&mut self) -> Transaction<'_> {
        let immediate = TransactionBehavior::Immediate;
        self.connection
            .transaction_with_behavior(immediate)
            .unwrap()
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("select count(*) from {table}");
        self.connection
            .query_row(&sql, [], |row| row.get(0))
            .unwrap()
    }

    /// Returns a parked instance that waits for the signal `go` and holds the key `key`.
    async fn parked(&self, key: &str) -> InstanceId {
        let id = scene::insert(&self.store, vec![scene::order().correlation_key(key)]).await[0];
        let worker = scene::worker(&self.store).await;
        let claim = scene::claim(&self.store, worker, 1).await.claims.remove(0);
        assert_eq!(claim.id, id);
        park(&self.store, claim.reference()).await;
        id
    }

    async fn status(&self, id: InstanceId) -> Status {
        self.store.get(id).await.unwrap().unwrap().status
    }

    async fn inbox(&self, id: InstanceId) -> usize {
        self.store.signals(id, None).await.unwrap().len()
    }
}

async fn park(store: &Sqlite, claim: ClaimRef) {
    let park = Commit {
        claim,
        received: Vec::new(),
        outcome: Outcome::Wait {
            names: vec!["go".into()],
            step: "waited".into(),
            state: Json::null(),
            timeout: None,
        },
        answers_cancel: false,
        links: outlast_core::Links::UNKNOWN,
        events: Vec::new(),
        position: None,
        views: Vec::new(),
        replies: Vec::new(),
    };
    let answers = store.commit(vec![park].into()).await.unwrap().answers;
    assert!(matches!(answers[0], Answer::Committed { .. }));
}

fn go(target: impl Into<Target>) -> NewSignal {
    NewSignal::new(target.into(), "go", Json::parse("7").unwrap())
}

fn by_key(key: &str) -> Target {
    Target::Key {
        machine: "order".into(),
        key: key.into(),
    }
}

fn is_delivered(answer: &Delivery, to: InstanceId, wakes: bool) -> bool {
    matches!(answer, Delivery::Delivered { instance, woke, .. } if *instance == to && *woke == wakes)
}

#[tokio::test]
async fn an_insert_commits_or_rolls_back_with_the_callers_own_row() {
    let mut shop = Shop::open();
    let store = shop.store.clone();
    let worker = scene::worker(&store).await;

    let tx = shop.begin();
    tx.execute("insert into orders values (42)", []).unwrap();
    transaction::insert(&tx, scene::order()).unwrap();
    tx.rollback().unwrap();
    assert_eq!((shop.count("orders"), shop.count("instances")), (0, 0));

    let tx = shop.begin();
    tx.execute("insert into orders values (42)", []).unwrap();
    let id = transaction::insert(&tx, scene::order()).unwrap();
    let id = id.new_id().unwrap();
    assert_eq!(store.get(id).await.unwrap(), None, "before the commit");
    tx.commit().unwrap();
    assert_eq!(shop.count("orders"), 1);
    let claims = scene::claim(&store, worker, 10).await.claims;
    assert_eq!(scene::ids(&claims), [id]);
}

#[tokio::test]
async fn an_insert_makes_the_same_row_as_an_insert_of_the_store() {
    let clock = ManualClock::default();
    let mut shop = Shop::open_with(|options| options.clock(clock.clone()));
    let state = Json::parse(r#"{"b": 1.0, "a":"ü'\\", "a":-0.0}"#).unwrap();
    let scope = Scope::of([Status::Runnable, Status::Failed]).unwrap();
    let full = NewInstance::new("order", "go", state)
        .version(3)
        .queue("slow")
        .priority(-5)
        .start(Start::After(Duration::from_secs(3600)))
        .partition_key("customer 7")
        .trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for new in [scene::order(), full] {
        let new = |key: &str| {
            new.clone()
                .correlation(format!("{key}{}", new.queue), scope)
        };
        let theirs = scene::insert(&shop.store, vec![new("theirs")]).await[0];
        let tx = shop.begin();
        let ours = transaction::insert_by(&tx, &clock, new("ours")).unwrap();
        tx.commit().unwrap();
        let ours = ours.new_id().unwrap();
        let mut theirs = shop.store.get(theirs).await.unwrap().unwrap();
        let ours = shop.store.get(ours).await.unwrap().unwrap();
        theirs.id = ours.id;
        theirs.correlation_key = ours.correlation_key.clone();
        assert_eq!(ours, theirs);
    }
}

#[tokio::test]
async fn an_occupied_key_is_answered_with_its_holder() {
    let mut shop = Shop::open();
    let keyed = || scene::order().correlation_key("k");
    let holder = Some(scene::insert(&shop.store, vec![keyed()]).await[0]);
    let tx = shop.begin();
    let answer = transaction::insert(&tx, keyed()).unwrap();
    assert_eq!(answer, Inserted::Duplicate { holder });
    transaction::insert(&tx, scene::order()).unwrap();
    tx.commit().unwrap();
    assert_eq!(shop.count("instances"), 2);
}

#[tokio::test]
async fn a_signal_arrives_and_wakes_its_target_with_the_commit_or_not_at_all() {
    let mut shop = Shop::open();
    let store = shop.store.clone();
    let id = shop.parked("k").await;
    let tx = shop.begin();
    let answer = transaction::signal(&tx, go(by_key("k"))).unwrap();
    assert!(is_delivered(&answer, id, true), "{answer:?}");
    tx.rollback().unwrap();
    assert_eq!(shop.status(id).await, Status::AwaitingSignal);
    assert_eq!(shop.inbox(id).await, 0);

    let tx = shop.begin();
    let other = NewSignal::new(id.into(), "other", Json::null());
    let answer = transaction::signal(&tx, other).unwrap();
    assert!(is_delivered(&answer, id, false), "{answer:?}");
    let event = || go(id).dedup_key("evt-7");
    let answer = transaction::signal(&tx, event()).unwrap();
    assert!(is_delivered(&answer, id, true), "{answer:?}");
    let answer = transaction::signal(&tx, event()).unwrap();
    assert_eq!(answer, Delivery::Duplicate { instance: id });
    for target in [InstanceId(i64::MAX).into(), by_key("nobody")] {
        let answer = transaction::signal(&tx, go(target)).unwrap();
        assert_eq!(answer, Delivery::NoTarget);
    }
    tx.commit().unwrap();
    assert_eq!(
        (shop.status(id).await, shop.inbox(id).await),
        (Status::Runnable, 2)
    );
    let worker = scene::worker(&store).await;
    let claim = scene::claim(&store, worker, 1).await.claims.remove(0);
    assert_eq!((claim.id, claim.awaited().count()), (id, 1));
    let delivered = store.deliver(vec![event()], None).await.unwrap().answers;
    assert_eq!(delivered, [Delivery::Duplicate { instance: id }]);
}

/// A type of the caller whose conversion into an instance can fail.
struct Cart {
    items: u32,
}

impl TryFrom<Cart> for NewInstance {
    type Error = Invalid;

    fn try_from(cart: Cart) -> Result<NewInstance, Invalid> {
        match cart.items {
            0 => Err(Invalid::new("cart", "is empty")),
            _ => Ok(scene::order()),
        }
    }
}

#[tokio::test]
async fn invalid_input_is_refused_and_the_transaction_continues() {
    let mut shop = Shop::open();
    let refused = |error: Error, expected: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let expected = "has no transaction open";
    let alone = transaction::insert(&shop.connection, scene::order());
    refused(alone.unwrap_err(), expected);
    let tx = shop.begin();
    let bad = scene::order().queue("");
    refused(transaction::insert(&tx, bad).unwrap_err(), "queue is empty");
    let bad = Cart { items: 0 };
    refused(transaction::insert(&tx, bad).unwrap_err(), "cart is empty");
    let bad = NewSignal::new(InstanceId(1).into(), "a\0b", Json::null());
    refused(transaction::signal(&tx, bad).unwrap_err(), "signal: signal");
    transaction::insert(&tx, Cart { items: 1 }).unwrap();
    tx.commit().unwrap();
    assert_eq!(shop.count("instances"), 1);
}

/// A signal without its wake-up would never be read.
#[tokio::test]
async fn a_verb_that_fails_half_way_is_undone_alone() {
    let mut shop = Shop::open();
    let id = shop.parked("k").await;
    shop.connection
        .execute_batch(
            "create temp trigger refuse before update on main.instances
             begin select raise(abort, 'not today'); end",
        )
        .unwrap();
    let tx = shop.begin();
    tx.execute("insert into orders values (42)", []).unwrap();
    let error = transaction::signal(&tx, go(id)).unwrap_err();
    assert!(error.to_string().contains("not today"), "{error}");
    tx.commit().unwrap();
    assert_eq!(shop.count("orders"), 1);
    assert_eq!(shop.inbox(id).await, 0);
    assert_eq!(shop.status(id).await, Status::AwaitingSignal);
}

#[tokio::test]
async fn an_insert_works_in_a_savepoint_and_after_a_plain_begin() {
    let mut shop = Shop::open();
    let mut tx = shop.begin();
    let kept = transaction::insert(&tx, scene::order()).unwrap();
    let savepoint = tx.savepoint().unwrap();
    let undone = transaction::insert(&savepoint, scene::order()).unwrap();
    drop(savepoint);
    tx.commit().unwrap();
    shop.connection.execute_batch("begin immediate").unwrap();
    let plain = transaction::insert(&shop.connection, scene::order()).unwrap();
    shop.connection.execute_batch("commit").unwrap();
    // The id of the undone insert is used again.
    assert_ne!(kept, undone);
    assert_eq!(undone, plain);
    assert_eq!(shop.count("instances"), 2);
}

#[tokio::test]
async fn a_file_without_this_versions_schema_is_refused() {
    let (_folder, path) = scene::new_path();
    let mut other = Connection::open(&path).unwrap();
    let mut refuse = |expected: &str| {
        let tx = other.transaction().unwrap();
        let error = transaction::insert(&tx, scene::order()).unwrap_err();
        assert!(matches!(error, Error::Unusable { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        tx.execute_batch(
            "create table if not exists meta (key text primary key, value text not null) strict",
        )
        .unwrap();
        tx.commit().unwrap();
    };
    refuse("has no schema of Outlast");
    let connection = Connection::open(&path).unwrap();
    for (version, expected) in [
        (1, "open a store on the file first"),
        (1_000, "a newer version"),
    ] {
        let sql = format!("insert or replace into meta values ('schema_version', '{version}')");
        connection.execute_batch(&sql).unwrap();
        refuse(expected);
    }
}

/// An open transaction is the only writer, so a park comes before it or after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_races_a_park_is_never_lost() {
    let shop = Shop::open();
    let worker = scene::worker(&shop.store).await;
    for n in 0..40 {
        let id = scene::insert(&shop.store, vec![scene::order()]).await[0];
        let claim = scene::claim(&shop.store, worker, 1).await.claims.remove(0);
        let path = shop.path.clone();
        let signalling = thread::spawn(move || {
            let mut connection = Connection::open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(20)).unwrap();
            let immediate = TransactionBehavior::Immediate;
            let tx = connection.transaction_with_behavior(immediate).unwrap();
            let answer = transaction::signal(&tx, go(id)).unwrap();
            tx.commit().unwrap();
            answer
        });
        park(&shop.store, claim.reference()).await;
        let answer = signalling.join().unwrap();
        assert!(matches!(answer, Delivery::Delivered { .. }));
        assert_eq!(shop.status(id).await, Status::Runnable, "lost after {n}");
        let claim = scene::claim(&shop.store, worker, 1).await.claims.remove(0);
        shop.store
            .commit(vec![scene::done(claim.reference())].into())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn an_insert_after_a_stale_read_asks_for_a_new_transaction() {
    let mut shop = Shop::open();
    let store = shop.store.clone();
    let tx = shop.connection.transaction().unwrap();
    let seen: i64 = tx
        .query_row("select count(*) from orders", [], |row| row.get(0))
        .unwrap();
    assert_eq!(seen, 0);
    scene::insert(&store, vec![scene::order()]).await;
    let error = transaction::insert(&tx, scene::order()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    assert!(
        error.to_string().contains("begin the next one immediately"),
        "{error}"
    );
}
