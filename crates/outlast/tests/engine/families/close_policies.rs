//! Close policies, cancels and terminates of whole trees, and the children that a step can reach.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::family::{Go, Kid, Play};
use crate::support::through::{Break, Through};
use crate::support::{LONG, eventually, insert, on_both_stores};
use outlast::client::TreeLimits;
use outlast::prelude::*;
use outlast::store::{CancelAnswer, ClosePolicy, Inspect, Store, Target, TerminateAnswer};
use outlast::{InstanceId, Note, Outcome, Roles, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;

on_both_stores!(
    the_close_policy_abandons_cancels_or_terminates_a_child,
    the_policy_of_a_fan_out_applies_to_children_without_a_policy,
    close_policies_apply_to_every_kind_of_end,
    the_cascade_of_a_cancelled_tree_spares_children_that_on_cancel_starts,
    the_members_of_a_tree_are_counted_before_and_after_its_cancel,
    a_tree_is_read_within_its_limits,
    a_tree_that_is_cancelled_while_it_grows_ends,
    a_terminated_tree_ends_and_its_running_steps_are_dropped,
    the_tree_of_an_ended_root_can_still_be_cancelled,
    another_node_finishes_the_cascade_of_a_node_that_was_dropped,
    a_cascade_is_found_without_its_hint,
    a_step_that_runs_again_does_not_signal_its_child_again,
    a_parent_cancels_and_terminates_its_children,
    a_step_can_reach_only_its_own_children,
);

/// A parent that ends while its children live.
#[derive(Clone, Default)]
struct Elder {
    runs: Arc<AtomicU32>,
}

#[steps]
#[derive(Clone)]
enum Life {
    /// Starts a child of each policy and one that ends, then goes to `then`.
    Raise {
        then: End,
    },
    /// Starts children with the policy of the fan-out, and one with a policy of its own.
    Rule,
    /// Starts this many parked children, then ends.
    Crowd {
        kids: usize,
        policy: ClosePolicy,
    },
    End {
        how: End,
    },
    /// Waits for running children and a parked one.
    Keep {
        kids: usize,
    },
    Kept,
    /// Has a parked child. Its `on_cancel` starts another one.
    Mourn,
    Mourned,
    /// Starts one fan-out after another, with this many levels below, until it is cancelled.
    Grow {
        levels: u32,
    },
    /// Signals, cancels or terminates its children.
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
        let parked = || Kid::with(Play::Park(Box::new(Play::Win(1))));
        match life {
            Life::Raise { then } => {
                let kids = POLICIES.map(|policy| parked().on_parent_close(policy));
                let winner = Kid::with(Play::Win(0)).on_parent_close(ClosePolicy::Terminate);
                fan_out([winner])
                    .and(kids)
                    .any()
                    .then(Life::End { how: then })
            }
            Life::Rule => {
                let own = parked().on_parent_close(ClosePolicy::Terminate);
                let winner = Kid::with(Play::Win(0));
                fan_out([winner, own, parked()])
                    .any()
                    .on_parent_close(ClosePolicy::RequestCancel)
                    .then(Life::End { how: End::Done })
            }
            Life::Crowd { kids, policy } => fan_out((0..kids).map(|_| parked()))
                .and([Kid::with(Play::Win(0))])
                .any()
                .on_parent_close(policy)
                .then(Life::End { how: End::Done }),
            Life::End { how } => match how {
                End::Done => done(Value::Null),
                End::Stop => fail("old"),
                End::Cancelled => Ok(Outcome::cancelled("tired")),
                End::Wait => wait_for::<Go>().then(Life::Kept),
            },
            Life::Keep { kids } => {
                let kids = (0..kids).map(|_| Kid::with(Play::Linger));
                fan_out(kids).and([parked()]).then(Life::Kept)
            }
            Life::Kept => done(Value::Null),
            Life::Mourn => fan_out([parked()]).then(Life::Mourned),
            Life::Mourned => Ok(Outcome::cancelled("mourned")),
            Life::Grow { levels: 0 } => fan_out([parked(), Kid::with(Play::Win(1))])
                .any()
                .then(Life::Grow { levels: 0 }),
            Life::Grow { levels } => {
                let younger = Life::Grow { levels: levels - 1 };
                fan_out([Elder::with(younger.clone()), Elder::with(younger)])
                    .and([Kid::with(Play::Win(1))])
                    .any()
                    .then(Life::Grow { levels })
            }
            Life::Reach { how } => {
                // Parks more often than it is signalled, so that it lives when signals come.
                let again = |play| Play::Park(Box::new(play));
                let first = Kid::with(again(again(again(Play::Win(1)))));
                fan_out([first, parked(), Kid::with(Play::Win(0))])
                    .any()
                    .then(Life::Reached { how })
            }
            Life::Reached { how } => self.reach(how, cx).await,
        }
    }

    async fn on_cancel(&self, life: Life, cx: &Context) -> StepResult<Self> {
        match life {
            Life::Mourned if cx.round_number() == 1 => {
                fan_out([Kid::with(Play::Win(5))]).then(Life::Mourned)
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
            | Life::Reached { .. } => {
                Ok(Outcome::cancelled(cx.cancel_reason().unwrap_or_default()))
            }
        }
    }
}

impl Elder {
    async fn reach(&self, how: Reach, cx: &Context) -> StepResult<Elder> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let kids: Vec<_> = cx.round().iter().map(|child| child.id).collect();
        match how {
            Reach::SignalTwice => {
                let first = cx.child(kids[0]).await?;
                first.signal(Go).await?;
                first.signal(Go).await?;
                if run < 2 {
                    return retry(Duration::ZERO, "once more");
                }
                let signals = cx.client().admin().signals(kids[0], None).await?;
                done(json!(signals.len()))
            }
            Reach::End => {
                let (first, second) = (cx.child(kids[0]).await?, cx.child(kids[1]).await?);
                assert_eq!((first.id(), first.round()), (kids[0], 1));
                let requested = first.cancel("not you").await?;
                assert!(
                    matches!(requested, CancelAnswer::Requested(_)),
                    "{requested:?}"
                );
                let ended = second.terminate("nor you").await?;
                assert!(matches!(ended, TerminateAnswer::Terminated(_)), "{ended:?}");
                cx.client().admin().wait_ended(kids[0], LONG).await?;
                let errors = [first.get().await?, second.get().await?];
                let errors = errors.map(|kid| kid.and_then(|kid| kid.last_error));
                done(json!([
                    first.status().await?,
                    second.status().await?,
                    errors
                ]))
            }
            Reach::Stranger(stranger) => {
                let refusal = cx.child(stranger).await.unwrap_err();
                done(json!(refusal.to_string()))
            }
        }
    }
}

