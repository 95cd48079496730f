//! Nodes with different roles, and several engines in one process.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{ClaimRequest, Inspect, MachineVersion, NewWorker, Store, limits};
use outlast::{Client, Roles, SetupError, Sqlite, Status, WaitError};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Barrier;

on_both_stores!(
    a_web_node_runs_nothing,
    a_web_node_needs_neither_machines_nor_queues,
    a_worker_needs_machines_and_queues,
    a_worker_without_maintenance_leaves_deadlines_to_others,
    a_maintenance_node_gives_back_the_claims_of_dead_workers,
    a_maintenance_node_removes_instances_after_their_retention,
    engines_in_one_process_share_the_work_of_one_store,
    engines_on_two_stores_run_only_the_instances_of_their_own_store,
    a_worker_is_registered_with_its_name_and_queues,
);

/// Returns the name of the engine that ran it.
#[derive(Clone)]
struct Where {
    name: &'static str,
    together: Arc<Barrier>,
}

impl Where {
    fn at(name: &'static str) -> Where {
        Where {
            name,
            together: Arc::new(Barrier::new(1)),
        }
    }
}

#[steps]
enum Place {
    Here,
    Sleep,
    Together,
}

impl Machine for Where {
    const NAME: &'static str = "where";
    type State = Place;
    type Output = String;

    async fn step(&self, state: Place, _: &Context) -> StepResult<Self> {
        match state {
            Place::Here => done(self.name.into()),
            Place::Sleep => sleep(Duration::from_millis(50)).then(Place::Here),
            Place::Together => {
                self.together.wait().await;
                done(self.name.into())
            }
        }
    }
}

fn node(store: impl Store + Inspect, name: &'static str, roles: Roles) -> EngineBuilder {
    let builder = Engine::builder(store).register(Where::at(name)).name(name);
    builder.queue("default", 10).roles(roles)
}

async fn a_web_node_runs_nothing<S: Store + Inspect + Clone>(store: S) {
    let web = node(store.clone(), "web", Roles::WEB)
        .start()
        .await
        .unwrap();
    let handle = insert(web.client(), Where::with(Place::Here)).await;
    assert_eq!(web.client().admin().workers().await.unwrap(), []);

    let worker = node(store, "worker", Roles::WORKER).start().await.unwrap();

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "worker");
    // One claim and one commit.
    assert_eq!(handle.instance().await.unwrap().revision.0, 2);
    worker.shutdown().await.unwrap();
    web.shutdown().await.unwrap();
}

async fn a_web_node_needs_neither_machines_nor_queues<S: Store + Inspect + Clone>(store: S) {
    let web = Engine::builder(store).roles(Roles::WEB);
    let web = web.start().await.unwrap();
    insert(web.client(), Where::with(Place::Here)).await;
    web.shutdown().await.unwrap();
}

async fn a_worker_needs_machines_and_queues<S: Store + Inspect + Clone>(store: S) {
    let nothing = Engine::builder(store.clone()).queue("default", 1);
    let refusal = nothing.start().await.unwrap_err();
    assert!(matches!(refusal, SetupError::NoMachines), "{refusal}");

    let nowhere = Engine::builder(store.clone()).register(Where::at("nowhere"));
    let refusal = nowhere.only_named_queues().start().await.unwrap_err();
    assert!(matches!(refusal, SetupError::NoQueues), "{refusal}");
    assert!(refusal.to_string().contains(".queue("), "{refusal}");
    assert_eq!(Client::new(store).admin().workers().await.unwrap(), []);
}

async fn a_worker_without_maintenance_leaves_deadlines_to_others<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let worker = node(store.clone(), "worker", Roles::WORKER);
    let worker = worker.poll_interval(Duration::from_millis(20));
    let worker = worker.start().await.unwrap();
    let handle = insert(worker.client(), Where::with(Place::Sleep)).await;
    let parked = handle.settled().timeout(LONG).await.unwrap();
    let deadline = parked.await_deadline.expect("the instance sleeps");
    // The worker has polled several times since the deadline.
    let admin = worker.client().admin();
    eventually("the deadline is long past", async || {
        admin.now().await.unwrap().since(deadline) > Duration::from_millis(200)
    })
    .await;
    let parked = handle.instance().await.unwrap();
    assert_eq!(parked.status, Status::Sleeping);

    let maintenance = node(store, "maintenance", Roles::MAINTENANCE);
    let maintenance = maintenance.start().await.unwrap();
    let handle = maintenance.handle(&handle).await.unwrap();

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "worker");
    maintenance.shutdown().await.unwrap();
    worker.shutdown().await.unwrap();
}

