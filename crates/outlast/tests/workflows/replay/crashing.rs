//! Crashes before and after each commit: the workflow has the same result and the same history.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, EventKind};
use outlast::testing::{Harness, HarnessBuilder, Point};
use outlast::workflow::OneOf2;
use outlast::{Client, Job, JobError, Status};
use std::collections::BTreeMap;

on_both_stores!(
    a_crash_before_any_commit_does_not_change_the_result_of_a_workflow,
    a_crash_after_any_commit_does_not_change_the_result_of_a_workflow,
    a_crash_before_any_commit_does_not_change_a_workflow_that_asks_for_the_time,
    a_crash_after_any_commit_does_not_change_a_workflow_that_asks_for_the_time,
    repeated_crashes_do_not_change_the_result_of_a_workflow,
    a_replay_after_each_commit_does_not_change_the_result_of_a_workflow,
);

/// A job with an effect.
struct Effect(Log);

impl Job for Effect {
    const NAME: &'static str = "effect";
    type Args = String;
    type Output = String;

    async fn perform(&self, what: String, _: &Context) -> Result<String, JobError> {
        self.0.note(what.clone());
        Ok(what)
    }

    fn backoff(&self, _: u32) -> Duration {
        SECOND
    }
}

/// A job that succeeds at its second attempt.
struct Flaky(Log);

impl Job for Flaky {
    const NAME: &'static str = "flaky";
    type Args = String;
    type Output = String;

    async fn perform(&self, what: String, cx: &Context) -> Result<String, JobError> {
        // A crash is not a failed attempt.
        if cx.attempt() == cx.crashes() {
            return Err(JobError::retry("not yet"));
        }
        self.0.note(what.clone());
        Ok(what)
    }

    fn backoff(&self, _: u32) -> Duration {
        SECOND
    }
}

/// The workflows of these tests. Together they use every kind of call. Each is short, because it
/// runs once for each crash before or after one of its commits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Steps,
    Activities,
    Handles,
    Groups,
    Selections,
    /// Continues as new, and leaves children behind.
    NewRun,
    /// Waits until it is cancelled, and cleans up.
    Cleanup,
}

const PARTS: [Part; 7] = [
    Part::Steps,
    Part::Activities,
    Part::Handles,
    Part::Groups,
    Part::Selections,
    Part::NewRun,
    Part::Cleanup,
];

impl Part {
    fn ends_as(self) -> Status {
        if self == Part::Cleanup {
            Status::Cancelled
        } else {
            Status::Done
        }
    }

    /// Returns how many effects a crash may repeat: those of the steps whose results were not
    /// written. In a group, two steps run concurrently.
    fn repeated_at_most(self, point: Point) -> usize {
        match point {
            Point::BeforeCommit if self == Part::Groups => 2,
            Point::BeforeCommit => 1,
            Point::BeforeStep | Point::AfterCommit => 0,
        }
    }
}

/// Whether the code asks for the time. If it does, the result of a step is written before the code
/// gets it. If not, the code gets it at once, and it is written with what follows.
#[derive(Clone, Copy, Debug)]
enum Time {
    Asked,
    Unasked,
}

fn code(part: Part, time: Time, log: &Log, client: &Client) -> Script {
    let (log, client) = (log.clone(), client.clone());
    script(move |flow, input: Value| {
        let (log, client) = (log.clone(), client.clone());
        async move {
            let now = match time {
                Time::Asked => Some(flow.timestamp()),
                Time::Unasked => None,
            };
            let mut seen = Vec::new();
            match part {
                Part::Steps => steps(&flow, &log, &mut seen, format!("{now:?}")).await?,
                Part::Activities => activities(&flow, &log, &mut seen).await?,
                Part::Handles => handles(&flow, &mut seen).await?,
                Part::Groups => groups(&flow, &log, &mut seen).await?,
                Part::Selections => selections(&flow, &log, &client, &mut seen).await?,
                Part::NewRun => return new_run(&flow, &log, &client, input).await,
                Part::Cleanup => cleanup(&flow, &log).await?,
            }
            Ok(json!(seen))
        }
    })
}