async fn living(store: impl Store + Inspect, kid: &Kid) -> Engine {
    let builder = Engine::builder(store).register(Elder::default());
    let builder = builder.register(kid.clone()).queue("default", 20);
    builder.start().await.unwrap()
}

async fn ended(engine: &Engine, target: impl Into<Target>) -> (Status, Option<String>) {
    let admin = engine.client().admin();
    let ended = admin.wait_ended(target, LONG).await.unwrap();
    (ended.status, ended.last_error)
}

fn ada() -> Note {
    Note::by("ada")
}

async fn the_close_policy_abandons_cancels_or_terminates_a_child<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    let engine = living(store, &kid).await;
    let admin = engine.client().admin();
    let elder = insert(
        engine.client(),
        Elder::with(Life::Raise { then: End::Done }),
    )
    .await;
    elder.output().timeout(LONG).await.unwrap();
    let kids = elder.children().await.unwrap();
    let (abandoned, cancelled, terminated) = (kids[1].id, kids[2].id, kids[3].id);
    let why = format!("parent: parent {} ended as done", elder.id());
    let expected = (Status::Cancelled, Some(format!("cancelled by {why}")));
    assert_eq!(ended(&engine, cancelled).await, expected);
    let expected = (Status::Cancelled, Some(format!("terminated by {why}")));
    assert_eq!(ended(&engine, terminated).await, expected);
    engine.client().signal(abandoned, Go).await.unwrap();
    assert_eq!(ended(&engine, abandoned).await.0, Status::Done);
    // The close actions of the parent name both children. The child that had ended is left out.
    let close_actions = admin.close_actions(elder.id().get(), None).await.unwrap();
    let mut close_actions: Vec<_> = close_actions
        .iter()
        .map(|it| (it.instance, it.verb.as_str(), it.by.as_str()))
        .collect();
    close_actions.sort_unstable();
    let expected = [
        (Some(cancelled), "cancel", "parent"),
        (Some(terminated), "terminate", "parent"),
    ];
    assert_eq!(close_actions, expected);
}

