//! Every file under `sql/` is executed by a test, and not only prepared.
//!
//! A statement can fit the schema and still fail when it runs: by a constraint, a cast or a
//! division. A conductor sees each statement that a store sends.

use crate::support::work::{insert, task};
use crate::support::{drop_schema, options, raw, subject, unique_schema};
use async_trait::async_trait;
use outlast_conformance::try_broad_rules;
use outlast_core::{
    Hints, Inspect, InstanceId, Json, ManualClock, NewSignal, Note, RepairAnswer, RepairNeed,
    Store, Target,
};
use outlast_postgres::transaction::tokio_postgres as verbs;
use outlast_postgres::{Conductor, Postgres, testing};
use outlast_testbed::program::eventually;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Records the names of the statements that are sent.
#[derive(Default)]
struct Recorder(Mutex<BTreeSet<&'static str>>);

#[async_trait]
impl Conductor for Recorder {
    async fn before(&self, statement: &'static str) {
        self.0.lock().unwrap().insert(statement);
    }
}

#[tokio::test]
async fn every_statement_is_executed() {
    let recorder = Arc::new(Recorder::default());
    // An error of a statement fails its rule.
    try_broad_rules(|| {
        let recorder = recorder.clone();
        subject(|it| it.conductor(recorder), ManualClock::default())
    })
    .await;
    let schema = unique_schema();
    let store = options(&schema, &ManualClock::default()).conductor(recorder.clone());
    let store = store.connect().await.unwrap();
    store.doctor().await.unwrap();
    // A hint is sent when another node listens.
    let other = options(&schema, &ManualClock::default());
    let other = other.connect().await.unwrap();
    let mut listener = other.listen().await.unwrap().unwrap();
    let hints = Hints::now(["default".to_owned()].into());
    eventually("a hint is sent", || async {
        store.notify(hints.clone()).await.unwrap();
        recorder.0.lock().unwrap().contains("notify/notify")
    })
    .await;
    assert_eq!(listener.next().await.unwrap().queues, hints.queues);
    // A user's own transaction is not the store's, so the conductor does not see it.
    let (client, mut users) = (raw().await, BTreeSet::new());
    let inserted = verbs::insert(&client, &store, task()).await.unwrap();
    users.insert("transaction/insert");
    let target = Target::Id(inserted.new_id().unwrap_or(InstanceId(0)));
    let signal = NewSignal::new(target.clone(), "go", Json::null());
    verbs::signal(&client, &store, signal).await.unwrap();
    users.insert("transaction/signal");
    let Target::Id(updated) = target else {
        panic!("it has an id");
    };
    let web = options(&schema, &ManualClock::default()).enqueue_only();
    let web = web.conductor(recorder.clone()).connect().await.unwrap();
    assert_eq!(web.update(updated, "u").await.unwrap(), None);
    web.close().await;
    every_repair_is_made(&store, &client, &schema).await;
    other.close().await;
    store.close().await;
    drop_schema(&schema).await;

    let executed = recorder.0.lock().unwrap();
    let statements = testing::statements(&schema).into_iter();
    let never = statements.map(|(name, _)| name);
    let never: Vec<_> = never
        .filter(|name| !executed.contains(name) && !users.contains(name))
        .collect();
    assert!(never.is_empty(), "nothing here executes {never:#?}");
}

/// No verb leaves anything to repair, so it is made by hand.
async fn every_repair_is_made(store: &Postgres, client: &tokio_postgres::Client, schema: &str) {
    let sleeper = insert(store, task()).await;
    let parent = insert(store, task()).await;
    let behind = insert(store, task().partition_key("p")).await;
    let edits = [
        (sleeper, "status = 'awaiting_signal', awaits = '{}'"),
        (parent, "status = 'awaiting_children', children_pending = 9"),
        (behind, "blocked = true"),
    ];
    for (id, edit) in edits {
        let sql = format!("update \"{schema}\".instances set {edit} where id = {id}");
        client.batch_execute(&sql).await.unwrap();
    }
    let ids = vec![sleeper, parent, behind];
    let repaired = store.repair(ids, Note::by("ada")).await.unwrap();
    let needs = [
        RepairNeed::NothingAwaited,
        RepairNeed::ChildrenMiscounted,
        RepairNeed::KeyIsFree,
    ];
    assert_eq!(repaired.answers, needs.map(RepairAnswer::Repaired));
}
