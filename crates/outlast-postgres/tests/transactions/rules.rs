//! The rules for insert and signal inside the caller's own transaction, with every driver.

use crate::support::work::{
    self, claim, commit, done, get, outcome_of, running, task, wait_for, worker,
};
use crate::support::{drop_schema, raw, unique_schema, url, url_of, value_of};
use outlast_core::{
    Answer, Delivery, Error, ErrorKind, Inserted, Inspect, InstanceId, Invalid, Json, NewInstance,
    NewSignal, Scope, Start, Status, Store, Target, Timestamp, UpdateState,
};
use outlast_postgres::Postgres;
use outlast_postgres::transaction::Schema;
use outlast_testbed::program::eventually;
use std::time::Duration;

/// A connection of a driver with an open transaction.
#[allow(async_fn_in_trait, reason = "no future here is sent to another thread")]
pub(crate) trait Caller: Sized {
    /// Connects and runs `begin`.
    async fn begin(url: &str, begin: &str) -> Self;

    async fn run(&mut self, sql: &str);

    async fn insert<N>(&mut self, at: &impl AsRef<Schema>, new: N) -> Result<Inserted, Error>
    where
        N: TryInto<NewInstance>,
        N::Error: Into<Invalid>;

    async fn signal<S>(&mut self, at: &impl AsRef<Schema>, signal: S) -> Result<Delivery, Error>
    where
        S: TryInto<NewSignal>,
        S::Error: Into<Invalid>;

    async fn commit(mut self) {
        self.run("commit").await;
    }

    async fn roll_back(mut self) {
        self.run("rollback").await;
    }
}

/// Makes a test of every rule.
macro_rules! transaction_rules {
    ($caller:ty) => {
        transaction_rules! { $caller:
            an_insert_commits_or_rolls_back_with_the_callers_own_row,
            an_insert_makes_the_same_row_as_an_insert_of_the_store,
            an_occupied_key_is_answered_with_its_holder,
            a_signal_arrives_and_wakes_its_target_with_the_commit_or_not_at_all,
            a_signal_by_key_goes_to_the_holder_of_the_key,
            a_signal_is_delivered_once_under_its_dedup_key,
            an_update_is_delivered_as_one,
            a_signal_without_a_target_answers_no_target,
            a_full_inbox_refuses_another_signal,
            invalid_input_is_refused_before_it_is_sent,
            a_park_waits_for_the_open_transaction_of_a_signal,
            a_signal_that_races_a_park_is_never_lost,
            a_signal_that_waited_while_its_key_changed_hands_reaches_the_new_holder,
            a_snapshot_that_is_too_old_gives_a_transient_error,
            the_error_for_a_missing_schema_says_what_to_do,
        }
    };
    ($caller:ty: $($rule:ident,)*) => {
        $(#[tokio::test]
        async fn $rule() {
            crate::rules::$rule::<$caller>().await;
        })*
    };
}

pub(crate) use transaction_rules;

/// A store in its own schema, and a table of the caller in the same schema.
struct Shop {
    store: Postgres,
    schema: String,
}

impl Shop {
    async fn open() -> Shop {
        let schema = unique_schema();
        let url = format!("{}?application_name={schema}", url_of(|config| config));
        let options = Postgres::options(&url).unwrap().schema(&schema);
        let store = options.connect().await.unwrap();
        let table = format!("create table {schema}.orders (number bigint)");
        raw().await.batch_execute(&table).await.unwrap();
        Shop { store, schema }
    }

    async fn begin<C: Caller>(&self) -> C {
        C::begin(&url(), "begin").await
    }

    async fn orders(&self) -> i64 {
        self.count("orders").await
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("select count(*) from {}.{table}", self.schema);
        value_of(&raw().await, &sql).await
    }

    async fn run(&self, sql: &str) {
        let sql = sql.replace("shop.", &format!("{}.", self.schema));
        raw().await.batch_execute(&sql).await.unwrap();
    }

    /// An instance that waits for the signal `go`, under the key `key`.
    async fn parked(&self, key: &str) -> InstanceId {
        let id = work::insert(&self.store, task().correlation_key(key)).await;
        let claim = claim(&self.store, worker(&self.store).await).await;
        assert_eq!(claim.id, id);
        commit(&self.store, &claim, wait_for("go")).await;
        id
    }

    async fn status(&self, id: InstanceId) -> Status {
        get(&self.store, id).await.status
    }

    async fn inbox(&self, id: InstanceId) -> usize {
        self.store.signals(id, None).await.unwrap().len()
    }

