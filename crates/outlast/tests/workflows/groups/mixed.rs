//! Mixed groups of children, timers and signals run the code twice: at their start, and when all
//! of their members have ended.

use crate::support::*;
use outlast::prelude::*;
use outlast::store::{EventKind, Timestamp};
use outlast::testing::{Harness, Point};
use outlast::workflow::OneOf2;
use outlast::{Note, Status};
use std::sync::atomic::{AtomicU32, Ordering};

on_both_stores!(
    a_mixed_group_runs_its_code_twice_in_any_order_of_arrival,
    a_mixed_group_that_completes_while_its_worker_is_away_runs_its_code_twice,
    a_mixed_group_does_not_wait_for_a_signal_already_in_the_inbox,
    a_failed_child_wakes_a_mixed_group_at_once,
    a_cancel_wakes_a_mixed_group_at_once,
    a_mixed_group_survives_a_crash_at_every_commit,
    a_parked_row_shows_what_a_mixed_group_still_waits_for,
    a_second_signal_of_the_same_name_stays_for_the_next_call,
    two_calls_for_the_same_signal_consume_two_signals,
    a_selection_with_a_mixed_group_is_woken_by_the_first_arrival,
    a_mixed_group_can_join_children_that_were_started_before,
    a_mixed_group_with_a_window_starts_all_of_its_children,
);

/// An arrival that a group waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arrival {
    /// The child with this number ends.
    Child(usize),
    /// The timer with this number is due: the first after [`HOUR`], each of the others an hour
    /// later.
    Timer(u32),
    Go,
    Halt,
}

use Arrival::{Child, Go as GoArrives, Halt as HaltArrives, Timer};

const MIXES: &[&[Arrival]] = &[
    &[Child(0), Timer(1)],
    &[Child(0), GoArrives],
    &[Timer(1), GoArrives],
    &[GoArrives, HaltArrives],
    &[Child(0), Timer(1), GoArrives],
    &[Child(0), Child(1), Timer(1)],
    &[Child(0), Child(1), GoArrives],
    &[Timer(1), Timer(2), GoArrives],
    &[Child(0), GoArrives, HaltArrives],
    &[Child(0), Timer(1), GoArrives, HaltArrives],
];

/// Returns every order of these arrivals in which the timers come in their own order.
fn orders(mix: &[Arrival]) -> Vec<Vec<Arrival>> {
    let Some((first, rest)) = mix.split_first() else {
        return vec![Vec::new()];
    };
    let mut orders = Vec::new();
    for order in self::orders(rest) {
        for place in 0..=order.len() {
            let mut order = order.clone();
            order.insert(place, *first);
            orders.push(order);
        }
    }
    orders.retain(|order| {
        let timers = order.iter().filter_map(|it| match it {
            Timer(n) => Some(*n),
            Child(_) | GoArrives | HaltArrives => None,
        });
        timers.is_sorted()
    });
    orders
}

/// How often the code of the test was run from its start.
#[derive(Clone, Default)]
struct Runs(std::sync::Arc<AtomicU32>);

