//! The verbs of operators: their texts, the statuses they apply to, and their results.

use crate::failure::Failure;
use crate::format;
use outlast::store::{
    CancelAnswer, Count, DeleteAnswer, RepairAnswer, RepairNeed, RetryAnswer, TerminateAnswer,
};
use outlast::{Client, InstanceId, Note, Status};

/// A verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Retry,
    Cancel,
    Terminate,
    Delete,
    Repair,
}

/// The result for one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VerbResult {
    Done,
    /// The instance had not run, so the cancel request ended it at once.
    NeverStarted,
    /// The instance had been asked to cancel before.
    AskedBefore,
    /// This was wrong with the instance.
    Repaired(RepairNeed),
    /// Something will wake the instance, or nothing needs to.
    NotNeeded,
    Refused(String),
    NotFound,
}

impl Verb {
    pub(super) fn word(self) -> &'static str {
        match self {
            Verb::Retry => "retry",
            Verb::Cancel => "cancel",
            Verb::Terminate => "terminate",
            Verb::Delete => "delete",
            Verb::Repair => "repair",
        }
    }

    pub(super) fn gerund(self) -> &'static str {
        match self {
            Verb::Retry => "retrying",
            Verb::Cancel => "cancelling",
            Verb::Terminate => "terminating",
            Verb::Delete => "deleting",
            Verb::Repair => "repairing",
        }
    }

    /// A cancel is a request: the machine decides how to end.
    pub(super) fn participle(self) -> &'static str {
        match self {
            Verb::Retry => "retried",
            Verb::Cancel => "asked to cancel",
            Verb::Terminate => "terminated",
            Verb::Delete => "deleted",
            Verb::Repair => "repaired",
        }
    }

    pub(super) fn question(self, matched: Count) -> String {
        format!("{} {}?", self.word(), format::instances(matched))
    }

    /// Returns whether the verb applies to a status.
    fn is_for(self, status: Status) -> bool {
        match self {
            Verb::Retry => matches!(status, Status::Failed | Status::Cancelled),
            Verb::Cancel | Verb::Terminate => !status.is_terminal(),
            Verb::Delete => status.is_terminal(),
            Verb::Repair => status.is_parked() || status == Status::Runnable,
        }
    }

    /// Keeps the requested statuses to which the verb applies. By default, retry selects only
    /// failed instances: a cancel was intended.
    pub(super) fn narrowed(self, asked: &[Status]) -> Result<Vec<Status>, Failure> {
        if let Some(wrong) = asked.iter().find(|status| !self.is_for(**status)) {
            return Err(Failure::Usage(format!(
                "{wrong} instances cannot be {}; remove that status",
                self.participle()
            )));
        }
        Ok(match (self, asked.is_empty()) {
            (_, false) => asked.to_vec(),
            (Verb::Retry, true) => vec![Status::Failed],
            (Verb::Cancel | Verb::Terminate | Verb::Delete | Verb::Repair, true) => {
                let all = Status::ALL.into_iter();
                all.filter(|status| self.is_for(*status)).collect()
            }
        })
    }

    pub(super) async fn perform(
        self,
        client: &Client,
        ids: &[InstanceId],
        note: Note,
    ) -> Result<Vec<VerbResult>, Failure> {
        let (admin, ids) = (client.admin(), ids.to_vec());
        Ok(match self {
            Verb::Retry => {
                let answers = admin.retry_all(ids, note).await?;
                answers.into_iter().map(VerbResult::from).collect()
            }
            Verb::Cancel => {
                let answers = admin.cancel_all(ids, note).await?;
                answers.into_iter().map(VerbResult::from).collect()
            }
            Verb::Terminate => {
                let answers = admin.terminate_all(ids, note).await?;
                answers.into_iter().map(VerbResult::from).collect()
            }
            Verb::Delete => {
                let answers = admin.delete_all(ids, note).await?;
                answers.into_iter().map(VerbResult::from).collect()
            }
            Verb::Repair => {
                let answers = admin.repair_all(ids, note).await?;
                answers.into_iter().map(VerbResult::from).collect()
            }
        })
    }
}

impl From<RetryAnswer> for VerbResult {
    fn from(answer: RetryAnswer) -> VerbResult {
        match answer {
            RetryAnswer::Retried => VerbResult::Done,
            RetryAnswer::NotEndedBadly(status) => VerbResult::Refused(format!(
                "is {status}; only failed and cancelled instances can be retried"
            )),
            RetryAnswer::NotFound => VerbResult::NotFound,
        }
    }
}

