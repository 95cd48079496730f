//! The verbs that sessions call, and the effects that the verbs report.

use super::stage::{MACHINE, QUEUE, Stage, holder, instance, update};
use outlast_core::{
    Answer, CancelAnswer, CascadeRequest, ChildRange, Claim, ClaimOffer, ClaimRef, ClaimRequest,
    ClosePolicy, CollectRequest, Commit, Delivery, Due, Error, EventKind, Extent, Flowing, Inspect,
    InstanceId, Join, JoinSet, JoinSets, Joined, Json, MachineVersion, NewEvent, NewReply,
    NewSignal, Note, Outcome, Proceed, ReapRequest, Release, ReleaseAnswer, RepairAnswer,
    ReplyKind, Result, RetryAnswer, Revision, SignalId, SignalOrInsert, Status, Store,
    TerminateAnswer, Until,
};
use outlast_postgres::Postgres;
use std::fmt;
use std::time::Duration;

/// A call of a verb. Numbers are places in the cast of the stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Commit(Vec<(usize, Decision)>),
    Release(usize),
    Deliver(usize),
    /// A signal. If it wakes its target, the worker of the stage claims the target.
    DeliverFor(usize),
    /// The update `u`, for the first time or again.
    Ask(usize),
    /// An outcome that replies to all that its step has received.
    Reply(usize, Decision),
    /// A signal for the holder of the correlation key, or for a new holder.
    SignalOrInsert,
    /// Inserts an instance with the correlation key.
    Insert,
    Fire,
    /// A time-out of up to this many instances, earliest first.
    TimeOut(usize),
    /// A reap that allows this many crashes.
    Reap(i32),
    /// Cancels these instances.
    Cancel(Vec<usize>),
    /// Cancels this instance and its descendants.
    CancelTree(usize),
    Terminate(Vec<usize>),
    /// Runs cascades for up to this many children.
    Cascade(usize),
    Retry(usize),
    /// Repairs these instances. Only a start with a lost wake-up has one that needs it.
    Repair(Vec<usize>),
    Claim,
    /// Commits `done` for the instances that the session has claimed.
    CommitClaimed,
    Collect,
    /// Deregisters the worker of the stage.
    Deregister,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Waits for `go`, with a deadline that is due at once.
    Park,
    Next,
    Keep,
    FanOut,
    /// A fan-out with a window of one, and a join in which the first failure ends the rest.
    FanOutInWindow,
    Done,
    Fail,
    /// A workflow waits for the ends of both children, for `go`, and for a deadline that is due at
    /// once.
    ParkForEnds,
    /// A workflow waits for the end of the first child alone.
    ParkForFirst,
    /// A workflow waits for two join sets: both children, and the second one alone.
    ParkForSets,
    /// A workflow needs all: the ends of both children, `go`, and thirty seconds.
    ParkForAll,
    /// A workflow goes on with its claim.
    KeepFlow,
    /// A workflow starts two more children.
    StartChildren,
    ContinueAsNew,
}

/// An effect that a verb reports. The checks compare it with the rows that were written.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// An instance got this status. `None`: it was removed.
    Changed {
        id: InstanceId,
        from: Option<Revision>,
        to: Option<Status>,
        revision: Option<Revision>,
    },
    /// An instance with the correlation key was started.
    Started(InstanceId),
    /// A signal is in an inbox.
    Sent { id: SignalId, target: InstanceId },
    /// A commit kept its claim and named the latest signal since the claim.
    Named {
        id: InstanceId,
        latest: Option<SignalId>,
    },
    /// A commit consumed these signals.
    Consumed(Vec<SignalId>),
    /// A commit replied to these updates, whether one had a reply before or not.
    Replied(Vec<SignalId>),
    /// A commit added this many events.
    Recorded { id: InstanceId, events: usize },
    /// A claim of a parent came with these children. `all`: every child had to end before it.
    Children {
        all: bool,
        children: Vec<(InstanceId, Status)>,
    },
    /// A cancel was requested of an instance with this status.
    CancelRequested { id: InstanceId, was: Status },
    /// The verb changed nothing. For example, a claim was lost or a signal had no target.
    #[allow(dead_code, reason = "the text is printed in examples")]
    Nothing(&'static str),
    /// An error or a rejection. No scenario expects one.
    Refused(String),
}