type Results = Vec<Value>;

async fn steps(flow: &Flow, log: &Log, seen: &mut Results, now: String) -> FlowResult<()> {
    seen.push(json!(flow.version("change", 0, 2)));
    let key = format!("key {} {} {now}", flow.uuid(), flow.random());
    let paid = log.clone();
    let pay = flow.step("pay", async move || {
        paid.note(key);
        Ok::<_, String>(1)
    });
    seen.push(json!(pay.await?));
    // A step that yields is not complete after its first poll.
    let slow = log.clone();
    let slow = flow.step("takes a while", async move || {
        tokio::task::yield_now().await;
        slow.note("takes a while");
        Ok::<_, String>(2)
    });
    seen.push(json!(slow.await?));
    seen.push(json!(log.step(flow, "then another", 3).await?));
    let failed = flow.step("fails", async || Err::<u64, _>("no")).await;
    seen.push(json!(failed.unwrap_err().to_string()));
    flow.sleep(SECOND).await?;
    let protected = flow.uncancellable(async { log.step(flow, "uncancellable", 12).await });
    seen.push(json!(protected.await?));
    Ok(())
}

async fn activities(flow: &Flow, log: &Log, seen: &mut Results) -> FlowResult<()> {
    seen.push(json!(flow.run(Effect::with("alone".to_owned())).await?));
    let flaky = flow.run(Flaky::with("tried again".to_owned()));
    seen.push(json!(flaky.await?));
    let failed = flow.run(fails::with("no luck".into())).await.unwrap_err();
    seen.push(json!(failed.to_string()));
    let branches = futures_util::try_join!(
        async { flow.run(Effect::with("side by side".to_owned())).await },
        async { log.step(flow, "beside it", 13).await },
    );
    seen.push(json!(branches?));
    let branches = futures_util::try_join!(
        async {
            let activity = flow.run(Effect::with("one of a pair".to_owned()));
            let pair = (activity, flow.run(Kid::with(Say::Sleep(30, 1))));
            flow.all(pair).await
        },
        async { flow.all((flow.run(Kid::with(Say::Sleep(20, 2))),)).await },
        async {
            flow.all([flow.run(double::with(3)), flow.run(double::with(4))])
                .await
        },
    );
    seen.push(json!(branches?));
    Ok(())
}

async fn handles(flow: &Flow, seen: &mut Results) -> FlowResult<()> {
    seen.push(json!(flow.run(Kid::with(Say::Give(2))).await?));
    let job = flow.spawn(double::with(2)).await?;
    seen.push(json!(job.join().await?));
    let late = flow.run(Kid::with(Say::ContinueAsNew(1))).timeout(SECOND);
    seen.push(json!(late.await?));

    let machine = flow.spawn(Turnstile::with(Turn::Wait(3))).await?;
    let kid = flow.spawn(Kid::with(Say::ContinueAsNew(2))).await?;
    seen.push(json!(machine.child().signal(Go(4)).await?));
    seen.push(json!(kid.child().signal(Go(5)).await?));
    seen.push(json!((kid.join().await?, machine.join().await?)));
    seen.push(json!(kid.child().run()));

    let unwanted = flow.spawn(Kid::with(Say::Wait)).await?;
    seen.push(json!(unwanted.child().cancel("not needed").await?));
    let cancelled = unwanted.join().await.unwrap_err();
    seen.push(json!(cancelled.kind().as_str()));
    Ok(())
}

async fn groups(flow: &Flow, log: &Log, seen: &mut Results) -> FlowResult<()> {
    let group = flow.all((
        log.step(flow, "in a group", 6),
        flow.run(Effect::with("in a group, elsewhere".to_owned())),
        vec![
            flow.run(Kid::with(Say::Sleep(20, 7))),
            flow.run(Kid::with(Say::Give(8))),
        ],
        flow.sleep(Duration::from_millis(10)),
        flow.all((
            log.step(flow, "in a group of a group", 9),
            flow.all([flow.run(double::with(5)), flow.run(double::with(6))]),
        )),
    ));
    seen.push(json!(group.await?));
    let windowed = (0..3).map(|n| flow.run(double::with(n)));
    let windowed = flow.all(windowed.collect::<Vec<_>>()).window(1);
    seen.push(json!(windowed.await?));
    let broken = flow.all((
        flow.run(Kid::with(Say::Wait)),
        flow.all((flow.run(Kid::with(Say::Fail("broken".into()))),)),
    ));
    let broken = broken.cancel_rest().await.unwrap_err();
    seen.push(json!(broken.to_string()));
    Ok(())
}

