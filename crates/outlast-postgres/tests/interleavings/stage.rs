//! The states that schedules start from. The store's own verbs make all of them but `Lost`.

use super::act::{Decision, request};
use super::world::World;
use outlast_core::{
    ClaimRef, ClosePolicy, Commit, Flowing, InstanceId, Join, Json, Links, NewInstance, NewSignal,
    NewWorker, Outcome, Proceed, ReapRequest, Revision, Scope, SignalId, Store, Until, WorkerId,
};
use std::time::Duration;

pub(crate) const MACHINE: &str = "machine";
pub(crate) const QUEUE: &str = "default";
/// The correlation key of the scenarios.
pub(crate) const KEY: &str = "the key";

/// The timeout of the first instance: it has passed when the schedules begin.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of the second child: it passes before that of its parent.
const CHILD_TIMEOUT: Duration = Duration::from_secs(20);

/// The state in which a scenario starts.
///
/// In the starts of one instance, of a family, of a workflow and of a line, 0 has taken too long,
/// and so has 2 of a family, before it. Only a time-out ends them for that.
///
/// Default: executing instances belong to a worker whose lease has expired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    /// One instance executes. A signal `go` has woken it, and it has received the signal.
    Executing,
    /// As `Executing`, but the signal `go` is the update `u`.
    Asked,
    /// One instance waits for `go`, and its deadline has come. The claim that parked it is known.
    Parked,
    /// As `Parked`, but `go` is in its inbox: somebody has edited the row, and the wake-up is lost.
    Lost,
    /// One instance is in its queue.
    Runnable,
    /// There are no instances, so the correlation key is free.
    Unheld,
    /// As `Executing`. The instance holds the correlation key until it ends.
    HolderExecuting,
    /// As `Parked`. The instance holds the correlation key until it ends.
    HolderParked,
    /// As `Executing`. The instance holds the correlation key for ever.
    HolderForEver,
    /// 0 waits for its children 1 and 2. Both execute, and the worker of 1 is alive.
    Family,
    /// As `Family`, but child 1 has failed.
    FamilyWithOneFailed,
    /// As `Family`, but child 2 was reaped and claimed again. 3 is its lost claim.
    FamilyWithZombie,
    /// 0 waits with this join for its children 1 and 2, and its deadline has come.
    ///
    /// Both children execute, and the worker of 1 is alive. The join terminates the rest. When 0
    /// ends, 1 is cancelled and 2 is terminated.
    Joining(Until),
    /// As `Joining`, in a window of one: 1 executes, its worker is alive, and the window holds 2.
    ///
    /// The join cancels the rest.
    Windowed(Until),
    /// The children of `Joining`, but the deadline has woken 0, which executes. The rest goes on.
    Outliving,
    /// As `Outliving`, but 2 has ended, and then 0, whose cascade is left.
    Cascading,
    /// 0 is a workflow that executes. It has started 1 in its first round and 2 in its second.
    ///
    /// Both children execute, and the worker of 1 is alive.
    Flowing,
    /// As `Flowing`, but 0 is parked for the ends of both, for `go`, and for a deadline that has
    /// come.
    FlowParked,
    /// As `FlowParked`, but 0 needs all of them.
    FlowNeedsAll,
    /// 0 executes under a partition key. 1 and 2 are in line behind it.
    Line,
    /// As `Line`, after a claim has set 1 and 2 aside.
    LineSetAside,
    /// 0, 1 and 2 are in line, and none of them executes.
    LineIdle,
}

/// The instances, signals and worker that acts refer to.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// The instances, with the claim that is or was held on them.
    pub(crate) cast: Vec<ClaimRef>,
    /// The signals that the step of the first instance has received.
    pub(crate) received: Vec<SignalId>,
    /// The links that their claims returned.
    pub(crate) links: Links,
    /// The worker that claims. It is alive.
    pub(crate) worker: WorkerId,
    /// Whether the holder of the correlation key keeps it after its end.
    pub(crate) for_ever: bool,
    /// Whether the first instance is a workflow.
    pub(crate) is_workflow: bool,
    /// Whether the wake-up of the first instance is lost.
    pub(crate) is_lost: bool,
}

impl Stage {
    pub(crate) fn ids(&self, places: &[usize]) -> Vec<InstanceId> {
        places.iter().map(|&place| self.cast[place].id).collect()
    }
}

