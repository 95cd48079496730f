//! A worker that dies at any edge of any commit: the workflow comes to the same, with the same history.

use crate::support::*;
use outlast::EventKind;
use outlast::prelude::*;
use outlast::testing::{Harness, HarnessBuilder, Point};
use outlast::workflow::OneOf2;
use std::collections::BTreeMap;

on_both_stores!(
    a_workflow_comes_to_the_same_whichever_commit_its_worker_dies_before,
    a_workflow_comes_to_the_same_whichever_commit_its_worker_dies_after,
    a_workflow_comes_to_the_same_when_it_is_run_from_the_start_after_each_commit,
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

fn effect() -> Effect {
    Effect(Log::default())
}

/// Uses every call that there is.
fn everything(log: &Log, client: &Client) -> Script {
    let (log, client) = (log.clone(), client.clone());
    script(move |flow, input: Value| {
        let (log, client) = (log.clone(), client.clone());
        async move {
            if flow.run() == 2 {
                let late = flow.signal::<Halt>().await?.0;
                let last = log.step(&flow, "in the second run", 9).await?;
                return Ok((input, late, last));
            }
            let form = flow.version("change", 0, 2);
            let key = format!(
                "key {} {} {:?}",
                flow.uuid(),
                flow.random(),
                flow.timestamp()
            );
            let paid = log.clone();
            let pay = flow.step("pay", async move || {
                paid.note(key);
                Ok::<_, String>(1)
            });
            let mut seen = vec![json!(form), json!(pay.await?)];

            seen.push(json!(flow.activity(effect(), "alone".into()).await?));
            seen.push(json!(flow.child::<Kid>(Say::Give(2)).await?));
            seen.push(json!(
                flow.child::<Kid>(Say::Renew(0)).timeout(SECOND).await?
            ));

            let machine = flow
                .machine(New::<Turnstile>(Turn::Wait(3)))
                .start()
                .await?;
            let kid = flow.start_child::<Kid>(Say::Wait).await?;
            seen.push(json!(machine.child().signal(Go(4)).await?));
            seen.push(json!(kid.child().signal(Go(5)).await?));
            seen.push(json!((kid.join().await?, machine.join().await?)));

            let group = flow.all((
                log.step(&flow, "in a group", 6),
                flow.activity(effect(), "in a group, elsewhere".into()),
                vec![
                    flow.child::<Kid>(Say::Sleep(20, 7)),
                    flow.child::<Kid>(Say::Give(8)),
                ],
                flow.sleep(Duration::from_millis(10)),
            ));
            seen.push(json!(group.await?));
            let windowed = (0..3).map(|n| flow.activity(Double, n));
            let windowed = flow.all(windowed.collect::<Vec<_>>()).window(1);
            seen.push(json!(windowed.await?));
            let broken = flow.all((
                flow.child::<Kid>(Say::Wait),
                flow.child::<Kid>(Say::Fail("broken".into())),
            ));
            let broken = broken.cancel_rest().await.unwrap_err();
            seen.push(json!(broken.to_string()));

            let id = flow.id();
            let sent = flow.uuid();
            let send = flow.step("send", async move || {
                client
                    .signal(id, Go(10))
                    .dedup(format!("{sent} go"))
                    .await?;
                client
                    .signal(id, Halt(11))
                    .dedup(format!("{sent} halt"))
                    .await
                    .map(|_| ())
            });
            send.await?;
            let first = flow.select((flow.signal::<Go>(), flow.sleep(HOUR))).await?;
            seen.push(json!(match first {
                OneOf2::First(Go(n)) => n,
                OneOf2::Second(()) => 0,
            }));
            let raced = flow.select((flow.child::<Kid>(Say::Wait), flow.sleep(SECOND)));
            let raced = raced.cancel_rest().await?;
            seen.push(json!(matches!(raced, OneOf2::Second(()))));

            flow.sleep(SECOND).await?;
            let shielded = flow.shielded(async { log.step(&flow, "shielded", 12).await });
            seen.push(json!(shielded.await?));
            flow.step("fails", async || Err::<u64, _>("no"))
                .await
                .unwrap_err();
            let branches = futures_util::try_join!(
                async { flow.activity(effect(), "side by side".into()).await },
                async { log.step(&flow, "beside it", 13).await },
            );
            seen.push(json!(branches?));
            flow.continue_as_new(seen)
        }
    })
}

fn worker(ground: &Ground, log: &Log) -> HarnessBuilder {
    let worker = ground.worker().workflow(everything(log, &ground.client));
    worker.machine(Effect(log.clone()))
}

/// What there is to compare: what it came to, its histories, its effects by how often.
struct Seen {
    output: Value,
    histories: [Vec<String>; 2],
    effects: BTreeMap<String, usize>,
    commits: u32,
}

async fn once(ground: &Ground, crash: Option<(Point, u32)>) -> Seen {
    let log = Log::default();
    let harness = worker(ground, &log).build().await.unwrap();
    seen_by(harness, &log, crash).await
}

async fn seen_by(mut harness: Harness, log: &Log, crash: Option<(Point, u32)>) -> Seen {
    let id = begin(&harness, ()).await;
    if let Some((point, nth)) = crash {
        harness.crash_any(point, nth);
    }
    let tally = harness.run_all().await;
    assert_eq!(tally.crashes, u32::from(crash.is_some()), "{crash:?}");
    let row = get(&harness, id).await;
    let error = row.last_error.as_deref().unwrap_or_default();
    assert_eq!(row.status, Status::Done, "{crash:?}: {error}");
    let mut effects = BTreeMap::new();
    for effect in log.entries() {
        *effects.entry(effect).or_default() += 1;
    }
    Seen {
        output: output(&row),
        histories: [
            recorded(&harness, id, 1).await,
            recorded(&harness, id, 2).await,
        ],
        effects,
        commits: tally.steps,
    }
}

/// A history without moments and ids, and without what says what was waited for and who was alive when somebody looked:
/// who looks later may find that it has come.
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
        format!("{} {} {}", data["result"], data["error"], data["failed"])
    });
    words
        .iter()
        .zip(results)
        .map(|(word, data)| format!("{word}: {data}"))
        .collect()
}

