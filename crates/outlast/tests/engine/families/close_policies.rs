//! What the end of a parent is to its children, trees that are ended, and children as their parents reach them.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::family::{Go, Kid, Play};
use crate::support::through::{Break, Through};
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::client::TreeLimits;
use outlast::prelude::*;
use outlast::{CancelAnswer, Child, TerminateAnswer};
use outlast_core::{Inspect, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;

on_both_stores!(
    a_child_goes_on_or_is_asked_or_is_ended_as_its_policy_says,
    a_policy_of_the_fan_out_is_for_those_without_one_of_their_own,
    policies_go_by_the_end_however_it_came,
    children_of_the_answer_to_a_cancel_are_not_met_by_the_cascade_of_the_tree,
    a_tree_is_counted_before_it_is_ended,
    a_tree_is_shown_as_far_as_its_limits_go,
    a_cancelled_tree_ends_while_it_is_growing,
    a_terminated_tree_ends_and_its_running_steps_are_dropped,
    the_tree_of_an_ended_root_can_still_be_ended,
    a_cascade_survives_the_engine_that_was_at_it,
    a_cascade_that_nobody_told_of_is_found,
    a_parent_signals_its_child_once_however_often_its_step_is_run,
    a_parent_cancels_and_terminates_its_children,
    only_children_of_its_own_are_in_reach,
);

/// Has children, and ends while they live.
#[derive(Clone, Default)]
struct Elder {
    runs: Arc<AtomicU32>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Life {
    /// One child of each policy, of which one ends, and then this.
    Raise {
        then: End,
    },
    /// All of one policy, but one with its own.
    Rule,
    /// So many parked children, then the end.
    Crowd {
        kids: usize,
        policy: ClosePolicy,
    },
    End {
        how: End,
    },
    /// Waits for a signal with children under way.
    Keep {
        kids: usize,
    },
    Kept,
    /// Answers a cancel with children of its own.
    Mourn,
    Mourned,
    /// Grows until it is stopped: so many levels, a fan-out after the other.
    Grow {
        levels: u32,
    },
    /// Reaches its children.
    Reach {
        how: Reach,
    },
    Reached {
        how: Reach,
    },
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum End {
    Done,
    Stop,
    Cancelled,
    Wait,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Reach {
    SignalTwice,
    End,
    Stranger(InstanceId),
}

const POLICIES: [ClosePolicy; 3] = ClosePolicy::ALL;

impl Machine for Elder {
    const NAME: &'static str = "elder";
    type State = Life;
    type Output = Value;

    async fn step(&self, life: Life, cx: &Context) -> StepResult<Self> {
        let parked = || New::<Kid>(Play::Park(Box::new(Play::Win(1))));
        Ok(match life {
            Life::Raise { then } => {
                let kids = POLICIES.map(|policy| parked().on_parent_close(policy));
                let winner = New::<Kid>(Play::Win(0)).on_parent_close(ClosePolicy::Terminate);
                fan_out([winner])
                    .and(kids)
                    .any()
                    .then(Life::End { how: then })
            }
            Life::Rule => {
                let own = parked().on_parent_close(ClosePolicy::Terminate);
                let winner = New::<Kid>(Play::Win(0));
                fan_out([winner, own, parked()])
                    .any()
                    .on_parent_close(ClosePolicy::RequestCancel)
                    .then(Life::End { how: End::Done })
            }
            Life::Crowd { kids, policy } => fan_out((0..kids).map(|_| parked()))
                .and([New::<Kid>(Play::Win(0))])
                .any()
                .on_parent_close(policy)
                .then(Life::End { how: End::Done }),
            Life::End { how } => match how {
                End::Done => Outcome::done(Value::Null),
                End::Stop => Outcome::fail("old"),
                End::Cancelled => Outcome::cancelled("tired"),
                End::Wait => wait_for([Go::NAME]).then(Life::Kept),
            },
            Life::Keep { kids } => {
                let kids = (0..kids).map(|_| New::<Kid>(Play::Linger));
                fan_out(kids).and([parked()]).then(Life::Kept)
            }
            Life::Kept => Outcome::done(Value::Null),
            Life::Mourn => fan_out([parked()]).then(Life::Mourned),
            Life::Mourned => Outcome::cancelled("mourned"),
            Life::Grow { levels: 0 } => fan_out([parked(), New(Play::Win(1))])
                .any()
                .then(Life::Grow { levels: 0 }),
            Life::Grow { levels } => {
                let younger = Life::Grow { levels: levels - 1 };
                fan_out([New::<Elder>(younger.clone()), New(younger)])
                    .and([New::<Kid>(Play::Win(1))])
                    .any()
                    .then(Life::Grow { levels })
            }
            Life::Reach { how } => {
                // Parked once more than it is told to go on, so that it is there for whatever is sent to it.
                let again = |play| Play::Park(Box::new(play));
                let first = New::<Kid>(again(again(again(Play::Win(1)))));
                fan_out([first, parked(), New(Play::Win(0))])
                    .any()
                    .then(Life::Reached { how })
            }
            Life::Reached { how } => self.reach(how, cx).await?,
        })
    }

    async fn on_cancel(&self, life: Life, cx: &Context) -> StepResult<Self> {
        Ok(match life {
            Life::Mourned if cx.round_number() == 1 => {
                fan_out([New::<Kid>(Play::Win(5))]).then(Life::Mourned)
            }
            Life::Raise { .. }
            | Life::Rule
            | Life::Crowd { .. }
            | Life::End { .. }
            | Life::Keep { .. }
            | Life::Kept
            | Life::Mourn
            | Life::Mourned
            | Life::Grow { .. }
            | Life::Reach { .. }
            | Life::Reached { .. } => Outcome::cancelled(cx.cancel_reason().unwrap_or_default()),
        })
    }
}

impl Elder {
    async fn reach(&self, how: Reach, cx: &Context) -> Result<Outcome<Elder>, StepError> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let kids: Vec<_> = cx.round().iter().map(|child| child.id).collect();
        Ok(match how {
            Reach::SignalTwice => {
                let first = cx.child(kids[0]).await?;
                first.signal(Go).await?;
                first.signal(Go).await?;
                if run < 2 {
                    return Ok(Outcome::retry(Duration::ZERO, "once more"));
                }
                let signals = cx.client().signals(kids[0], None).await?;
                Outcome::done(json!(signals.len()))
            }
            Reach::End => {
                let (first, second) = (cx.child(kids[0]).await?, cx.child(kids[1]).await?);
                assert_eq!((first.id(), first.round()), (kids[0], 1));
                let asked = first.cancel("not you").await?;
                assert!(matches!(asked, CancelAnswer::Requested(_)), "{asked:?}");
                let ended = second.terminate("nor you").await?;
                assert!(matches!(ended, TerminateAnswer::Terminated(_)), "{ended:?}");
                cx.client().wait_ended(kids[0], LONG).await?;
                let errors = [first.get().await?, second.get().await?];
                let errors = errors.map(|kid| kid.and_then(|kid| kid.last_error));
                Outcome::done(json!([
                    first.status().await?,
                    second.status().await?,
                    errors
                ]))
            }
            Reach::Stranger(stranger) => {
                let refusal = cx.child(stranger).await.unwrap_err();
                Outcome::done(json!(refusal.to_string()))
            }
        })
    }
}

async fn living(store: impl Store + Inspect, kid: &Kid) -> Engine {
    let builder = Engine::builder(store).machine(Elder::default());
    let builder = builder.machine(kid.clone()).queue("default", 20);
    builder.start().await.unwrap()
}

async fn children(engine: &Client, id: Id<Elder>) -> Vec<Child> {
    engine.children(id.get()).await.unwrap()
}

async fn ended(engine: &Client, id: impl Into<InstanceId>) -> (Status, Option<String>) {
    let ended = engine.wait_ended(id.into(), LONG).await.unwrap();
    (ended.status, ended.last_error)
}

fn ada() -> Note {
    Note::by("ada")
}

async fn a_child_goes_on_or_is_asked_or_is_ended_as_its_policy_says<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    let engine = living(store, &kid).await;
    let id = insert(&engine, New::<Elder>(Life::Raise { then: End::Done })).await;
    engine.wait(id, LONG).await.unwrap();
    let kids = children(&engine, id).await;
    let (abandoned, asked, terminated) = (kids[1].id, kids[2].id, kids[3].id);
    let why = format!("parent: parent {id} ended as done");
    let expected = (Status::Cancelled, Some(format!("cancelled by {why}")));
    assert_eq!(ended(&engine, asked).await, expected);
    let expected = (Status::Cancelled, Some(format!("terminated by {why}")));
    assert_eq!(ended(&engine, terminated).await, expected);
    engine.signal(abandoned, Go).await.unwrap();
    assert_eq!(ended(&engine, abandoned).await.0, Status::Done);
    // The parent remembers what was done to whom; one that had ended was left alone.
    let close_actions = engine.close_actions(id.get(), None).await.unwrap();
    let mut close_actions: Vec<_> = close_actions
        .iter()
        .map(|it| (it.instance, it.verb.as_str(), it.by.as_str()))
        .collect();
    close_actions.sort_unstable();
    let expected = [
        (Some(asked), "cancel", "parent"),
        (Some(terminated), "terminate", "parent"),
    ];
    assert_eq!(close_actions, expected);
}

async fn a_policy_of_the_fan_out_is_for_those_without_one_of_their_own<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let id = insert(&engine, New::<Elder>(Life::Rule)).await;
    engine.wait(id, LONG).await.unwrap();
    let kids = children(&engine, id).await;
    let policies: Vec<_> = kids.iter().map(|kid| kid.on_parent_close).collect();
    let expected = [
        ClosePolicy::RequestCancel,
        ClosePolicy::Terminate,
        ClosePolicy::RequestCancel,
    ];
    assert_eq!(policies, expected);
    for kid in &kids[1..] {
        assert_eq!(ended(&engine, kid.id).await.0, Status::Cancelled);
    }
}

async fn policies_go_by_the_end_however_it_came<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    for (then, end, status) in [
        (End::Stop, None, Status::Failed),
        (End::Cancelled, None, Status::Cancelled),
        (End::Wait, Some(true), Status::Cancelled),
        (End::Wait, Some(false), Status::Cancelled),
    ] {
        let id = insert(&engine, New::<Elder>(Life::Raise { then })).await;
        if let Some(is_asked) = end {
            eventually("it waits", async || {
                engine.get(id).await.unwrap().unwrap().status == Status::AwaitingSignal
            })
            .await;
            match is_asked {
                true => drop(engine.cancel(id, ada()).await.unwrap()),
                false => drop(engine.terminate(id, ada()).await.unwrap()),
            }
        }
        assert_eq!(ended(&engine, id).await.0, status);
        let kids = children(&engine, id).await;
        for told in &kids[2..] {
            let (ended, error) = ended(&engine, told.id).await;
            assert_eq!(ended, Status::Cancelled);
            let why = format!("parent {id} ended as {status}");
            assert!(error.is_some_and(|error| error.contains(&why)));
        }
        let abandoned = engine.get(kids[1].id).await.unwrap().unwrap();
        assert!(!abandoned.status.is_terminal());
    }
}

