//! The states that schedules start from. All are made by the store's own verbs.

use super::act::{Decision, request};
use super::world::World;
use outlast_core::{
    ClaimRef, ClosePolicy, Commit, Flowing, InstanceId, Join, Json, Links, NewInstance, NewSignal,
    NewWorker, Outcome, Proceed, ReapRequest, Revision, Scope, SignalId, Store, Until, WorkerId,
};
use std::time::Duration;

pub(crate) const MACHINE: &str = "machine";
pub(crate) const QUEUE: &str = "default";
/// The correlation key that somebody holds, or nobody.
pub(crate) const KEY: &str = "the key";

/// Where a scenario starts. Default: executing instances are held by a worker whose lease has run
/// out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    /// One instance executes; it was woken by a signal `go`, which it has received.
    Executing,
    /// One waits for `go`, its deadline has come, and the claim it was parked with is known.
    Parked,
    /// One stands in its queue.
    Runnable,
    /// Nobody is there, and nobody holds the correlation key.
    Unheld,
    /// As executing, and it holds the correlation key as long as it lives.
    HolderExecuting,
    /// As parked, and it holds the correlation key as long as it lives.
    HolderParked,
    /// As executing, and it holds the correlation key for ever.
    HolderForEver,
    /// 0 waits for its children 1 and 2. Both execute, 1 with a worker that lives.
    Family,
    /// The same, but child 1 has failed.
    FamilyWithOneFailed,
    /// The same, but child 2 was reaped and claimed again; 3 is the claim on it that was lost.
    FamilyWithZombie,
    /// 0 waits with this join for its children 1 and 2, which both execute, 1 with a worker that lives. Its deadline has
    /// come; the rest is ended. When 0 ends, 1 is asked to end and 2 is ended.
    Joining(Until),
    /// The same, in a window of one: 1 executes with a worker that lives, and 2 waits for its place. The rest is asked
    /// to end.
    Windowed(Until),
    /// The same children as in a join without a window, but 0 was woken by its deadline and executes; the rest goes on.
    Outliving,
    /// 0 is a workflow that executes; it has started 1 in its first round and 2 in its second. Both execute, 1 with a
    /// worker that lives.
    Flowing,
    /// The same, but 0 is parked for the ends of both, for `go`, and for a deadline that has come.
    FlowParked,
    /// The same, but 0 needs all of it, and its deadline has come.
    FlowNeedsAll,
    /// 0 executes under a partition key; 1 and 2 stand in line behind it.
    Line,
    /// The same, after a claim has set 1 and 2 aside.
    LineSetAside,
    /// 0, 1 and 2 stand in line, and nobody executes.
    LineIdle,
}

/// What acts refer to.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// The instances, with the claim that is or was held on them.
    pub(crate) cast: Vec<ClaimRef>,
    /// The signals that the step of the first has received.
    pub(crate) received: Vec<SignalId>,
    /// What their claims told of them.
    pub(crate) links: Links,
    /// Who claims; it lives.
    pub(crate) worker: WorkerId,
    /// Whether who holds the correlation key holds it after its end.
    pub(crate) for_ever: bool,
    /// Whether the first is a workflow.
    pub(crate) is_workflow: bool,
}

impl Stage {
    pub(crate) fn ids(&self, places: &[usize]) -> Vec<InstanceId> {
        places.iter().map(|&place| self.cast[place].id).collect()
    }
}

