//! Rules of joins: when the parent is woken, what it sees, and what happens to the other children.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::family::{Go, Kid, Play, round};
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::machine::FanOut;
use outlast::prelude::*;
use outlast::store::{CancelAnswer, Child, Count, Filter, Inspect, Store};
use outlast::{Handle, Note, Outcome, Status, StepError};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Instant;

on_both_stores!(
    all_waits_until_every_child_has_ended_successfully_or_not,
    a_fan_out_without_children_joins_at_once,
    fail_fast_wakes_the_parent_at_the_first_failure_and_the_others_go_on,
    fail_fast_with_cancel_rest_cancels_the_other_children,
    fail_fast_with_terminate_rest_terminates_the_other_children,
    fail_fast_without_a_failure_waits_for_every_child,
    fail_fast_counts_a_cancelled_child_as_a_failure,
    a_quorum_of_two_wakes_the_parent_after_two_successes,
    a_quorum_wakes_the_parent_as_soon_as_it_cannot_be_reached,
    a_quorum_larger_than_its_round_is_impossible_from_the_start,
    any_wakes_the_parent_at_the_first_success,
    any_is_impossible_when_all_have_failed,
    a_join_deadline_wakes_the_parent_with_unfinished_children,
    a_join_that_is_decided_in_time_clears_its_deadline,
    at_most_fifty_of_ten_thousand_children_run_in_a_window_of_fifty,
    a_parked_child_keeps_its_place_in_the_window,
    a_held_child_that_is_cancelled_never_starts,
    a_step_can_read_the_children_of_any_round,
    the_first_failure_and_the_join_reason_stay_the_same_when_the_step_runs_again,
    an_invalid_join_fails_its_step_with_the_reason_and_starts_no_children,
);

/// Fans out as its state says, and reports its children when it is woken.
struct Coach;