    async fn wait_until_blocked(&self, application: &str) {
        let raw = raw().await;
        let sql = format!(
            "select exists (select from pg_stat_activity
                             where application_name = '{application}' and wait_event_type = 'Lock')"
        );
        eventually("a session waits for the lock", || value_of(&raw, &sql)).await;
    }

    async fn close(self) {
        self.store.close().await;
        drop_schema(&self.schema).await;
    }
}

fn go(target: impl Into<Target>) -> NewSignal {
    NewSignal::new(target.into(), "go", Json::parse("7").unwrap())
}

fn by_key(key: &str) -> Target {
    Target::Key {
        machine: "task".into(),
        key: key.into(),
    }
}

fn is_delivered(answer: &Delivery, to: InstanceId, wakes: bool) -> bool {
    matches!(answer, Delivery::Delivered { instance, woke, .. } if *instance == to && *woke == wakes)
}

pub(crate) async fn an_insert_commits_or_rolls_back_with_the_callers_own_row<C: Caller>() {
    let shop = Shop::open().await;
    let worker = worker(&shop.store).await;
    let order = format!("insert into {}.orders values (42)", shop.schema);

    let mut caller: C = shop.begin().await;
    caller.run(&order).await;
    caller.insert(&shop.store, task()).await.unwrap();
    caller.roll_back().await;
    assert_eq!((shop.orders().await, shop.count("instances").await), (0, 0));

    let mut caller: C = shop.begin().await;
    caller.run(&order).await;
    let inserted = caller.insert(&shop.store, task()).await.unwrap();
    let id = inserted.new_id().unwrap();
    assert_eq!(shop.store.get(id).await.unwrap(), None, "visible too early");
    let claimed = shop.store.claim(work::request(worker, 10)).await.unwrap();
    assert!(claimed.claims.is_empty());
    caller.commit().await;
    assert_eq!(shop.orders().await, 1);
    assert_eq!(claim(&shop.store, worker).await.id, id);
    shop.close().await;
}

