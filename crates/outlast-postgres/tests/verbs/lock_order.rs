//! The order in which verbs lock, and the verbs that do not wait (docs/protocol.md, defect 7).
//!
//! A test locks the middle one of three rows. The locks that a verb holds when it waits there show
//! its order.

use crate::support::work::{
    commit, done, insert, outcome_of, request, running, task, wait_for, worker,
};
use crate::support::{drop_schema, raw, unique_schema, url_of, value_of};
use outlast_core::{
    Claim, CollectRequest, Commit, DeleteAnswer, EventKind, Extent, Flowing, InstanceId, Join,
    Json, ManualClock, NewEvent, NewInstance, NewSignal, NewWorker, Note, Outcome, Proceed,
    ReapRequest, Store,
};
use outlast_postgres::Postgres;
use outlast_testbed::program::eventually;
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A store whose connections have its schema as application name, and a session of the test.
struct Scene {
    store: Postgres,
    clock: ManualClock,
    schema: String,
    raw: Client,
}

impl Scene {
    async fn open() -> Scene {
        let (schema, clock) = (unique_schema(), ManualClock::default());
        let url = format!("{}?application_name={schema}", url_of(|config| config));
        let options = Postgres::options(&url).unwrap().schema(&schema);
        // Long enough for locks that are free, and short for locks that are not.
        let options = options.lock_timeout(Duration::from_secs(2));
        let store = options.clock(clock.clone()).connect().await.unwrap();
        Scene {
            store,
            clock,
            schema,
            raw: raw().await,
        }
    }

    /// A session that has run this statement and not committed it.
    async fn holder(&self, sql: &str) -> Client {
        let holder = raw().await;
        let sql = sql.replace("outlast.", &format!("{}.", self.schema));
        holder
            .batch_execute(&format!("begin; {sql}"))
            .await
            .unwrap();
        holder
    }

    async fn holding(&self, id: InstanceId) -> Client {
        let sql = format!("select from outlast.instances where id = {id} for update");
        self.holder(&sql).await
    }

    /// Starts a verb, and returns once the verb waits for a lock.
    async fn blocked<T: Send + 'static>(
        &self,
        verb: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        let verb = tokio::spawn(verb);
        let waits = format!(
            "select count(*) from pg_stat_activity
              where application_name = '{}' and wait_event_type = 'Lock'",
            self.schema
        );
        eventually("the verb waits for the lock", || async {
            value_of::<i64>(&self.raw, &waits).await > 0
        })
        .await;
        verb
    }

    /// Whether the instance is not locked.
    async fn is_free(&self, id: InstanceId) -> bool {
        let sql = format!(
            "select id from {}.instances where id = {id} for no key update skip locked",
            self.schema
        );
        !self.raw.query(&sql, &[]).await.unwrap().is_empty()
    }

    /// Whether no open transaction has taken the key.
    async fn is_key_free(&self, key: &str) -> bool {
        let sql = format!(
            "begin; set local lock_timeout = '50ms';
             select {}.insert('task', 'start', 'null', correlation_key => '{key}')",
            self.schema
        );
        let inserted = self.raw.batch_execute(&sql).await;
        self.raw.batch_execute("rollback").await.unwrap();
        match inserted {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error}");
                false
            }
        }
    }

    /// Claims of three tasks, by id.
    async fn three(&self) -> [Claim; 3] {
        let worker = worker(&self.store).await;
        for _ in 0..3 {
            insert(&self.store, task()).await;
        }
        let claims = self.store.claim(request(worker, 3)).await.unwrap().claims;
        claims.try_into().expect("there are three")
    }

    /// Asserts that the verb locks the three by id, although it got them in the opposite order.
    async fn assert_locks_by_id<T: Send + 'static>(
        self,
        [low, middle, high]: [InstanceId; 3],
        verb: impl Future<Output = outlast_core::Result<T>> + Send + 'static,
    ) {
        let holder = self.holding(middle).await;
        let verb = self.blocked(verb).await;
        assert!(!self.is_free(low).await, "it has not begun with the lowest");
        assert!(self.is_free(high).await, "it has begun with the highest");
        holder.batch_execute("rollback").await.unwrap();
        verb.await.unwrap().unwrap();
        self.close().await;
    }

    async fn close(self) {
        self.store.close().await;
        drop_schema(&self.schema).await;
    }
}

fn ids(claims: &[Claim; 3]) -> [InstanceId; 3] {
    [claims[0].id, claims[1].id, claims[2].id]
}

fn backwards(claims: &[Claim; 3], outcome: &Outcome) -> Vec<Commit> {
    let commits = claims.iter().rev();
    commits
        .map(|claim| Commit::of(claim, outcome.clone()))
        .collect()
}

#[tokio::test]
async fn outcomes_are_written_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let (store, commits) = (scene.store.clone(), backwards(&claims, &done()));
    let verb = async move { store.commit(commits.into()).await };
    scene.assert_locks_by_id(ids(&claims), verb).await;
}