#[steps]
#[derive(Clone)]
enum Game {
    Start {
        kids: Vec<Play>,
        rule: Rule,
    },
    Watch,
    /// Reads the round again after two more children have failed.
    WatchTwice {
        kids: Vec<Play>,
    },
    SeeTwice {
        first: Option<Value>,
    },
    /// Starts a second round after the first.
    Again {
        kids: Vec<Play>,
    },
    Look,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Rule {
    until: Until,
    rest: Rest,
    deadline_ms: Option<u64>,
    window: Option<usize>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
enum Until {
    #[default]
    All,
    FailFast,
    Quorum(u32),
    Any,
    Confused,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
enum Rest {
    #[default]
    GoesOn,
    Cancel,
    Terminate,
}

fn team(kids: Vec<Play>, rule: Rule) -> FanOut {
    let mut team = fan_out(kids.into_iter().map(Kid::with));
    team = match rule.until {
        Until::All => team.all(),
        Until::FailFast => team.fail_fast(),
        Until::Quorum(k) => team.quorum(k),
        Until::Any => team.any(),
        Until::Confused => team.any().fail_fast(),
    };
    team = match rule.rest {
        Rest::GoesOn => team,
        Rest::Cancel => team.cancel_rest(),
        Rest::Terminate => team.terminate_rest(),
    };
    if let Some(deadline) = rule.deadline_ms {
        team = team.deadline(Duration::from_millis(deadline));
    }
    if let Some(window) = rule.window {
        team = team.window(window);
    }
    team
}

impl Machine for Coach {
    const NAME: &'static str = "coach";
    type State = Game;
    type Output = Value;

    async fn step(&self, game: Game, cx: &Context) -> StepResult<Self> {
        match game {
            Game::Start { kids, rule } => team(kids, rule).then(Game::Watch),
            Game::Watch => done(round(cx)?),
            Game::WatchTwice { kids } => {
                let kids = kids.into_iter().map(Kid::with);
                fan_out(kids)
                    .fail_fast()
                    .then(Game::SeeTwice { first: None })
            }
            Game::SeeTwice { first: None } => {
                // Lets the other children fail before this step runs again.
                for child in cx
                    .round()
                    .iter()
                    .filter(|child| !child.status.is_terminal())
                {
                    cx.child(child.id).await?.signal(Go).await?;
                    cx.client().admin().wait_ended(child.id, LONG).await?;
                }
                let first = Some(round(cx)?);
                Ok(Outcome::retry_with(
                    Game::SeeTwice { first },
                    Duration::ZERO,
                    "once more",
                ))
            }
            Game::SeeTwice { first } => done(json!([first, round(cx)?])),
            Game::Again { kids } => match cx.round_number() {
                0 => team(kids.clone(), Rule::default()).then(Game::Again { kids }),
                _ => fan_out([Kid::with(Play::Win(99))]).then(Game::Look),
            },
            Game::Look => {
                let outputs = async |round| {
                    let kids = cx.children_of::<Kid>(round).await?.into_iter();
                    let outputs: Vec<_> = kids.map(|kid| (kid.position, kid.output)).collect();
                    Ok::<_, StepError>(json!(outputs))
                };
                done(json!({
                    "round": cx.round_number(),
                    "first": outputs(1).await?,
                    "second": outputs(2).await?,
                    "third": outputs(3).await?,
                }))
            }
        }
    }
}

async fn playing(store: impl Store + Inspect, kid: &Kid) -> Engine {
    let builder = Engine::builder(store).register(Coach).register(kid.clone());
    builder.queue("default", 20).start().await.unwrap()
}

async fn start(engine: &Engine, kids: Vec<Play>, rule: Rule) -> Handle<Coach> {
    insert(engine.client(), Coach::with(Game::Start { kids, rule })).await
}

fn park(then: Play) -> Play {
    Play::Park(Box::new(then))
}

fn lose() -> Play {
    Play::Lose("fell".into())
}

fn rule(until: Until) -> Rule {
    Rule {
        until,
        ..Rule::default()
    }
}

/// Waits until all children of a coach with one round are stored.
async fn kids(coach: &Handle<Coach>, count: usize) -> Vec<Child> {
    let mut kids = Vec::new();
    eventually("all children are stored", async || {
        kids = coach.children().await.unwrap();
        kids.len() == count
    })
    .await;
    kids
}

async fn statuses(coach: &Handle<Coach>) -> Vec<Status> {
    let kids = coach.children().await.unwrap();
    kids.iter().map(|kid| kid.status).collect()
}

/// Waits until all children have ended, and returns their statuses and errors.
async fn all_ended(coach: &Handle<Coach>) -> Vec<(Status, Option<String>)> {
    let mut ends = Vec::new();
    for kid in coach.children().await.unwrap() {
        let admin = coach.client().admin();
        let ended = admin.wait_ended(kid.id, LONG).await.unwrap();
        ends.push((ended.status, ended.last_error));
    }
    ends
}

async fn all_waits_until_every_child_has_ended_successfully_or_not<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let coach = start(
        &engine,
        vec![Play::Win(1), lose(), Play::Win(3)],
        Rule::default(),
    )
    .await;
    let expected = json!({
        "joined": "all",
        "kids": [[0, "done", 1, null], [1, "failed", null, "fell"], [2, "done", 3, null]],
        "first_failure": 1,
    });
    assert_eq!(coach.output().timeout(LONG).await.unwrap(), expected);
}

async fn a_fan_out_without_children_joins_at_once<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    for (until, joined) in [
        (Until::All, "all"),
        (Until::FailFast, "all"),
        (Until::Any, "impossible"),
    ] {
        let coach = start(&engine, vec![], rule(until)).await;
        let seen = coach.output().timeout(LONG).await.unwrap();
        assert_eq!(seen["joined"], joined);
    }
}

async fn fail_fast_wakes_the_parent_at_the_first_failure_and_the_others_go_on<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let plays = vec![park(Play::Win(1)), lose(), park(Play::Win(3))];
    let coach = start(&engine, plays, rule(Until::FailFast)).await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(
        (&seen["joined"], &seen["first_failure"]),
        (&json!("failure"), &json!(1))
    );
    // The others were not cancelled, and go on.
    let others = kids(&coach, 3).await;
    for other in [&others[0], &others[2]] {
        engine.client().signal(other.id, Go).await.unwrap();
        let ended = admin.wait_ended(other.id, LONG).await.unwrap();
        assert_eq!(ended.status, Status::Done);
    }
    assert!(
        admin
            .close_actions(coach.id().get(), None)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn rest_after_a_failure(store: impl Store + Inspect, rest: Rest) -> (Engine, Handle<Coach>) {
    let engine = playing(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let plays = vec![park(Play::Win(1)), park(lose()), Play::Win(3), Play::Tidy];
    let rule = Rule {
        until: Until::FailFast,
        rest,
        ..Rule::default()
    };
    let coach = start(&engine, plays, rule).await;
    let all = kids(&coach, 4).await;
    admin.wait_ended(all[2].id, LONG).await.unwrap();
    for parked in [&all[0], &all[3]] {
        admin.wait_settled(parked.id, LONG).await.unwrap();
    }
    engine.client().signal(all[1].id, Go).await.unwrap();
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(seen["joined"], "failure");
    (engine, coach)
}

async fn fail_fast_with_cancel_rest_cancels_the_other_children<S: Store + Inspect + Clone>(
    store: S,
) {
    let (engine, coach) = rest_after_a_failure(store, Rest::Cancel).await;
    let admin = engine.client().admin();
    let reason = format!(
        "cancelled by parent: the join of parent {} was decided: failure",
        coach.id()
    );
    let expected = [
        (Status::Cancelled, Some(reason)),
        (Status::Failed, Some("fell".into())),
        (Status::Done, None),
        (Status::Cancelled, Some("tidied up".into())),
    ];
    assert_eq!(all_ended(&coach).await, expected);
    let close_actions = admin.close_actions(coach.id().get(), None).await.unwrap();
    let verbs: Vec<_> = close_actions.iter().map(|it| it.verb.as_str()).collect();
    assert_eq!(verbs, ["cancel", "cancel"]);
    assert!(
        close_actions
            .iter()
            .all(|it| it.cause == Some(coach.id().get()))
    );
}

async fn fail_fast_with_terminate_rest_terminates_the_other_children<S: Store + Inspect + Clone>(
    store: S,
) {
    let (_engine, coach) = rest_after_a_failure(store, Rest::Terminate).await;
    let reason = format!(
        "terminated by parent: the join of parent {} was decided: failure",
        coach.id()
    );
    let expected = [
        (Status::Cancelled, Some(reason.clone())),
        (Status::Failed, Some("fell".into())),
        (Status::Done, None),
        (Status::Cancelled, Some(reason)),
    ];
    assert_eq!(all_ended(&coach).await, expected);
}

async fn fail_fast_without_a_failure_waits_for_every_child<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    let coach = start(
        &engine,
        vec![Play::Win(1), Play::Win(2)],
        rule(Until::FailFast),
    )
    .await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(
        (&seen["joined"], &seen["first_failure"]),
        (&json!("all"), &Value::Null)
    );
}

async fn fail_fast_counts_a_cancelled_child_as_a_failure<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let plays = vec![park(Play::Win(1)), park(Play::Win(2))];
    let coach = start(&engine, plays, rule(Until::FailFast)).await;
    let second = kids(&coach, 2).await[1].id;
    admin.cancel(second, Note::by("referee")).await.unwrap();
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(
        (&seen["joined"], &seen["first_failure"]),
        (&json!("failure"), &json!(1))
    );
    assert_eq!(
        seen["kids"][1],
        json!([1, "cancelled", null, "cancelled by referee"])
    );
}

async fn a_quorum_of_two_wakes_the_parent_after_two_successes<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let plays = vec![Play::Win(1), lose(), park(Play::Win(3)), Play::Win(4)];
    let rule = Rule {
        rest: Rest::Cancel,
        ..rule(Until::Quorum(2))
    };
    let coach = start(&engine, plays, rule).await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(seen["joined"], "quorum");
    let ends = all_ended(&coach).await;
    assert_eq!(ends[2].0, Status::Cancelled);
}

