//! Calls of the store that fail before or after they are carried out. Nothing may be lost or
//! committed twice.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use crate::support::{LONG, deliver, eventually, insert, on_both_stores};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{
    Answer, Commit, Count, Delivery, Filter, Inspect, Json, NewInstance, Store, limits,
};
use outlast::{Client, Handle, InstanceId, New, Note, Roles, SignalError, Status};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, Semaphore};

on_both_stores!(
    an_outcome_whose_commit_failed_is_written_by_the_next_try,
    an_outcome_whose_commit_lost_its_answer_is_not_written_twice,
    a_large_commit_that_hangs_does_not_hold_up_other_commits,
    a_kept_claim_whose_commit_lost_its_answer_is_given_back_and_goes_on,
    an_instance_whose_last_commit_the_store_lost_goes_on_from_the_one_before,
    claims_whose_answer_was_lost_are_given_back,
    an_insert_on_an_idle_engine_takes_the_fast_path,
    an_insert_on_the_fast_path_that_lost_its_answer_runs_once,
    a_signal_on_an_idle_engine_takes_the_fast_path,
    the_target_of_a_fast_path_signal_that_lost_its_answer_runs_once,
    a_claim_that_lost_its_answer_is_given_back_while_the_one_before_is_held,
    a_kept_claim_whose_commit_is_not_answered_yet_is_not_given_back,
    a_claim_that_goes_on_while_the_engine_reads_its_claims_is_not_given_back,
    a_signal_of_a_deregistered_worker_is_delivered,
    a_claim_whose_release_failed_is_given_back_later,
    a_worker_that_cannot_renew_its_lease_drops_the_step_of_a_lost_claim,
    every_instance_ends_once_on_a_store_whose_calls_keep_failing,
);

/// Counts the runs of its steps.
#[derive(Clone)]
struct Walk {
    runs: Arc<Mutex<HashMap<String, u32>>>,
    started: Arc<Semaphore>,
    dropped: Arc<AtomicBool>,
}

impl Walk {
    fn new() -> Walk {
        Walk {
            runs: Arc::default(),
            started: Arc::new(Semaphore::new(0)),
            dropped: Arc::default(),
        }
    }

    fn count(&self, step: &str) {
        let mut runs = self.runs.lock().unwrap();
        *runs.entry(step.to_owned()).or_default() += 1;
    }

    fn runs_of(&self, step: &str) -> u32 {
        let runs = self.runs.lock().unwrap();
        runs.get(step).copied().unwrap_or(0)
    }
}

#[steps]
enum Leg {
    One,
    Two,
    Three,
    /// Never ends by itself.
    UntilLost,
    Parent,
    Join,
    Wait,
    Retry,
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

impl Machine for Walk {
    const NAME: &'static str = "walk";
    type State = Leg;
    type Output = usize;

    async fn step(&self, state: Leg, cx: &Context) -> StepResult<Self> {
        self.count(cx.step());
        match state {
            Leg::One => next(Leg::Two),
            Leg::Two => next(Leg::Three),
            Leg::Three => done(1),
            Leg::UntilLost => {
                let _dropped = Dropped(self.dropped.clone());
                self.started.add_permits(1);
                std::future::pending().await
            }
            Leg::Parent => fan_out((0..3).map(|_| Walk::with(Leg::One))).then(Leg::Join),
            Leg::Join => {
                let outputs = cx.children::<Walk>()?.into_iter();
                let outputs = outputs.map(|child| child.into_output());
                done(outputs.sum::<Result<usize, _>>()?)
            }
            Leg::Wait => wait_for::<Go>().then(Leg::One),
            Leg::Retry if cx.attempt() < 2 => retry(Duration::from_millis(5), "again"),
            Leg::Retry => next(Leg::One),
        }
    }
}

/// Notes that a step was dropped where it awaits.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn builder(store: impl Store + Inspect, walk: &Walk) -> EngineBuilder {
    let builder = Engine::builder(store).register(walk.clone());
    let builder = builder.queue("default", 4);
    builder.poll_interval(Duration::from_millis(100))
}

/// Breaks the first calls of `verb`, one for each point given.
fn first(
    verb: &'static str,
    breaks: &[Break],
) -> impl Fn(&'static str) -> Option<Break> + Send + Sync + 'static {
    let breaks = breaks.to_vec();
    let calls = AtomicU32::new(0);
    move |called| {
        if called != verb {
            return None;
        }
        let nth = calls.fetch_add(1, Ordering::SeqCst);
        breaks.get(nth as usize).copied()
    }
}

async fn an_outcome_whose_commit_failed_is_written_by_the_next_try<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let broken = Through::new(store).breaking(first("commit", &[Break::Before, Break::Before]));
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::Three)).await;

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);

    assert_eq!(walk.runs_of("three"), 1, "only the commit was tried again");
    assert_eq!(handle.instance().await.unwrap().revision.0, 2);
    engine.shutdown().await.unwrap();
}