async fn the_policy_of_a_fan_out_applies_to_children_without_a_policy<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let elder = insert(engine.client(), Elder::with(Life::Rule)).await;
    elder.output().timeout(LONG).await.unwrap();
    let kids = elder.children().await.unwrap();
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

async fn close_policies_apply_to_every_kind_of_end<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    for (then, end, status) in [
        (End::Stop, None, Status::Failed),
        (End::Cancelled, None, Status::Cancelled),
        (End::Wait, Some(true), Status::Cancelled),
        (End::Wait, Some(false), Status::Cancelled),
    ] {
        let elder = insert(engine.client(), Elder::with(Life::Raise { then })).await;
        if let Some(is_cancel) = end {
            eventually("the parent waits", async || {
                elder.instance().await.unwrap().status == Status::AwaitingSignal
            })
            .await;
            match is_cancel {
                true => drop(elder.cancel(ada()).await.unwrap()),
                false => drop(elder.terminate(ada()).await.unwrap()),
            }
        }
        assert_eq!(ended(&engine, &elder).await.0, status);
        let kids = elder.children().await.unwrap();
        for kid in &kids[2..] {
            let (ended, error) = ended(&engine, kid.id).await;
            assert_eq!(ended, Status::Cancelled);
            let why = format!("parent {} ended as {status}", elder.id());
            assert!(error.is_some_and(|error| error.contains(&why)));
        }
        let abandoned = engine.client().find(kids[1].id).await.unwrap().unwrap();
        assert!(!abandoned.status.is_terminal());
    }
}

async fn the_cascade_of_a_cancelled_tree_spares_children_that_on_cancel_starts<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let elder = insert(engine.client(), Elder::with(Life::Mourn)).await;
    elder.settled().timeout(LONG).await.unwrap();
    admin.cancel_tree(&elder, ada()).await.unwrap();
    assert_eq!(ended(&engine, &elder).await.1.as_deref(), Some("mourned"));
    let kids = elder.children().await.unwrap();
    let ends = [
        ended(&engine, kids[0].id).await.0,
        ended(&engine, kids[1].id).await.0,
    ];
    assert_eq!(ends, [Status::Cancelled, Status::Done]);
}

async fn the_members_of_a_tree_are_counted_before_and_after_its_cancel<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let elder = insert(engine.client(), Elder::with(Life::Keep { kids: 3 })).await;
    elder.settled().timeout(LONG).await.unwrap();
    eventually("all of them run or are parked", async || {
        let family = admin.family(&elder).await.unwrap().unwrap();
        let expected = [
            (Status::Executing, 3),
            (Status::AwaitingSignal, 1),
            (Status::AwaitingChildren, 1),
        ];
        family.live() == 5 && family.complete && family.members == expected
    })
    .await;
    let answer = admin.cancel_tree(&elder, ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    eventually("all of them have ended", async || {
        let family = admin.family(&elder).await.unwrap().unwrap();
        family.members == [(Status::Cancelled, 5)]
    })
    .await;
    assert!(admin.family(InstanceId(4711)).await.unwrap().is_none());
}