async fn a_maintenance_node_gives_back_the_claims_of_dead_workers<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let client = Client::new(store.clone());
    let handle = insert(&client, Where::with(Place::Here)).await;
    let dead = NewWorker {
        name: "dead".into(),
        host: "nowhere".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec!["default".into()],
        lease: limits::LEASE_MIN,
    };
    let dead = store.register(dead).await.unwrap();
    let request = ClaimRequest {
        worker: dead,
        queue: "default".into(),
        machines: [MachineVersion::new("where", 1)].into(),
        max: 10,
    };
    assert_eq!(store.claim(request).await.unwrap().claims.len(), 1);

    let maintenance = node(store, "maintenance", Roles::MAINTENANCE).lease(limits::LEASE_MIN);
    let maintenance = maintenance.start().await.unwrap();
    let handle = maintenance.handle(&handle).await.unwrap();
    eventually("the claim is given back", async || {
        handle.status().await.unwrap() == Status::Runnable
    })
    .await;

    let given_back = handle.instance().await.unwrap();
    assert_eq!((given_back.attempt, given_back.crashes), (1, 1));
    assert_eq!(given_back.revision.0, 2);
    assert_eq!(maintenance.client().admin().workers().await.unwrap(), []);
    maintenance.shutdown().await.unwrap();
}

async fn a_maintenance_node_removes_instances_after_their_retention<S: Store + Inspect + Clone>(
    store: S,
) {
    let worker = node(store.clone(), "worker", Roles::WORKER);
    let worker = worker.start().await.unwrap();
    let handle = insert(worker.client(), Where::with(Place::Here)).await;
    handle.output().timeout(LONG).await.unwrap();
    worker.shutdown().await.unwrap();

    let maintenance = node(store, "maintenance", Roles::MAINTENANCE);
    let maintenance = maintenance.retention(Duration::from_millis(10));
    let maintenance = maintenance.start().await.unwrap();
    eventually("the instance is removed", async || {
        maintenance.client().find(&handle).await.unwrap().is_none()
    })
    .await;
    let error = handle.output().timeout(LONG).await.unwrap_err();
    assert!(matches!(error, WaitError::NotFound), "{error}");
    maintenance.shutdown().await.unwrap();
}

async fn engines_in_one_process_share_the_work_of_one_store<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let together = Arc::new(Barrier::new(2));
    let mut engines = Vec::new();
    for name in ["one", "two"] {
        let machine = Where {
            name,
            together: together.clone(),
        };
        // One slot each, so that neither can run both.
        let engine = Engine::builder(store.clone()).register(machine);
        let engine = engine.queue("default", 1).start().await.unwrap();
        engines.push(engine);
    }
    let first = insert(engines[0].client(), Where::with(Place::Together)).await;
    let second = insert(engines[0].client(), Where::with(Place::Together)).await;

    let first = engines[1].handle(&first).await.unwrap();
    let second = engines[1].handle(&second).await.unwrap();
    let ran = [
        first.output().timeout(LONG).await.unwrap(),
        second.output().timeout(LONG).await.unwrap(),
    ];

    assert_eq!(
        BTreeSet::from(ran),
        ["one", "two"].map(str::to_owned).into()
    );
    for engine in engines {
        engine.shutdown().await.unwrap();
    }
}

async fn engines_on_two_stores_run_only_the_instances_of_their_own_store<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let here = node(store, "here", Roles::ALL).start().await.unwrap();
    let there = Sqlite::in_memory().unwrap();
    let there = node(there, "there", Roles::ALL).start().await.unwrap();
    for _ in 0..10 {
        let one = insert(here.client(), Where::with(Place::Here)).await;
        let two = insert(there.client(), Where::with(Place::Here)).await;
        assert_eq!(one.output().timeout(LONG).await.unwrap(), "here");
        assert_eq!(two.output().timeout(LONG).await.unwrap(), "there");
    }
    here.shutdown().await.unwrap();
    // The other engine goes on.
    let handle = insert(there.client(), Where::with(Place::Here)).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), "there");
    there.shutdown().await.unwrap();
}

async fn a_worker_is_registered_with_its_name_and_queues<S: Store + Inspect + Clone>(store: S) {
    let engine = node(store, "worker", Roles::ALL).queue("mail", 2);
    let engine = engine.lease(Duration::from_secs(10)).start().await.unwrap();
    let workers = engine.client().admin().workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].name, "worker");
    assert_eq!(workers[0].queues, ["default", "mail"]);
    let lease = workers[0].lease_expires_at.since(workers[0].heartbeat_at);
    assert_eq!(lease, Duration::from_secs(10));
    engine.shutdown().await.unwrap();
}
