//! What sessions do, and what they are told.

use super::stage::{MACHINE, QUEUE, Stage, holder, instance};
use outlast_core::{
    Answer, CancelAnswer, CascadeRequest, ChildRange, Claim, ClaimOffer, ClaimRef, ClaimRequest,
    ClosePolicy, CollectRequest, Commit, Delivery, Due, Error, EventKind, Extent, Flowing,
    InstanceId, Join, JoinSet, JoinSets, Joined, Json, MachineVersion, NewEvent, NewSignal, Note,
    Outcome, Proceed, ReapRequest, Release, ReleaseAnswer, Result, RetryAnswer, Revision, SignalId,
    SignalOrInsert, Status, Store, TerminateAnswer, Until,
};
use outlast_postgres::Postgres;
use std::fmt;
use std::time::Duration;

/// A verb. Numbers are places in the cast of the stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Commit(Vec<(usize, Decision)>),
    Release(usize),
    Deliver(usize),
    /// A signal, and what it wakes is for the worker that claims.
    DeliverFor(usize),
    /// A signal for who holds the correlation key, or for one that is started.
    SignalOrInsert,
    /// One with the correlation key.
    Insert,
    Fire,
    /// With this many crashes allowed.
    Reap(i32),
    /// Asks them to end.
    Cancel(Vec<usize>),
    /// Asks it and all that descend from it to end.
    CancelTree(usize),
    Terminate(Vec<usize>),
    /// Tells children what became of their parent, this many.
    Cascade(usize),
    Retry(usize),
    Claim,
    /// JoinSets what the claim before brought.
    CommitClaimed,
    Collect,
    /// The worker that claims ends its lease.
    Deregister,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Waits for `go`, with a deadline that has come at once.
    Park,
    Next,
    Keep,
    FanOut,
    /// The same, one at a time, and the first failure ends the rest.
    FanOutInWindow,
    Done,
    Fail,
    /// A workflow waits for the ends of both children, for `go`, and for a deadline that has come at once.
    ParkForEnds,
    /// It waits for the end of the first alone.
    ParkForTheFirst,
    /// It waits for the ends of both, or for that of the second.
    ParkForParts,
    /// It needs all: the ends of both, `go`, and thirty seconds.
    ParkForAll,
    /// It goes on with its claim.
    KeepFlow,
    /// It starts two more.
    StartChildren,
    Renew,
}

/// What a verb said that it did. The judge holds it against what was written.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// An instance became this; `None` when it was removed.
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
    /// A commit consumed these.
    Consumed(Vec<SignalId>),
    /// A commit added so many events.
    Recorded { id: InstanceId, events: usize },
    /// A claim of a parent came with these children; all of them, if its join says so.
    Children {
        all: bool,
        children: Vec<(InstanceId, Status)>,
    },
    /// An instance was asked to end when it was this.
    Asked { id: InstanceId, was: Status },
    /// A claim was lost, a signal had no target, there was nothing to do.
    #[allow(dead_code, reason = "why is for people, who read it in an example")]
    Nothing(&'static str),
    /// An error or a rejection: never expected.
    Refused(String),
}