impl Start {
    /// Statements that find nothing to do from here: no instance has their key, parent or signal.
    pub(crate) fn idle(self) -> &'static [&'static str] {
        match self {
            Start::Executing
            | Start::Asked
            | Start::Parked
            | Start::Lost
            | Start::Runnable
            | Start::Unheld
            | Start::HolderExecuting
            | Start::HolderParked
            | Start::HolderForEver => &["operate/lock_parents", "join/join", "line/let_through"],
            Start::Family | Start::FamilyWithOneFailed | Start::FamilyWithZombie => {
                &["inbox/clear", "line/let_through"]
            }
            Start::Joining(_) | Start::Windowed(_) | Start::Outliving | Start::Cascading => &[
                "inbox/clear",
                "line/let_through",
                "operate/lock_parents",
                "cascade/leave",
                "cascade/move",
                "cascade/remove",
                "cascade/left",
            ],
            // Histories are written under locks that the transaction already holds.
            Start::Flowing | Start::FlowParked | Start::FlowNeedsAll => &[
                "history/append",
                "inbox/clear",
                "operate/lock_parents",
                "line/let_through",
            ],
            Start::Line | Start::LineSetAside | Start::LineIdle => {
                &["inbox/clear", "operate/lock_parents", "join/join"]
            }
        }
    }

    /// The links that the claims of the cast return.
    fn links(self) -> Links {
        Links {
            parent: matches!(
                self,
                Start::Family | Start::FamilyWithOneFailed | Start::FamilyWithZombie
            ) || self.has_close_policies()
                || self.is_workflow(),
            partition_key: matches!(self, Start::Line | Start::LineSetAside | Start::LineIdle),
            children: self.has_close_policies(),
            window: matches!(self, Start::Windowed(_)),
        }
    }

    /// Whether the parent is a workflow.
    pub(crate) fn is_workflow(self) -> bool {
        matches!(
            self,
            Start::Flowing | Start::FlowParked | Start::FlowNeedsAll
        )
    }

    /// Whether the parent's children have close policies.
    fn has_close_policies(self) -> bool {
        matches!(
            self,
            Start::Joining(_) | Start::Windowed(_) | Start::Outliving | Start::Cascading
        )
    }

    /// The join of the parent.
    fn join(self) -> Join {
        let deadline = Some(Duration::from_secs(30));
        let join = Join {
            deadline,
            ..Join::default()
        };
        match self {
            Start::Joining(until) => Join {
                until,
                rest: ClosePolicy::Terminate,
                ..join
            },
            Start::Windowed(until) => Join {
                until,
                window: Some(1),
                rest: ClosePolicy::RequestCancel,
                ..join
            },
            Start::Outliving | Start::Cascading => join,
            Start::Executing
            | Start::Asked
            | Start::Parked
            | Start::Lost
            | Start::Runnable
            | Start::Unheld
            | Start::HolderExecuting
            | Start::HolderParked
            | Start::HolderForEver
            | Start::Family
            | Start::FamilyWithOneFailed
            | Start::FamilyWithZombie
            | Start::Flowing
            | Start::FlowParked
            | Start::FlowNeedsAll
            | Start::Line
            | Start::LineSetAside
            | Start::LineIdle => Join::default(),
        }
    }

    /// Brings the world into this state and saves it as the start.
    pub(crate) async fn set(self, world: &World) -> Stage {
        world.clear().await;
        let mut stage = Stage {
            cast: Vec::new(),
            received: Vec::new(),
            links: self.links(),
            worker: world.register("for a while", 30).await,
            for_ever: self == Start::HolderForEver,
            is_workflow: self.is_workflow(),
            is_lost: self == Start::Lost,
        };
        match self {
            Start::Executing => world.executing(&mut stage, hurried(instance())).await,
            Start::Asked => world.asked(&mut stage, hurried(instance())).await,
            Start::Parked => world.parked(&mut stage, hurried(instance())).await,
            Start::Lost => {
                world.parked(&mut stage, hurried(instance())).await;
                let signal = NewSignal::new(stage.cast[0].id.into(), "go", Json::null());
                let delivered = world.store.deliver(vec![signal], None).await;
                delivered.expect("the signal is delivered");
                world.lose_the_wake().await;
            }
            Start::Runnable => world.insert(&mut stage, 1, hurried(instance())).await,
            Start::Unheld => {}
            Start::HolderExecuting => world.executing(&mut stage, hurried(holder())).await,
            Start::HolderParked => world.parked(&mut stage, hurried(holder())).await,
            Start::HolderForEver => {
                let for_ever = instance().correlation(KEY, Scope::FOREVER);
                world.executing(&mut stage, for_ever).await;
            }
            Start::Family | Start::FamilyWithOneFailed | Start::FamilyWithZombie => {
                world
                    .family(&mut stage, self.join(), [ClosePolicy::Abandon; 2])
                    .await;
                world.claim_into(&mut stage, &[2]).await;
            }
            Start::Joining(_) | Start::Windowed(_) | Start::Outliving | Start::Cascading => {
                let policies = [ClosePolicy::RequestCancel, ClosePolicy::Terminate];
                world.family(&mut stage, self.join(), policies).await;
                if !matches!(self, Start::Windowed(_)) {
                    world.claim_into(&mut stage, &[2]).await;
                }
            }
            Start::Flowing | Start::FlowParked => {
                world.workflow(&mut stage).await;
                world.claim_into(&mut stage, &[2]).await;
            }
            Start::FlowNeedsAll => {
                world.workflow(&mut stage).await;
                world.claim_into(&mut stage, &[2]).await;
                let park = Decision::ParkForAll.outcome(&stage);
                world.commit(stage.cast[0], park).await;
            }
            Start::Line | Start::LineSetAside => world.line(&mut stage).await,
            Start::LineIdle => world.insert(&mut stage, 3, in_line()).await,
        }
        world.clock.advance(Duration::from_secs(60));
        stage.worker = world.register("for long", 24 * 3600).await;
        match self {
            Start::Family
            | Start::Joining(_)
            | Start::Windowed(_)
            | Start::Flowing
            | Start::FlowNeedsAll => {
                world.claim_into(&mut stage, &[1]).await;
            }
            Start::FlowParked => {
                world.claim_into(&mut stage, &[1]).await;
                let park = Decision::ParkForEnds.outcome(&stage);
                world.commit(stage.cast[0], park).await;
            }
            Start::Outliving => {
                world.store.fire(10).await.expect("the deadline fires");
                world.claim_into(&mut stage, &[0, 1]).await;
            }
            Start::Cascading => {
                world.store.fire(10).await.expect("the deadline fires");
                world.claim_into(&mut stage, &[0, 1]).await;
                for place in [2, 0] {
                    let done = Decision::Done.outcome(&stage);
                    world.commit(stage.cast[place], done).await;
                }
            }
            Start::FamilyWithOneFailed => {
                world.claim_into(&mut stage, &[1]).await;
                let reason = "as the scenario says";
                world.commit(stage.cast[1], Outcome::fail(reason)).await;
            }
            Start::FamilyWithZombie => {
                stage.cast.push(stage.cast[2]);
                world.reap().await;
                world.claim_into(&mut stage, &[2, 1]).await;
            }
            Start::LineSetAside => world.claim_into(&mut stage, &[]).await,
            Start::Executing
            | Start::Asked
            | Start::Parked
            | Start::Lost
            | Start::Runnable
            | Start::Unheld
            | Start::HolderExecuting
            | Start::HolderParked
            | Start::HolderForEver
            | Start::Line
            | Start::LineIdle => {}
        }
        world.keep_start().await;
        stage
    }
}

