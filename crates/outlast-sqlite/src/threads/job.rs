//! A job: one verb on its way to a thread, and its answer on the way back.
//!
//! `store.rs` makes jobs; the writer and the readers run and answer them. A job must never be
//! answered while its transaction can still be rolled back.

use crate::error::{self, Fault};
use crate::tx::Tx;
use outlast_core::{Clock, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// What the answer of a job guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The write is on the disk.
    Durable,
    /// A loss of power may undo the write.
    ///
    /// It also stops the worker that got the answer, and another worker repeats the claim.
    Forgettable,
}

/// A verb with its answer, without their types.
pub(crate) trait Work: Send {
    /// Returns what its answer guarantees.
    fn promise(&self) -> Promise;

    /// Runs the verb at the clock's present time. Returns whether to keep its writes.
    fn run(&mut self, tx: &mut Tx<'_>, clock: &dyn Clock) -> bool;

    /// Replaces the answer with an error, because the transaction was rolled back.
    ///
    /// A verb that had already failed keeps its error.
    fn undo(&mut self, reason: &dyn Fn(&'static str) -> Error);

    /// Sends the answer to the caller.
    fn answer(self: Box<Self>);
}

struct Job<T, F> {
    operation: &'static str,
    promise: Promise,
    /// `None` once the verb has run.
    verb: Option<F>,
    /// A placeholder until [`Work::run`] or [`Work::undo`] sets it.
    result: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

/// Makes a job, and the receiver of its answer.
pub(crate) fn job<T, F>(
    operation: &'static str,
    promise: Promise,
    verb: F,
) -> (Box<dyn Work>, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let job = Job {
        operation,
        promise,
        verb: Some(verb),
        result: Err(Error::Closed { operation }),
        reply,
    };
    (Box::new(job), answer)
}

impl<T, F> Work for Job<T, F>
where
    T: Send,
    F: FnOnce(&Tx<'_>) -> Result<T, Fault> + Send,
{
    fn promise(&self) -> Promise {
        self.promise
    }

    fn run(&mut self, tx: &mut Tx<'_>, clock: &dyn Clock) -> bool {
        // The caller is gone. Skip the verb: an unreceived claim would stay with the worker until
        // it is reaped.
        if self.reply.is_closed() {
            return false;
        }
        let Some(verb) = self.verb.take() else {
            return false;
        };
        // Catches a panic, which then undoes only this verb. The thread goes on. It is unwind
        // safe: the caller rolls the verb back, and `Tx` keeps only statements that are not in
        // use.
        let run = || {
            // On the writer the lock is held by now. A heartbeat that waited for it must not renew
            // its lease in the past (docs/protocol.md, defect 16).
            tx.now = clock.now();
            verb(tx)
        };
        self.result = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(fault)) => Err(fault.during(self.operation)),
            Err(panic) => Err(error::panicked(self.operation, panic.as_ref())),
        };
        self.result.is_ok()
    }

    fn undo(&mut self, reason: &dyn Fn(&'static str) -> Error) {
        // The error of a verb that has failed says more than the reason of the group. A verb that
        // has not run has only the placeholder.
        if self.result.is_ok() || self.verb.is_some() {
            self.result = Err(reason(self.operation));
        }
    }

    fn answer(self: Box<Self>) {
        // The caller may have gone away, and then needs no answer.
        let _ = self.reply.send(self.result);
    }
}