async fn an_outcome_whose_commit_lost_its_answer_is_not_written_twice<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let answers: Arc<Mutex<Vec<Answer>>> = Arc::default();
    let observed = answers.clone();
    let broken = Through::new(store).breaking(first("commit", &[Break::After]));
    let broken = broken.observing(move |_, committed| {
        observed.lock().unwrap().extend(committed.answers.clone());
    });
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::Three)).await;

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);

    eventually("the commit is tried again", async || {
        answers.lock().unwrap().len() == 2
    })
    .await;
    assert_eq!(answers.lock().unwrap()[1], Answer::Lost);
    assert_eq!(walk.runs_of("three"), 1);
    assert_eq!(handle.instance().await.unwrap().revision.0, 2);
    engine.shutdown().await.unwrap();
}

async fn a_large_commit_that_hangs_does_not_hold_up_other_commits<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    const MANY: usize = 10;
    let (gate, held) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let holding = {
        let (gate, held) = (gate.clone(), held.clone());
        move |commits: &[Commit]| {
            let first = commits.len() >= MANY && !held.swap(true, Ordering::SeqCst);
            first.then(|| gate.clone())
        }
    };
    let walk = Walk::new();
    let engine = Engine::builder(Through::new(store).holding(holding)).register(walk);
    let engine = engine.queue("default", 100).start().await.unwrap();
    let mut many = Vec::new();
    while !held.load(Ordering::SeqCst) {
        let new = (0..100).map(|_| Walk::with(Leg::Three));
        many.extend(engine.client().start_many(new).await.unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let one = insert(engine.client(), Walk::with(Leg::Three)).await;
    assert_eq!(one.output().timeout(LONG).await.unwrap(), 1);

    gate.notify_one();
    for handle in many {
        assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
    }
    engine.shutdown().await.unwrap();
}

/// The worker does not know the revision of its claim. Only a read of its claims ends that.
async fn a_kept_claim_whose_commit_lost_its_answer_is_given_back_and_goes_on<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let broken = Through::new(store).breaking(first("commit", &[Break::After]));
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::One)).await;

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);

    for step in ["one", "two", "three"] {
        assert_eq!(walk.runs_of(step), 1, "step {step}");
    }
    let ended = handle.instance().await.unwrap();
    // Claim, one (answer lost), given back, claim, two, three.
    assert_eq!((ended.revision.0, ended.crashes), (6, 0));
    engine.shutdown().await.unwrap();
}

/// As after a fail-over to a standby that lags behind. The row is claimed by this worker, at a
/// revision that it no longer knows, and its lease is renewed.
async fn an_instance_whose_last_commit_the_store_lost_goes_on_from_the_one_before<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let forgot = AtomicBool::new(false);
    let forgetful = Through::new(store).forgetting(move |commit| {
        commit.outcome.keeps_claim() && !forgot.swap(true, Ordering::SeqCst)
    });
    let engine = builder(forgetful, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::One)).await;

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);

    assert_eq!((walk.runs_of("one"), walk.runs_of("two")), (2, 2));
    let ended = handle.instance().await.unwrap();
    // Claim, one (forgotten), two (lost), given back, claim, one, two, three.
    assert_eq!((ended.revision.0, ended.crashes), (6, 0));
    engine.shutdown().await.unwrap();
}

async fn claims_whose_answer_was_lost_are_given_back<S: Store + Inspect + Clone>(store: S) {
    let walk = Walk::new();
    let client = Client::new(store.clone());
    let news = (0..10).map(|_| Walk::with(Leg::Three));
    let handles = client.start_many(news).await.unwrap();
    let broken = Through::new(store).breaking(first("claim", &[Break::After, Break::Before]));
    let engine = builder(broken, &walk).start().await.unwrap();

    for handle in handles {
        let handle = engine.handle(&handle).await.unwrap();
        assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
        let ended = handle.instance().await.unwrap();
        assert_eq!((ended.attempt, ended.crashes), (0, 0));
    }
    assert_eq!(walk.runs_of("three"), 10);
    engine.shutdown().await.unwrap();
}

