//! Builds that know different machines, side by side on one database.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{Inspect, Instance, Json, NewInstance, Store};
use outlast::{Client, InstanceId, Outcome, Status};

on_both_stores!(
    an_instance_of_an_unregistered_machine_waits_untouched,
    an_instance_of_an_unregistered_version_waits_untouched,
    an_unknown_step_is_left_in_the_queue_for_a_build_that_knows_it,
    old_and_new_versions_run_side_by_side_on_two_engines,
    one_engine_runs_both_versions,
    an_instance_parked_before_the_deploy_goes_on_in_its_version,
);

/// The first build.
struct First;

#[steps]
enum FirstStep {
    Begin,
    Park,
    End,
}

impl Machine for First {
    const NAME: &'static str = "delivery";
    type State = FirstStep;
    type Output = String;

    async fn step(&self, state: FirstStep, cx: &Context) -> StepResult<Self> {
        match state {
            FirstStep::Begin => Ok(Outcome::requeue(FirstStep::End)),
            FirstStep::Park => wait_for::<Go>().then(FirstStep::End),
            FirstStep::End => done(format!("first, version {}", cx.version())),
        }
    }
}

/// The same version with a step more.
struct FirstMended;

#[steps]
enum MendedStep {
    Begin,
    Park,
    Check { parcel: u32 },
    End,
}

impl Machine for FirstMended {
    const NAME: &'static str = "delivery";
    type State = MendedStep;
    type Output = String;

    async fn step(&self, state: MendedStep, cx: &Context) -> StepResult<Self> {
        match state {
            MendedStep::Begin => next(MendedStep::Check { parcel: 1 }),
            MendedStep::Park => wait_for::<Go>().then(MendedStep::End),
            MendedStep::Check { parcel } => {
                done(format!("parcel {parcel}, attempt {}", cx.attempt()))
            }
            MendedStep::End => done("mended".into()),
        }
    }
}

/// The next version.
struct Second;

#[steps]
enum SecondStep {
    Begin { weight: u32 },
}

impl Machine for Second {
    const NAME: &'static str = "delivery";
    const VERSION: i32 = 2;
    type State = SecondStep;
    type Output = String;

    async fn step(&self, state: SecondStep, cx: &Context) -> StepResult<Self> {
        let SecondStep::Begin { weight } = state;
        done(format!("second, version {}, weight {weight}", cx.version()))
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

async fn insert_row(client: &Client, row: NewInstance) -> InstanceId {
    let inserted = client.admin().insert_rows(vec![row]).await.unwrap();
    inserted[0].new_id().unwrap()
}

async fn get(client: &Client, id: InstanceId) -> Instance {
    client.find(id).await.unwrap().unwrap()
}

fn is_untouched(instance: &Instance) {
    assert_eq!(instance.status, Status::Runnable);
    assert_eq!((instance.revision.0, instance.attempt), (0, 0));
    assert_eq!(instance.updated_at, instance.inserted_at);
}

async fn an_instance_of_an_unregistered_machine_waits_untouched<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = support::running(store, First).await;
    let stranger = NewInstance::new("stranger", "begin", Json::null()).priority(-100);
    let stranger = insert_row(engine.client(), stranger).await;

    // A later and less urgent instance passes it, also through the queue.
    let known = insert(engine.client(), First::with(FirstStep::Begin)).await;
    known.output().timeout(LONG).await.unwrap();

    is_untouched(&get(engine.client(), stranger).await);
    engine.shutdown().await.unwrap();
}

async fn an_instance_of_an_unregistered_version_waits_untouched<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let second = Second::with(SecondStep::Begin { weight: 3 }).priority(-100);
    let second = insert(old.client(), second).await;
    let known = insert(old.client(), First::with(FirstStep::Begin)).await;
    known.output().timeout(LONG).await.unwrap();
    is_untouched(&second.instance().await.unwrap());