pub(crate) fn instance() -> NewInstance {
    NewInstance::new(MACHINE, "start", Json::null()).queue(QUEUE)
}

/// An instance that has taken too long when the schedules begin.
fn hurried(row: NewInstance) -> NewInstance {
    row.timeout(TIMEOUT)
}

/// The update of the scenarios. It is always the same one.
pub(crate) fn update(target: InstanceId) -> NewSignal {
    NewSignal::new(target.into(), "go", Json::null()).update("u")
}

/// An instance with the correlation key.
pub(crate) fn holder() -> NewInstance {
    instance().correlation_key(KEY)
}

/// An instance with the partition key.
fn in_line() -> NewInstance {
    instance().partition_key("key")
}

impl World {
    pub(crate) async fn register(&self, name: &str, lease_s: u64) -> WorkerId {
        let worker = NewWorker {
            name: name.into(),
            host: "here".into(),
            version: "1".into(),
            machines: Vec::new(),
            queues: vec![QUEUE.into()],
            lease: Duration::from_secs(lease_s),
        };
        self.store
            .register(worker)
            .await
            .expect("the worker is registered")
    }

    async fn insert(&self, stage: &mut Stage, how_many: usize, row: NewInstance) {
        let inserts = self.store.insert(vec![row; how_many], None).await;
        for inserted in inserts.expect("the rows are inserted").rows {
            stage.cast.push(ClaimRef {
                id: inserted.new_id().expect("the row is new"),
                revision: Revision(0),
            });
        }
    }