async fn an_insert_on_an_idle_engine_takes_the_fast_path<S: Store + Inspect + Clone>(store: S) {
    let walk = Walk::new();
    let never = |verb| (verb == "claim").then_some(Break::Before);
    let engine = builder(Through::new(store).breaking(never), &walk);
    let engine = engine.start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::Three)).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
    engine.shutdown().await.unwrap();
}

async fn an_insert_on_the_fast_path_that_lost_its_answer_runs_once<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let broken = Through::new(store).breaking(first("insert", &[Break::After]));
    let engine = builder(broken, &walk).start().await.unwrap();
    engine.start(Walk::with(Leg::Three)).await.unwrap_err();

    let done = Filter {
        statuses: vec![Status::Done],
        ..Filter::default()
    };
    eventually("the instance has ended", async || {
        engine.client().count(done.clone()).await.unwrap() == Count::Exactly(1)
    })
    .await;
    assert_eq!(walk.runs_of("three"), 1);
    engine.shutdown().await.unwrap();
}

/// An instance that waits for [`Go`].
async fn parked(engine: &Engine, new: New<Walk>) -> Handle<Walk> {
    let handle = insert(engine.client(), new).await;
    let settled = handle.settled().timeout(LONG).await.unwrap();
    assert_eq!(settled.status, Status::AwaitingSignal);
    handle
}

async fn a_signal_on_an_idle_engine_takes_the_fast_path<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let never = |verb| (verb == "claim").then_some(Break::Before);
    let engine = builder(Through::new(store).breaking(never), &walk).queue("mail", 4);
    let engine = engine.start().await.unwrap();
    let by_id = parked(&engine, Walk::with(Leg::Wait).queue("mail")).await;
    let by_key = parked(&engine, Walk::with(Leg::Wait).key("k")).await;
    // A signal without a target frees its slot again.
    for _ in 0..20 {
        let lost = engine.client().signal(InstanceId(987_654_321), Go).await;
        assert!(
            matches!(lost, Err(SignalError::NoTarget { .. })),
            "{lost:?}"
        );
    }
    let woke = |answer| matches!(answer, Delivery::Delivered { woke: true, .. });
    assert!(woke(deliver(engine.client(), &by_id, Go).await));
    assert_eq!(by_id.output().timeout(LONG).await.unwrap(), 1);
    assert!(woke(deliver(engine.client(), Walk::key("k"), Go).await));
    assert_eq!(by_key.output().timeout(LONG).await.unwrap(), 1);
    engine.shutdown().await.unwrap();
}

async fn the_target_of_a_fast_path_signal_that_lost_its_answer_runs_once<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let broken = Through::new(store).breaking(first("deliver", &[Break::After]));
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = parked(&engine, Walk::with(Leg::Wait)).await;
    handle.signal(Go).await.unwrap_err();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
    assert_eq!(walk.runs_of("one"), 1);
    let ended = handle.instance().await.unwrap();
    // Claim, wait, claim (answer lost), given back, claim, one, two, three.
    assert_eq!((ended.revision.0, ended.crashes), (8, 0));
    engine.shutdown().await.unwrap();
}

/// Makes the first call of `verb` wait, before it is carried out or before its answer is returned.
fn late(
    verb: &'static str,
    place: Break,
    gate: &Arc<Notify>,
) -> impl Fn(&'static str) -> Option<(Break, Arc<Notify>)> + Send + Sync + 'static {
    let (gate, called_before) = (gate.clone(), AtomicBool::new(false));
    move |called| {
        let is_first = called == verb && !called_before.swap(true, Ordering::SeqCst);
        is_first.then(|| (place, gate.clone()))
    }
}

/// The calls of a store, in order.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<&'static str>>>);

impl Calls {
    fn recording(
        &self,
        breaks: impl Fn(&'static str) -> Option<Break> + Send + Sync + 'static,
    ) -> impl Fn(&'static str) -> Option<Break> + Send + Sync + 'static {
        let calls = self.0.clone();
        move |verb| {
            calls.lock().unwrap().push(verb);
            breaks(verb)
        }
    }

    /// Whether the engine has asked the store for its claims.
    fn has_asked(&self) -> bool {
        self.0.lock().unwrap().contains(&"claims_of")
    }

    /// Whether the engine has also acted upon the answer. Only then it claims again.
    fn has_acted(&self) -> bool {
        let calls = self.0.lock().unwrap();
        let mut since = calls.iter().skip_while(|verb| **verb != "claims_of");
        since.any(|verb| *verb == "claim")
    }
}

/// Makes a signal fail that might have brought the engine a claim, so that it reads its claims.
async fn make_unsure(engine: &Engine) {
    let missing = InstanceId(987_654_321);
    engine.client().signal(missing, Go).await.unwrap_err();
}

/// Checks that each step has run once, on one claim.
async fn assert_ran_through(walk: &Walk, handle: &Handle<Walk>) {
    for step in ["one", "two", "three"] {
        assert_eq!(walk.runs_of(step), 1, "step {step}");
    }
    // Claim, one, two, three.
    assert_eq!(handle.instance().await.unwrap().revision.0, 4);
}

async fn a_claim_that_lost_its_answer_is_given_back_while_the_one_before_is_held<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let gate = Arc::new(Notify::new());
    let broken = Through::new(store).breaking(first("deliver", &[Break::After]));
    // The commit that parks the instance is not answered.
    let broken = broken.delaying(late("commit", Break::After, &gate));
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::Wait)).await;
    eventually("the instance is parked", async || {
        handle.instance().await.unwrap().status == Status::AwaitingSignal
    })
    .await;

    handle.signal(Go).await.unwrap_err();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);

    assert_eq!(walk.runs_of("one"), 1);
    let ended = handle.instance().await.unwrap();
    // Claim, wait, claim (answer lost), given back, claim, one, two, three.
    assert_eq!((ended.revision.0, ended.crashes), (8, 0));
    gate.notify_one();
    engine.shutdown().await.unwrap();
}

