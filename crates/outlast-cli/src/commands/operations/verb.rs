//! The verbs of operators: their texts, the statuses they apply to, and their results.

use crate::failure::Failure;
use crate::format;
use outlast::{
    CancelAnswer, Client, Count, DeleteAnswer, InstanceId, Note, RetryAnswer, Status,
    TerminateAnswer,
};

/// A verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Retry,
    Cancel,
    Terminate,
    Delete,
}

/// The result for one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Became {
    Done,
    /// The instance had not run, so the cancel request ended it at once.
    NeverStarted,
    /// The instance had been asked to cancel before.
    AskedBefore,
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
        }
    }

    pub(super) fn gerund(self) -> &'static str {
        match self {
            Verb::Retry => "retrying",
            Verb::Cancel => "cancelling",
            Verb::Terminate => "terminating",
            Verb::Delete => "deleting",
        }
    }

    /// A cancel is a request: the machine decides how to end.
    pub(super) fn participle(self) -> &'static str {
        match self {
            Verb::Retry => "retried",
            Verb::Cancel => "asked to end",
            Verb::Terminate => "terminated",
            Verb::Delete => "deleted",
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
        }
    }

    /// Keeps the requested statuses to which the verb applies. By default, retry selects only
    /// failed instances: a cancel was intended.
    pub(super) fn narrowed(self, asked: &[Status]) -> Result<Vec<Status>, Failure> {
        if let Some(wrong) = asked.iter().find(|status| !self.is_for(**status)) {
            return Err(Failure::Usage(format!(
                "instances that are {wrong} cannot be {}; leave that status out",
                self.participle()
            )));
        }
        Ok(match (self, asked.is_empty()) {
            (_, false) => asked.to_vec(),
            (Verb::Retry, true) => vec![Status::Failed],
            (Verb::Cancel | Verb::Terminate | Verb::Delete, true) => {
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
    ) -> Result<Vec<Became>, Failure> {
        let ids = ids.to_vec();
        Ok(match self {
            Verb::Retry => {
                let answers = client.retry_all(ids, note).await?;
                answers.into_iter().map(Became::from).collect()
            }
            Verb::Cancel => {
                let answers = client.cancel_all(ids, note).await?;
                answers.into_iter().map(Became::from).collect()
            }
            Verb::Terminate => {
                let answers = client.terminate_all(ids, note).await?;
                answers.into_iter().map(Became::from).collect()
            }
            Verb::Delete => {
                let answers = client.delete_all(ids, note).await?;
                answers.into_iter().map(Became::from).collect()
            }
        })
    }
}

impl From<RetryAnswer> for Became {
    fn from(answer: RetryAnswer) -> Became {
        match answer {
            RetryAnswer::Retried => Became::Done,
            RetryAnswer::NotEndedBadly(status) => Became::Refused(format!(
                "is {status}; only what has failed or was cancelled is retried"
            )),
            RetryAnswer::NotFound => Became::NotFound,
        }
    }
}

impl From<CancelAnswer> for Became {
    fn from(answer: CancelAnswer) -> Became {
        match answer {
            CancelAnswer::Requested(_) => Became::Done,
            CancelAnswer::AlreadyRequested(_) => Became::AskedBefore,
            CancelAnswer::NeverStarted => Became::NeverStarted,
            CancelAnswer::AlreadyEnded(status) => ended(status),
            CancelAnswer::NotFound => Became::NotFound,
        }
    }
}

impl From<TerminateAnswer> for Became {
    fn from(answer: TerminateAnswer) -> Became {
        match answer {
            TerminateAnswer::Terminated(_) => Became::Done,
            TerminateAnswer::AlreadyEnded(status) => ended(status),
            TerminateAnswer::NotFound => Became::NotFound,
        }
    }
}

fn ended(status: Status) -> Became {
    Became::Refused(format!("has ended already: it is {status}"))
}

impl From<DeleteAnswer> for Became {
    fn from(answer: DeleteAnswer) -> Became {
        match answer {
            DeleteAnswer::Deleted => Became::Done,
            DeleteAnswer::NotEnded(status) => Became::Refused(format!(
                "is {status}; only what has ended is deleted, cancel or terminate it first"
            )),
            DeleteAnswer::ParentLives(parent) => Became::Refused(format!(
                "has the parent {parent}, which lives and may still read its result"
            )),
            DeleteAnswer::Cascading => Became::Refused(
                "has children that are still to be told of its end; an engine does that".to_owned(),
            ),
            DeleteAnswer::NotFound => Became::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_narrowed_to_what_it_can_be_done_to() {
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
        let words = failure.words().unwrap();
        assert!(words.contains("done cannot be asked to end"), "{words}");
    }

    #[test]
    fn a_question_says_how_many() {
        assert_eq!(Verb::Retry.question(Count::Exactly(1)), "retry 1 instance?");
        let many = Verb::Delete.question(Count::AtLeast(100_000));
        assert_eq!(many, "delete 100000+ instances?");
    }

    #[test]
    fn to_be_asked_again_is_no_refusal_and_to_have_ended_is() {
        let became = |answer: CancelAnswer| Became::from(answer);
        assert_eq!(
            became(CancelAnswer::Requested(Status::Executing)),
            Became::Done
        );
        assert_eq!(
            became(CancelAnswer::AlreadyRequested(Status::Executing)),
            Became::AskedBefore
        );
        assert_eq!(became(CancelAnswer::NeverStarted), Became::NeverStarted);
        let Became::Refused(why) = became(CancelAnswer::AlreadyEnded(Status::Done)) else {
            panic!("what has ended cannot be asked");
        };
        assert_eq!(why, "has ended already: it is done");
    }
}