async fn selections(flow: &Flow, log: &Log, client: &Client, seen: &mut Results) -> FlowResult<()> {
    let first = flow.select((log.step(flow, "in a selection", 14), flow.sleep(HOUR)));
    seen.push(json!(matches!(first.await?, OneOf2::First(14))));
    let first = flow.select((flow.signal::<Go>(), log.step(flow, "beside a signal", 15)));
    seen.push(json!(matches!(first.await?, OneOf2::Second(15))));

    sends(flow, client, Go(10)).await?;
    let first = flow.select((flow.signal::<Go>(), flow.sleep(HOUR))).await?;
    seen.push(json!(match first {
        OneOf2::First(Go(n)) => n,
        OneOf2::Second(()) => 0,
    }));
    let raced = flow.select((flow.run(Kid::with(Say::Wait)), flow.sleep(SECOND)));
    let raced = raced.cancel_rest().await?;
    seen.push(json!(matches!(raced, OneOf2::Second(()))));
    let first = flow.select((
        flow.all((flow.run(Kid::with(Say::Wait)), flow.run(double::with(1)))),
        flow.run(Kid::with(Say::Sleep(20, 16))),
    ));
    let first = first.cancel_rest().await?;
    seen.push(json!(matches!(first, OneOf2::Second(16))));
    Ok(())
}

/// Sends a signal to the workflow itself, once over all attempts.
async fn sends<S: Signal>(flow: &Flow, client: &Client, signal: S) -> FlowResult<()> {
    let (id, key, client) = (flow.id(), flow.uuid(), client.clone());
    let send = flow.step("send", async move || {
        client.signal(id, signal).dedup(key).await.map(|_| ())
    });
    send.await
}

async fn new_run(flow: &Flow, log: &Log, client: &Client, input: Value) -> FlowResult<Value> {
    leaves_children(flow).await?;
    if flow.run_number() == 1 {
        sends(flow, client, Halt(11)).await?;
        return flow.continue_as_new("what was handed over");
    }
    // The second run receives the signal that was sent to the first.
    let late = flow.signal::<Halt>().await?.0;
    let last = log.step(flow, "in the second run", 9).await?;
    Ok(json!([input, late, last]))
}

/// Starts a child with each close policy, for the end of the instance.
async fn leaves_children(flow: &Flow) -> FlowResult<()> {
    let policies = [
        ClosePolicy::Abandon,
        ClosePolicy::RequestCancel,
        ClosePolicy::Terminate,
    ];
    for policy in policies {
        flow.spawn(Kid::with(Say::Wait).on_parent_close(policy))
            .await?;
    }
    Ok(())
}

/// Waits until it is cancelled, and cleans up with every kind of call.
async fn cleanup(flow: &Flow, log: &Log) -> FlowResult<()> {
    log.step(flow, "before", 1).await?;
    let kid = flow.spawn(Kid::with(Say::Wait)).await?;
    leaves_children(flow).await?;
    let Err(cancelled) = flow.all((kid.join(), flow.sleep(HOUR))).await else {
        return Ok(());
    };
    assert!(cancelled.is_cancelled());
    assert!(log.step(flow, "cancellable", 2).await.is_err());
    let undo = async {
        log.step(flow, "undo", 3).await?;
        log.step(flow, "undo more", 4).await?;
        flow.run(Effect::with("undo elsewhere".to_owned())).await?;
        kid.child().cancel("nobody needs it").await?;
        kid.join().await.unwrap_err();
        let late = flow.spawn(Kid::with(Say::Sleep(1_500, 5))).await?;
        flow.sleep(SECOND).await?;
        flow.all((
            late.join(),
            flow.run(Kid::with(Say::Give(6))),
            log.step(flow, "last", 7),
        ))
        .await
    };
    assert_eq!(flow.uncancellable(undo).await?, (5, 6, 7));
    Err(cancelled)
}

