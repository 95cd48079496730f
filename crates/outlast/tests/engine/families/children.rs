//! Fan-outs and joins.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::{LONG, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{DroppedChild, Inspect, Parent, Store};
use outlast::{New, Note, Status, StepError};
use serde_json::{Value, json};

on_both_stores!(
    children_run_in_the_queues_they_were_given_and_join,
    a_round_without_children_joins_at_once,
    a_parent_sees_its_failed_child_and_goes_on,
    the_output_of_a_failed_child_is_an_error_that_says_how_it_ended,
    a_terminated_child_counts_in_the_join,
    a_child_whose_key_is_occupied_is_dropped_and_reported,
    a_round_whose_children_are_all_dropped_joins_at_once,
    fan_outs_nest_three_deep,
    a_second_round_sees_only_its_own_children,
    children_of_two_machines_make_one_round,
    a_parent_sees_its_children_in_the_order_of_its_fan_out,
    a_child_knows_its_parent_and_shares_its_trace,
    a_thousand_children_join_once,
    a_child_that_is_retried_while_its_parent_waits_counts_again,
    a_terminated_parent_abandons_its_children_by_default,
);

/// A child that ends as its state says.
struct Leaf;

#[steps]
enum Small {
    Say(u64),
    Where,
    Fail(String),
    Park,
    Report,
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

impl Machine for Leaf {
    const NAME: &'static str = "leaf";
    type State = Small;
    type Output = Value;

    async fn step(&self, small: Small, cx: &Context) -> StepResult<Self> {
        match small {
            Small::Say(number) => done(number.into()),
            Small::Where => done(cx.queue().into()),
            Small::Fail(reason) => fail(reason),
            Small::Park => wait_for::<Go>().then(Small::Say(0)),
            Small::Report => {
                let parent = cx.parent().map(|Parent { id, round }| (id, round));
                done(json!({ "parent": parent, "trace": cx.trace() }))
            }
        }
    }
}

/// A child of another machine, with another output.
struct Bud;

#[steps]
enum Bloom {
    Bloom,
}

impl Machine for Bud {
    const NAME: &'static str = "bud";
    type State = Bloom;
    type Output = String;

    async fn step(&self, _: Bloom, _cx: &Context) -> StepResult<Self> {
        done("bloomed".to_owned())
    }
}

/// A parent of leaves.
struct Branch;

#[steps]
enum Grow {
    Queues,
    Say(Vec<u64>),
    SayAndFail,
    SayAndInsistOnOutputs,
    Park,
    ParkAndFail,
    Keyed { keys: Vec<String> },
    Twice,
    Again,
    Mixed,
    Report,
    Join,
    JoinOutputs,
    JoinMixed,
    JoinTwice { first: Value },
}

impl Machine for Branch {
    const NAME: &'static str = "branch";
    type State = Grow;
    type Output = Value;

    async fn step(&self, grow: Grow, cx: &Context) -> StepResult<Self> {
        match grow {
            Grow::Queues => {
                let queues = ["one", "default", "two"];
                let leaves = queues.map(|queue| Leaf::with(Small::Where).queue(queue));
                fan_out(leaves).then(Grow::Join)
            }
            Grow::Say(numbers) => fan_out(saying(numbers)).then(Grow::Join),
            Grow::SayAndFail => fan_out(saying_and_failing()).then(Grow::Join),
            Grow::SayAndInsistOnOutputs => fan_out(saying_and_failing()).then(Grow::JoinOutputs),
            Grow::Park => fan_out([Leaf::with(Small::Park)]).then(Grow::Join),
            Grow::ParkAndFail => {
                let leaves = [Small::Park, Small::Fail("blight".to_owned())];
                fan_out(leaves.map(Leaf::with)).then(Grow::Join)
            }
            Grow::Keyed { keys } => {
                let leaves = (1..).map(Small::Say).zip(keys);
                fan_out(leaves.map(|(say, key)| Leaf::with(say).key(key))).then(Grow::Join)
            }
            Grow::Twice => fan_out(saying([1, 2])).then(Grow::Again),
            Grow::Again => {
                let first = round(cx)?;
                fan_out(saying([3])).then(Grow::JoinTwice { first })
            }
            Grow::JoinTwice { first } => {
                let all = cx.all_children().await?;
                let all: Vec<_> = all
                    .iter()
                    .map(|child| (child.round, child.result.clone()))
                    .collect();
                done(json!({ "first": first, "second": round(cx)?, "all": all }))
            }
            Grow::Mixed => fan_out([Bud::with(Bloom::Bloom)])
                .and(saying([1, 2]))
                .and([Bud::with(Bloom::Bloom)])
                .then(Grow::JoinMixed),
            Grow::JoinMixed => {
                let buds = cx.children::<Bud>()?.into_iter();
                let buds: Vec<_> = buds.map(|bud| bud.output).collect();
                let machines: Vec<_> = cx.round().iter().map(|child| &child.machine).collect();
                done(json!({ "leaves": round(cx)?, "buds": buds, "machines": machines }))
            }
            Grow::Report => fan_out([Leaf::with(Small::Report)]).then(Grow::Join),
            Grow::Join => done(json!({
                "leaves": round(cx)?,
                "dropped": cx.dropped(),
            })),
            Grow::JoinOutputs => {
                let leaves = cx.children::<Leaf>()?.into_iter();
                let outputs: Result<Vec<_>, _> = leaves.map(|leaf| leaf.into_output()).collect();
                done(outputs?.into())
            }
        }
    }
}

fn saying(numbers: impl IntoIterator<Item = u64>) -> impl Iterator<Item = New<Leaf>> {
    numbers
        .into_iter()
        .map(|number| Leaf::with(Small::Say(number)))
}

fn saying_and_failing() -> [New<Leaf>; 3] {
    [
        Small::Say(1),
        Small::Fail("blight".to_owned()),
        Small::Say(3),
    ]
    .map(Leaf::with)
}

/// The statuses, outputs and errors of the leaves of this round.
fn round(cx: &Context) -> Result<Value, StepError> {
    let leaves = cx.children::<Leaf>()?.into_iter();
    let results = leaves.map(|leaf| json!([leaf.status, leaf.output, leaf.error]));
    Ok(results.collect())
}

async fn growing(store: impl Store + Inspect) -> Engine {
    let builder = Engine::builder(store)
        .register(Branch)
        .register(Leaf)
        .register(Bud);
    let queues = ["default", "one", "two"].into_iter();
    let builder = queues.fold(builder, |builder, queue| builder.queue(queue, 100));
    builder.start().await.unwrap()
}

async fn grown(engine: &Engine, grow: Grow) -> Value {
    let branch = insert(engine.client(), Branch::with(grow)).await;
    branch.output().timeout(LONG).await.unwrap()
}

async fn children_run_in_the_queues_they_were_given_and_join<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let grown = grown(&engine, Grow::Queues).await;
    let expected = json!([
        ["done", "one", null],
        ["done", "default", null],
        ["done", "two", null]
    ]);
    assert_eq!(grown["leaves"], expected);
}