impl Effect {
    pub(crate) fn consumed(&self) -> &[SignalId] {
        let Effect::Consumed(signals) = self else {
            return &[];
        };
        signals
    }

    pub(crate) fn replied(&self) -> &[SignalId] {
        let Effect::Replied(signals) = self else {
            return &[];
        };
        signals
    }
}

impl Act {
    /// Calls the verb. Claims are carried to the next act of the session.
    pub(crate) async fn perform(
        &self,
        store: &Postgres,
        stage: &Stage,
        carried: &mut Vec<Claim>,
    ) -> Vec<Effect> {
        let effects = match self {
            Act::Commit(outcomes) => {
                let commits = outcomes
                    .iter()
                    .map(|(place, decision)| decision.commit(*place, stage))
                    .collect();
                commit(store, commits).await
            }
            Act::CommitClaimed => {
                let commits = carried.drain(..).map(|claim| ending(&claim)).collect();
                commit(store, commits).await
            }
            Act::Release(place) => release(store, stage.cast[*place]).await,
            Act::Deliver(place) => deliver(store, stage.cast[*place].id).await,
            Act::DeliverFor(place) => {
                deliver_for(store, stage, stage.cast[*place].id, carried).await
            }
            Act::Ask(place) => ask(store, stage.cast[*place].id).await,
            Act::Reply(place, decision) => {
                let commit_alone = decision.commit(*place, stage);
                let replies = stage.received.iter().map(|signal| NewReply {
                    signal: *signal,
                    kind: ReplyKind::Done,
                    data: Json::null(),
                });
                let replying = Commit {
                    replies: replies.collect(),
                    ..commit_alone
                };
                commit(store, vec![replying]).await
            }
            Act::SignalOrInsert => signal_or_insert(store, stage.for_ever).await,
            Act::Insert => insert(store).await,
            Act::Fire => fire(store).await,
            Act::TimeOut(max) => time_out(store, *max).await,
            Act::Reap(crashes_max) => reap(store, *crashes_max).await,
            Act::Cancel(places) => cancel(store, stage.ids(places), Extent::One).await,
            Act::CancelTree(place) => cancel(store, stage.ids(&[*place]), Extent::Tree).await,
            Act::Cascade(max) => cascade(store, *max).await,
            Act::Terminate(places) => terminate(store, stage.ids(places)).await,
            Act::Retry(place) => retry(store, stage.cast[*place].id).await,
            Act::Repair(places) => repair(store, stage, stage.ids(places)).await,
            Act::Claim => claim(store, stage, carried).await,
            Act::Collect => collect(store).await,
            Act::Deregister => store.deregister(stage.worker).await.map(|()| Vec::new()),
        };
        effects.unwrap_or_else(|error| vec![refused(&error)])
    }
}

impl Decision {
    fn commit(self, place: usize, stage: &Stage) -> Commit {
        Commit {
            claim: stage.cast[place],
            received: match place {
                0 => stage.received.clone(),
                _ => Vec::new(),
            },
            outcome: self.outcome(stage),
            answers_cancel: false,
            links: stage.links,
            events: match place == 0 && stage.is_workflow {
                true => vec![event()],
                false => Vec::new(),
            },
            position: None,
            views: Vec::new(),
            replies: Vec::new(),
        }
    }

