//! Code may combine durable calls with any combinator that does no I/O. Whatever the combinator
//! polls and drops, the result is the same without a crash, after a crash at any commit, and on
//! replay.

use crate::support::*;
use futures_util::future::{BoxFuture, Either, join_all, select, select_all, try_join};
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use futures_util::{FutureExt, join, select_biased};
use outlast::Status;
use outlast::prelude::*;
use outlast::testing::{Point, Replay};

on_both_stores!(
    code_that_asked_for_the_time_may_end_with_the_first_of_two_steps,
    code_that_asks_for_the_time_after_a_signal_consumes_it_once,
    all_calls_in_unordered_futures_are_awaited,
    calls_of_one_poll_match_the_history_in_any_order,
    calls_of_one_poll_that_do_not_match_the_history_block,
);

mod all_of_them {
    // Every fifth of 945 cases: each combinator meets each pair, with several kinds of requests.
    #[tokio::test]
    async fn code_has_the_same_result_with_every_combinator_on_sqlite() {
        crate::support::on_sqlite(|ground| super::has_the_same_result(ground, 5)).await;
    }

    // Fewer cases, because the session is the same on both stores.
    #[tokio::test]
    async fn code_has_the_same_result_with_every_combinator_on_postgres() {
        crate::support::on_postgres(|ground| super::has_the_same_result(ground, 41)).await;
    }
}

