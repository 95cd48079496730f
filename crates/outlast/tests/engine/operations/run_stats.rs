//! Run stats: the counts of runs that engines add to the store.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::prelude::*;
use outlast::store::{
    Count, Filter, Inspect, MachineOffer, RunStats, Runs, StepCountRequest, StepCounts, Store,
    Timestamp,
};
use outlast::{Client, Status};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

on_both_stores!(
    runs_are_counted_by_step_outcome_and_next_step,
    starts_are_counted_by_how_long_they_had_waited,
    run_stats_are_stored_while_the_engine_runs,
    engines_add_to_the_same_counts,
    run_stats_whose_write_failed_are_dropped_and_nothing_else_is,
    run_stats_whose_write_lost_its_answer_are_not_written_twice,
    a_worker_registers_its_machines_with_their_steps,
    a_client_counts_instances_by_step_and_children_by_status,
);

/// A machine with a step for every outcome.
#[derive(Clone)]
struct Ways {
    failed: Arc<AtomicU32>,
}

impl Ways {
    fn new() -> Ways {
        Ways {
            failed: Arc::default(),
        }
    }
}

#[steps]
enum Way {
    Begin,
    Flaky,
    Nap,
    Family,
    Join,
    End,
    Broken,
}

impl Machine for Ways {
    const NAME: &'static str = "ways";
    const VERSION: i32 = 3;
    type State = Way;
    type Output = ();

    async fn step(&self, state: Way, _: &Context) -> StepResult<Self> {
        match state {
            Way::Begin => next(Way::Flaky),
            Way::Flaky if self.failed.fetch_add(1, Ordering::SeqCst) == 0 => {
                retry(Duration::ZERO, "not yet")
            }
            Way::Flaky => next(Way::Nap),
            Way::Nap => sleep(Duration::from_millis(1)).then(Way::Family),
            Way::Family => fan_out([Ways::with(Way::End)]).then(Way::Join),
            Way::Join | Way::End => done(()),
            Way::Broken => fail("it is broken"),
        }
    }
}

async fn start(store: impl Store + Inspect) -> Engine {
    let builder = Engine::builder(store).register(Ways::new());
    builder.queue("default", 10).start().await.unwrap()
}

/// All run stats, of every minute.
async fn recorded(client: &Client) -> RunStats {
    let stats = client.admin().run_stats(Timestamp(0)).await.unwrap();
    assert!(
        stats
            .runs
            .iter()
            .all(|runs| runs.minute.0 % 60_000_000 == 0)
    );
    stats
}

/// The runs by step, outcome and next step, summed over the minutes.
fn ways(stats: &RunStats) -> BTreeSet<(&str, &str, &str, u64)> {
    // A test may run across the end of a minute.
    let sum = |of: &Runs| {
        let same =
            |it: &&Runs| (&it.step, &it.outcome, &it.next) == (&of.step, &of.outcome, &of.next);
        stats.runs.iter().filter(same).map(|it| it.count).sum()
    };
    let ways = stats.runs.iter();
    ways.map(|it| {
        (
            it.step.as_str(),
            it.outcome.as_str(),
            it.next.as_str(),
            sum(it),
        )
    })
    .collect()
}

fn starts(stats: &RunStats) -> u64 {
    stats.delays.iter().map(|delays| delays.count).sum()
}

async fn runs_are_counted_by_step_outcome_and_next_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = start(store.clone()).await;
    let whole = insert(engine.client(), Ways::with(Way::Begin)).await;
    whole.output().timeout(LONG).await.unwrap();
    let broken = insert(engine.client(), Ways::with(Way::Broken)).await;
    broken.output().timeout(LONG).await.unwrap_err();
    engine.shutdown().await.unwrap();

    let stats = recorded(&Client::new(store)).await;
    let expected = BTreeSet::from([
        ("begin", "next", "flaky", 1),
        ("flaky", "retry", "flaky", 1),
        ("flaky", "next", "nap", 1),
        ("nap", "wait", "family", 1),
        ("family", "fan_out", "join", 1),
        ("end", "done", "", 1),
        ("join", "done", "", 1),
        ("broken", "fail", "", 1),
    ]);
    assert_eq!(ways(&stats), expected);
    let of_this_machine = |it: &Runs| it.machine == "ways" && it.version == 3;
    assert!(stats.runs.iter().all(of_this_machine));
}