pub(crate) async fn an_insert_makes_the_same_row_as_an_insert_of_the_store<C: Caller>() {
    let shop = Shop::open().await;
    // The store keeps the order of keys, duplicate keys, spaces, and the notation of numbers.
    let state = Json::parse(r#"{"b": 1.0, "a":"ü'\\", "a":-0.0}"#).unwrap();
    let at = Timestamp(1_767_225_600_000_000);
    let full = NewInstance::new("task", "go", state)
        .version(3)
        .queue("slow")
        .priority(-5)
        .start(Start::At(at))
        .partition_key("customer 7")
        .trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    for (n, new) in [task(), full].into_iter().enumerate() {
        let scope = Scope::of([Status::Runnable, Status::Failed]).unwrap();
        let key = |writer: &str| format!("{writer} {n}");
        let theirs = new.clone().correlation(key("store"), scope);
        let theirs = work::insert(&shop.store, theirs).await;
        let mut caller: C = shop.begin().await;
        let ours = new.correlation(key("caller"), scope);
        let ours = caller.insert(&shop.store, ours).await.unwrap();
        caller.commit().await;
        let ours = get(&shop.store, ours.new_id().unwrap()).await;
        let mut theirs = get(&shop.store, theirs).await;
        assert_eq!(ours.correlation_key, Some(key("caller")));
        // The times of one clock differ, and so do the id and the key.
        theirs.id = ours.id;
        theirs.correlation_key = ours.correlation_key.clone();
        if n == 0 {
            theirs.eligible_at = ours.eligible_at;
        }
        theirs.inserted_at = ours.inserted_at;
        theirs.updated_at = ours.updated_at;
        assert_eq!(ours, theirs);
    }
    let mut caller: C = shop.begin().await;
    let later = task().start(Start::After(Duration::from_secs(3600)));
    let id = caller.insert(&shop.store, later).await.unwrap();
    caller.commit().await;
    let row = get(&shop.store, id.new_id().unwrap()).await;
    let delay = row.eligible_at.since(row.inserted_at);
    assert_eq!(delay, Duration::from_secs(3600));
    shop.close().await;
}

pub(crate) async fn an_occupied_key_is_answered_with_its_holder<C: Caller>() {
    let shop = Shop::open().await;
    let holder = work::insert(&shop.store, task().correlation_key("k")).await;
    let mut caller: C = shop.begin().await;
    let duplicate = Inserted::Duplicate {
        holder: Some(holder),
    };
    let again = task().correlation_key("k");
    assert_eq!(
        caller.insert(&shop.store, again.clone()).await.unwrap(),
        duplicate
    );
    // The transaction goes on, and its own insert holds its key.
    let other = caller
        .insert(&shop.store, task().correlation_key("l"))
        .await;
    let other = other.unwrap().new_id();
    let own = caller
        .insert(&shop.store, task().correlation_key("l"))
        .await;
    assert_eq!(own.unwrap(), Inserted::Duplicate { holder: other });
    caller.commit().await;
    assert_eq!(shop.count("instances").await, 2);
    shop.close().await;
}

pub(crate) async fn a_signal_arrives_and_wakes_its_target_with_the_commit_or_not_at_all<
    C: Caller,
>() {
    let shop = Shop::open().await;
    let id = shop.parked("k").await;
    let mut caller: C = shop.begin().await;
    let answer = caller.signal(&shop.store, go(id)).await.unwrap();
    assert!(is_delivered(&answer, id, true), "{answer:?}");
    caller.roll_back().await;
    let parked = (Status::AwaitingSignal, 0);
    assert_eq!((shop.status(id).await, shop.inbox(id).await), parked);

    let mut caller: C = shop.begin().await;
    let other = NewSignal::new(id.into(), "other", Json::null());
    let answer = caller.signal(&shop.store, other).await.unwrap();
    assert!(is_delivered(&answer, id, false), "{answer:?}");
    let answer = caller.signal(&shop.store, go(id)).await.unwrap();
    assert!(is_delivered(&answer, id, true), "{answer:?}");
    // In this transaction the target is already awake.
    let answer = caller.signal(&shop.store, go(id)).await.unwrap();
    assert!(is_delivered(&answer, id, false), "{answer:?}");
    assert_eq!((shop.status(id).await, shop.inbox(id).await), parked);
    caller.commit().await;
    assert_eq!(
        (shop.status(id).await, shop.inbox(id).await),
        (Status::Runnable, 3)
    );
    let claim = claim(&shop.store, worker(&shop.store).await).await;
    let payloads: Vec<_> = claim.awaited().map(|it| it.payload.as_str()).collect();
    assert_eq!((claim.id, payloads), (id, vec!["7", "7"]));
    shop.close().await;
}

pub(crate) async fn a_signal_by_key_goes_to_the_holder_of_the_key<C: Caller>() {
    let shop = Shop::open().await;
    let [first, second] = [shop.parked("a").await, shop.parked("b").await];
    let mut caller: C = shop.begin().await;
    let answer = caller.signal(&shop.store, go(by_key("b"))).await.unwrap();
    assert!(is_delivered(&answer, second, true), "{answer:?}");
    // The transaction can signal an instance that it started itself.
    let own = caller
        .insert(&shop.store, task().correlation_key("c"))
        .await;
    let own = own.unwrap().new_id().unwrap();
    let answer = caller.signal(&shop.store, go(by_key("c"))).await.unwrap();
    assert!(is_delivered(&answer, own, false), "{answer:?}");
    caller.commit().await;
    assert_eq!(shop.status(first).await, Status::AwaitingSignal);
    assert_eq!(shop.status(second).await, Status::Runnable);
    assert_eq!(shop.inbox(own).await, 1);
    shop.close().await;
}

pub(crate) async fn a_signal_is_delivered_once_under_its_dedup_key<C: Caller>() {
    let shop = Shop::open().await;
    let id = shop.parked("k").await;
    let event = || go(id).dedup_key("evt-7");
    let mut caller: C = shop.begin().await;
    let answer = caller.signal(&shop.store, event()).await.unwrap();
    assert!(is_delivered(&answer, id, true), "{answer:?}");
    let duplicate = Delivery::Duplicate { instance: id };
    let answer = caller.signal(&shop.store, event()).await.unwrap();
    assert_eq!(answer, duplicate);
    caller.commit().await;
    let delivered = shop.store.deliver(vec![event()], None).await.unwrap();
    assert_eq!(delivered.answers, [duplicate]);
    let mut caller: C = shop.begin().await;
    let answer = caller.signal(&shop.store, event()).await.unwrap();
    assert_eq!(answer, duplicate);
    caller.commit().await;
    assert_eq!(shop.inbox(id).await, 1);
    shop.close().await;
}

pub(crate) async fn an_update_is_delivered_as_one<C: Caller>() {
    let shop = Shop::open().await;
    let id = shop.parked("k").await;
    let mut caller: C = shop.begin().await;
    for (target, update) in [(by_key("k"), "u-1"), (Target::Id(id), "u-2")] {
        let answer = caller.signal(&shop.store, go(target).update(update)).await;
        assert!(matches!(answer.unwrap(), Delivery::Delivered { .. }));
    }
    let plain = caller.signal(&shop.store, go(id).dedup_key("d")).await;
    assert!(matches!(plain.unwrap(), Delivery::Delivered { .. }));
    caller.commit().await;
    for (update, expected) in [("u-1", true), ("u-2", true), ("d", false)] {
        let found = shop.store.update(id, update).await.unwrap();
        let is_pending = found.is_some_and(|it| it.state == UpdateState::Pending);
        assert_eq!(is_pending, expected, "{update}");
    }
    shop.close().await;
}

pub(crate) async fn a_signal_without_a_target_answers_no_target<C: Caller>() {
    let shop = Shop::open().await;
    let ended = running(&shop.store).await;
    commit(&shop.store, &ended, done()).await;
    let mut caller: C = shop.begin().await;
    for target in [
        ended.id.into(),
        InstanceId(i64::MAX).into(),
        by_key("nobody"),
    ] {
        let answer = caller.signal(&shop.store, go(target)).await.unwrap();
        assert_eq!(answer, Delivery::NoTarget);
    }
    caller.commit().await;
    assert_eq!(shop.count("signals").await, 0);
    shop.close().await;
}

pub(crate) async fn a_full_inbox_refuses_another_signal<C: Caller>() {
    let shop = Shop::open().await;
    let id = shop.parked("k").await;
    shop.run(&format!(
        "insert into shop.signals (target_id, name, payload, inserted_at)
         select {id}, 'other', 'null', now() from generate_series(1, 9999)"
    ))
    .await;
    let mut caller: C = shop.begin().await;
    let answer = caller.signal(&shop.store, go(id)).await.unwrap();
    assert!(is_delivered(&answer, id, true), "{answer:?}");
    let answer = caller.signal(&shop.store, go(id)).await.unwrap();
    assert_eq!(answer, Delivery::InboxFull { instance: id });
    caller.roll_back().await;
    shop.close().await;
}

/// A type of the caller whose conversion to an instance can fail.
struct Cart {
    items: u32,
}

impl TryFrom<Cart> for NewInstance {
    type Error = Invalid;

    fn try_from(cart: Cart) -> Result<NewInstance, Invalid> {
        match cart.items {
            0 => Err(Invalid::new("cart", "is empty")),
            _ => Ok(task()),
        }
    }
}

pub(crate) async fn invalid_input_is_refused_before_it_is_sent<C: Caller>() {
    let shop = Shop::open().await;
    let mut caller: C = shop.begin().await;
    let refused = |error: Error, message: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains(message), "{error}");
    };
    let bad = NewInstance::new("a/b", "start", Json::null());
    refused(
        caller.insert(&shop.store, bad).await.unwrap_err(),
        "insert: machine",
    );
    let bad = task().queue("");
    refused(
        caller.insert(&shop.store, bad).await.unwrap_err(),
        "queue is empty",
    );
    let bad = Cart { items: 0 };
    refused(
        caller.insert(&shop.store, bad).await.unwrap_err(),
        "cart is empty",
    );
    let bad = NewSignal::new(InstanceId(1).into(), "a\0b", Json::null());
    refused(
        caller.signal(&shop.store, bad).await.unwrap_err(),
        "signal: signal",
    );
    // None of these reached the server, so the transaction goes on.
    caller.insert(&shop.store, Cart { items: 1 }).await.unwrap();
    caller.commit().await;
    assert_eq!(shop.count("instances").await, 1);
    shop.close().await;
}