    pub(crate) fn outcome(self, stage: &Stage) -> Outcome {
        let (step, state) = ("then".to_owned(), Json::null());
        let next = |proceed| Outcome::Next {
            step: step.clone(),
            state: state.clone(),
            proceed,
        };
        match self {
            Decision::Park => Outcome::Wait {
                names: vec!["go".into()],
                step,
                state,
                timeout: Some(Duration::ZERO),
            },
            Decision::Next => next(Proceed::Requeue),
            Decision::Keep => next(Proceed::KeepClaim),
            Decision::FanOut => Outcome::FanOut {
                children: vec![instance(), instance()],
                join: Join::default(),
                step,
                state,
            },
            Decision::FanOutInWindow => Outcome::FanOut {
                children: vec![instance(), instance()],
                join: Join {
                    until: Until::FailFast,
                    deadline: None,
                    window: Some(1),
                    rest: ClosePolicy::Terminate,
                },
                step,
                state,
            },
            Decision::Done => Outcome::Done {
                result: Json::null(),
            },
            Decision::Fail => Outcome::Fail {
                reason: "as the scenario says".into(),
                error: Some(Json::null()),
            },
            Decision::ParkForEnds => flow(Flowing::Park(outlast_core::Park {
                names: vec!["go".into()],
                deadline: Some(Due::After(Duration::ZERO)),
                join_sets: Some(JoinSets::one(awaited(stage, &[1, 2]))),
                needs_all: false,
            })),
            Decision::ParkForAll => flow(Flowing::Park(outlast_core::Park {
                names: vec!["go".into()],
                deadline: Some(Due::After(Duration::from_secs(30))),
                join_sets: Some(JoinSets::one(awaited(stage, &[1, 2]))),
                needs_all: true,
            })),
            Decision::ParkForFirst => flow(Flowing::Park(outlast_core::Park {
                join_sets: Some(JoinSets::one(awaited(stage, &[1]))),
                ..outlast_core::Park::default()
            })),
            Decision::ParkForSets => flow(Flowing::Park(outlast_core::Park {
                join_sets: Some(JoinSets {
                    sets: vec![awaited(stage, &[1, 2]), awaited(stage, &[2])],
                }),
                ..outlast_core::Park::default()
            })),
            Decision::KeepFlow => flow(Flowing::Proceed(Proceed::KeepClaim)),
            Decision::StartChildren => Outcome::Flow {
                children: vec![instance(), instance()],
                window: None,
                then: Flowing::Proceed(Proceed::Requeue),
            },
            Decision::ContinueAsNew => Outcome::ContinueAsNew { state },
        }
    }
}

/// The join set of these children. Each is the only child of its round.
fn awaited(stage: &Stage, children: &[usize]) -> JoinSet {
    let range = |round| ChildRange {
        round,
        first: 0,
        last: 0,
    };
    JoinSet {
        ranges: children.iter().map(|&child| range(child as i32)).collect(),
        children: stage.ids(children),
        count: children.len() as i32,
    }
}

fn flow(then: Flowing) -> Outcome {
    Outcome::Flow {
        children: Vec::new(),
        window: None,
        then,
    }
}

fn event() -> NewEvent {
    NewEvent {
        kind: EventKind::StepCompleted,
        call: Some(1),
        name: "as the scenario says".into(),
        data: Json::null(),
        at: None,
    }
}

/// The commit that ends a claimed instance.
pub(crate) fn ending(claim: &Claim) -> Commit {
    let result = Json::null();
    Commit::of(claim, Outcome::Done { result })
}

pub(crate) fn request(stage: &Stage, max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: stage.worker,
        queue: QUEUE.into(),
        machines: [MachineVersion::new(MACHINE, 1)].into(),
        max,
    }
}

async fn commit(store: &Postgres, commits: Vec<Commit>) -> Result<Vec<Effect>> {
    let answers = store.commit(commits.clone().into()).await?.answers;
    let mut effects = Vec::new();
    for (commit, answer) in commits.into_iter().zip(answers) {
        match answer {
            Answer::Committed {
                revision,
                status,
                latest_signal,
                ..
            } => {
                effects.push(changed(commit.claim, status, revision));
                if status == Status::Executing {
                    effects.push(Effect::Named {
                        id: commit.claim.id,
                        latest: latest_signal,
                    });
                }
                if !commit.events.is_empty() {
                    effects.push(Effect::Recorded {
                        id: commit.claim.id,
                        events: commit.events.len(),
                    });
                }
                let replied: Vec<SignalId> =
                    commit.replies.iter().map(|reply| reply.signal).collect();
                if commit.outcome.consumes() {
                    effects.push(Effect::Consumed(commit.received));
                } else if !replied.is_empty() {
                    effects.push(Effect::Consumed(replied.clone()));
                }
                if !replied.is_empty() {
                    effects.push(Effect::Replied(replied));
                }
            }
            Answer::Cancel(_) => effects.push(Effect::Nothing("a cancel comes first")),
            Answer::Lost => effects.push(Effect::Nothing("lost")),
            Answer::Rejected(invalid) => {
                effects.push(Effect::Refused(format!("rejected: {invalid}")))
            }
        }
    }
    Ok(effects)
}

