//! The conductor of one session: it holds each statement until the scheduler lets it run.

use async_trait::async_trait;
use outlast_postgres::Conductor;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

/// A message of a session to the scheduler.
pub(crate) enum Arrival<T> {
    /// The session stands before this statement.
    Before(&'static str),
    /// The session stands before this statement again: its transaction was rolled back after a
    /// conflict and restarted.
    Again(&'static str),
    /// The verbs of the session have ended.
    Finished(T),
}

/// Statements whose place no other session can observe.
///
/// They lock nothing, and write nothing that another verb reads. They run together with the
/// statement before them, so that only different schedules are run.
const UNOBSERVED: [&str; 3] = [
    "fire/next_due",
    "collect/collect_operations",
    "operate/record",
];

/// Statements that only read. No session can observe the commit of a transaction that only reads.
const READS: [&str; 3] = ["claim/inbox", "claim/children", "claim/held"];

/// Other texts for statements, by name.
pub(crate) type Variants = HashMap<&'static str, String>;

pub(crate) struct Gate<T> {
    session: usize,
    arrivals: UnboundedSender<(usize, Arrival<T>)>,
    grants: Semaphore,
    idle: Mutex<Vec<&'static str>>,
    open: Mutex<Open>,
    variants: Variants,
}

impl<T> Gate<T> {
    pub(crate) fn new(
        session: usize,
        arrivals: UnboundedSender<(usize, Arrival<T>)>,
        variants: Variants,
    ) -> Gate<T> {
        Gate {
            session,
            arrivals,
            grants: Semaphore::new(0),
            idle: Mutex::default(),
            open: Mutex::default(),
            variants,
        }
    }

    /// Sets the statements that find nothing to do, so that no session can observe their place.
    pub(crate) fn set_idle(&self, statements: &[&'static str]) {
        *locked(&self.idle) = statements.to_vec();
    }

    /// Forgets a transaction that an earlier verb left open.
    pub(crate) fn begin(&self) {
        *locked(&self.open) = Open::default();
    }

    /// Lets the session run the statement before which it stands.
    pub(crate) fn grant(&self) {
        self.grants.add_permits(1);
    }

    pub(crate) fn finish(&self, result: T) {
        self.send(Arrival::Finished(result));
    }

    fn send(&self, arrival: Arrival<T>) {
        // The receiver is gone only if the test has already failed.
        let _ = self.arrivals.send((self.session, arrival));
    }

    /// The message to send before this statement, or `None` if it runs without asking.
    fn arrival(&self, statement: &'static str) -> Option<Arrival<T>> {
        let mut open = locked(&self.open);
        if statement == "commit" {
            let acted = std::mem::take(&mut *open).acted;
            return acted.then_some(Arrival::Before(statement));
        }
        let again = open.first == Some(statement);
        open.first.get_or_insert(statement);
        open.acted |= !READS.contains(&statement) && !UNOBSERVED.contains(&statement);
        if UNOBSERVED.contains(&statement) || locked(&self.idle).contains(&statement) {
            return None;
        }
        Some(match again {
            true => Arrival::Again(statement),
            false => Arrival::Before(statement),
        })
    }
}

/// The open transaction: its first statement, and whether it does more than read.
#[derive(Default)]
struct Open {
    first: Option<&'static str>,
    acted: bool,
}

fn locked<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().expect("the lock is not poisoned")
}

#[async_trait]
impl<T: Send + Sync + 'static> Conductor for Gate<T> {
    async fn before(&self, statement: &'static str) {
        if let Some(arrival) = self.arrival(statement) {
            self.send(arrival);
            let granted = self.grants.acquire().await;
            granted.expect("the semaphore is never closed").forget();
        }
    }

    fn variant(&self, statement: &'static str) -> Option<&str> {
        self.variants.get(statement).map(String::as_str)
    }
}