/// Defect 2 (docs/protocol.md): a park sees a signal that was not yet committed when the park
/// began.
pub(crate) async fn a_park_waits_for_the_open_transaction_of_a_signal<C: Caller>() {
    let shop = Shop::open().await;
    let claim = running(&shop.store).await;
    let mut caller: C = shop.begin().await;
    let answer = caller.signal(&shop.store, go(claim.id)).await.unwrap();
    assert!(is_delivered(&answer, claim.id, false), "{answer:?}");
    let park = tokio::spawn({
        let (store, commits) = (shop.store.clone(), outcome_of(&claim, wait_for("go")));
        async move {
            store
                .commit(commits.into())
                .await
                .unwrap()
                .answers
                .remove(0)
        }
    });
    shop.wait_until_blocked(&shop.schema).await;
    caller.commit().await;
    assert!(matches!(park.await.unwrap(), Answer::Committed { .. }));
    assert_eq!(shop.status(claim.id).await, Status::Runnable, "signal lost");
    shop.close().await;
}

pub(crate) async fn a_signal_that_races_a_park_is_never_lost<C: Caller>() {
    let shop = Shop::open().await;
    let worker = worker(&shop.store).await;
    let mut caller: C = shop.begin().await;
    caller.run("commit").await;
    let mut woken = 0;
    for n in 0..100 {
        let id = work::insert(&shop.store, task()).await;
        let held = claim(&shop.store, worker).await;
        let parking = commit(&shop.store, &held, wait_for("go"));
        let signalling = async {
            // Signals begin with different delays, so that both orders occur.
            for _ in 0..n % 10 {
                tokio::task::yield_now().await;
            }
            caller.run("begin").await;
            let answer = caller.signal(&shop.store, go(id)).await.unwrap();
            caller.run("commit").await;
            answer
        };
        let (parked, answer) = tokio::join!(parking, signalling);
        assert!(matches!(parked, Answer::Committed { .. }));
        woken += u32::from(is_delivered(&answer, id, true));
        assert_eq!(
            shop.status(id).await,
            Status::Runnable,
            "signal lost in round {n}"
        );
        let claim = claim(&shop.store, worker).await;
        assert_eq!((claim.id, claim.awaited().count()), (id, 1));
        commit(&shop.store, &claim, done()).await;
    }
    eprintln!("{woken} of 100 parked first");
    shop.close().await;
}