fn changed(claim: ClaimRef, to: Status, revision: Revision) -> Effect {
    Effect::Changed {
        id: claim.id,
        from: Some(claim.revision),
        to: Some(to),
        revision: Some(revision),
    }
}

fn became(id: InstanceId, to: Status) -> Effect {
    Effect::Changed {
        id,
        from: None,
        to: Some(to),
        revision: None,
    }
}

async fn release(store: &Postgres, claim: ClaimRef) -> Result<Vec<Effect>> {
    let release = Release {
        claim,
        pause: Duration::ZERO,
    };
    let released = store.release(vec![release]).await?;
    Ok(vec![match released.answers[0] {
        ReleaseAnswer::Released => changed(claim, Status::Runnable, claim.revision.next()),
        ReleaseAnswer::Lost => Effect::Nothing("lost"),
    }])
}

async fn deliver(store: &Postgres, target: InstanceId) -> Result<Vec<Effect>> {
    let signal = NewSignal::new(target.into(), "go", Json::null());
    let delivered = store.deliver(vec![signal], None).await?;
    Ok(sent(delivered.answers[0]))
}

/// Delivers the update, or finds that it has come before.
async fn ask(store: &Postgres, target: InstanceId) -> Result<Vec<Effect>> {
    let delivered = store.deliver(vec![update(target)], None).await?;
    let answer = delivered.answers[0];
    if answer != (Delivery::Duplicate { instance: target }) {
        return Ok(sent(answer));
    }
    // The sender then asks for the reply. Nobody here removes the instance.
    let found = store.update(target, "u").await?;
    Ok(vec![match found {
        Some(_) => Effect::Nothing("a duplicate"),
        None => Effect::Refused("a duplicate that is not there".into()),
    }])
}

/// Delivers a signal and claims its target. With an expired lease the verb delivers nothing.
async fn deliver_for(
    store: &Postgres,
    stage: &Stage,
    target: InstanceId,
    carried: &mut Vec<Claim>,
) -> Result<Vec<Effect>> {
    let signal = NewSignal::new(target.into(), "go", Json::null());
    let ClaimRequest {
        worker, machines, ..
    } = request(stage, 1);
    let offer = ClaimOffer {
        worker,
        queues: vec![QUEUE.into()],
        machines,
    };
    let delivered = match store.deliver(vec![signal], Some(offer)).await {
        Err(Error::LeaseExpired { .. }) => return Ok(vec![Effect::Nothing("no lease")]),
        answer => answer?,
    };
    let mut effects = sent(delivered.answers[0]);
    for claim in delivered.claims {
        effects.retain(|effect| !matches!(effect, Effect::Changed { .. }));
        if claim.inbox.is_empty() {
            effects.push(Effect::Refused("a claim without its signal".into()));
        }
        effects.push(claimed(&claim));
        carried.push(claim);
    }
    Ok(effects)
}

fn claimed(claim: &Claim) -> Effect {
    Effect::Changed {
        id: claim.id,
        from: Some(Revision(claim.revision.0 - 1)),
        to: Some(Status::Executing),
        revision: Some(claim.revision),
    }
}

fn sent(delivery: Delivery) -> Vec<Effect> {
    match delivery {
        Delivery::Delivered { id, instance, woke } => {
            let mut effects = vec![Effect::Sent {
                id,
                target: instance,
            }];
            effects.extend(woke.then(|| became(instance, Status::Runnable)));
            effects
        }
        Delivery::NoTarget => vec![Effect::Nothing("no target")],
        Delivery::Duplicate { .. } | Delivery::InboxFull { .. } => {
            vec![Effect::Refused(format!("{delivery:?}"))]
        }
    }
}