async fn code_that_asked_for_the_time_may_end_with_the_first_of_two_steps(ground: Ground) {
    let code = script(|flow, _| async move {
        let _ = flow.now();
        let a = async { number(&flow, "a", 1).await }.boxed();
        let b = async { number(&flow, "b", 2).await }.boxed();
        select(a, b).await.factor_first().0
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(1));
}

async fn code_that_asks_for_the_time_after_a_signal_consumes_it_once(ground: Ground) {
    let code = script(|flow, _| async move {
        number(&flow, "before", 1).await?;
        let first = flow.signal::<Go>().await?.0;
        let _ = flow.now();
        let second = flow.signal::<Go>().timeout(SECOND).await?;
        Ok((first, second.map(|it| it.0)))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    go(&harness, id.get(), 7).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([7, null]));
}

async fn all_calls_in_unordered_futures_are_awaited(ground: Ground) {
    let code = script(|flow, _| async move {
        let calls = (0..3).map(|n| flow.run(double::with(n)).into_future());
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut sum = 0;
        while let Some(result) = calls.next().await {
            sum += result?;
        }
        Ok(sum)
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(6));
}

/// Three concurrent calls, in an order that the test chooses. Two of them differ only in their
/// input.
fn side_by_side(order: &'static [usize]) -> Script {
    script(move |flow, _| async move {
        let branch = |index: usize| match index {
            0 => flow.run(double::with(1)).into_future().boxed(),
            1 => flow.run(double::with(2)).into_future().boxed(),
            _ => async {
                let (a, b) = flow
                    .all((number(&flow, "x", 5), flow.signal::<Go>()))
                    .await?;
                Ok(a + b.0)
            }
            .boxed(),
        };
        let mut results = vec![0; 3];
        let calls = order.iter().map(|&index| branch(index));
        for (index, result) in order.iter().zip(join_all(calls).await) {
            results[*index] = result?;
        }
        Ok(results)
    })
}

async fn calls_of_one_poll_match_the_history_in_any_order(ground: Ground) {
    let orders: [&'static [usize]; 6] = [
        &[0, 1, 2],
        &[0, 2, 1],
        &[1, 0, 2],
        &[1, 2, 0],
        &[2, 0, 1],
        &[2, 1, 0],
    ];
    for first in orders {
        for then in orders {
            let mut harness = ground.runs(side_by_side(first)).await;
            let id = begin(&harness, ()).await;
            harness.run().await;
            let mut harness = ground.runs(side_by_side(then)).await;
            go(&harness, id.get(), 7).await;
            harness.run_all().await;
            let row = get(&harness, id).await;
            let error = row.last_error.as_deref().unwrap_or_default();
            assert_eq!(row.status, Status::Done, "{first:?} {then:?}: {error}");
            assert_eq!(output(&row), json!([2, 4, 12]), "{first:?} {then:?}");
        }
    }
}

async fn calls_of_one_poll_that_do_not_match_the_history_block(ground: Ground) {
    let mut harness = ground.runs(side_by_side(&[0, 1, 2])).await;
    let id = begin(&harness, ()).await;
    harness.run().await;
    let other = script(|flow, _| async move {
        let (a, b) = join!(
            flow.run(double::with(1)).into_future(),
            flow.signal::<Go>().into_future()
        );
        Ok(a? + b?.0)
    });
    let mut harness = ground.runs(other).await;
    go(&harness, id.get(), 7).await;
    harness.run().await;
    let row = get(&harness, id).await;
    let error = row.last_error.unwrap_or_default();
    assert!(
        error.contains("of call 2; the code has call 2: signal \"go\""),
        "{error}"
    );
}

/// How two branches are combined.
#[derive(Clone, Copy, Debug)]
enum Together {
    Join,
    JoinMacro,
    TryJoin,
    JoinAll,
    Unordered,
    Ordered,
    Select,
    SelectAndRest,
    SelectAll,
    SelectBiased,
    SelectRandom,
    TokioSelect,
    TokioRandom,
    UnorderedFirst,
    DroppedUnpolled,
}

const TOGETHER: [Together; 15] = [
    Together::Join,
    Together::JoinMacro,
    Together::TryJoin,
    Together::JoinAll,
    Together::Unordered,
    Together::Ordered,
    Together::Select,
    Together::SelectAndRest,
    Together::SelectAll,
    Together::SelectBiased,
    Together::SelectRandom,
    Together::TokioSelect,
    Together::TokioRandom,
    Together::UnorderedFirst,
    Together::DroppedUnpolled,
];

/// The first call of a branch.
#[derive(Clone, Copy, Debug)]
enum First {
    Ready,
    Slow,
    Fails,
    Child,
    Activity,
    Timer,
    Group,
}

const PAIRS: [(First, First); 9] = [
    (First::Ready, First::Ready),
    (First::Ready, First::Slow),
    (First::Slow, First::Ready),
    (First::Fails, First::Ready),
    (First::Child, First::Ready),
    (First::Timer, First::Slow),
    (First::Child, First::Timer),
    (First::Activity, First::Child),
    (First::Group, First::Ready),
];

/// Requests of the code that are no calls: before the branches, in them, and after them.
#[derive(Clone, Copy, Debug)]
struct Asks {
    before: Asked,
    between: Asked,
    after: Asked,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Nothing,
    Now,
    Draws,
    Version,
    All,
}

const ASKS: [Asks; 7] = [
    Asks::of(Asked::Nothing, Asked::Nothing, Asked::Nothing),
    Asks::of(Asked::Now, Asked::Nothing, Asked::Nothing),
    Asks::of(Asked::Nothing, Asked::Now, Asked::Nothing),
    Asks::of(Asked::Nothing, Asked::Nothing, Asked::Now),
    Asks::of(Asked::Draws, Asked::Draws, Asked::Draws),
    Asks::of(Asked::Version, Asked::Version, Asked::Version),
    Asks::of(Asked::All, Asked::All, Asked::All),
];

impl Asks {
    const fn of(before: Asked, between: Asked, after: Asked) -> Asks {
        Asks {
            before,
            between,
            after,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    together: Together,
    pair: (First, First),
    asks: Asks,
    /// Whether a call follows the branches. Otherwise the code ends.
    goes_on: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for together in TOGETHER {
        for pair in PAIRS {
            for asks in ASKS {
                // The two alternate, which halves the number of cases.
                let goes_on = cases.len() % 2 == 0;
                cases.push(Case {
                    together,
                    pair,
                    asks,
                    goes_on,
                });
            }
        }
    }
    cases
}

/// Returns the answers as a text that differs when an answer differs.
fn ask(flow: &Flow, asked: Asked, place: &str) -> String {
    let now = || format!("{:?}", flow.timestamp());
    let draws = || format!("{} {}", flow.random(), flow.uuid());
    let version = || flow.version(place, 0, 1).to_string();
    match asked {
        Asked::Nothing => String::new(),
        Asked::Now => now(),
        Asked::Draws => draws(),
        Asked::Version => version(),
        Asked::All => format!("{} {} {}", now(), draws(), version()),
    }
}

async fn first(flow: &Flow, first: First, branch: &'static str) -> FlowResult<u64> {
    match first {
        First::Ready => number(flow, branch, 1).await,
        First::Slow => {
            let slow = flow.step(branch, async move || {
                tokio::task::yield_now().await;
                Ok::<_, String>(2)
            });
            slow.await
        }
        First::Fails => {
            let failed = flow.step(branch, async || Err::<u64, _>("no")).await;
            Ok(failed.unwrap_err().to_string().len() as u64)
        }
        First::Child => flow.run(Kid::with(Say::Sleep(20, 3))).await,
        First::Activity => flow.run(double::with(2)).await,
        First::Timer => {
            flow.sleep(Duration::from_millis(10)).await?;
            Ok(5)
        }
        First::Group => {
            let group = flow.all((number(flow, branch, 6), flow.run(double::with(3))));
            Ok(group.await?.1)
        }
    }
}

/// Makes a call, asks for something, and makes a call whose name has the answer.
fn branch(flow: &Flow, case: Case, name: &'static str) -> BoxFuture<'static, FlowResult<u64>> {
    let flow = flow.clone();
    let kind = if name == "a" {
        case.pair.0
    } else {
        case.pair.1
    };
    async move {
        let n = first(&flow, kind, name).await?;
        let asked = ask(&flow, case.asks.between, name);
        let then = format!("{name} then {asked}");
        let more = flow.step(&then, async || Ok::<_, String>(10)).await?;
        Ok(n + more)
    }
    .boxed()
}

async fn together(flow: &Flow, case: Case) -> FlowResult<Vec<u64>> {
    let (a, b) = (branch(flow, case, "a"), branch(flow, case, "b"));
    Ok(match case.together {
        Together::Join => {
            let (a, b) = futures_util::future::join(a, b).await;
            vec![a?, b?]
        }
        Together::JoinMacro => {
            let (a, b) = join!(a, b);
            vec![a?, b?]
        }
        Together::TryJoin => {
            let (a, b) = try_join(a, b).await?;
            vec![a, b]
        }
        Together::JoinAll => {
            // `join_all` polls more than thirty futures only when they are woken.
            let ready = (0..31).map(|_| async { Ok(0) }.boxed());
            let all = join_all([a, b].into_iter().chain(ready)).await;
            all.into_iter().collect::<FlowResult<_>>()?
        }
        Together::Unordered => {
            let mut calls: FuturesUnordered<_> = [a, b].into_iter().collect();
            let mut all = Vec::new();
            while let Some(ended) = calls.next().await {
                all.push(ended?);
            }
            all
        }
        Together::Ordered => {
            let calls: FuturesOrdered<_> = [a, b].into_iter().collect();
            let all: Vec<_> = calls.collect().await;
            all.into_iter().collect::<FlowResult<_>>()?
        }
        Together::Select => vec![select(a, b).await.factor_first().0?],
        Together::SelectAndRest => {
            let (first, rest) = match select(a, b).await {
                Either::Left((first, rest)) | Either::Right((first, rest)) => (first, rest),
            };
            vec![first?, number(flow, "amid", 7).await?, rest.await?]
        }
        Together::SelectAll => vec![select_all([a, b]).await.0?],
        Together::SelectBiased => {
            let (mut a, mut b) = (a.fuse(), b.fuse());
            select_biased! { a = a => vec![a?], b = b => vec![b?] }
        }
        Together::SelectRandom => {
            let (mut a, mut b) = (a.fuse(), b.fuse());
            futures_util::select! { a = a => vec![a?], b = b => vec![b?] }
        }
        Together::TokioSelect => {
            tokio::select! { biased; a = a => vec![a?], b = b => vec![b?] }
        }
        Together::TokioRandom => {
            tokio::select! { a = a => vec![a?], b = b => vec![b?] }
        }
        Together::UnorderedFirst => {
            let mut calls: FuturesUnordered<_> = [a, b].into_iter().collect();
            let first = calls.next().await;
            vec![first.expect("there are two")?]
        }
        Together::DroppedUnpolled => {
            drop(b);
            let once = futures_util::future::poll_immediate(branch(flow, case, "b"));
            assert!(once.await.is_none());
            vec![a.await?]
        }
    })
}

fn code(case: Case) -> Script {
    script(move |flow, _| async move {
        let before = ask(&flow, case.asks.before, "before");
        let results = together(&flow, case).await?;
        let after = ask(&flow, case.asks.after, "after");
        if case.goes_on {
            let last = format!("{before} {after}");
            flow.step(&last, async || Ok::<_, String>(())).await?;
        }
        Ok(results)
    })
}

/// Whether both branches run to their end. Then the results do not depend on which step ended
/// first.
fn has_both(together: Together) -> bool {
    match together {
        Together::Join
        | Together::JoinMacro
        | Together::TryJoin
        | Together::JoinAll
        | Together::Unordered
        | Together::Ordered
        | Together::SelectAndRest => true,
        Together::Select
        | Together::SelectAll
        | Together::SelectBiased
        | Together::SelectRandom
        | Together::TokioSelect
        | Together::TokioRandom
        | Together::UnorderedFirst
        | Together::DroppedUnpolled => false,
    }
}

/// Runs a case, and returns its sorted results and its commits. The case must be done, and its
/// history must fit its code.
async fn seen(ground: &Ground, case: Case, crash: Option<(Point, u32)>) -> (Vec<u64>, u32) {
    let mut harness = ground.runs(code(case)).await;
    let id = begin(&harness, ()).await;
    if let Some((point, nth)) = crash {
        harness.crash_at::<Script>("run", point, nth);
    }
    let report = harness.run_all().await;
    let row = get(&harness, id).await;
    let error = row.last_error.as_deref().unwrap_or_default();
    assert_eq!(row.status, Status::Done, "{case:?} {crash:?}: {error}");
    let exported = harness
        .client()
        .admin()
        .export(id, None)
        .await
        .unwrap()
        .unwrap();
    let exported = serde_json::to_string(&exported).unwrap();
    if let Err(difference) = Replay::of(code(case)).check(&exported) {
        panic!("{case:?} {crash:?}: {difference}");
    }
    let mut results: Vec<u64> = serde_json::from_value(output(&row)).unwrap();
    results.sort_unstable();
    (results, report.flows + report.done)
}

async fn has_the_same_result(ground: Ground, stride: usize) {
    for case in cases().into_iter().step_by(stride) {
        let (results, commits) = seen(&ground, case, None).await;
        for point in [Point::BeforeCommit, Point::AfterCommit] {
            for nth in 1..commits.min(8) {
                let again = seen(&ground, case, Some((point, nth))).await.0;
                if has_both(case.together) {
                    assert_eq!(again, results, "{case:?} {point:?} {nth}");
                }
            }
        }
    }
}