fn worker(ground: &Ground, part: Part, time: Time, log: &Log) -> HarnessBuilder {
    let worker = ground
        .worker()
        .register(code(part, time, log, &ground.client));
    worker
        .register(Effect(log.clone()))
        .register(Flaky(log.clone()))
}

/// What the tests compare: output, histories, children, and how often each effect happened.
struct Seen {
    output: Option<Value>,
    histories: Vec<Vec<String>>,
    children: Vec<(String, Status)>,
    effects: BTreeMap<String, usize>,
    commits: u32,
}

async fn once(ground: &Ground, part: Part, time: Time, crashes: &[(Point, u32)]) -> Seen {
    let log = Log::default();
    let worker = worker(ground, part, time, &log);
    seen_by(worker.build().await.unwrap(), part, &log, crashes).await
}

async fn seen_by(mut harness: Harness, part: Part, log: &Log, crashes: &[(Point, u32)]) -> Seen {
    let id = begin(&harness, ()).await;
    for (point, nth) in crashes {
        harness.crash_any(*point, *nth);
    }
    let (mut commits, mut crashed) = (0, 0);
    if part == Part::Cleanup {
        let report = harness.run().await;
        (commits, crashed) = (report.steps, report.crashes);
        harness.expect(id).await.awaits_children();
        harness.client().admin().cancel(id, ada()).await.unwrap();
    }
    let report = harness.run_all().await;
    (commits, crashed) = (commits + report.steps, crashed + report.crashes);
    assert_eq!(crashed as usize, crashes.len(), "{part:?} {crashes:?}");
    let row = get(&harness, id).await;
    let error = row.last_error.as_deref().unwrap_or_default();
    assert_eq!(row.status, part.ends_as(), "{part:?} {crashes:?}: {error}");
    let mut effects = BTreeMap::new();
    for effect in log.entries() {
        *effects.entry(effect).or_default() += 1;
    }
    let mut histories = Vec::new();
    for run in 1..=row.run {
        histories.push(recorded(&harness, id, run).await);
    }
    let kids = children(&harness, id).await;
    let kids = kids.into_iter().map(|kid| (kid.machine, kid.status));
    Seen {
        output: row.result.as_ref().map(|it| it.decode().unwrap()),
        histories,
        children: kids.collect(),
        effects,
        commits,
    }
}

/// The fields of events that are compared. Times, ids and positions differ between instances.
const CARRIED: [&str; 8] = [
    "result", "error", "failed", "winner", "payload", "version", "answer", "reason",
];

/// Returns a history without times and ids, and without the events that depend on when the code
/// ran. Code that runs later may find that a signal or the end of a child has already come.
async fn recorded(harness: &Harness, id: Scripted, run: i32) -> Vec<String> {
    let mut events = history(harness, id, run).await;
    events.retain(|event| {
        !matches!(
            event.kind,
            EventKind::ChildStarted
                | EventKind::StepScheduled
                | EventKind::SignalAwaited
                | EventKind::TimerScheduled
                | EventKind::TimerCancelled
        )
    });
    let words = words(&events);
    let results = events.iter().map(|event| {
        let data = data(event);
        let carried = CARRIED.iter().filter(|it| !data[**it].is_null());
        let carried: Vec<_> = carried.map(|it| format!("{it} {}", data[*it])).collect();
        carried
            .join(", ")
            .replace(&format!("parent {}", id.get()), "parent")
    });
    words
        .iter()
        .zip(results)
        .map(|(word, data)| format!("{word}: {data}"))
        .collect()
}