async fn children_of_the_answer_to_a_cancel_are_not_met_by_the_cascade_of_the_tree<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let id = insert(&engine, New::<Elder>(Life::Mourn)).await;
    engine.wait_settled(id, LONG).await.unwrap();
    engine.cancel_tree(id, ada()).await.unwrap();
    assert_eq!(ended(&engine, id).await.1.as_deref(), Some("mourned"));
    let kids = children(&engine, id).await;
    let ends = [
        ended(&engine, kids[0].id).await.0,
        ended(&engine, kids[1].id).await.0,
    ];
    assert_eq!(ends, [Status::Cancelled, Status::Done]);
}

async fn a_tree_is_counted_before_it_is_ended<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let id = insert(&engine, New::<Elder>(Life::Keep { kids: 3 })).await;
    engine.wait_settled(id, LONG).await.unwrap();
    eventually("all of them stand where they stay", async || {
        let family = engine.family(id).await.unwrap().unwrap();
        let expected = [
            (Status::Executing, 3),
            (Status::AwaitingSignal, 1),
            (Status::AwaitingChildren, 1),
        ];
        family.live() == 5 && family.complete && family.members == expected
    })
    .await;
    let answer = engine.cancel_tree(id, ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    eventually("all of them have ended", async || {
        let family = engine.family(id).await.unwrap().unwrap();
        family.members == [(Status::Cancelled, 5)]
    })
    .await;
    assert!(engine.family(InstanceId(4711)).await.unwrap().is_none());
}