async fn a_kept_claim_whose_commit_is_not_answered_yet_is_not_given_back<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let (gate, calls) = (Arc::new(Notify::new()), Calls::default());
    let broken = calls.recording(first("deliver", &[Break::Before]));
    let broken = Through::new(store).breaking(broken);
    let broken = broken.delaying(late("commit", Break::After, &gate));
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::One)).await;
    eventually("the first step is written", async || {
        handle.instance().await.unwrap().revision.0 == 2
    })
    .await;

    make_unsure(&engine).await;
    eventually("the engine has acted upon the answer", async || {
        calls.has_acted()
    })
    .await;
    gate.notify_one();

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
    assert_ran_through(&walk, &handle).await;
    engine.shutdown().await.unwrap();
}

async fn a_claim_that_goes_on_while_the_engine_reads_its_claims_is_not_given_back<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let [first_step, last_step, read_claims] = [(); 3].map(|()| Arc::new(Notify::new()));
    let calls = Calls::default();
    let broken = calls.recording(first("deliver", &[Break::Before]));
    let broken = Through::new(store).breaking(broken);
    let gates = (first_step.clone(), last_step.clone());
    let broken = broken.holding(move |commits| {
        let commit = &commits[0];
        let ends = commit.outcome.end().map(|_| gates.1.clone());
        ends.or_else(|| (commit.claim.revision.0 == 1).then(|| gates.0.clone()))
    });
    let broken = broken.delaying(late("claims_of", Break::Before, &read_claims));
    let engine = builder(broken, &walk).start().await.unwrap();
    let handle = insert(engine.client(), Walk::with(Leg::One)).await;
    eventually("the first step has run", async || walk.runs_of("one") == 1).await;

    make_unsure(&engine).await;
    eventually("the engine asks for its claims", async || calls.has_asked()).await;
    first_step.notify_one();
    eventually("two steps are written", async || {
        handle.instance().await.unwrap().revision.0 == 3
    })
    .await;
    read_claims.notify_one();
    eventually("the engine has acted upon the answer", async || {
        calls.has_acted()
    })
    .await;
    last_step.notify_one();

    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
    assert_ran_through(&walk, &handle).await;
    engine.shutdown().await.unwrap();
}

async fn a_signal_of_a_deregistered_worker_is_delivered<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let engine = builder(store.clone(), &walk).start().await.unwrap();
    let handle = parked(&engine, Walk::with(Leg::Wait)).await;
    // The test deregisters the worker. The engine notices, and registers again.
    for worker in engine.client().admin().workers().await.unwrap() {
        store.deregister(worker.id).await.unwrap();
    }
    handle.signal(Go).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), 1);
    assert_eq!(walk.runs_of("one"), 1);
    engine.shutdown().await.unwrap();
}

async fn a_claim_whose_release_failed_is_given_back_later<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let broken = Through::new(store).breaking(first("release", &[Break::Before]));
    let engine = builder(broken, &walk).start().await.unwrap();
    let unknown = NewInstance::new("walk", "unheard_of", Json::null());
    let admin = engine.client().admin();
    let inserted = admin.insert_rows(vec![unknown]).await.unwrap();
    let id = inserted[0].new_id().unwrap();
    let handle = engine.handle::<Walk>(id).await.unwrap();

    // The first release fails. The claim is released later, and so are the next ones.
    eventually("the claim is given back", async || {
        let instance = handle.instance().await.unwrap();
        instance.revision.0 >= 4 && instance.status == Status::Runnable
    })
    .await;
    let given_back = handle.instance().await.unwrap();
    assert_eq!((given_back.attempt, given_back.crashes), (0, 0));
    engine.shutdown().await.unwrap();
}

