//! The hand on one session: it lets a statement go when the scheduler says so.

use async_trait::async_trait;
use outlast_postgres::Conductor;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedSender;

/// What a session tells the scheduler.
pub(crate) enum Arrival<T> {
    /// It stands before this statement.
    Before(&'static str),
    /// The same, after its transaction was taken back and begun anew: two were in each other's way.
    Again(&'static str),
    /// Its verbs are over.
    Finished(T),
}

/// Statements whose place nobody else can tell: they lock nothing, and write nothing that another
/// verb looks at. They go with the statement before them, so that the schedules are those that differ.
const UNASKED: [&str; 3] = [
    "fire/next_due",
    "collect/collect_operations",
    "operate/record",
];

/// Statements that only read. When a transaction holds nothing else, nobody can tell when it commits.
const READS: [&str; 3] = ["claim/inbox", "claim/children", "claim/held"];

/// Other texts for statements, by their names.
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

    /// Says which statements find nothing to do, so that nobody can tell their place either.
    pub(crate) fn set_idle(&self, statements: &[&'static str]) {
        *locked(&self.idle) = statements.to_vec();
    }

    /// Forgets a transaction that a verb before this one gave up.
    pub(crate) fn begin(&self) {
        *locked(&self.open) = Open::default();
    }

    /// Lets the statement go that the session stands before.
    pub(crate) fn grant(&self) {
        self.grants.add_permits(1);
    }

    pub(crate) fn finish(&self, result: T) {
        self.tell(Arrival::Finished(result));
    }

    fn tell(&self, arrival: Arrival<T>) {
        // Nobody listens any more only when the test has failed already.
        let _ = self.arrivals.send((self.session, arrival));
    }

    /// What to tell of this statement; nothing when it goes unasked.
    fn arrival(&self, statement: &'static str) -> Option<Arrival<T>> {
        let mut open = locked(&self.open);
        if statement == "commit" {
            let acted = std::mem::take(&mut *open).acted;
            return acted.then_some(Arrival::Before(statement));
        }
        let again = open.first == Some(statement);
        open.first.get_or_insert(statement);
        open.acted |= !READS.contains(&statement) && !UNASKED.contains(&statement);
        if UNASKED.contains(&statement) || locked(&self.idle).contains(&statement) {
            return None;
        }
        Some(match again {
            true => Arrival::Again(statement),
            false => Arrival::Before(statement),
        })
    }
}

/// The transaction that is open: what it began with, and whether it does more than read.
#[derive(Default)]
struct Open {
    first: Option<&'static str>,
    acted: bool,
}

fn locked<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().expect("nobody panics with it")
}

#[async_trait]
impl<T: Send + Sync + 'static> Conductor for Gate<T> {
    async fn before(&self, statement: &'static str) {
        if let Some(arrival) = self.arrival(statement) {
            self.tell(arrival);
            let granted = self.grants.acquire().await;
            granted.expect("the gate stays").forget();
        }
    }

    fn variant(&self, statement: &'static str) -> Option<&str> {
        self.variants.get(statement).map(String::as_str)
    }
}