async fn a_tree_is_shown_as_far_as_its_limits_go<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let id = insert(&engine, New::<Elder>(Life::Keep { kids: 3 })).await;
    eventually("all of them are there", async || {
        let family = engine.family(id).await.unwrap().unwrap();
        family.live() == 5
    })
    .await;
    let limits = TreeLimits::default();
    let whole = engine.tree(id, limits).await.unwrap().unwrap();
    let children = engine.children(id.into()).await.unwrap();
    let shown: Vec<InstanceId> = whole.children.iter().map(|it| it.instance.id).collect();
    let stored: Vec<InstanceId> = children.iter().map(|child| child.id).collect();
    assert_eq!((whole.members(), whole.more, &shown), (5, 0, &stored));
    assert_eq!(
        whole.instance.barrier.unwrap().started as usize,
        stored.len()
    );

    let newest = TreeLimits {
        children: 1,
        ..limits
    };
    let newest = engine.tree(id, newest).await.unwrap().unwrap();
    assert_eq!(newest.children[0].instance.id, *stored.last().unwrap());
    assert_eq!(newest.more as usize, stored.len() - 1);

    let root = TreeLimits { depth: 0, ..limits };
    let root = engine.tree(id, root).await.unwrap().unwrap();
    assert_eq!((root.members(), root.more as usize), (1, stored.len()));
    let few = TreeLimits {
        members: 3,
        ..limits
    };
    let few = engine.tree(id, few).await.unwrap().unwrap();
    assert_eq!(few.members(), 3);
    let nobody = engine.tree(InstanceId(4711), limits).await.unwrap();
    assert!(nobody.is_none());
    engine.terminate_tree(id, ada()).await.unwrap();
}