#[tokio::test]
async fn parking_instances_are_locked_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let (store, commits) = (scene.store.clone(), backwards(&claims, &wait_for("go")));
    let verb = async move { store.commit(commits.into()).await };
    scene.assert_locks_by_id(ids(&claims), verb).await;
}

#[tokio::test]
async fn steps_of_workflows_are_written_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let (store, commits) = (scene.store.clone(), backwards(&claims, &flow(Vec::new())));
    let verb = async move { store.commit(commits.into()).await };
    scene.assert_locks_by_id(ids(&claims), verb).await;
}

/// Two statements write the outcomes, and the first one writes the highest id.
#[tokio::test]
async fn steps_of_workflows_and_of_machines_are_locked_together_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let mut commits = backwards(&claims, &done());
    commits[0].outcome = flow(Vec::new());
    let store = scene.store.clone();
    let verb = async move { store.commit(commits.into()).await };
    scene.assert_locks_by_id(ids(&claims), verb).await;
}

#[tokio::test]
async fn outcomes_with_events_are_locked_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let mut commits = backwards(&claims, &done());
    commits[0].events.push(NewEvent {
        kind: EventKind::RunCompleted,
        call: None,
        name: String::new(),
        data: Json::null(),
        at: None,
    });
    let store = scene.store.clone();
    let verb = async move { store.commit(commits.into()).await };
    scene.assert_locks_by_id(ids(&claims), verb).await;
}

#[tokio::test]
async fn targets_of_signals_are_locked_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let (store, targets) = (scene.store.clone(), ids(&claims));
    let signal = |id: &InstanceId| NewSignal::new((*id).into(), "go", Json::null());
    let signals: Vec<NewSignal> = targets.iter().rev().map(signal).collect();
    let verb = async move { store.deliver(signals, None).await };
    scene.assert_locks_by_id(targets, verb).await;
}

#[tokio::test]
async fn an_operator_verb_locks_its_rows_in_the_order_of_their_ids() {
    let scene = Scene::open().await;
    let claims = scene.three().await;
    let (store, targets) = (scene.store.clone(), ids(&claims));
    let note = Note::by("ada");
    let verb = async move {
        let backwards = targets.into_iter().rev().collect();
        store.terminate(backwards, Extent::One, note).await
    };
    scene.assert_locks_by_id(targets, verb).await;
}

/// The child of the last parent has the lowest id, so the children are in the opposite order.
#[tokio::test]
async fn ends_of_children_lock_their_parents_in_the_order_of_their_ids() {
    assert_ends_lock_parents_by_id([fan_out, fan_out, fan_out]).await;
}

/// Workflows that do not wait are locked too, and machines in turn with them.
#[tokio::test]
async fn ends_of_children_lock_workflows_and_machines_in_the_order_of_their_ids() {
    assert_ends_lock_parents_by_id([flow, flow, flow]).await;
    assert_ends_lock_parents_by_id([fan_out, flow, fan_out]).await;
    assert_ends_lock_parents_by_id([fan_out, fan_out, flow]).await;
}

async fn assert_ends_lock_parents_by_id(start: [fn(Vec<NewInstance>) -> Outcome; 3]) {
    let scene = Scene::open().await;
    let parents = scene.three().await;
    for (parent, start) in parents.iter().zip(start).rev() {
        commit(&scene.store, parent, start(vec![task()])).await;
    }
    let worker = worker(&scene.store).await;
    let children = scene.store.claim(request(worker, 3)).await.unwrap().claims;
    let ends: Vec<Commit> = children
        .iter()
        .flat_map(|child| outcome_of(child, done()))
        .collect();
    assert_eq!(ends.len(), 3);
    let store = scene.store.clone();
    let verb = async move { store.commit(ends.into()).await };
    scene.assert_locks_by_id(ids(&parents), verb).await;
}

fn fan_out(children: Vec<NewInstance>) -> Outcome {
    Outcome::FanOut {
        children,
        join: Join::default(),
        step: "joined".into(),
        state: Json::null(),
    }
}

fn flow(children: Vec<NewInstance>) -> Outcome {
    Outcome::Flow {
        children,
        window: None,
        then: Flowing::Proceed(Proceed::KeepClaim),
    }
}

/// Three tasks whose keys are not in order.
fn keyed() -> Vec<NewInstance> {
    ["z", "m", "a"]
        .map(|key| task().correlation_key(key))
        .into()
}

const TAKE_M: &str = "select outlast.insert('task', 'start', 'null', correlation_key => 'm')";

#[tokio::test]
async fn an_insert_takes_keys_in_their_order() {
    let scene = Scene::open().await;
    let holder = scene.holder(TAKE_M).await;
    let store = scene.store.clone();
    let verb = async move { store.insert(keyed(), None).await };
    let verb = scene.blocked(verb).await;
    assert!(
        scene.is_key_free("z").await,
        "it has begun with the last key"
    );
    assert!(
        !scene.is_key_free("a").await,
        "it has not begun with the first key"
    );
    holder.batch_execute("rollback").await.unwrap();
    assert_eq!(verb.await.unwrap().unwrap().rows.len(), 3);
    scene.close().await;
}

