//! One verb on its way to a thread and back.

use crate::error::{self, Fault};
use crate::tx::Tx;
use outlast_core::{Clock, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// What an answer promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// It is on the disk.
    Durable,
    /// A loss of power may take it back. Then nobody is left who was told, and somebody does it again.
    Forgettable,
}

/// A verb with its answer, whatever their types.
pub(crate) trait Work: Send {
    /// What its answer promises.
    fn promise(&self) -> Promise;

    /// Runs the verb at the clock's moment. Answers whether what it wrote is to stay.
    fn run(&mut self, tx: &mut Tx<'_>, clock: &dyn Clock) -> bool;

    /// Takes back an answer whose transaction came to nothing. One that had failed by itself keeps its
    /// own error.
    fn undo(&mut self, reason: &dyn Fn(&'static str) -> Error);

    /// Tells whoever asked.
    fn answer(self: Box<Self>);
}

struct Job<T, F> {
    operation: &'static str,
    promise: Promise,
    verb: Option<F>,
    result: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

/// A job, and where its answer arrives.
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
        // Nobody waits any more: a claim that nobody receives would only lie there until it is reaped.
        if self.reply.is_closed() {
            return false;
        }
        let Some(verb) = self.verb.take() else {
            return false;
        };
        // A panic undoes this verb and no other, and the thread lives on.
        let run = || {
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
        if self.result.is_ok() || self.verb.is_some() {
            self.result = Err(reason(self.operation));
        }
    }

    fn answer(self: Box<Self>) {
        // An asker that went away needs no answer.
        let _ = self.reply.send(self.result);
    }
}