async fn starts_are_counted_by_how_long_they_had_waited<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    // Waits longer than the first bins, before an engine starts.
    let client = Client::new(store.clone());
    insert(&client, Ways::with(Way::End)).await;
    let inserted = client.admin().now().await.unwrap();
    eventually("the instance has waited", async || {
        client.admin().now().await.unwrap().since(inserted) > Duration::from_millis(20)
    })
    .await;
    let engine = start(store).await;
    let second = insert(engine.client(), Ways::with(Way::End)).await;
    second.output().timeout(LONG).await.unwrap();
    eventually("both starts are recorded", async || {
        starts(&recorded(&client).await) == 2
    })
    .await;
    engine.shutdown().await.unwrap();

    let stats = recorded(&client).await;
    assert!(stats.delays.iter().all(|it| it.queue == "default"));
    // 20 ms and more are in the bin that begins at 16 ms, or in a later one.
    let late = stats.delays.iter().filter(|it| it.bin >= 5);
    assert!(late.map(|it| it.count).sum::<u64>() >= 1, "{stats:?}");
}

async fn run_stats_are_stored_while_the_engine_runs<S: Store + Inspect + Clone>(store: S) {
    let engine = start(store).await;
    let handle = insert(engine.client(), Ways::with(Way::End)).await;
    handle.output().timeout(LONG).await.unwrap();
    eventually("the run is recorded", async || {
        !recorded(engine.client()).await.runs.is_empty()
    })
    .await;
    engine.shutdown().await.unwrap();
}

async fn engines_add_to_the_same_counts<S: Store + Inspect + Clone>(store: S) {
    let engines = [start(store.clone()).await, start(store.clone()).await];
    for engine in &engines {
        let many = (0..20).map(|_| Ways::with(Way::End));
        engine.client().start_many(many).await.unwrap();
    }
    let client = Client::new(store);
    eventually("everything has ended", async || {
        let done = Filter {
            statuses: vec![Status::Done],
            ..Filter::default()
        };
        client.count(done).await.unwrap() == Count::Exactly(40)
    })
    .await;
    for engine in &engines {
        engine.shutdown().await.unwrap();
    }
    let stats = recorded(&client).await;
    assert_eq!(ways(&stats), BTreeSet::from([("end", "done", "", 40)]));
    assert_eq!(starts(&stats), 40);
}

async fn run_stats_whose_write_failed_are_dropped_and_nothing_else_is<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let breaking =
        Through::new(store.clone()).breaking(|verb| (verb == "record").then_some(Break::Before));
    let engine = start(breaking).await;
    let handle = insert(engine.client(), Ways::with(Way::End)).await;
    handle.output().timeout(LONG).await.unwrap();
    engine.shutdown().await.unwrap();
    let client = Client::new(store);
    assert_eq!(recorded(&client).await, RunStats::default());
    let ended = client.find(&handle).await.unwrap().unwrap();
    assert_eq!(ended.status, Status::Done);
    assert_eq!(
        client.admin().workers().await.unwrap(),
        [],
        "the worker is deregistered as usual"
    );
}

async fn run_stats_whose_write_lost_its_answer_are_not_written_twice<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let breaking =
        Through::new(store.clone()).breaking(|verb| (verb == "record").then_some(Break::After));
    let engine = start(breaking).await;
    let handle = insert(engine.client(), Ways::with(Way::End)).await;
    handle.output().timeout(LONG).await.unwrap();
    eventually("the run is recorded", async || {
        !recorded(engine.client()).await.runs.is_empty()
    })
    .await;
    engine.shutdown().await.unwrap();
    let stats = recorded(&Client::new(store)).await;
    assert_eq!(ways(&stats), BTreeSet::from([("end", "done", "", 1)]));
}

async fn a_worker_registers_its_machines_with_their_steps<S: Store + Inspect + Clone>(store: S) {
    let engine = start(store).await;
    let workers = engine.client().admin().workers().await.unwrap();
    let steps = ["begin", "flaky", "nap", "family", "join", "end", "broken"];
    let expected = MachineOffer {
        name: "ways".into(),
        version: 3,
        queue: "default".into(),
        steps: steps.map(String::from).into(),
    };
    assert_eq!(workers[0].machines, [expected]);
    engine.shutdown().await.unwrap();
}

async fn a_client_counts_instances_by_step_and_children_by_status<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = start(store).await;
    let handle = insert(engine.client(), Ways::with(Way::Begin)).await;
    handle.output().timeout(LONG).await.unwrap();
    let request = StepCountRequest {
        after: None,
        limit: 100,
    };
    let admin = engine.client().admin();
    let StepCounts { groups, next } = admin.count_by_step(request).await.unwrap();
    assert_eq!(next, None);
    let counts: Vec<_> = groups.iter().map(|it| (it.place(), it.instances)).collect();
    let expected = [
        (("ways", 3, "end", Status::Done), 1),
        (("ways", 3, "join", Status::Done), 1),
    ];
    assert_eq!(counts, expected);
    let rounds = admin.rounds(handle.id().get()).await.unwrap();
    assert_eq!(rounds.len(), 1);
    assert_eq!(rounds[0].children, [(Status::Done, 1)]);
    engine.shutdown().await.unwrap();
}