#[tokio::test]
async fn a_fan_out_takes_the_keys_of_its_children_in_their_order() {
    let scene = Scene::open().await;
    let parent = running(&scene.store).await;
    let holder = scene.holder(TAKE_M).await;
    let store = scene.store.clone();
    let verb = async move {
        store
            .commit(outcome_of(&parent, fan_out(keyed())).into())
            .await
    };
    let verb = scene.blocked(verb).await;
    assert!(
        scene.is_key_free("z").await,
        "it has begun with the last key"
    );
    assert!(
        !scene.is_key_free("a").await,
        "it has not begun with the first key"
    );
    holder.batch_execute("rollback").await.unwrap();
    verb.await.unwrap().unwrap();
    scene.close().await;
}

/// With a foreign key, removing a parent would write all its children, in the opposite order of
/// their joins.
#[tokio::test]
async fn removing_a_parent_does_not_wait_for_its_children() {
    let scene = Scene::open().await;
    let parent = running(&scene.store).await;
    commit(&scene.store, &parent, fan_out(vec![task()])).await;
    let worker = worker(&scene.store).await;
    let child = scene.store.claim(request(worker, 1)).await.unwrap().claims;
    let ended = vec![parent.id];
    let note = Note::by("ada");
    let cancelled = scene
        .store
        .terminate(ended.clone(), Extent::One, note.clone())
        .await;
    cancelled.unwrap();
    let holder = scene.holding(child[0].id).await;
    let answers = scene.store.delete(ended, note).await.unwrap();
    assert_eq!(answers, [DeleteAnswer::Deleted]);
    holder.batch_execute("rollback").await.unwrap();
    scene.close().await;
}

/// I8 and defect 8 (docs/protocol.md): claims in two queues both see the key free, and the index
/// lets one of them take it.
#[tokio::test]
async fn a_claim_that_loses_the_race_for_its_partition_key_returns_nothing() {
    let scene = Scene::open().await;
    let worker = worker(&scene.store).await;
    let keyed = || task().partition_key("key");
    let first = insert(&scene.store, keyed().queue("another")).await;
    insert(&scene.store, keyed()).await;
    let taken = format!(
        "update outlast.instances set status = 'executing', revision = 1, locked_by = {worker} where id = {first}"
    );
    let winner = scene.holder(&taken).await;
    let store = scene.store.clone();
    let loser = async move { store.claim(request(worker, 1)).await };
    let loser = scene.blocked(loser).await;
    winner.batch_execute("commit").await.unwrap();
    assert_eq!(loser.await.unwrap().unwrap().claims, []);
    scene.close().await;
}

#[tokio::test]
async fn maintenance_does_not_wait_for_locked_rows() {
    let scene = Scene::open().await;
    let store = &scene.store;
    let ended = running(store).await;
    commit(store, &ended, done()).await;
    let parked = running(store).await;
    let wait = Outcome::Wait {
        names: vec!["go".into()],
        step: "waited".into(),
        state: Json::null(),
        timeout: Some(Duration::from_secs(1)),
    };
    commit(store, &parked, wait).await;
    let dying = NewWorker {
        name: "dying".into(),
        host: "host".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: Duration::from_secs(1),
    };
    let dying = store.register(dying).await.unwrap();
    let lost = insert(store, task()).await;
    store.claim(request(dying, 1)).await.unwrap();
    scene.clock.advance(Duration::from_secs(10));

    let everything = CollectRequest {
        retention: Duration::ZERO,
        max: 10,
    };
    let dead = ReapRequest {
        max: 10,
        crashes_max: 3,
    };
    let holder = scene.holding(ended.id).await;
    let also = format!(
        "select from {0}.instances where id in ({1}, {lost}) for update",
        scene.schema, parked.id
    );
    holder.batch_execute(&also).await.unwrap();
    assert_eq!(store.collect(everything).await.unwrap().removed, []);
    assert_eq!(store.fire(10).await.unwrap().woken_instances, []);
    assert_eq!(store.reap(dead).await.unwrap().returned, []);
    holder.batch_execute("rollback").await.unwrap();

    let one = format!("select from outlast.workers where id = {dying} for no key update");
    let holder = scene.holder(&one).await;
    assert_eq!(store.reap(dead).await.unwrap().returned, []);
    holder.batch_execute("rollback").await.unwrap();

    assert_eq!(store.collect(everything).await.unwrap().removed, [ended.id]);
    assert_eq!(store.fire(10).await.unwrap().woken_instances, [parked.id]);
    assert_eq!(store.reap(dead).await.unwrap().returned, [lost]);
    scene.close().await;
}