async fn a_cancelled_tree_ends_while_it_is_growing<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let id = insert(&engine, New::<Elder>(Life::Grow { levels: 2 })).await;
    let members = async || {
        let family = engine.family(id).await.unwrap().unwrap();
        (
            family.members.iter().map(|(_, count)| count).sum::<u64>(),
            family.live(),
        )
    };
    eventually("it has three levels and grows", async || {
        members().await.0 > 60
    })
    .await;
    engine.cancel_tree(id, ada()).await.unwrap();
    eventually("all of it has ended", async || members().await.1 == 0).await;
    // Nothing starts afterwards.
    let (all, _) = members().await;
    assert!(engine.shutdown().await.in_time);
    assert_eq!(members().await, (all, 0));
    assert_eq!(
        ended(&engine, id).await.1.as_deref(),
        Some("cancelled by ada")
    );
}

async fn a_terminated_tree_ends_and_its_running_steps_are_dropped<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    let engine = living(store, &kid).await;
    let id = insert(&engine, New::<Elder>(Life::Keep { kids: 4 })).await;
    eventually("they run", async || {
        kid.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|it| *it == "linger")
            .count()
            == 4
    })
    .await;
    let answer = engine.terminate_tree(id, ada()).await.unwrap();
    assert!(
        matches!(answer, TerminateAnswer::Terminated(_)),
        "{answer:?}"
    );
    for kid in children(&engine, id).await {
        let expected = (Status::Cancelled, Some("terminated by ada".into()));
        assert_eq!(ended(&engine, kid.id).await, expected);
    }
    eventually("they are dropped", async || {
        kid.dropped.load(Ordering::SeqCst) == 4
    })
    .await;
}

async fn the_tree_of_an_ended_root_can_still_be_ended<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let abandoning = Life::Crowd {
        kids: 3,
        policy: ClosePolicy::Abandon,
    };
    let id = insert(&engine, New::<Elder>(abandoning)).await;
    engine.wait(id, LONG).await.unwrap();
    let answer = engine.cancel_tree(id, ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::AlreadyEnded(Status::Done));
    for kid in &children(&engine, id).await[..3] {
        assert_eq!(ended(&engine, kid.id).await.0, Status::Cancelled);
    }
}

