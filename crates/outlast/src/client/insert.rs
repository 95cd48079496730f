//! Starting instances.

use super::Client;
use crate::machine::{Id, Machine, New};
use crate::metrics;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{Hints, Inserted as Answer, Inserts, Invalid, NewInstance, Result, Start};
use std::fmt;
use std::time::Duration;

/// Rows one transaction inserts: locks and the log stay small, and so do the waits of others.
const CHUNK: usize = 5_000;

/// What became of an instance to start.
pub enum Inserted<M> {
    /// It is in the store, and runs when its turn comes.
    New(Id<M>),
    /// Its key is occupied; nothing was written.
    Duplicate {
        /// Who holds the key; `None` when the holder ended while the insert looked.
        holder: Option<Id<M>>,
    },
}

impl<M> Inserted<M> {
    /// The instance that goes by this key now: the new one, or the holder.
    pub fn id(&self) -> Option<Id<M>> {
        match self {
            Inserted::New(id) => Some(*id),
            Inserted::Duplicate { holder } => *holder,
        }
    }

    /// Whether it was started.
    pub fn is_new(&self) -> bool {
        match self {
            Inserted::New(_) => true,
            Inserted::Duplicate { .. } => false,
        }
    }

    fn read(answer: Answer) -> Inserted<M> {
        match answer {
            Answer::New { id, .. } => Inserted::New(Id::of(id)),
            Answer::Duplicate { holder } => Inserted::Duplicate {
                holder: holder.map(Id::of),
            },
        }
    }
}

// By hand, like the rest below: a machine need not be printable for its answers to be.
impl<M> fmt::Debug for Inserted<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inserted::New(id) => f.debug_tuple("New").field(id).finish(),
            Inserted::Duplicate { holder } => {
                f.debug_struct("Duplicate").field("holder", holder).finish()
            }
        }
    }
}

impl<M> Clone for Inserted<M> {
    fn clone(&self) -> Inserted<M> {
        *self
    }
}

impl<M> Copy for Inserted<M> {}

impl<M> PartialEq for Inserted<M> {
    fn eq(&self, other: &Inserted<M>) -> bool {
        self.is_new() == other.is_new() && self.id() == other.id()
    }
}

impl<M> Eq for Inserted<M> {}

impl Client {
    /// Starts an instance. When it answers, the instance is stored.
    pub async fn insert<M: Machine>(&self, new: New<M>) -> Result<Inserted<M>> {
        let row = self.prepare(new)?;
        let mut answers = self.insert_encoded(vec![row]).await?.into_iter();
        let answer = answers.next().unwrap_or(Answer::Duplicate { holder: None });
        Ok(Inserted::read(answer))
    }

    /// Starts many instances, of any number; the answers are in the order of what was given.
    ///
    /// Up to 5,000 go in one transaction. After an error, those before it are in the store; give them keys
    /// and insert all of them again.
    pub async fn insert_many<M: Machine>(
        &self,
        new: impl IntoIterator<Item = New<M>>,
    ) -> Result<Vec<Inserted<M>>> {
        let trace = self.current_trace();
        let rows = new.into_iter().enumerate().map(|(position, new)| {
            let row = NewInstance::try_from(new.or_trace(|| trace.clone()));
            let row = row.map_err(|invalid| {
                invalid
                    .within(format_args!("instance {position}"))
                    .during("insert")
            })?;
            self.encode_row(row, || format!("instance {position}"))
        });
        // Nothing is written unless all of it can be.
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let answers = self.insert_encoded(rows).await?;
        Ok(answers.into_iter().map(Inserted::read).collect())
    }

    /// As [`insert_many`](Client::insert_many), for callers that have no types: other languages, the command
    /// line. Rows that were [prepared](Client::prepare) with this client's codec go in as they are.
    pub async fn insert_rows(&self, mut rows: Vec<NewInstance>) -> Result<Vec<Answer>> {
        if !self.coding.is_none() {
            let encoded = rows.into_iter().enumerate();
            let encoded =
                encoded.map(|(position, row)| self.encode_row(row, || format!("row {position}")));
            rows = encoded.collect::<Result<Vec<_>>>()?;
        }
        self.insert_encoded(rows).await
    }

    async fn insert_encoded(&self, rows: Vec<NewInstance>) -> Result<Vec<Answer>> {
        const _: () = assert!(CHUNK <= BATCH_MAX);
        let mut answers = Vec::with_capacity(rows.len());
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let chunk: Vec<_> = rows.by_ref().take(CHUNK).collect();
            let mut hints = later(&chunk);
            let inserts = self.insert_chunk(chunk).await?;
            hints.merge(Hints::now(inserts.woken));
            self.hub.publish(&self.store, hints);
            metrics::inserted(&inserts.rows);
            answers.extend(inserts.rows);
        }
        Ok(answers)
    }

    /// One transaction. A single row goes straight to an engine here that has nothing else to do.
    async fn insert_chunk(&self, mut rows: Vec<NewInstance>) -> Result<Inserts> {
        if let [row] = rows.as_slice()
            && let Some(reservation) = self.hub.reserve_for(row)
            && let Some(row) = rows.pop()
        {
            return reservation.dispatch(row).await;
        }
        self.store.insert(rows, None).await
    }

    /// The row that [`insert`](Client::insert) would write, with the caller's trace, encoded if this client has
    /// a codec: for inserting it in a transaction of your own.
    pub fn prepare<M: Machine>(&self, new: New<M>) -> Result<NewInstance> {
        let row = NewInstance::try_from(new.or_trace(|| self.current_trace()))
            .map_err(|invalid: Invalid| invalid.during("insert"))?;
        self.coding
            .encode_row(row)
            .map_err(|unwritable| unwritable.during("insert", None))
    }

    fn encode_row(&self, row: NewInstance, place: impl Fn() -> String) -> Result<NewInstance> {
        let encoded = self.coding.encode_row(row);
        encoded.map_err(|unwritable| unwritable.during("insert", Some(&place())))
    }
}

/// When what starts later is due. A moment is the database's to compare: its queue is looked at now, and
/// answers how long it is until then.
fn later(rows: &[NewInstance]) -> Hints {
    let mut hints = Hints::default();
    for row in rows {
        match row.start {
            Start::Now => {}
            Start::After(delay) => hints.queue(&row.queue, delay),
            Start::At(_) => hints.queue(&row.queue, Duration::ZERO),
        }
    }
    hints
}