impl Start {
    /// Statements that find nothing to do from here: nobody has a key, a parent, or a signal.
    pub(crate) fn idle(self) -> &'static [&'static str] {
        match self {
            Start::Executing
            | Start::Parked
            | Start::Runnable
            | Start::Unheld
            | Start::HolderExecuting
            | Start::HolderParked
            | Start::HolderForEver => &["operate/lock_parents", "join/join", "line/let_through"],
            Start::Family | Start::FamilyWithOneFailed | Start::FamilyWithZombie => {
                &["inbox/clear", "line/let_through"]
            }
            Start::Joining(_) | Start::Windowed(_) | Start::Outliving => &[
                "inbox/clear",
                "line/let_through",
                "operate/lock_parents",
                "cascade/leave",
                "cascade/move",
                "cascade/remove",
                "cascade/left",
            ],
            // Histories are written under locks that are held.
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

    /// What the claims of the cast tell of them.
    fn links(self) -> Links {
        Links {
            parent: matches!(
                self,
                Start::Family | Start::FamilyWithOneFailed | Start::FamilyWithZombie
            ) || self.is_of_kin()
                || self.is_workflow(),
            partition_key: matches!(self, Start::Line | Start::LineSetAside | Start::LineIdle),
            children: self.is_of_kin(),
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

    /// Whether the parent's children are under policies.
    fn is_of_kin(self) -> bool {
        matches!(
            self,
            Start::Joining(_) | Start::Windowed(_) | Start::Outliving
        )
    }

    /// How the parent joins, and what becomes of its two children when it ends.
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
            Start::Outliving => join,
            Start::Executing
            | Start::Parked
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

    /// Brings the world into this state and keeps it as the start.
    pub(crate) async fn set(self, world: &World) -> Stage {
        world.clear().await;
        let mut stage = Stage {
            cast: Vec::new(),
            received: Vec::new(),
            links: self.links(),
            worker: world.register("for a while", 30).await,
            for_ever: self == Start::HolderForEver,
            is_workflow: self.is_workflow(),
        };
        match self {
            Start::Executing => world.executing(&mut stage, instance()).await,
            Start::Parked => world.parked(&mut stage, instance()).await,
            Start::Runnable => world.insert(&mut stage, 1, instance()).await,
            Start::Unheld => {}
            Start::HolderExecuting => world.executing(&mut stage, holder()).await,
            Start::HolderParked => world.parked(&mut stage, holder()).await,
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
            Start::Joining(_) | Start::Windowed(_) | Start::Outliving => {
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
                world.store.fire(10).await.expect("it is fired");
                world.claim_into(&mut stage, &[0, 1]).await;
            }
            Start::FamilyWithOneFailed => {
                world.claim_into(&mut stage, &[1]).await;
                let reason = "as it is played";
                world.commit(stage.cast[1], Outcome::fail(reason)).await;
            }
            Start::FamilyWithZombie => {
                stage.cast.push(stage.cast[2]);
                world.reap().await;
                world.claim_into(&mut stage, &[2, 1]).await;
            }
            Start::LineSetAside => world.claim_into(&mut stage, &[]).await,
            Start::Executing
            | Start::Parked
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

/// One with the correlation key.
pub(crate) fn holder() -> NewInstance {
    instance().correlation_key(KEY)
}

/// One with the partition key.
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
        self.store.register(worker).await.expect("it registers")
    }

    async fn insert(&self, stage: &mut Stage, how_many: usize, row: NewInstance) {
        let inserts = self.store.insert(vec![row; how_many], None).await;
        for inserted in inserts.expect("it is inserted").rows {
            stage.cast.push(ClaimRef {
                id: inserted.new_id().expect("it is new"),
                revision: Revision(0),
            });
        }
    }

    /// Claims whatever can be claimed, which must be these.
    async fn claim_into(&self, stage: &mut Stage, places: &[usize]) {
        let claimed = self.store.claim(request(stage, 10)).await;
        let claims = claimed.expect("it is claimed").claims;
        let ids: Vec<InstanceId> = claims.iter().map(|claim| claim.id).collect();
        assert_eq!(ids, stage.ids(places), "the claims of the stage");
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
            mark: None,
        };
        let committed = self.store.commit(vec![commit].into()).await;
        committed.expect("it is committed");
    }

    async fn reap(&self) {
        let request = ReapRequest {
            max: 100,
            crashes_max: 3,
        };
        self.store.reap(request).await.expect("it is reaped");
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
        let delivered = self.store.deliver(vec![signal], None).await;
        delivered.expect("it is delivered");
        self.claim_into(stage, &[0]).await;
        assert_eq!(stage.received.len(), 1, "the claim comes with its signal");
    }

    /// The first child starts later, so that another worker claims it.
    async fn family(&self, stage: &mut Stage, join: Join, policies: [ClosePolicy; 2]) {
        self.insert(stage, 1, instance()).await;
        self.claim_into(stage, &[0]).await;
        let [first, second] = policies.map(|policy| instance().on_parent_close(policy));
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

    /// A round for each child. The first one starts later, so that another worker claims it.
    async fn workflow(&self, stage: &mut Stage) {
        self.insert(stage, 1, instance()).await;
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
        self.insert(stage, 1, in_line()).await;
        self.claim_into(stage, &[0]).await;
        self.insert(stage, 2, in_line()).await;
    }
}