impl Act {
    /// Does it. What was claimed is carried to the next act of the session.
    pub(crate) async fn perform(
        &self,
        store: &Postgres,
        stage: &Stage,
        carried: &mut Vec<Claim>,
    ) -> Vec<Told> {
        let told = match self {
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
            Act::SignalOrInsert => signal_or_insert(store, stage.for_ever).await,
            Act::Insert => insert(store).await,
            Act::Fire => fire(store).await,
            Act::Reap(crashes_max) => reap(store, *crashes_max).await,
            Act::Cancel(places) => cancel(store, stage.ids(places), Extent::One).await,
            Act::CancelTree(place) => cancel(store, stage.ids(&[*place]), Extent::Tree).await,
            Act::Cascade(max) => cascade(store, *max).await,
            Act::Terminate(places) => terminate(store, stage.ids(places)).await,
            Act::Retry(place) => retry(store, stage.cast[*place].id).await,
            Act::Claim => claim(store, stage, carried).await,
            Act::Collect => collect(store).await,
            Act::Deregister => store.deregister(stage.worker).await.map(|()| Vec::new()),
        };
        told.unwrap_or_else(|error| vec![refused(&error)])
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
            mark: None,
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
                reason: "as it is played".into(),
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
            Decision::ParkForTheFirst => flow(Flowing::Park(outlast_core::Park {
                join_sets: Some(JoinSets::one(awaited(stage, &[1]))),
                ..outlast_core::Park::default()
            })),
            Decision::ParkForParts => flow(Flowing::Park(outlast_core::Park {
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
            Decision::Renew => Outcome::ContinueAsNew { state },
        }
    }
}

/// The ends of these children, each the only one of its round.
fn awaited(stage: &Stage, children: &[usize]) -> JoinSet {
    let span = |round| ChildRange {
        round,
        first: 0,
        last: 0,
    };
    JoinSet {
        ranges: children.iter().map(|&child| span(child as i32)).collect(),
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
        name: "as it is played".into(),
        data: Json::null(),
        at: None,
    }
}

/// The outcome that ends what was claimed.
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

async fn commit(store: &Postgres, commits: Vec<Commit>) -> Result<Vec<Told>> {
    let answers = store.commit(commits.clone().into()).await?.answers;
    let mut told = Vec::new();
    for (commit, answer) in commits.into_iter().zip(answers) {
        match answer {
            Answer::Committed {
                revision, status, ..
            } => {
                told.push(changed(commit.claim, status, revision));
                if !commit.events.is_empty() {
                    told.push(Told::Recorded {
                        id: commit.claim.id,
                        events: commit.events.len(),
                    });
                }
                if commit.outcome.consumes() {
                    told.push(Told::Consumed(commit.received));
                }
            }
            Answer::Cancel(_) => told.push(Told::Nothing("a cancel comes first")),
            Answer::Lost => told.push(Told::Nothing("lost")),
            Answer::Rejected(invalid) => told.push(Told::Refused(format!("rejected: {invalid}"))),
        }
    }
    Ok(told)
}

fn changed(claim: ClaimRef, to: Status, revision: Revision) -> Told {
    Told::Changed {
        id: claim.id,
        from: Some(claim.revision),
        to: Some(to),
        revision: Some(revision),
    }
}

fn became(id: InstanceId, to: Status) -> Told {
    Told::Changed {
        id,
        from: None,
        to: Some(to),
        revision: None,
    }
}

async fn release(store: &Postgres, claim: ClaimRef) -> Result<Vec<Told>> {
    let given_back = Release {
        claim,
        pause: Duration::ZERO,
    };
    let released = store.release(vec![given_back]).await?;
    Ok(vec![match released.answers[0] {
        ReleaseAnswer::Released => changed(claim, Status::Runnable, claim.revision.next()),
        ReleaseAnswer::Lost => Told::Nothing("lost"),
    }])
}

async fn deliver(store: &Postgres, target: InstanceId) -> Result<Vec<Told>> {
    let signal = NewSignal::new(target.into(), "go", Json::null());
    let delivered = store.deliver(vec![signal], None).await?;
    Ok(sent(delivered.answers[0]))
}

/// A lease that has run out has delivered nothing.
async fn deliver_for(
    store: &Postgres,
    stage: &Stage,
    target: InstanceId,
    carried: &mut Vec<Claim>,
) -> Result<Vec<Told>> {
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
        Err(Error::LeaseExpired { .. }) => return Ok(vec![Told::Nothing("no lease")]),
        answer => answer?,
    };
    let mut told = sent(delivered.answers[0]);
    for claim in delivered.claims {
        told.retain(|told| !matches!(told, Told::Changed { .. }));
        if claim.inbox.is_empty() {
            told.push(Told::Refused("a claim without its signal".into()));
        }
        told.push(claimed(&claim));
        carried.push(claim);
    }
    Ok(told)
}

fn claimed(claim: &Claim) -> Told {
    Told::Changed {
        id: claim.id,
        from: Some(Revision(claim.revision.0 - 1)),
        to: Some(Status::Executing),
        revision: Some(claim.revision),
    }
}

fn sent(delivery: Delivery) -> Vec<Told> {
    match delivery {
        Delivery::Delivered { id, instance, woke } => {
            let mut told = vec![Told::Sent {
                id,
                target: instance,
            }];
            told.extend(woke.then(|| became(instance, Status::Runnable)));
            told
        }
        Delivery::NoTarget => vec![Told::Nothing("no target")],
        Delivery::Duplicate { .. } | Delivery::InboxFull { .. } => {
            vec![Told::Refused(format!("{delivery:?}"))]
        }
    }
}

/// Somebody is there to be signalled, always, unless the key is kept beyond the end.
async fn signal_or_insert(store: &Postgres, for_ever: bool) -> Result<Vec<Told>> {
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
        return Ok(vec![Told::Refused(format!("{answer:?}"))]);
    }
    let mut told = sent(answer.delivery);
    told.extend(answer.inserted.map(Told::Started));
    Ok(told)
}

async fn insert(store: &Postgres) -> Result<Vec<Told>> {
    let inserts = store.insert(vec![holder()], None).await?;
    Ok(vec![match inserts.rows[0].new_id() {
        Some(id) => Told::Started(id),
        None => Told::Nothing("a duplicate"),
    }])
}

async fn fire(store: &Postgres) -> Result<Vec<Told>> {
    let fired = store.fire(100).await?;
    let woken = fired.woken_instances.into_iter();
    Ok(woken.map(|id| became(id, Status::Runnable)).collect())
}

