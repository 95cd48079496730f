//! Asking workflows: queries, which their code answers where it is.

use super::{Admin, Client, Handle};
use crate::error::{LookupError, RequestError};
use crate::machine::Request;
use crate::workflow::{Replayed, Workflow};
use outlast_core::{InstanceId, Json, MachineVersion};

impl<W: Workflow> Handle<W> {
    /// Asks its code, which answers with a handler that it has
    /// [registered](crate::Flow::on_query).
    ///
    /// The committed history is replayed here, in memory, and the handler is called. Nothing is
    /// written, sent or run, and no worker takes part. So it works while the instance waits, runs
    /// elsewhere, is blocked, or has ended.
    ///
    /// The code must be here: the handle comes from an engine in which the workflow is registered,
    /// or from a client of that engine. An engine with [`Roles::WEB`](crate::engine::Roles::WEB)
    /// is enough. Elsewhere the error is [`RequestError::NoCode`], and a
    /// [`view`](Handle::view) can be read.
    ///
    /// The replay runs on the calling task. A long history takes time, and code that never
    /// returns blocks the caller as it would block a worker.
    ///
    /// A run that no worker has begun is replayed up to its first call. Its random values are
    /// those of the run; its time is the time of the query.
    pub async fn query<Q: Request>(&self, query: Q) -> Result<Q::Reply, RequestError> {
        let id = self.id().get();
        let payload = query.payload().map_err(|invalid| RequestError::Malformed {
            request: Q::NAME.to_owned(),
            invalid,
        })?;
        let reply = self.client().admin().query(id, Q::NAME, &payload).await?;
        reply.decode().map_err(|invalid| RequestError::Undecodable {
            id,
            invalid: invalid.within(format_args!("reply to {}", Q::NAME)),
        })
    }
}

impl Admin<'_> {
    /// Asks a workflow without types: [`Handle::query`].
    pub async fn query(
        self,
        id: impl Into<InstanceId>,
        name: &str,
        query: &Json,
    ) -> Result<Json, RequestError> {
        let replayed = self.client.replayed(id.into()).await?;
        replayed.answer(name, query)
    }

    /// Lists the names of the queries that a workflow answers now, in order.
    ///
    /// It replays the history, as a query does.
    pub async fn queries(self, id: impl Into<InstanceId>) -> Result<Vec<String>, RequestError> {
        let replayed = self.client.replayed(id.into()).await?;
        Ok(replayed.names().into_iter().map(str::to_owned).collect())
    }
}

impl Client {
    async fn replayed(&self, id: InstanceId) -> Result<Replayed, RequestError> {
        let Some(row) = self.find(id).await? else {
            return Err(LookupError::NotFound { target: id.into() }.into());
        };
        let code = self.code.upgrade();
        let registered = code.as_ref().and_then(|code| {
            let registered = code.registry.get(&row.machine, row.version)?;
            Some((registered, &code.provided))
        });
        let Some((registered, provided)) = registered else {
            let definition = MachineVersion::new(&row.machine, row.version);
            return Err(RequestError::NoCode { definition });
        };
        registered.replay(self, &row, provided).await
    }
}