async fn a_round_without_children_joins_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let grown = grown(&engine, Grow::Say(vec![])).await;
    assert_eq!(grown, json!({ "leaves": [], "dropped": [] }));
}

async fn a_parent_sees_its_failed_child_and_goes_on<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let grown = grown(&engine, Grow::SayAndFail).await;
    let expected = json!([
        ["done", 1, null],
        ["failed", null, "blight"],
        ["done", 3, null]
    ]);
    assert_eq!(grown["leaves"], expected);
}

async fn the_output_of_a_failed_child_is_an_error_that_says_how_it_ended<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = growing(store).await;
    let branch = insert(engine.client(), Branch::with(Grow::SayAndInsistOnOutputs)).await;
    let ended = branch.ended().timeout(LONG).await.unwrap();
    let failed = branch.children().await.unwrap()[1].id;
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(
        ended.last_error,
        Some(format!("child {failed} is failed: blight"))
    );
}

async fn a_terminated_child_counts_in_the_join<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let branch = insert(engine.client(), Branch::with(Grow::Park)).await;
    let parked = branch.settled().timeout(LONG).await.unwrap();
    assert_eq!(
        (parked.status, parked.children_pending),
        (Status::AwaitingChildren, 1)
    );
    let child = branch.children().await.unwrap()[0].id;
    let child = engine.handle::<Leaf>(child).await.unwrap();
    child.terminate(Note::by("gardener")).await.unwrap();
    let grown = branch.output().timeout(LONG).await.unwrap();
    assert_eq!(
        grown["leaves"],
        json!([["cancelled", null, "terminated by gardener"]])
    );
}

async fn a_child_whose_key_is_occupied_is_dropped_and_reported<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = growing(store).await;
    let holder = insert(engine.client(), Leaf::with(Small::Park).key("b")).await;
    let keys = ["a", "b", "c"].map(str::to_owned).to_vec();
    let grown = grown(&engine, Grow::Keyed { keys }).await;
    assert_eq!(
        grown["leaves"],
        json!([["done", 1, null], ["done", 3, null]])
    );
    let dropped: Vec<DroppedChild> = serde_json::from_value(grown["dropped"].clone()).unwrap();
    let expected = DroppedChild {
        position: 1,
        machine: Leaf::NAME.to_owned(),
        key: "b".to_owned(),
        holder: Some(holder.id().get()),
    };
    assert_eq!(dropped, [expected]);
}

async fn a_round_whose_children_are_all_dropped_joins_at_once<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = growing(store).await;
    insert(engine.client(), Leaf::with(Small::Park).key("a")).await;
    let keys = vec!["a".to_owned(); 2];
    let grown = grown(&engine, Grow::Keyed { keys }).await;
    assert_eq!(grown["leaves"], json!([]));
    assert_eq!(grown["dropped"].as_array().unwrap().len(), 2);
}

/// Counts itself and its descendants.
struct Tree;

#[steps]
enum Height {
    Grow { levels: u32 },
    Sum,
}

impl Machine for Tree {
    const NAME: &'static str = "tree";
    type State = Height;
    type Output = u32;