async fn dies_everywhere(ground: Ground, point: Point) {
    let usual = once(&ground, None).await;
    assert!(usual.effects.values().all(|times| *times == 1));
    assert!(usual.commits > 50, "{}", usual.commits);
    for nth in 1..=usual.commits {
        let seen = once(&ground, Some((point, nth))).await;
        let at = format!("{point:?} of commit {nth}");
        assert_eq!(seen.output, usual.output, "{at}");
        assert_eq!(seen.histories, usual.histories, "{at}");
        // The key of the payment is another one for each instance, and one for all of its tries.
        let names = |seen: &Seen| -> Vec<String> {
            let names = seen
                .effects
                .keys()
                .map(|it| it.split(' ').next().unwrap().to_owned());
            names.collect()
        };
        assert_eq!(names(&seen), names(&usual), "{at}");
        let most = if point == Point::BeforeCommit { 2 } else { 1 };
        let often = seen.effects.iter().find(|(_, times)| **times > most);
        assert_eq!(often, None, "{at}");
    }
}

async fn a_workflow_comes_to_the_same_whichever_commit_its_worker_dies_before(ground: Ground) {
    dies_everywhere(ground, Point::BeforeCommit).await;
}

async fn a_workflow_comes_to_the_same_whichever_commit_its_worker_dies_after(ground: Ground) {
    dies_everywhere(ground, Point::AfterCommit).await;
}

async fn a_workflow_comes_to_the_same_when_it_is_run_from_the_start_after_each_commit(
    ground: Ground,
) {
    let usual = once(&ground, None).await;
    let log = Log::default();
    let worker = worker(&ground, &log).run_ahead(0);
    let seen = seen_by(worker.build().await.unwrap(), &log, None).await;
    assert_eq!(seen.output, usual.output);
    assert_eq!(seen.histories, usual.histories);
    assert!(seen.effects.values().all(|times| *times == 1));
}
