//! Starting instances.

use super::Client;
use crate::machine::{Id, Machine, New};
use crate::metrics;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{Hints, Inserted as Answer, Inserts, Invalid, NewInstance, Result, Start};
use std::fmt;
use std::time::Duration;

/// Rows of one transaction. It bounds the locks, the log, and how long other transactions wait.
const CHUNK: usize = 5_000;

/// The result of starting an instance.
pub enum Inserted<M> {
    /// It is stored, and runs when its turn comes.
    New(Id<M>),
    /// Its key is occupied; nothing was written.
    Duplicate {
        /// The instance that holds the key; `None` when it ended while the insert looked.
        holder: Option<Id<M>>,
    },
}

impl<M> Inserted<M> {
    /// Returns the instance with this key: the new one, or the holder.
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

// Implemented by hand, like the rest below: `M` need not implement `Debug`.
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
    /// Starts an instance. It is stored when this returns.
    pub async fn insert<M: Machine>(&self, new: New<M>) -> Result<Inserted<M>> {
        let row = self.prepare(new)?;
        let mut answers = self.insert_encoded(vec![row]).await?.into_iter();
        let answer = answers.next().unwrap_or(Answer::Duplicate { holder: None });
        Ok(Inserted::read(answer))
    }

    /// Starts any number of instances; the answers are in the caller's order.
    ///
    /// One transaction takes up to 5,000. After an error the earlier ones are stored. To be safe,
    /// give all of them keys and insert all of them again.
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
        // Checks every row before the first write.
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let answers = self.insert_encoded(rows).await?;
        Ok(answers.into_iter().map(Inserted::read).collect())
    }

    /// Like [`insert_many`](Client::insert_many), for callers without types.
    ///
    /// Other languages and the command line use it. Rows that were [prepared](Client::prepare)
    /// with this client's codec are inserted unchanged.
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

    /// Inserts one transaction.
    ///
    /// A single row goes straight into a free slot of an engine in this process.
    async fn insert_chunk(&self, mut rows: Vec<NewInstance>) -> Result<Inserts> {
        if let [row] = rows.as_slice()
            && let Some(reservation) = self.hub.reserve_for(row)
            && let Some(row) = rows.pop()
        {
            return reservation.dispatch(row).await;
        }
        self.store.insert(rows, None).await
    }

    /// Creates the row that [`insert`](Client::insert) would write, for your transaction.
    ///
    /// It has the caller's trace, and is encoded if this client has a codec.
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

/// Returns the hints for rows that start later.
///
/// Only the database can compare an absolute moment: the hint makes the picker look now, and the
/// claim answers how long to wait.
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