    async fn step(&self, height: Height, cx: &Context) -> StepResult<Self> {
        match height {
            Height::Grow { levels: 0 } => done(1),
            Height::Grow { levels } => {
                let below = || Tree::with(Height::Grow { levels: levels - 1 });
                fan_out([below(), below(), below()]).then(Height::Sum)
            }
            Height::Sum => {
                let below = cx.children::<Tree>()?.into_iter();
                let sizes: Result<Vec<_>, _> = below.map(|tree| tree.into_output()).collect();
                done(1 + sizes?.iter().sum::<u32>())
            }
        }
    }
}

async fn fan_outs_nest_three_deep<S: Store + Inspect + Clone>(store: S) {
    let engine = support::running(store, Tree).await;
    let tree = insert(engine.client(), Tree::with(Height::Grow { levels: 3 })).await;
    assert_eq!(tree.output().timeout(LONG).await.unwrap(), 1 + 3 + 9 + 27);
}

async fn a_second_round_sees_only_its_own_children<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let grown = grown(&engine, Grow::Twice).await;
    assert_eq!(
        grown["first"],
        json!([["done", 1, null], ["done", 2, null]])
    );
    assert_eq!(grown["second"], json!([["done", 3, null]]));
    assert_eq!(grown["all"], json!([[1, 1], [1, 2], [2, 3]]));
}

async fn children_of_two_machines_make_one_round<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let grown = grown(&engine, Grow::Mixed).await;
    assert_eq!(grown["machines"], json!(["bud", "leaf", "leaf", "bud"]));
    assert_eq!(
        grown["leaves"],
        json!([["done", 1, null], ["done", 2, null]])
    );
    assert_eq!(grown["buds"], json!(["bloomed", "bloomed"]));
}

async fn a_parent_sees_its_children_in_the_order_of_its_fan_out<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = growing(store).await;
    let numbers: Vec<u64> = (0..50).rev().collect();
    let grown = grown(&engine, Grow::Say(numbers.clone())).await;
    let seen = grown["leaves"].as_array().unwrap().iter();
    let seen: Vec<_> = seen.map(|leaf| leaf[1].as_u64().unwrap()).collect();
    assert_eq!(seen, numbers);
}

async fn a_child_knows_its_parent_and_shares_its_trace<S: Store + Inspect + Clone>(store: S) {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let engine = growing(store).await;
    let branch = insert(engine.client(), Branch::with(Grow::Report).trace(TRACE)).await;
    let grown = branch.output().timeout(LONG).await.unwrap();
    let report = &grown["leaves"][0][1];
    assert_eq!(report["parent"], json!([branch.id().get(), 1]));
    assert_eq!(report["trace"], TRACE);
}

async fn a_thousand_children_join_once<S: Store + Inspect + Clone>(store: S) {
    let engine = growing(store).await;
    let branch = insert(
        engine.client(),
        Branch::with(Grow::Say((0..1_000).collect())),
    )
    .await;
    let grown = branch.output().timeout(LONG).await.unwrap();
    assert_eq!(grown["leaves"].as_array().unwrap().len(), 1_000);
    let ended = branch.instance().await.unwrap();
    // Claim, fan-out, claim, done.
    assert_eq!((ended.revision.0, ended.children_pending), (4, 0));
}

async fn a_child_that_is_retried_while_its_parent_waits_counts_again<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = growing(store).await;
    let branch = insert(engine.client(), Branch::with(Grow::ParkAndFail)).await;
    branch.settled().timeout(LONG).await.unwrap();
    let children = branch.children().await.unwrap();
    let parked = engine.handle::<Leaf>(children[0].id).await.unwrap();
    let failing = engine.handle::<Leaf>(children[1].id).await.unwrap();
    failing.ended().timeout(LONG).await.unwrap();
    let pending = async || branch.instance().await.unwrap().children_pending;
    assert_eq!(pending().await, 1);
    let (admin, gardener) = (engine.client().admin(), || Note::by("gardener"));
    admin.pause("default", gardener()).await.unwrap();
    admin.retry(&failing, gardener()).await.unwrap();
    assert_eq!(pending().await, 2);
    admin.resume("default", gardener()).await.unwrap();
    failing.ended().timeout(LONG).await.unwrap();
    assert_eq!(pending().await, 1);
    parked.signal(Go).await.unwrap();
    let grown = branch.output().timeout(LONG).await.unwrap();
    let expected = json!([["done", 0, null], ["failed", null, "blight"]]);
    assert_eq!(grown["leaves"], expected);
}

async fn a_terminated_parent_abandons_its_children_by_default<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = growing(store).await;
    let branch = insert(engine.client(), Branch::with(Grow::Park)).await;
    branch.settled().timeout(LONG).await.unwrap();
    let child = branch.children().await.unwrap()[0].id;
    let leaf = engine.handle::<Leaf>(child).await.unwrap();
    let parked = leaf.settled().timeout(LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    branch.terminate(Note::by("gardener")).await.unwrap();
    leaf.signal(Go).await.unwrap();
    assert_eq!(leaf.output().timeout(LONG).await.unwrap(), 0);
    let parent = branch.instance().await.unwrap();
    assert_eq!(parent.status, Status::Cancelled);
}