async fn a_tree_is_read_within_its_limits<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let elder = insert(engine.client(), Elder::with(Life::Keep { kids: 3 })).await;
    eventually("all of them are stored", async || {
        let family = admin.family(&elder).await.unwrap().unwrap();
        family.live() == 5
    })
    .await;
    let limits = TreeLimits::default();
    let whole = admin.tree(&elder, limits).await.unwrap().unwrap();
    let children = elder.children().await.unwrap();
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
    let newest = admin.tree(&elder, newest).await.unwrap().unwrap();
    assert_eq!(newest.children[0].instance.id, *stored.last().unwrap());
    assert_eq!(newest.more as usize, stored.len() - 1);

    let root = TreeLimits { depth: 0, ..limits };
    let root = admin.tree(&elder, root).await.unwrap().unwrap();
    assert_eq!((root.members(), root.more as usize), (1, stored.len()));
    let few = TreeLimits {
        members: 3,
        ..limits
    };
    let few = admin.tree(&elder, few).await.unwrap().unwrap();
    assert_eq!(few.members(), 3);
    let missing = admin.tree(InstanceId(4711), limits).await.unwrap();
    assert!(missing.is_none());
    admin.terminate_tree(&elder, ada()).await.unwrap();
}

async fn a_tree_that_is_cancelled_while_it_grows_ends<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let elder = insert(engine.client(), Elder::with(Life::Grow { levels: 2 })).await;
    let members = async || {
        let family = admin.family(&elder).await.unwrap().unwrap();
        (
            family.members.iter().map(|(_, count)| count).sum::<u64>(),
            family.live(),
        )
    };
    eventually("it has three levels and grows", async || {
        members().await.0 > 60
    })
    .await;
    admin.cancel_tree(&elder, ada()).await.unwrap();
    eventually("all of it has ended", async || members().await.1 == 0).await;
    // No instance starts afterwards.
    let (all, _) = members().await;
    engine.shutdown().await.unwrap();
    assert_eq!(members().await, (all, 0));
    assert_eq!(
        ended(&engine, &elder).await.1.as_deref(),
        Some("cancelled by ada")
    );
}

async fn a_terminated_tree_ends_and_its_running_steps_are_dropped<S: Store + Inspect + Clone>(
    store: S,
) {
    let kid = Kid::default();
    let engine = living(store, &kid).await;
    let admin = engine.client().admin();
    let elder = insert(engine.client(), Elder::with(Life::Keep { kids: 4 })).await;
    eventually("four children run", async || {
        kid.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|it| *it == "linger")
            .count()
            == 4
    })
    .await;
    let answer = admin.terminate_tree(&elder, ada()).await.unwrap();
    assert!(
        matches!(answer, TerminateAnswer::Terminated(_)),
        "{answer:?}"
    );
    for kid in elder.children().await.unwrap() {
        let expected = (Status::Cancelled, Some("terminated by ada".into()));
        assert_eq!(ended(&engine, kid.id).await, expected);
    }
    eventually("their steps are dropped", async || {
        kid.dropped.load(Ordering::SeqCst) == 4
    })
    .await;
}

async fn the_tree_of_an_ended_root_can_still_be_cancelled<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let admin = engine.client().admin();
    let abandoning = Life::Crowd {
        kids: 3,
        policy: ClosePolicy::Abandon,
    };
    let elder = insert(engine.client(), Elder::with(abandoning)).await;
    elder.output().timeout(LONG).await.unwrap();
    let answer = admin.cancel_tree(&elder, ada()).await.unwrap();
    assert_eq!(answer, CancelAnswer::AlreadyEnded(Status::Done));
    for kid in &elder.children().await.unwrap()[..3] {
        assert_eq!(ended(&engine, kid.id).await.0, Status::Cancelled);
    }
}