/// A signal always finds or starts a holder, unless an ended holder keeps the key for ever.
async fn signal_or_insert(store: &Postgres, for_ever: bool) -> Result<Vec<Effect>> {
    let request = SignalOrInsert {
        row: holder(),
        name: "go".into(),
        payload: Json::null(),
        dedup_key: None,
    };
    let answer = store.signal_or_insert(request).await?;
    let reached = match answer.delivery {
        Delivery::Delivered { instance, .. } => Some(instance),
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => None,
    };
    let wrong = match answer.inserted {
        Some(_) => for_ever || reached != answer.inserted,
        None => reached.is_none() && !for_ever,
    };
    if wrong {
        return Ok(vec![Effect::Refused(format!("{answer:?}"))]);
    }
    let mut effects = sent(answer.delivery);
    effects.extend(answer.inserted.map(Effect::Started));
    Ok(effects)
}

async fn insert(store: &Postgres) -> Result<Vec<Effect>> {
    let inserts = store.insert(vec![holder()], None).await?;
    Ok(vec![match inserts.rows[0].new_id() {
        Some(id) => Effect::Started(id),
        None => Effect::Nothing("a duplicate"),
    }])
}

async fn fire(store: &Postgres) -> Result<Vec<Effect>> {
    let fired = store.fire(100).await?;
    let woken = fired.woken_instances.into_iter();
    Ok(woken.map(|id| became(id, Status::Runnable)).collect())
}

async fn time_out(store: &Postgres, max: usize) -> Result<Vec<Effect>> {
    let ended = store.time_out(max).await?.ended.into_iter();
    Ok(ended.map(|id| became(id, Status::Failed)).collect())
}

async fn reap(store: &Postgres, crashes_max: i32) -> Result<Vec<Effect>> {
    let request = ReapRequest {
        max: 100,
        crashes_max,
    };
    let reaped = store.reap(request).await?;
    let returned = reaped.returned.into_iter();
    let failed = reaped.failed.into_iter();
    Ok(returned
        .map(|id| became(id, Status::Runnable))
        .chain(failed.map(|id| became(id, Status::Failed)))
        .collect())
}

/// A cancel wakes an instance that waits for a signal. The status of any other stays.
async fn cancel(store: &Postgres, ids: Vec<InstanceId>, extent: Extent) -> Result<Vec<Effect>> {
    let cancelled = store
        .cancel(ids.clone(), extent, Note::by("somebody"))
        .await?;
    let mut effects = Vec::new();
    for (id, answer) in ids.into_iter().zip(cancelled.answers) {
        match answer {
            CancelAnswer::Requested(was) => {
                effects.push(Effect::CancelRequested { id, was });
                if matches!(was, Status::AwaitingSignal | Status::Sleeping) {
                    effects.push(became(id, Status::Runnable));
                }
            }
            CancelAnswer::NeverStarted => effects.push(became(id, Status::Cancelled)),
            CancelAnswer::AlreadyRequested(_) => {
                effects.push(Effect::Nothing("was cancelled before"))
            }
            CancelAnswer::AlreadyEnded(_) => effects.push(Effect::Nothing("had ended")),
            CancelAnswer::NotFound => effects.push(Effect::Nothing("not found")),
        }
    }
    Ok(effects)
}

async fn cascade(store: &Postgres, max: usize) -> Result<Vec<Effect>> {
    let cascaded = store.cascade(CascadeRequest { max }).await?;
    let ended = cascaded.ended.into_iter();
    Ok(ended.map(|id| became(id, Status::Cancelled)).collect())
}

async fn terminate(store: &Postgres, ids: Vec<InstanceId>) -> Result<Vec<Effect>> {
    let note = Note::by("somebody");
    let terminated = store.terminate(ids.clone(), Extent::One, note).await?;
    let answers = ids.into_iter().zip(terminated.answers);
    Ok(answers
        .map(|(id, answer)| match answer {
            TerminateAnswer::Terminated(_) => became(id, Status::Cancelled),
            TerminateAnswer::AlreadyEnded(_) => Effect::Nothing("had ended"),
            TerminateAnswer::NotFound => Effect::Nothing("not found"),
        })
        .collect())
}

async fn retry(store: &Postgres, id: InstanceId) -> Result<Vec<Effect>> {
    let retried = store.retry(vec![id], Note::by("somebody")).await?;
    Ok(vec![match retried.answers[0] {
        RetryAnswer::Retried => became(id, Status::Runnable),
        RetryAnswer::NotEndedBadly(_) => Effect::Nothing("neither failed nor cancelled"),
        RetryAnswer::NotFound => Effect::Nothing("not found"),
    }])
}

