//! Starting instances.

use super::{Admin, Client, Handle};
use crate::definition::{Durable, New};
use crate::metrics;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{Error, Hints, Inserted, Inserts, Invalid, NewInstance, Result, Start};
use std::time::Duration;

/// Rows of one transaction. It bounds the locks, the log, and how long other transactions wait.
const CHUNK: usize = 5_000;

impl Client {
    /// Starts an instance. It is stored when this returns.
    ///
    /// When another live instance holds its key, nothing is written: the handle is that of the
    /// holder, and [`is_new`](Handle::is_new) is false.
    ///
    /// ```
    /// # use outlast::{Client, Sqlite, prelude::*};
    /// # #[job] async fn greet(name: String) -> std::io::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> outlast::Result<()> {
    /// # let client = Client::new(Sqlite::in_memory()?);
    /// let first = client.start(greet::with("Ada".to_owned()).key("ada")).await?;
    /// let second = client.start(greet::with("Ada".to_owned()).key("ada")).await?;
    /// assert_eq!(first.id(), second.id());
    /// assert!(first.is_new() && !second.is_new());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start<D: Durable>(&self, new: New<D>) -> Result<Handle<D>> {
        let row = self.prepare(new)?;
        let key = key_of(&row);
        let answer = self.insert_encoded(vec![row]).await?.pop();
        self.started(answer, key).await
    }

    /// Starts any number of instances; the handles are in the caller's order.
    ///
    /// One transaction takes up to 5,000. After an error the earlier ones are stored. To be safe,
    /// give all of them keys and start all of them again.
    pub async fn start_many<D: Durable>(
        &self,
        new: impl IntoIterator<Item = New<D>>,
    ) -> Result<Vec<Handle<D>>> {
        let trace = self.current_trace();
        let rows = new.into_iter().enumerate().map(|(position, new)| {
            let row = NewInstance::try_from(new.or_trace(|| trace.clone()));
            let row = row.map_err(|invalid| {
                invalid
                    .within(format_args!("instance {position}"))
                    .during("start")
            })?;
            self.encode_row(row, || format!("instance {position}"))
        });
        // Checks every row before the first write.
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let keys: Vec<_> = rows.iter().map(key_of).collect();
        let answers = self.insert_encoded(rows).await?;
        let mut handles = Vec::with_capacity(answers.len());
        for (answer, key) in answers.into_iter().zip(keys) {
            handles.push(self.started(Some(answer), key).await?);
        }
        Ok(handles)
    }

    /// Returns the handle of a new instance, or of the instance that held its key.
    async fn started<D: Durable>(
        &self,
        answer: Option<Inserted>,
        key: Option<String>,
    ) -> Result<Handle<D>> {
        let is_new = matches!(answer, Some(Inserted::New { .. }));
        let known = match answer {
            Some(Inserted::New { id, .. }) => Some(id),
            Some(Inserted::Duplicate { holder }) => holder,
            None => None,
        };
        if let Some(id) = known {
            return Ok(Handle::new(self.clone(), id, key, is_new));
        }
        // The holder ended while the insert looked. It is still found as the last one.
        let found = match &key {
            Some(key) => self.store.find(D::NAME, key).await?,
            None => None,
        };
        match found {
            Some(holder) => Ok(Handle::new(self.clone(), holder.id, key, false)),
            None => Err(Error::Transient {
                operation: "start",
                reason: "the instance that held the key has ended and was removed meanwhile; start it again".into(),
                source: None,
            }),
        }
    }

    async fn insert_encoded(&self, rows: Vec<NewInstance>) -> Result<Vec<Inserted>> {
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

    /// Creates the row that [`start`](Client::start) would write, for your transaction.
    ///
    /// It has the caller's trace, and is encoded if this client has a codec.
    pub fn prepare<D>(&self, new: New<D>) -> Result<NewInstance> {
        self.prepare_during(new, "start")
    }

    pub(super) fn prepare_during<D>(
        &self,
        new: New<D>,
        operation: &'static str,
    ) -> Result<NewInstance> {
        let row = NewInstance::try_from(new.or_trace(|| self.current_trace()))
            .map_err(|invalid: Invalid| invalid.during(operation))?;
        self.coding
            .encode_row(row)
            .map_err(|unwritable| unwritable.during(operation, None))
    }

    fn encode_row(&self, row: NewInstance, place: impl Fn() -> String) -> Result<NewInstance> {
        let encoded = self.coding.encode_row(row);
        encoded.map_err(|unwritable| unwritable.during("start", Some(&place())))
    }
}

impl Admin<'_> {
    /// Starts instances without types, for other languages and the command line.
    ///
    /// The answers are in the caller's order. Rows that were [prepared](Client::prepare) with this
    /// client's codec are inserted unchanged.
    pub async fn insert_rows(self, mut rows: Vec<NewInstance>) -> Result<Vec<Inserted>> {
        if !self.client.coding.is_none() {
            let encoded = rows.into_iter().enumerate();
            let encoded = encoded
                .map(|(position, row)| self.client.encode_row(row, || format!("row {position}")));
            rows = encoded.collect::<Result<Vec<_>>>()?;
        }
        self.client.insert_encoded(rows).await
    }
}

fn key_of(row: &NewInstance) -> Option<String> {
    row.correlation.as_ref().map(|it| it.key.clone())
}

/// Returns the hints for rows that start later or have a timeout.
///
/// Only the database can compare an absolute moment: the hint makes the picker look now, and the
/// claim answers how long to wait. The timers look often enough for such a row.
fn later(rows: &[NewInstance]) -> Hints {
    let mut hints = Hints::default();
    for row in rows {
        match row.start {
            Start::Now => {}
            Start::After(delay) => hints.queue(&row.queue, delay),
            Start::At(_) => hints.queue(&row.queue, Duration::ZERO),
        }
        let timeout = [row.timeout, row.run_timeout].into_iter().flatten().min();
        match (timeout, row.start) {
            (Some(timeout), Start::Now) => hints.deadline(timeout),
            (Some(timeout), Start::After(delay)) => hints.deadline(delay + timeout),
            (Some(_), Start::At(_)) | (None, _) => {}
        }
    }
    hints
}