async fn another_node_finishes_the_cascade_of_a_node_that_was_dropped<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    const KIDS: usize = 1_200;
    let worker = Engine::builder(store.clone()).register(Elder::default());
    let worker = worker.register(Kid::default()).queue("default", 50);
    let worker = worker.roles(Roles::WORKER).start().await.unwrap();
    let admin = worker.client().admin();
    let crowd = Life::Crowd {
        kids: KIDS,
        policy: ClosePolicy::Terminate,
    };
    let elder = insert(worker.client(), Elder::with(crowd)).await;
    elder.output().timeout(LONG).await.unwrap();
    let live = async || admin.family(&elder).await.unwrap().unwrap().live();
    assert_eq!(live().await, KIDS as u64, "no node runs maintenance yet");

    // The first maintenance node ends one batch, and is dropped in the middle of the second.
    let (calls, second) = (AtomicU32::new(0), Arc::new(Notify::new()));
    let in_second = second.clone();
    let doomed = Through::new(store.clone()).delaying(move |verb| {
        let is_second = verb == "cascade" && calls.fetch_add(1, Ordering::SeqCst) == 1;
        is_second.then(|| {
            in_second.notify_one();
            (Break::Before, Arc::new(Notify::new()))
        })
    });
    let doomed = Engine::builder(doomed).roles(Roles::MAINTENANCE);
    let doomed = doomed.start().await.unwrap();
    second.notified().await;
    drop(doomed);
    let left = live().await;
    assert!(0 < left && left < KIDS as u64, "{left}");

    let maintenance = Engine::builder(store).roles(Roles::MAINTENANCE);
    let _maintenance = maintenance.start().await.unwrap();
    eventually("every child has ended", async || live().await == 0).await;
    // Each child has one close action, by either node.
    let mut actions = 0;
    let mut after = None;
    loop {
        let page = admin.close_actions(elder.id().get(), after).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        actions += page.len();
    }
    assert_eq!(actions, KIDS);
}

async fn a_cascade_is_found_without_its_hint<S: Store + Inspect + Clone>(store: S) {
    let kid = Kid::default();
    let worker = Engine::builder(Through::new(store.clone()).mute()).register(Elder::default());
    let worker = worker.register(kid.clone()).queue("default", 10);
    let worker = worker.roles(Roles::WORKER).start().await.unwrap();
    let maintenance = Engine::builder(Through::new(store).mute()).roles(Roles::MAINTENANCE);
    let maintenance = maintenance.start().await.unwrap();
    let elder = insert(
        worker.client(),
        Elder::with(Life::Raise { then: End::Done }),
    )
    .await;
    elder.output().timeout(LONG).await.unwrap();
    for kid in &elder.children().await.unwrap()[2..] {
        assert_eq!(ended(&maintenance, kid.id).await.0, Status::Cancelled);
    }
}

async fn a_step_that_runs_again_does_not_signal_its_child_again<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = living(store, &Kid::default()).await;
    let reach = Life::Reach {
        how: Reach::SignalTwice,
    };
    let elder = insert(engine.client(), Elder::with(reach)).await;
    // Each of three runs sends two signals. Two of the six are stored, consumed or not.
    assert_eq!(elder.output().timeout(LONG).await.unwrap(), 2);
}

async fn a_parent_cancels_and_terminates_its_children<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let elder = insert(
        engine.client(),
        Elder::with(Life::Reach { how: Reach::End }),
    )
    .await;
    let expected = json!([
        "cancelled",
        "cancelled",
        [
            format!("cancelled by parent {}: not you", elder.id()),
            format!("terminated by parent {}: nor you", elder.id()),
        ],
    ]);
    assert_eq!(elder.output().timeout(LONG).await.unwrap(), expected);
}

async fn a_step_can_reach_only_its_own_children<S: Store + Inspect + Clone>(store: S) {
    let engine = living(store, &Kid::default()).await;
    let stranger = insert(engine.client(), Kid::with(Play::Win(1))).await;
    for id in [stranger.id().get(), InstanceId(4711)] {
        let reach = Life::Reach {
            how: Reach::Stranger(id),
        };
        let elder = insert(engine.client(), Elder::with(reach)).await;
        let refusal = elder.output().timeout(LONG).await.unwrap();
        let expected = format!("child {id} is none of instance {}", elder.id());
        assert!(
            refusal.as_str().unwrap().starts_with(&expected),
            "{refusal}"
        );
    }
}