async fn a_quorum_wakes_the_parent_as_soon_as_it_cannot_be_reached<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let plays = vec![lose(), park(Play::Win(2)), lose()];
    let coach = start(&engine, plays, rule(Until::Quorum(2))).await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(seen["joined"], "impossible");
    // The test did not wait for its park, so it may still be executing.
    let second: Status = serde_json::from_value(seen["kids"][1][1].clone()).unwrap();
    assert!(!second.is_terminal(), "{second}");
}

async fn a_quorum_larger_than_its_round_is_impossible_from_the_start<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let coach = start(&engine, vec![park(Play::Win(1))], rule(Until::Quorum(2))).await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(seen["joined"], "impossible");
}

async fn any_wakes_the_parent_at_the_first_success<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    let plays = vec![lose(), park(Play::Win(2)), park(Play::Win(3))];
    let rule = Rule {
        rest: Rest::Terminate,
        ..rule(Until::Any)
    };
    let coach = start(&engine, plays, rule).await;
    let all = kids(&coach, 3).await;
    engine.client().signal(all[1].id, Go).await.unwrap();
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert_eq!(seen["joined"], "quorum");
    assert_eq!(seen["kids"][1], json!([1, "done", 2, null]));
    assert_eq!(all_ended(&coach).await[2].0, Status::Cancelled);
}