async fn crash_everywhere(ground: Ground, time: Time, point: Point) {
    let mut commits = 0;
    for part in PARTS {
        let usual = once(&ground, part, time, &[]).await;
        assert!(usual.effects.values().all(|times| *times == 1), "{part:?}");
        if matches!(part, Part::NewRun | Part::Cleanup) {
            check_close_policies(&usual);
        }
        for nth in 1..=usual.commits {
            let at = format!("{part:?}, {point:?} of commit {nth}");
            let seen = once(&ground, part, time, &[(point, nth)]).await;
            assert_same(&seen, &usual, &at);
            let again: usize = seen.effects.values().map(|times| times - 1).sum();
            assert!(
                again <= part.repeated_at_most(point),
                "{at}: {:?}",
                seen.effects
            );
        }
        commits += usual.commits;
    }
    assert!(commits > 100, "{commits}");
}

#[track_caller]
fn assert_same(seen: &Seen, usual: &Seen, at: &str) {
    assert_eq!(seen.output, usual.output, "{at}");
    assert_eq!(seen.histories, usual.histories, "{at}");
    assert_eq!(seen.children, usual.children, "{at}");
    assert_eq!(names(seen), names(usual), "{at}");
}

/// Returns the names of the effects. The key of the payment differs between instances, but not
/// between the attempts of one.
fn names(seen: &Seen) -> Vec<&str> {
    let names = seen.effects.keys();
    let names = names.map(|it| if it.starts_with("key ") { "key" } else { it });
    names.collect()
}

/// Checks the children that each run has left: one goes on, and two have ended.
fn check_close_policies(seen: &Seen) {
    let kid = |status| ("kid".to_owned(), status);
    let expected = [
        kid(Status::AwaitingSignal),
        kid(Status::Cancelled),
        kid(Status::Cancelled),
    ];
    let left = seen.children.windows(3).filter(|it| **it == expected);
    assert_eq!(left.count(), seen.histories.len(), "{:?}", seen.children);
}

async fn a_crash_before_any_commit_does_not_change_the_result_of_a_workflow(ground: Ground) {
    crash_everywhere(ground, Time::Unasked, Point::BeforeCommit).await;
}

async fn a_crash_after_any_commit_does_not_change_the_result_of_a_workflow(ground: Ground) {
    crash_everywhere(ground, Time::Unasked, Point::AfterCommit).await;
}

async fn a_crash_before_any_commit_does_not_change_a_workflow_that_asks_for_the_time(
    ground: Ground,
) {
    crash_everywhere(ground, Time::Asked, Point::BeforeCommit).await;
}

async fn a_crash_after_any_commit_does_not_change_a_workflow_that_asks_for_the_time(
    ground: Ground,
) {
    crash_everywhere(ground, Time::Asked, Point::AfterCommit).await;
}

async fn repeated_crashes_do_not_change_the_result_of_a_workflow(ground: Ground) {
    for part in PARTS {
        for time in [Time::Unasked, Time::Asked] {
            let usual = once(&ground, part, time, &[]).await;
            for every in 2..=4 {
                // The crashes come before and after commits in turn, except for the last commit. A
                // replay may find that an arrival has come, and then writes one park less.
                let points = [Point::BeforeCommit, Point::AfterCommit]
                    .into_iter()
                    .cycle();
                let crashes = (1..usual.commits / every).map(|nth| nth * every);
                let crashes: Vec<_> = points.zip(crashes).collect();
                let seen = once(&ground, part, time, &crashes).await;
                let at = format!("{part:?} {time:?}, at every commit of {every}");
                assert_same(&seen, &usual, &at);
            }
        }
    }
}

async fn a_replay_after_each_commit_does_not_change_the_result_of_a_workflow(ground: Ground) {
    for part in PARTS {
        for time in [Time::Unasked, Time::Asked] {
            let at = format!("{part:?} {time:?}");
            let usual = once(&ground, part, time, &[]).await;
            let log = Log::default();
            let worker = worker(&ground, part, time, &log).run_ahead(0);
            let seen = seen_by(worker.build().await.unwrap(), part, &log, &[]).await;
            assert_same(&seen, &usual, &at);
            assert!(seen.effects.values().all(|times| *times == 1), "{at}");
        }
    }
}