    /// Claims all claimable instances, which must be these.
    async fn claim_into(&self, stage: &mut Stage, places: &[usize]) {
        let claimed = self.store.claim(request(stage, 10)).await;
        let claims = claimed.expect("the claim succeeds").claims;
        let ids: Vec<InstanceId> = claims.iter().map(|claim| claim.id).collect();
        assert_eq!(
            ids,
            stage.ids(places),
            "the claims differ from those of the stage"
        );
        for (place, claim) in places.iter().zip(&claims) {
            stage.cast[*place] = claim.reference();
            if *place == 0 {
                stage.received = claim.awaited().map(|signal| signal.id).collect();
            }
        }
    }

    async fn commit(&self, claim: ClaimRef, outcome: Outcome) {
        let commit = Commit {
            claim,
            received: Vec::new(),
            outcome,
            answers_cancel: false,
            links: Links::UNKNOWN,
            events: Vec::new(),
            position: None,
            views: Vec::new(),
            replies: Vec::new(),
        };
        let committed = self.store.commit(vec![commit].into()).await;
        committed.expect("the outcome is committed");
    }

    async fn reap(&self) {
        let request = ReapRequest {
            max: 100,
            crashes_max: 3,
        };
        self.store
            .reap(request)
            .await
            .expect("the claims are reaped");
    }

    async fn parked(&self, stage: &mut Stage, row: NewInstance) {
        self.insert(stage, 1, row).await;
        self.claim_into(stage, &[0]).await;
        let wait = Outcome::Wait {
            names: vec!["go".into()],
            step: "woken".into(),
            state: Json::null(),
            timeout: Some(Duration::from_secs(30)),
        };
        self.commit(stage.cast[0], wait).await;
    }

    async fn executing(&self, stage: &mut Stage, row: NewInstance) {
        self.parked(stage, row).await;
        let signal = NewSignal::new(stage.cast[0].id.into(), "go", Json::null());
        self.woken(stage, signal).await;
    }

    async fn asked(&self, stage: &mut Stage, row: NewInstance) {
        self.parked(stage, row).await;
        let update = update(stage.cast[0].id);
        self.woken(stage, update).await;
    }

    async fn woken(&self, stage: &mut Stage, signal: NewSignal) {
        let delivered = self.store.deliver(vec![signal], None).await;
        delivered.expect("the signal is delivered");
        self.claim_into(stage, &[0]).await;
        assert_eq!(stage.received.len(), 1, "the claim has no signal");
    }

    /// Inserts a parent and its children. The first child starts later, so that another worker
    /// claims it.
    async fn family(&self, stage: &mut Stage, join: Join, policies: [ClosePolicy; 2]) {
        self.insert(stage, 1, hurried(instance())).await;
        self.claim_into(stage, &[0]).await;
        let [first, second] = policies.map(|policy| instance().on_parent_close(policy));
        let second = second.timeout(CHILD_TIMEOUT);
        let later = outlast_core::Start::After(Duration::from_secs(60));
        let fan_out = Outcome::FanOut {
            children: vec![first.start(later), second],
            join,
            step: "joined".into(),
            state: Json::null(),
        };
        self.commit(stage.cast[0], fan_out).await;
        for child in self.instances().await.iter().skip(1) {
            stage.cast.push(ClaimRef {
                id: InstanceId(child.id),
                revision: Revision(0),
            });
        }
    }

    /// Inserts a workflow with one round for each child. The first child starts later, so that
    /// another worker claims it.
    async fn workflow(&self, stage: &mut Stage) {
        self.insert(stage, 1, hurried(instance())).await;
        self.claim_into(stage, &[0]).await;
        let later = outlast_core::Start::After(Duration::from_secs(60));
        for child in [instance().start(later), instance()] {
            let flow = Outcome::Flow {
                children: vec![child],
                window: None,
                then: Flowing::Proceed(Proceed::KeepClaim),
            };
            self.commit(stage.cast[0], flow).await;
            stage.cast[0].revision = stage.cast[0].revision.next();
        }
        for child in self.instances().await.iter().skip(1) {
            stage.cast.push(ClaimRef {
                id: InstanceId(child.id),
                revision: Revision(0),
            });
        }
    }

    async fn line(&self, stage: &mut Stage) {
        self.insert(stage, 1, hurried(in_line())).await;
        self.claim_into(stage, &[0]).await;
        self.insert(stage, 2, in_line()).await;
    }
}