async fn any_is_impossible_when_all_have_failed<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    let coach = start(&engine, vec![lose(), lose()], rule(Until::Any)).await;
    assert_eq!(
        coach.output().timeout(LONG).await.unwrap()["joined"],
        "impossible"
    );
}

async fn a_join_deadline_wakes_the_parent_with_unfinished_children<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let plays = vec![Play::Win(1), park(Play::Win(2))];
    // Long enough for the first child, also on a busy machine.
    let deadline = Duration::from_secs(2);
    let rule = Rule {
        rest: Rest::Cancel,
        deadline_ms: Some(2_000),
        ..Rule::default()
    };
    let begun = Instant::now();
    let coach = start(&engine, plays, rule).await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    assert!(begun.elapsed() >= deadline);
    assert_eq!(seen["joined"], "deadline");
    assert_eq!(seen["kids"][0], json!([0, "done", 1, null]));
    let reason = format!(
        "cancelled by parent: the join of parent {} was decided: deadline",
        coach.id()
    );
    let expected = (Status::Cancelled, Some(reason));
    assert_eq!(all_ended(&coach).await[1], expected);
}

async fn a_join_that_is_decided_in_time_clears_its_deadline<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    let rule = Rule {
        deadline_ms: Some(3_600_000),
        ..Rule::default()
    };
    let coach = start(&engine, vec![Play::Win(1)], rule).await;
    assert_eq!(coach.output().timeout(LONG).await.unwrap()["joined"], "all");
    let ended = coach.instance().await.unwrap();
    assert_eq!(ended.await_deadline, None);
}

async fn at_most_fifty_of_ten_thousand_children_run_in_a_window_of_fifty<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    const MINUTES: Duration = Duration::from_secs(300);
    let kid = Kid::default();
    let builder = Engine::builder(store).register(Coach).register(kid.clone());
    let engine = builder.queue("default", 400).start().await.unwrap();
    let rule = Rule {
        window: Some(50),
        ..Rule::default()
    };
    let coach = start(&engine, vec![Play::Busy; 10_000], rule).await;
    // Counts the executing children all the while.
    let watching = async {
        let mut most = 0;
        loop {
            let filter = Filter {
                machine: Some(Kid::NAME.into()),
                statuses: vec![Status::Executing],
                ..Filter::default()
            };
            if let Count::Exactly(running) = engine.client().count(filter).await.unwrap() {
                most = most.max(running);
            }
            assert!(most <= 50, "{most} were claimed at a time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let seen = tokio::select! {
        seen = coach.output().timeout(MINUTES) => seen.unwrap(),
        () = watching => unreachable!("the count goes on for ever"),
    };
    assert_eq!(seen["joined"], "all");
    assert_eq!(seen["kids"].as_array().unwrap().len(), 10_000);
    assert!(kid.most.load(Ordering::SeqCst) <= 50);
}

async fn a_parked_child_keeps_its_place_in_the_window<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let engine = playing(store, &kid).await;
    let admin = engine.client().admin();
    let rule = Rule {
        window: Some(2),
        ..Rule::default()
    };
    let plays = vec![
        park(Play::Win(0)),
        park(Play::Win(1)),
        park(Play::Win(2)),
        Play::Win(3),
    ];
    let coach = start(&engine, plays, rule).await;
    let all = kids(&coach, 4).await;
    for first in &all[..2] {
        admin.wait_settled(first.id, LONG).await.unwrap();
    }
    let parked = Status::AwaitingSignal;
    let held = Status::Runnable;
    assert_eq!(statuses(&coach).await, [parked, parked, held, held]);
    let third = engine.client().find(all[2].id).await.unwrap().unwrap();
    assert_eq!(third.held, Some(true));
    let sentence = admin.explain(&third).await.unwrap();
    let expected = "waits for a place among the 2 of its round that run at a time";
    assert_eq!(sentence, expected);
    // One ends, and the next child takes its place.
    engine.client().signal(all[1].id, Go).await.unwrap();
    admin.wait_settled(all[2].id, LONG).await.unwrap();
    assert_eq!(statuses(&coach).await, [parked, Status::Done, parked, held]);
    for left in [&all[0], &all[2]] {
        engine.client().signal(left.id, Go).await.unwrap();
    }
    assert_eq!(coach.output().timeout(LONG).await.unwrap()["joined"], "all");
}