/// Repairs instances. An instance that something wakes must stay as it is.
async fn repair(store: &Postgres, stage: &Stage, ids: Vec<InstanceId>) -> Result<Vec<Effect>> {
    let note = Note::by("somebody");
    let repaired = store.repair(ids.clone(), note).await?;
    let answers = ids.into_iter().zip(repaired.answers);
    Ok(answers
        .map(|(id, answer)| match answer {
            RepairAnswer::Repaired(_) if stage.is_lost => became(id, Status::Runnable),
            RepairAnswer::Repaired(need) => Effect::Refused(format!("{id} was repaired: {need}")),
            RepairAnswer::NotNeeded(_) => Effect::Nothing("no repair"),
            RepairAnswer::NotFound => Effect::Nothing("not found"),
        })
        .collect())
}

async fn claim(store: &Postgres, stage: &Stage, carried: &mut Vec<Claim>) -> Result<Vec<Effect>> {
    // A worker with an expired lease claims nothing.
    let claims = match store.claim(request(stage, 10)).await {
        Err(Error::LeaseExpired { .. }) => return Ok(vec![Effect::Nothing("no lease")]),
        answer => answer?.claims,
    };
    let mut effects = Vec::new();
    for claim in claims {
        effects.push(claimed(&claim));
        // A claim of a workflow has no children.
        if claim.round > 0 && !stage.is_workflow {
            let children = claim.children.iter();
            effects.push(Effect::Children {
                all: saw_all(&claim),
                children: children.map(|c| (c.id, c.status)).collect(),
            });
        }
        carried.push(claim);
    }
    Ok(effects)
}

/// Whether all children must have ended before this claim of their parent: no failure, deadline or
/// cancel has woken it earlier.
pub(crate) fn saw_all(claim: &Claim) -> bool {
    match claim.joined {
        Some(Joined::All) => true,
        Some(Joined::Failure | Joined::Quorum | Joined::Impossible | Joined::Deadline) => false,
        None => claim.cancel.is_none(),
    }
}

async fn collect(store: &Postgres) -> Result<Vec<Effect>> {
    let request = CollectRequest {
        retention: Duration::ZERO,
        max: 100,
    };
    let removed = store.collect(request).await?.removed.into_iter();
    Ok(removed
        .map(|id| Effect::Changed {
            id,
            from: None,
            to: None,
            revision: None,
        })
        .collect())
}

fn refused(error: &Error) -> Effect {
    Effect::Refused(error.to_string())
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Commit(outcomes) => {
                let mut separator = "";
                for (place, decision) in outcomes {
                    write!(
                        f,
                        "{separator}{} {place}",
                        format!("{decision:?}").to_lowercase()
                    )?;
                    separator = "+";
                }
                Ok(())
            }
            Act::Release(place) => write!(f, "release {place}"),
            Act::Deliver(place) => write!(f, "deliver {place}"),
            Act::DeliverFor(place) => write!(f, "deliver {place} and claim"),
            Act::Ask(place) => write!(f, "ask {place}"),
            Act::Reply(place, decision) => {
                let decision = format!("{decision:?}").to_lowercase();
                write!(f, "reply and {decision} {place}")
            }
            Act::SignalOrInsert => f.write_str("signal or insert"),
            Act::Insert => f.write_str("insert"),
            Act::Fire => f.write_str("fire"),
            Act::TimeOut(max) => write!(f, "time out {max}"),
            Act::Reap(0) => f.write_str("reap and fail"),
            Act::Reap(_) => f.write_str("reap"),
            Act::Cancel(places) => write!(f, "cancel {places:?}"),
            Act::CancelTree(place) => write!(f, "cancel the tree of {place}"),
            Act::Cascade(_) => f.write_str("cascade"),
            Act::Terminate(places) => write!(f, "terminate {places:?}"),
            Act::Retry(place) => write!(f, "retry {place}"),
            Act::Repair(places) => write!(f, "repair {places:?}"),
            Act::Claim => f.write_str("claim"),
            Act::CommitClaimed => f.write_str("end the claimed"),
            Act::Collect => f.write_str("collect"),
            Act::Deregister => f.write_str("deregister"),
        }
    }
}