async fn a_cascade_survives_the_engine_that_was_at_it<S: Store + Inspect + Clone>(store: S) {
    const KIDS: usize = 1_200;
    let worker = Engine::builder(store.clone()).machine(Elder::default());
    let worker = worker.machine(Kid::default()).queue("default", 50);
    let worker = worker.roles(Roles::WORKER).start().await.unwrap();
    let crowd = Life::Crowd {
        kids: KIDS,
        policy: ClosePolicy::Terminate,
    };
    let id = insert(&worker, New::<Elder>(crowd)).await;
    worker.wait(id, LONG).await.unwrap();
    let live = async || worker.family(id).await.unwrap().unwrap().live();
    assert_eq!(live().await, KIDS as u64, "nobody keeps house yet");

    // The first to do so tells one batch, and is gone in the middle of the next.
    let (calls, told) = (AtomicU32::new(0), Arc::new(Notify::new()));
    let is_told = told.clone();
    let doomed = Through::new(store.clone()).delaying(move |verb| {
        let is_second = verb == "cascade" && calls.fetch_add(1, Ordering::SeqCst) == 1;
        is_second.then(|| {
            is_told.notify_one();
            (Break::Before, Arc::new(Notify::new()))
        })
    });
    let doomed = Engine::builder(doomed).roles(Roles::MAINTENANCE);
    let doomed = doomed.start().await.unwrap();
    told.notified().await;
    drop(doomed);
    let left = live().await;
    assert!(0 < left && left < KIDS as u64, "{left}");

    let house = Engine::builder(store).roles(Roles::MAINTENANCE);
    let _house = house.start().await.unwrap();
    eventually("all are told", async || live().await == 0).await;
    // Each once, whichever node cancelled it.
    let mut told = 0;
    let mut after = None;
    loop {
        let page = worker.close_actions(id.get(), after).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        told += page.len();
    }
    assert_eq!(told, KIDS);
}

async fn a_cascade_that_nobody_told_of_is_found<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let worker = Engine::builder(Through::new(store.clone()).mute()).machine(Elder::default());
    let worker = worker.machine(kid.clone()).queue("default", 10);
    let worker = worker.roles(Roles::WORKER).start().await.unwrap();
    let house = Engine::builder(Through::new(store).mute()).roles(Roles::MAINTENANCE);
    let house = house.start().await.unwrap();
    let id = insert(&worker, New::<Elder>(Life::Raise { then: End::Done })).await;
    worker.wait(id, LONG).await.unwrap();
    for kid in &children(&worker, id).await[2..] {
        assert_eq!(ended(&house, kid.id).await.0, Status::Cancelled);
    }
}

async fn a_parent_signals_its_child_once_however_often_its_step_is_run<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let reach = Life::Reach {
        how: Reach::SignalTwice,
    };
    let id = insert(&engine, New::<Elder>(reach)).await;
    // Two were sent by each of three runs; two arrived, consumed or not.
    assert_eq!(engine.wait(id, LONG).await.unwrap(), 2);
}

async fn a_parent_cancels_and_terminates_its_children<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let id = insert(&engine, New::<Elder>(Life::Reach { how: Reach::End })).await;
    let expected = json!([
        "cancelled",
        "cancelled",
        [
            format!("cancelled by parent {id}: not you"),
            format!("terminated by parent {id}: nor you"),
        ],
    ]);
    assert_eq!(engine.wait(id, LONG).await.unwrap(), expected);
}

async fn only_children_of_its_own_are_in_reach<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let stranger = insert(&engine, New::<Kid>(Play::Win(1))).await;
    for id in [stranger.get(), InstanceId(4711)] {
        let reach = Life::Reach {
            how: Reach::Stranger(id),
        };
        let elder = insert(&engine, New::<Elder>(reach)).await;
        let refusal = engine.wait(elder, LONG).await.unwrap();
        let expected = format!("child {id} is none of instance {elder}");
        assert!(
            refusal.as_str().unwrap().starts_with(&expected),
            "{refusal}"
        );
    }
}