impl Runs {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A workflow that waits for a group of these members. Its children do what `say` says.
fn waits_for(mix: &[Arrival], say: Say, runs: &Runs) -> Script {
    let (mix, runs) = (mix.to_vec(), runs.clone());
    script(move |flow, _| {
        let (mix, say, runs) = (mix.clone(), say.clone(), runs.clone());
        async move {
            runs.note();
            let (mut kids, mut timers, mut gos, mut halts) = (vec![], vec![], vec![], vec![]);
            for member in mix {
                match member {
                    Child(_) => kids.push(flow.run(Kid::with(say.clone()))),
                    Timer(n) => timers.push(flow.sleep(n * HOUR)),
                    GoArrives => gos.push(flow.signal::<Go>()),
                    HaltArrives => halts.push(flow.signal::<Halt>()),
                }
            }
            let (kids, _, gos, halts) = flow.all((kids, timers, gos, halts)).await?;
            let signals = gos.len() + halts.len();
            Ok((kids, signals))
        }
    })
}

/// Lets one arrival happen, a second after the previous one. Does not run the workflow.
async fn arrive(others: &mut Harness, id: Scripted, what: Arrival, begun: Timestamp) {
    match what {
        Timer(n) => others.set_time(begun + n * HOUR).await,
        Child(n) => {
            others.advance(SECOND).await;
            let kid = children(others, id).await[n].id;
            go(others, kid, n as u64).await;
        }
        GoArrives => {
            others.advance(SECOND).await;
            go(others, id.get(), 1).await;
        }
        HaltArrives => {
            others.advance(SECOND).await;
            others.client().signal(id, Halt(1)).await.unwrap();
        }
    }
    others.run().await;
}

/// Returns the kinds of the events that record arrivals, in their order.
async fn arrivals(on: &Harness, id: Scripted) -> Vec<EventKind> {
    let kinds = [
        EventKind::ChildCompleted,
        EventKind::TimerFired,
        EventKind::SignalConsumed,
    ];
    let events = history(on, id, 1).await;
    let recorded = events.iter().map(|event| event.kind);
    recorded.filter(|kind| kinds.contains(kind)).collect()
}

fn kinds(order: &[Arrival]) -> Vec<EventKind> {
    let kind = |what: &Arrival| match what {
        Child(_) => EventKind::ChildCompleted,
        Timer(_) => EventKind::TimerFired,
        GoArrives | HaltArrives => EventKind::SignalConsumed,
    };
    order.iter().map(kind).collect()
}

/// A claim and a commit for each of two runs.
const TWO_COMMITS: i64 = 4;

async fn a_mixed_group_runs_its_code_twice_in_any_order_of_arrival(ground: Ground) {
    for mix in MIXES {
        for order in orders(mix) {
            let runs = Runs::default();
            let code = waits_for(mix, Say::Wait, &runs);
            let mut harness = ground.runs(code).await;
            let mut others = ground.runs_children().await;
            let id = begin_and_run(&mut harness, ()).await;
            let begun = harness.time();
            for (nth, what) in order.iter().enumerate() {
                assert_eq!(runs.get(), 1, "{order:?} before arrival {nth}");
                arrive(&mut others, id, *what, begun).await;
                harness.run().await;
            }
            let row = get(&harness, id).await;
            let kids = mix.iter().filter(|it| matches!(it, Child(_))).count();
            let signals = mix
                .iter()
                .filter(|it| matches!(it, GoArrives | HaltArrives));
            let expected = json!([(0..kids).collect::<Vec<_>>(), signals.count()]);
            assert_eq!(output(&row), expected, "{order:?}");
            assert_eq!((runs.get(), row.revision.0), (2, TWO_COMMITS), "{order:?}");
            assert_eq!(arrivals(&harness, id).await, kinds(&order), "{order:?}");
        }
    }
}

async fn a_mixed_group_that_completes_while_its_worker_is_away_runs_its_code_twice(ground: Ground) {
    let mix = [Child(0), Timer(1), GoArrives];
    for order in orders(&mix) {
        let runs = Runs::default();
        let mut harness = ground.runs(waits_for(&mix, Say::Wait, &runs)).await;
        let mut others = ground.runs_children().await;
        let id = begin_and_run(&mut harness, ()).await;
        let begun = harness.time();
        for what in &order {
            arrive(&mut others, id, *what, begun).await;
        }
        harness.run().await;
        let row = get(&harness, id).await;
        assert_eq!(output(&row), json!([[0], 1]), "{order:?}");
        assert_eq!((runs.get(), row.revision.0), (2, TWO_COMMITS), "{order:?}");
        assert_eq!(arrivals(&harness, id).await, kinds(&order), "{order:?}");
    }
}

async fn a_mixed_group_does_not_wait_for_a_signal_already_in_the_inbox(ground: Ground) {
    let runs = Runs::default();
    let noted = runs.clone();
    let code = script(move |flow, _| {
        noted.note();
        async move {
            let go = flow.signal::<Go>();
            let group = (go, flow.signal::<Halt>(), flow.sleep(SECOND));
            let (go, halt, ()) = flow.all(group).await?;
            Ok((go.0, halt.0))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    go(&harness, id.get(), 7).await;
    harness.run().await;
    let row = get(&harness, id).await;
    assert_eq!(row.awaits.as_deref(), Some(&["halt".to_owned()][..]));
    harness.advance(SECOND).await;
    harness.run().await;
    assert_eq!(runs.get(), 1);
    harness.client().signal(id.get(), Halt(8)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([7, 8]));
    assert_eq!(runs.get(), 2);
}

async fn a_failed_child_wakes_a_mixed_group_at_once(ground: Ground) {
    let mix = [Child(0), Timer(1), GoArrives];
    let say = Say::WaitThenFail("broken".into());
    for before in [&[][..], &[Timer(1)], &[GoArrives], &[GoArrives, Timer(1)]] {
        let runs = Runs::default();
        let mut harness = ground.runs(waits_for(&mix, say.clone(), &runs)).await;
        let mut others = ground.runs_children().await;
        let id = begin_and_run(&mut harness, ()).await;
        let begun = harness.time();
        for what in before {
            arrive(&mut others, id, *what, begun).await;
        }
        assert_eq!(runs.get(), 1, "{before:?}");
        arrive(&mut others, id, Child(0), begun).await;
        harness.run().await;
        let why = reason(&get(&harness, id).await);
        assert!(why.contains("broken"), "{before:?}: {why}");
        assert_eq!(runs.get(), 2, "{before:?}");
    }
}

async fn a_cancel_wakes_a_mixed_group_at_once(ground: Ground) {
    let mix = [Child(0), Timer(1), GoArrives];
    for order in orders(&mix) {
        for came in 0..order.len() {
            let runs = Runs::default();
            let mut harness = ground.runs(waits_for(&mix, Say::Wait, &runs)).await;
            let mut others = ground.runs_children().await;
            let id = begin_and_run(&mut harness, ()).await;
            let begun = harness.time();
            for what in &order[..came] {
                arrive(&mut others, id, *what, begun).await;
            }
            harness.run().await;
            assert_eq!(runs.get(), 1, "{order:?} {came}");
            let note = Note::by("test");
            harness.client().admin().cancel(id, note).await.unwrap();
            harness.run().await;
            let row = get(&harness, id).await;
            assert_eq!(row.status, Status::Cancelled, "{order:?} {came}");
            assert_eq!(runs.get(), 2, "{order:?} {came}");
        }
    }
}

async fn a_mixed_group_survives_a_crash_at_every_commit(ground: Ground) {
    let mix = [Child(0), Timer(1), GoArrives];
    for order in orders(&mix) {
        for point in [Point::BeforeCommit, Point::AfterCommit] {
            let runs = Runs::default();
            let mut harness = ground.runs(waits_for(&mix, Say::Wait, &runs)).await;
            let mut others = ground.runs_children().await;
            harness.crash::<Script>("run", point);
            let id = begin_and_run(&mut harness, ()).await;
            let begun = harness.time();
            let before = runs.get();
            for what in &order {
                others.crash_any(point, 1);
                arrive(&mut others, id, *what, begun).await;
            }
            assert_eq!(runs.get(), before, "{order:?} {point:?}");
            harness.crash::<Script>("run", point);
            harness.run().await;
            let row = get(&harness, id).await;
            assert_eq!(output(&row), json!([[0], 1]), "{order:?} {point:?}");
            let again = match point {
                Point::BeforeCommit => 2,
                Point::AfterCommit | Point::BeforeStep => 1,
            };
            assert_eq!(runs.get(), before + again, "{order:?} {point:?}");
            assert_eq!(arrivals(&harness, id).await, kinds(&order), "{order:?}");
        }
    }
}

async fn a_parked_row_shows_what_a_mixed_group_still_waits_for(ground: Ground) {
    let mix = [Child(0), Timer(1), GoArrives];
    let runs = Runs::default();
    let mut harness = ground.runs(waits_for(&mix, Say::Wait, &runs)).await;
    let id = begin_and_run(&mut harness, ()).await;
    let begun = harness.time();
    let due = Some(begun + HOUR);
    let go = Some(vec!["go".to_owned()]);
    let row = get(&harness, id).await;
    assert!(row.needs_all);
    assert_eq!(row.status, Status::AwaitingChildren);
    assert_eq!((row.awaits, row.await_deadline), (go.clone(), due));
    arrive(&mut harness, id, Child(0), begun).await;
    let row = get(&harness, id).await;
    assert!(row.needs_all);
    assert_eq!(row.status, Status::AwaitingSignal);
    assert_eq!((row.awaits, row.await_deadline), (go, due));
    let sentence = harness
        .client()
        .admin()
        .explain(&get(&harness, id).await)
        .await
        .unwrap();
    let expected = "waits for 2 of 3 calls of a group (call 1): a timer (call 3)";
    assert!(sentence.contains(expected), "{sentence}");
    assert!(sentence.contains("and signal go (call 4)"), "{sentence}");
    arrive(&mut harness, id, GoArrives, begun).await;
    let row = get(&harness, id).await;
    assert!(row.needs_all && row.status == Status::Sleeping);
    assert_eq!((row.awaits, row.await_deadline), (Some(Vec::new()), due));
    arrive(&mut harness, id, Timer(1), begun).await;
    let row = get(&harness, id).await;
    assert!(!row.needs_all);
    assert_eq!(output(&row), json!([[0], 1]));
}

async fn a_second_signal_of_the_same_name_stays_for_the_next_call(ground: Ground) {
    let code = script(|flow, _| async move {
        let (Go(first), ()) = flow.all((flow.signal::<Go>(), flow.sleep(HOUR))).await?;
        let Go(second) = flow.signal::<Go>().await?;
        Ok((first, second))
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    go(&harness, id.get(), 2).await;
    assert_eq!(harness.run().await.steps, 0);
    harness.advance(HOUR).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
}

/// One signal does not complete two calls, so each signal wakes such a group.
async fn two_calls_for_the_same_signal_consume_two_signals(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = (flow.signal::<Go>(), flow.signal::<Go>(), flow.sleep(HOUR));
        let (first, second, ()) = flow.all(group).await?;
        Ok((first.0, second.0))
    });
    for timer_first in [true, false] {
        let mut harness = ground.runs(code.clone()).await;
        let id = begin_and_run(&mut harness, ()).await;
        assert!(!get(&harness, id).await.needs_all);
        if timer_first {
            harness.advance(HOUR).await;
            harness.run().await;
        }
        for n in 1..=2 {
            go(&harness, id.get(), n).await;
            harness.run().await;
        }
        harness.advance(HOUR).await;
        harness.run().await;
        assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
    }
}

async fn a_selection_with_a_mixed_group_is_woken_by_the_first_arrival(ground: Ground) {
    let code = script(|flow, _| async move {
        let group = flow.all((flow.run(Kid::with(Say::Wait)), flow.signal::<Halt>()));
        Ok(match flow.select((group, flow.signal::<Go>())).await? {
            OneOf2::First((kid, halt)) => kid + halt.0,
            OneOf2::Second(go) => go.0,
        })
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert!(!get(&harness, id).await.needs_all);
    go(&harness, id.get(), 9).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(9));
}

async fn a_mixed_group_can_join_children_that_were_started_before(ground: Ground) {
    let runs = Runs::default();
    let noted = runs.clone();
    let code = script(move |flow, _| {
        noted.note();
        async move {
            let first = flow.spawn(Kid::with(Say::Wait)).await?;
            let _other = flow.spawn(Kid::with(Say::Wait)).await?;
            let last = flow.spawn(Kid::with(Say::Wait)).await?;
            let joins = (first.join(), last.join(), flow.sleep(HOUR));
            let (first, last, ()) = flow.all(joins).await?;
            Ok((first, last))
        }
    });
    for order in orders(&[Child(0), Child(1), Child(2), Timer(1)]) {
        let mut harness = ground.runs(code.clone()).await;
        let mut others = ground.runs_children().await;
        let id = begin_and_run(&mut harness, ()).await;
        let (begun, before) = (harness.time(), runs.get());
        let mut missing = vec![Child(0), Child(2), Timer(1)];
        for what in &order {
            missing.retain(|it| it != what);
            arrive(&mut others, id, *what, begun).await;
            harness.run().await;
            let expected = before + u32::from(missing.is_empty());
            assert_eq!(runs.get(), expected, "{order:?} {what:?}");
        }
        assert_eq!(output(&get(&harness, id).await), json!([0, 2]), "{order:?}");
    }
}

async fn a_mixed_group_with_a_window_starts_all_of_its_children(ground: Ground) {
    let runs = Runs::default();
    let noted = runs.clone();
    let code = script(move |flow, _| {
        noted.note();
        async move {
            let jobs = (0..5).map(|n| flow.run(double::with(n)));
            let jobs = jobs.collect::<Vec<_>>();
            let (jobs, ()) = flow.all((jobs, flow.sleep(SECOND))).window(2).await?;
            Ok(jobs)
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(
        (
            runs.get(),
            get(&harness, id).await.status == Status::Sleeping
        ),
        (1, true)
    );
    harness.advance(SECOND).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([0, 2, 4, 6, 8]));
    assert_eq!(runs.get(), 2);
}