async fn reap(store: &Postgres, crashes_max: i32) -> Result<Vec<Told>> {
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

/// One that waits for a signal is woken; of others who are asked, the status says nothing new.
async fn cancel(store: &Postgres, ids: Vec<InstanceId>, extent: Extent) -> Result<Vec<Told>> {
    let cancelled = store
        .cancel(ids.clone(), extent, Note::by("somebody"))
        .await?;
    let mut told = Vec::new();
    for (id, answer) in ids.into_iter().zip(cancelled.answers) {
        match answer {
            CancelAnswer::Requested(was) => {
                told.push(Told::Asked { id, was });
                if matches!(was, Status::AwaitingSignal | Status::Sleeping) {
                    told.push(became(id, Status::Runnable));
                }
            }
            CancelAnswer::NeverStarted => told.push(became(id, Status::Cancelled)),
            CancelAnswer::AlreadyRequested(_) => told.push(Told::Nothing("was asked")),
            CancelAnswer::AlreadyEnded(_) => told.push(Told::Nothing("had ended")),
            CancelAnswer::NotFound => told.push(Told::Nothing("not found")),
        }
    }
    Ok(told)
}

async fn cascade(store: &Postgres, max: usize) -> Result<Vec<Told>> {
    let cascaded = store.cascade(CascadeRequest { max }).await?;
    let ended = cascaded.ended.into_iter();
    Ok(ended.map(|id| became(id, Status::Cancelled)).collect())
}

async fn terminate(store: &Postgres, ids: Vec<InstanceId>) -> Result<Vec<Told>> {
    let note = Note::by("somebody");
    let terminated = store.terminate(ids.clone(), Extent::One, note).await?;
    let answers = ids.into_iter().zip(terminated.answers);
    Ok(answers
        .map(|(id, answer)| match answer {
            TerminateAnswer::Terminated(_) => became(id, Status::Cancelled),
            TerminateAnswer::AlreadyEnded(_) => Told::Nothing("had ended"),
            TerminateAnswer::NotFound => Told::Nothing("not found"),
        })
        .collect())
}

async fn retry(store: &Postgres, id: InstanceId) -> Result<Vec<Told>> {
    let retried = store.retry(vec![id], Note::by("somebody")).await?;
    Ok(vec![match retried.answers[0] {
        RetryAnswer::Retried => became(id, Status::Runnable),
        RetryAnswer::NotEndedBadly(_) => Told::Nothing("not ended badly"),
        RetryAnswer::NotFound => Told::Nothing("not found"),
    }])
}

async fn claim(store: &Postgres, stage: &Stage, carried: &mut Vec<Claim>) -> Result<Vec<Told>> {
    // One whose lease has ended claims nothing.
    let claims = match store.claim(request(stage, 10)).await {
        Err(Error::LeaseExpired { .. }) => return Ok(vec![Told::Nothing("no lease")]),
        answer => answer?.claims,
    };
    let mut told = Vec::new();
    for claim in claims {
        told.push(claimed(&claim));
        // A workflow's are not handed to it.
        if claim.round > 0 && !stage.is_workflow {
            let children = claim.children.iter();
            told.push(Told::Children {
                all: saw_all(&claim),
                children: children.map(|c| (c.id, c.status)).collect(),
            });
        }
        carried.push(claim);
    }
    Ok(told)
}

/// Whether the claim of a parent must have come after all of its children have ended: it was not woken before by a
/// failure, a deadline or a cancel.
pub(crate) fn saw_all(claim: &Claim) -> bool {
    match claim.joined {
        Some(Joined::All) => true,
        Some(Joined::Failure | Joined::Quorum | Joined::Impossible | Joined::Deadline) => false,
        None => claim.cancel.is_none(),
    }
}

async fn collect(store: &Postgres) -> Result<Vec<Told>> {
    let request = CollectRequest {
        retention: Duration::ZERO,
        max: 100,
    };
    let removed = store.collect(request).await?.removed.into_iter();
    Ok(removed
        .map(|id| Told::Changed {
            id,
            from: None,
            to: None,
            revision: None,
        })
        .collect())
}

fn refused(error: &Error) -> Told {
    Told::Refused(error.to_string())
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
            Act::SignalOrInsert => f.write_str("signal or insert"),
            Act::Insert => f.write_str("insert"),
            Act::Fire => f.write_str("fire"),
            Act::Reap(0) => f.write_str("reap and fail"),
            Act::Reap(_) => f.write_str("reap"),
            Act::Cancel(places) => write!(f, "cancel {places:?}"),
            Act::CancelTree(place) => write!(f, "cancel the tree of {place}"),
            Act::Cascade(_) => f.write_str("cascade"),
            Act::Terminate(places) => write!(f, "terminate {places:?}"),
            Act::Retry(place) => write!(f, "retry {place}"),
            Act::Claim => f.write_str("claim"),
            Act::CommitClaimed => f.write_str("end the claimed"),
            Act::Collect => f.write_str("collect"),
            Act::Deregister => f.write_str("deregister"),
        }
    }
}