pub(crate) async fn a_signal_that_waited_while_its_key_changed_hands_reaches_the_new_holder<
    C: Caller,
>() {
    let shop = Shop::open().await;
    let first = shop.parked("k").await;
    let other = raw().await;
    let replace = format!(
        "begin;
         update {0}.instances set status = 'done', finished_at = now(), result = 'null',
                correlation_guard = null, awaits = null where id = {first};
         select {0}.insert('task', 'start', correlation_key => 'k')",
        shop.schema
    );
    other.batch_execute(&replace).await.unwrap();
    let name = format!("{}_waits", shop.schema);
    let url = format!("{}?application_name={name}", url_of(|config| config));
    let mut caller = C::begin(&url, "begin").await;
    let release = async {
        shop.wait_until_blocked(&name).await;
        other.batch_execute("commit").await.unwrap();
    };
    let (answer, ()) = tokio::join!(caller.signal(&shop.store, go(by_key("k"))), release);
    let second = shop.store.find("task", "k").await.unwrap().unwrap().id;
    let answer = answer.unwrap();
    assert_ne!(second, first);
    assert!(is_delivered(&answer, second, false), "{answer:?}");
    caller.commit().await;
    assert_eq!((shop.inbox(first).await, shop.inbox(second).await), (0, 1));
    shop.close().await;
}

pub(crate) async fn a_snapshot_that_is_too_old_gives_a_transient_error<C: Caller>() {
    let shop = Shop::open().await;
    for level in ["repeatable read", "serializable"] {
        let claim = running(&shop.store).await;
        let begin = format!("begin isolation level {level}; select 1");
        let mut caller = C::begin(&url(), &begin).await;
        commit(&shop.store, &claim, wait_for("go")).await;
        let error = caller.signal(&shop.store, go(claim.id)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
        caller.roll_back().await;
        assert_eq!(shop.status(claim.id).await, Status::AwaitingSignal);

        let mut caller = C::begin(&url(), &begin).await;
        let taken = work::insert(&shop.store, task().correlation_key(level)).await;
        let late = task().correlation_key(level);
        let error = caller.insert(&shop.store, late.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
        caller.roll_back().await;

        // A second try has a new snapshot and works.
        let mut caller = C::begin(&url(), &begin).await;
        let answer = caller.signal(&shop.store, go(claim.id)).await.unwrap();
        assert!(is_delivered(&answer, claim.id, true), "{answer:?}");
        let holder = Some(taken);
        let answer = caller.insert(&shop.store, late).await.unwrap();
        assert_eq!(answer, Inserted::Duplicate { holder });
        caller.commit().await;
        let mut rest = shop
            .store
            .claim(work::request(worker(&shop.store).await, 10))
            .await
            .unwrap();
        for claim in rest.claims.drain(..) {
            commit(&shop.store, &claim, done()).await;
        }
    }
    shop.close().await;
}

pub(crate) async fn the_error_for_a_missing_schema_says_what_to_do<C: Caller>() {
    let mut caller = C::begin(&url(), "begin").await;
    let nowhere = Schema::new("outlast_is_not_here").unwrap();
    let error = caller.insert(&nowhere, task()).await.unwrap_err();
    assert!(matches!(error, Error::Unusable { .. }), "{error:?}");
    assert!(error.to_string().contains("run the migrations"), "{error}");
    caller.roll_back().await;
    assert!(Schema::new("no; such").is_err());
    assert_eq!(Schema::default().name(), "outlast");
}
