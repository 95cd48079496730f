//! Builds that know different machines, side by side on one database.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::prelude::*;
use outlast::{Instance, Json, NewInstance};
use outlast_core::{Inspect, Store};

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

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        Ok(match state {
            FirstStep::Begin => Outcome::requeue(FirstStep::End),
            FirstStep::Park => wait_for(["go"]).then(FirstStep::End),
            FirstStep::End => Outcome::done(format!("first, version {}", cx.version())),
        })
    }
}

/// The same version with a step more.
struct FirstMended;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        Ok(match state {
            MendedStep::Begin => Outcome::next(MendedStep::Check { parcel: 1 }),
            MendedStep::Park => wait_for(["go"]).then(MendedStep::End),
            MendedStep::Check { parcel } => {
                Outcome::done(format!("parcel {parcel}, attempt {}", cx.attempt()))
            }
            MendedStep::End => Outcome::done("mended".into()),
        })
    }
}

/// The next version.
struct Second;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        Ok(Outcome::done(format!(
            "second, version {}, weight {weight}",
            cx.version()
        )))
    }
}

#[derive(Serialize, Deserialize)]
struct Go;

impl Signal for Go {
    const NAME: &'static str = "go";
}

async fn insert_row(client: &Client, row: NewInstance) -> InstanceId {
    let inserted = client.insert_rows(vec![row]).await.unwrap();
    inserted[0].new_id().unwrap()
}

async fn get(client: &Client, id: InstanceId) -> Instance {
    client.get(id).await.unwrap().unwrap()
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
    let stranger = insert_row(&engine, stranger).await;

    // A later and less urgent instance passes it, also through the queue.
    let known = insert(&engine, New::<First>(FirstStep::Begin)).await;
    engine.wait(known, LONG).await.unwrap();

    is_untouched(&get(&engine, stranger).await);
    engine.shutdown().await;
}

async fn an_instance_of_an_unregistered_version_waits_untouched<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let second = New::<Second>(SecondStep::Begin { weight: 3 }).priority(-100);
    let second = insert(&old, second).await;
    let known = insert(&old, New::<First>(FirstStep::Begin)).await;
    old.wait(known, LONG).await.unwrap();
    is_untouched(&get(&old, second.get()).await);

    let new = support::running(store, Second).await;
    let output = new.wait(second, LONG).await.unwrap();

    assert_eq!(output, "second, version 2, weight 3");
    new.shutdown().await;
    old.shutdown().await;
}

async fn an_unknown_step_is_left_in_the_queue_for_a_build_that_knows_it<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let state = Json::parse(r#"{"parcel":7}"#).unwrap();
    let id = insert_row(&old, NewInstance::new("delivery", "check", state)).await;

    // The instance is claimed and given back each time, with growing pauses.
    let mut pauses = Vec::new();
    for revision in [2, 4] {
        eventually("the claim is given back", async || {
            get(&old, id).await.revision.0 >= revision
        })
        .await;
        let given_back = get(&old, id).await;
        assert_eq!(given_back.status, Status::Runnable);
        assert_eq!((given_back.attempt, given_back.crashes), (0, 0));
        pauses.push(given_back.eligible_at.since(given_back.updated_at));
    }
    assert_eq!(pauses, [1, 2].map(Duration::from_secs));

    let new = support::running(store, FirstMended).await;
    old.shutdown().await;
    let output = new.wait(Id::<FirstMended>::of(id), LONG).await.unwrap();
    assert_eq!(output, "parcel 7, attempt 0");
    new.shutdown().await;
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
        firsts.push(insert(node, New::<First>(FirstStep::Begin)).await);
        seconds.push(insert(node, New::<Second>(SecondStep::Begin { weight })).await);
    }
    for (weight, (first, second)) in firsts.into_iter().zip(seconds).enumerate() {
        assert_eq!(new.wait(first, LONG).await.unwrap(), "first, version 1");
        let output = old.wait(second, LONG).await.unwrap();
        assert_eq!(output, format!("second, version 2, weight {weight}"));
    }
    old.shutdown().await;
    new.shutdown().await;
}

async fn one_engine_runs_both_versions<S: Store + Inspect + Clone>(store: S) {
    let engine = Engine::builder(store).machine(First).machine(Second);
    let engine = engine.queue("default", 10).start().await.unwrap();
    let first = insert(&engine, New::<First>(FirstStep::Begin)).await;
    let second = insert(&engine, New::<Second>(SecondStep::Begin { weight: 1 })).await;
    assert_eq!(engine.wait(first, LONG).await.unwrap(), "first, version 1");
    let output = engine.wait(second, LONG).await.unwrap();
    assert_eq!(output, "second, version 2, weight 1");
    engine.shutdown().await;
}

async fn an_instance_parked_before_the_deploy_goes_on_in_its_version<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let old = support::running(store.clone(), First).await;
    let parked = insert(&old, New::<First>(FirstStep::Park).key("parcel")).await;
    old.wait_settled(parked, LONG).await.unwrap();
    old.shutdown().await;

    let new = Engine::builder(store).machine(First).machine(Second);
    let new = new.queue("default", 10).start().await.unwrap();
    // A key belongs to the machine, in every version.
    new.signal(Second::key("parcel"), Go).await.unwrap();

    assert_eq!(new.wait(parked, LONG).await.unwrap(), "first, version 1");
    new.shutdown().await;
}
