//! One verb on its way to a thread and back.

use crate::error::{self, Fault};
use outlast_core::{Clock, Error, Result, Timestamp};
use rusqlite::{CachedStatement, Connection};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// The transaction a verb runs in, and its moment.
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) now: Timestamp,
}

impl<'a> Tx<'a> {
    /// A statement of `sql/`, prepared once per connection.
    pub(crate) fn prepare(&self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql)
    }
}

/// A verb with its answer, whatever their types.
pub(crate) trait Work: Send {
    /// Runs the verb at the clock's moment. Answers whether what it wrote is to stay.
    fn run(&mut self, connection: &Connection, clock: &dyn Clock) -> bool;

    /// Takes back an answer whose transaction came to nothing. One that had failed by itself keeps its
    /// own error.
    fn undo(&mut self, reason: &dyn Fn(&'static str) -> Error);

    /// Tells whoever asked.
    fn answer(self: Box<Self>);
}

struct Job<T, F> {
    operation: &'static str,
    verb: Option<F>,
    result: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

/// A job, and where its answer arrives.
pub(crate) fn job<T, F>(
    operation: &'static str,
    verb: F,
) -> (Box<dyn Work>, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let job = Job {
        operation,
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
    fn run(&mut self, connection: &Connection, clock: &dyn Clock) -> bool {
        // Nobody waits any more: a claim that nobody receives would only lie there until it is reaped.
        if self.reply.is_closed() {
            return false;
        }
        let Some(verb) = self.verb.take() else {
            return false;
        };
        // A panic undoes this verb and no other, and the thread lives on.
        let run = || {
            verb(&Tx {
                connection,
                now: clock.now(),
            })
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