    let new = support::running(store, Second).await;
    let second = new.handle(&second).await.unwrap();
    let output = second.output().timeout(LONG).await.unwrap();

    assert_eq!(output, "second, version 2, weight 3");
    new.shutdown().await.unwrap();
    old.shutdown().await.unwrap();
}

async fn an_unknown_step_is_left_in_the_queue_for_a_build_that_knows_it<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let state = Json::parse(r#"{"parcel":7}"#).unwrap();
    let id = insert_row(old.client(), NewInstance::new("delivery", "check", state)).await;

    // The instance is claimed and given back each time, with growing pauses.
    let mut pauses = Vec::new();
    for revision in [2, 4] {
        eventually("the claim is given back", async || {
            get(old.client(), id).await.revision.0 >= revision
        })
        .await;
        let given_back = get(old.client(), id).await;
        assert_eq!(given_back.status, Status::Runnable);
        assert_eq!((given_back.attempt, given_back.crashes), (0, 0));
        pauses.push(given_back.eligible_at.since(given_back.updated_at));
    }
    assert_eq!(pauses, [1, 2].map(Duration::from_secs));

    let new = support::running(store, FirstMended).await;
    old.shutdown().await.unwrap();
    let mended = new.handle::<FirstMended>(id).await.unwrap();
    let output = mended.output().timeout(LONG).await.unwrap();
    assert_eq!(output, "parcel 7, attempt 0");
    new.shutdown().await.unwrap();
}

async fn old_and_new_versions_run_side_by_side_on_two_engines<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let new = support::running(store, Second).await;
    let mut firsts = Vec::new();
    let mut seconds = Vec::new();
    // Each node also inserts instances that only the other can run.
    for (nth, node) in [&old, &new].into_iter().cycle().take(10).enumerate() {
        let weight = nth.try_into().unwrap();
        firsts.push(insert(node.client(), First::with(FirstStep::Begin)).await);
        seconds.push(insert(node.client(), Second::with(SecondStep::Begin { weight })).await);
    }
    // Each node waits for instances that only the other runs.
    for (weight, (first, second)) in firsts.iter().zip(&seconds).enumerate() {
        let first = new.handle(first).await.unwrap();
        let output = first.output().timeout(LONG).await.unwrap();
        assert_eq!(output, "first, version 1");
        let second = old.handle(second).await.unwrap();
        let output = second.output().timeout(LONG).await.unwrap();
        assert_eq!(output, format!("second, version 2, weight {weight}"));
    }
    old.shutdown().await.unwrap();
    new.shutdown().await.unwrap();
}

async fn one_engine_runs_both_versions<S: Store + Inspect + Clone>(store: S) {
    let engine = Engine::builder(store).register(First).register(Second);
    let engine = engine.queue("default", 10).start().await.unwrap();
    let first = insert(engine.client(), First::with(FirstStep::Begin)).await;
    let second = insert(
        engine.client(),
        Second::with(SecondStep::Begin { weight: 1 }),
    )
    .await;
    let output = first.output().timeout(LONG).await.unwrap();
    assert_eq!(output, "first, version 1");
    let output = second.output().timeout(LONG).await.unwrap();
    assert_eq!(output, "second, version 2, weight 1");
    engine.shutdown().await.unwrap();
}

async fn an_instance_parked_before_the_deploy_goes_on_in_its_version<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let parked = insert(old.client(), First::with(FirstStep::Park).key("parcel")).await;
    parked.settled().timeout(LONG).await.unwrap();
    old.shutdown().await.unwrap();

    let new = Engine::builder(store).register(First).register(Second);
    let new = new.queue("default", 10).start().await.unwrap();
    // A key belongs to the machine, in every version.
    let signal = new.client().signal(Second::key("parcel"), Go);
    signal.await.unwrap();

    let parked = new.handle(&parked).await.unwrap();
    let output = parked.output().timeout(LONG).await.unwrap();
    assert_eq!(output, "first, version 1");
    new.shutdown().await.unwrap();
}