async fn a_held_child_that_is_cancelled_never_starts<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let engine = playing(store, &kid).await;
    let admin = engine.client().admin();
    let rule = Rule {
        window: Some(1),
        ..Rule::default()
    };
    let plays = vec![park(Play::Win(0)), Play::Win(1), Play::Win(2)];
    let coach = start(&engine, plays, rule).await;
    let all = kids(&coach, 3).await;
    admin.wait_settled(all[0].id, LONG).await.unwrap();
    let answer = admin.cancel(all[1].id, Note::by("referee")).await.unwrap();
    assert_eq!(answer, CancelAnswer::NeverStarted);
    engine.client().signal(all[0].id, Go).await.unwrap();
    let seen = coach.output().timeout(LONG).await.unwrap();
    let expected = json!([
        [0, "done", 0, null],
        [1, "cancelled", null, "cancelled by referee"],
        [2, "done", 2, null],
    ]);
    assert_eq!(seen["kids"], expected);
    let steps = kid.seen.lock().unwrap();
    assert_eq!(*steps, ["park", "win", "win"]);
}

async fn a_step_can_read_the_children_of_any_round<S: Store + Inspect + Clone>(store: S) {
    let engine = playing(store, &Kid::default()).await;
    let kids = vec![Play::Win(1), Play::Win(2)];
    let coach = insert(engine.client(), Coach::with(Game::Again { kids })).await;
    let expected = json!({
        "round": 2,
        "first": [[0, 1], [1, 2]],
        "second": [[0, 99]],
        "third": [],
    });
    assert_eq!(coach.output().timeout(LONG).await.unwrap(), expected);
}

async fn the_first_failure_and_the_join_reason_stay_the_same_when_the_step_runs_again<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let kids = vec![park(lose()), lose(), park(lose())];
    let coach = insert(engine.client(), Coach::with(Game::WatchTwice { kids })).await;
    let seen = coach.output().timeout(LONG).await.unwrap();
    for run in [&seen[0], &seen[1]] {
        assert_eq!(
            (&run["joined"], &run["first_failure"]),
            (&json!("failure"), &json!(1))
        );
    }
    assert_ne!(
        seen[0]["kids"][0][1], "failed",
        "the child was still alive in the first run"
    );
    assert_eq!(seen[1]["kids"][0][1], "failed");
}

async fn an_invalid_join_fails_its_step_with_the_reason_and_starts_no_children<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = playing(store, &Kid::default()).await;
    let window = Rule {
        window: Some(0),
        ..Rule::default()
    };
    let rest = Rule {
        rest: Rest::Cancel,
        ..Rule::default()
    };
    for (rule, expected) in [
        (rule(Until::Confused), "has both .any() and .fail_fast()"),
        (rule(Until::Quorum(0)), "quorum is of none"),
        (window, "window has no places"),
        (rest, "no rest to end"),
    ] {
        let coach = start(&engine, vec![Play::Win(1)], rule).await;
        let failed = coach.ended().timeout(LONG).await.unwrap();
        let error = failed.last_error.unwrap();
        assert!(error.contains(expected), "{error}");
        assert!(coach.children().await.unwrap().is_empty());
    }
}