impl From<RepairAnswer> for VerbResult {
    fn from(answer: RepairAnswer) -> VerbResult {
        match answer {
            RepairAnswer::Repaired(need) => VerbResult::Repaired(need),
            RepairAnswer::NotNeeded(_) => VerbResult::NotNeeded,
            RepairAnswer::NotFound => VerbResult::NotFound,
        }
    }
}

impl From<CancelAnswer> for VerbResult {
    fn from(answer: CancelAnswer) -> VerbResult {
        match answer {
            CancelAnswer::Requested(_) => VerbResult::Done,
            CancelAnswer::AlreadyRequested(_) => VerbResult::AskedBefore,
            CancelAnswer::NeverStarted => VerbResult::NeverStarted,
            CancelAnswer::AlreadyEnded(status) => ended(status),
            CancelAnswer::NotFound => VerbResult::NotFound,
        }
    }
}

impl From<TerminateAnswer> for VerbResult {
    fn from(answer: TerminateAnswer) -> VerbResult {
        match answer {
            TerminateAnswer::Terminated(_) => VerbResult::Done,
            TerminateAnswer::AlreadyEnded(status) => ended(status),
            TerminateAnswer::NotFound => VerbResult::NotFound,
        }
    }
}

fn ended(status: Status) -> VerbResult {
    VerbResult::Refused(format!("is already {status}"))
}

impl From<DeleteAnswer> for VerbResult {
    fn from(answer: DeleteAnswer) -> VerbResult {
        match answer {
            DeleteAnswer::Deleted => VerbResult::Done,
            DeleteAnswer::NotEnded(status) => {
                VerbResult::Refused(format!("is {status}; cancel or terminate it first"))
            }
            DeleteAnswer::ParentLives(parent) => VerbResult::Refused(format!(
                "is a child of {parent}, which is live and may still read its result"
            )),
            DeleteAnswer::Cascading => VerbResult::Refused(
                "has children that are still being cancelled; an engine does that".to_owned(),
            ),
            DeleteAnswer::NotFound => VerbResult::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_narrowed_to_the_statuses_that_it_applies_to() {
        let all = |verb: Verb| verb.narrowed(&[]).unwrap();
        assert_eq!(all(Verb::Retry), [Status::Failed]);
        let ended = [Status::Done, Status::Failed, Status::Cancelled];
        assert_eq!(all(Verb::Delete), ended);
        let live = Status::ALL.into_iter().filter(|it| !it.is_terminal());
        assert_eq!(all(Verb::Cancel), live.collect::<Vec<_>>());
        assert_eq!(all(Verb::Terminate), all(Verb::Cancel));
        let cancelled = Verb::Retry.narrowed(&[Status::Cancelled]).unwrap();
        assert_eq!(cancelled, [Status::Cancelled]);
        let failure = Verb::Cancel.narrowed(&[Status::Done]).unwrap_err();
        assert_eq!(failure.code(), 2);
        let words = failure.message().unwrap();
        assert!(
            words.contains("done instances cannot be asked to cancel"),
            "{words}"
        );
    }

    #[test]
    fn a_question_says_how_many() {
        assert_eq!(Verb::Retry.question(Count::Exactly(1)), "retry 1 instance?");
        let many = Verb::Delete.question(Count::AtLeast(100_000));
        assert_eq!(many, "delete 100000+ instances?");
    }

    #[test]
    fn a_repeated_cancel_is_accepted_and_an_ended_instance_is_refused() {
        let results = |answer: CancelAnswer| VerbResult::from(answer);
        assert_eq!(
            results(CancelAnswer::Requested(Status::Executing)),
            VerbResult::Done
        );
        assert_eq!(
            results(CancelAnswer::AlreadyRequested(Status::Executing)),
            VerbResult::AskedBefore
        );
        assert_eq!(
            results(CancelAnswer::NeverStarted),
            VerbResult::NeverStarted
        );
        let VerbResult::Refused(why) = results(CancelAnswer::AlreadyEnded(Status::Done)) else {
            panic!("a cancel of an ended instance is refused");
        };
        assert_eq!(why, "is already done");
    }
}