async fn a_worker_that_cannot_renew_its_lease_drops_the_step_of_a_lost_claim<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = cut.clone();
    let broken = Through::new(store.clone()).breaking(move |verb| {
        let breaks = ["heartbeat", "claims_of"].contains(&verb) && is_cut.load(Ordering::SeqCst);
        breaks.then_some(Break::Before)
    });
    let lease = Duration::from_millis(400);
    let cut_off = builder(broken, &walk).lease(lease).roles(Roles::WORKER);
    let cut_off = cut_off.start().await.unwrap();
    let handle = insert(cut_off.client(), Walk::with(Leg::UntilLost)).await;
    walk.started.acquire().await.unwrap().forget();
    cut.store(true, Ordering::SeqCst);

    // No other node runs steps, so that the released claim stays visible.
    let maintenance = builder(store.clone(), &walk).roles(Roles::MAINTENANCE);
    let maintenance = maintenance.lease(lease).start().await.unwrap();
    let admin = maintenance.client().admin();
    admin.pause("default", Note::by("the test")).await.unwrap();
    let handle = maintenance.handle(&handle).await.unwrap();
    eventually("the claim is given back", async || {
        handle.instance().await.unwrap().status == Status::Runnable
    })
    .await;
    assert!(
        !walk.dropped.load(Ordering::SeqCst),
        "the worker cannot know yet"
    );
    let given_back = handle.instance().await.unwrap();
    assert_eq!((given_back.attempt, given_back.crashes), (1, 1));
    cut.store(false, Ordering::SeqCst);

    eventually("the step is dropped", async || {
        walk.dropped.load(Ordering::SeqCst)
    })
    .await;
    cut_off.shutdown().await.unwrap();
    // The outcome of the step was dropped.
    assert_eq!(handle.instance().await.unwrap(), given_back);
    maintenance.shutdown().await.unwrap();
}

/// Every seventh call fails, alternately before and after it is carried out.
async fn every_instance_ends_once_on_a_store_whose_calls_keep_failing<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let walk = Walk::new();
    let client = Client::new(store.clone());
    let mut handles = Vec::new();
    for _ in 0..20 {
        for (leg, output) in [
            (Leg::One, 1),
            (Leg::Parent, 3),
            (Leg::Wait, 1),
            (Leg::Retry, 1),
        ] {
            let handle = insert(&client, Walk::with(leg)).await;
            handles.push((handle, output));
        }
    }
    let ended: Arc<Mutex<HashMap<InstanceId, u32>>> = Arc::default();
    let observed = ended.clone();
    let calls = AtomicU32::new(0);
    let broken = Through::new(store).breaking(move |verb| {
        let breakable = [
            "claim",
            "commit",
            "release",
            "claims_of",
            "fire",
            "heartbeat",
        ];
        if !breakable.contains(&verb) {
            return None;
        }
        match calls.fetch_add(1, Ordering::SeqCst) % 14 {
            6 => Some(Break::Before),
            13 => Some(Break::After),
            _ => None,
        }
    });
    let broken = broken.observing(move |commits, committed| {
        let mut ended = observed.lock().unwrap();
        for (commit, answer) in commits.iter().zip(&committed.answers) {
            if let (Some(_), Answer::Committed { .. }) = (commit.outcome.end(), answer) {
                *ended.entry(commit.claim.id).or_default() += 1;
            }
        }
    });
    let engine = builder(broken, &walk).lease(limits::LEASE_MIN * 100);
    let engine = engine.start().await.unwrap();
    // Only some wait for the signal, and others may have ended.
    for (handle, _) in &handles {
        deliver(&client, handle, Go).await;
    }

    for (handle, output) in &handles {
        let handle = engine.handle(handle).await.unwrap();
        assert_eq!(handle.output().timeout(LONG).await.unwrap(), *output);
        assert_eq!(handle.instance().await.unwrap().crashes, 0);
    }

    engine.shutdown().await.unwrap();
    let ended = ended.lock().unwrap();
    // 80 instances, and three children of each of the 20 parents.
    assert_eq!(ended.len(), 80 + 60);
    assert!(ended.values().all(|times| *times == 1), "{ended:?}");
}
