//! Reading views: values that workflows publish.

use super::handle::FOREVER;
use super::{Admin, Client, Handle};
use crate::error::{LookupError, decode};
use futures_util::future::BoxFuture;
use outlast_core::{InstanceId, Result, Revision, Timestamp, View};
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::time::Instant;

/// The longest pause between two looks. A node without an engine receives no hints from other
/// nodes.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl<D> Handle<D> {
    /// Reads what its code [published](crate::Flow::publish) under this name: await it.
    ///
    /// The answer is `None` while nothing is published. It needs no worker. A machine publishes
    /// nothing: its [`state`](Handle::state) is its view.
    pub fn view<T: DeserializeOwned>(&self, name: impl Into<String>) -> Viewing<'_, T> {
        Viewing {
            client: self.client(),
            id: self.id().get(),
            name: name.into(),
            after: None,
            at_most: Duration::ZERO,
            value: PhantomData,
        }
    }
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOf<T> {
    /// The value.
    pub value: T,
    /// The revision of the instance that wrote it. A later value has a higher one.
    pub revision: Revision,
    /// When it was written.
    pub at: Timestamp,
}

/// A view to read; made by [`Handle::view`]. Await it.
#[must_use = "await it"]
pub struct Viewing<'a, T> {
    client: &'a Client,
    id: InstanceId,
    name: String,
    after: Option<Revision>,
    at_most: Duration,
    value: PhantomData<fn() -> T>,
}

impl<T> Viewing<'_, T> {
    /// Waits for a value that is newer than this revision, at most this long.
    ///
    /// Take [`ViewOf::revision`] of the last answer. The answer is `None` when the time is up, and
    /// when the instance has ended without a newer value.
    pub fn newer_than(mut self, revision: Revision, at_most: Duration) -> Self {
        self.after = Some(revision);
        self.at_most = at_most;
        self
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for Viewing<'a, T> {
    type Output = Result<Option<ViewOf<T>>, LookupError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Viewing {
            client,
            id,
            name,
            after,
            at_most,
            ..
        } = self;
        Box::pin(async move {
            let view = client.admin().view(id, &name, after, at_most).await?;
            view.map(|view| typed(id, view)).transpose()
        })
    }
}

fn typed<T: DeserializeOwned>(id: InstanceId, view: View) -> Result<ViewOf<T>, LookupError> {
    let value = decode(&view.data).map_err(|invalid| LookupError::Undecodable {
        id,
        invalid: invalid.within(format_args!("view {:?}", view.name)),
    })?;
    Ok(ViewOf {
        value,
        revision: view.revision,
        at: view.at,
    })
}

// By hand: the view need not implement `Debug`.
impl<T> fmt::Debug for Viewing<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewing")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Admin<'_> {
    /// Reads all views of an instance, by name.
    ///
    /// At most [`VIEWS_MAX`](outlast_core::limits::VIEWS_MAX). Empty when there is no such
    /// instance.
    pub async fn views(self, id: impl Into<InstanceId>) -> Result<Vec<View>> {
        self.read_views(id.into(), None).await
    }

    /// Reads one view. With `after`, waits at most this long for one with a higher revision.
    ///
    /// The answer is `None` when there is none: then nothing is published under this name, the
    /// time is up, or the instance has ended.
    pub async fn view(
        self,
        id: impl Into<InstanceId>,
        name: &str,
        after: Option<Revision>,
        at_most: Duration,
    ) -> Result<Option<View>, LookupError> {
        let id = id.into();
        // A longer time has no representable end.
        let deadline = Instant::now() + at_most.min(FOREVER);
        let watch = self.client.hub.watch(id);
        let mut pause = Duration::from_millis(5);
        loop {
            // Read before the view: the last value of an instance that has ended is not missed.
            let Some(instance) = self.client.store.get(id).await? else {
                return Err(LookupError::NotFound { target: id.into() });
            };
            let view = self.read_views(id, Some(name)).await?.pop();
            let is_newer = |view: &View| after.is_none_or(|after| view.revision > after);
            if let Some(view) = view.filter(is_newer) {
                return Ok(Some(view));
            }
            if after.is_none() || instance.status.is_terminal() || Instant::now() >= deadline {
                return Ok(None);
            }
            let next_look = (Instant::now() + pause).min(deadline);
            // A timeout means only that it is time to look.
            let _ = tokio::time::timeout_at(next_look, watch.moved()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn read_views(self, id: InstanceId, name: Option<&str>) -> Result<Vec<View>> {
        let client = self.client;
        let mut views = client.store.views(id, name).await?;
        if !views.is_empty() && !client.coding.is_none() {
            let found = client.store.get(id).await?;
            let machine = found.map(|instance| instance.machine).unwrap_or_default();
            client
                .coding
                .decode_views(&machine, id, &mut views, "views")?;
        }
        Ok(views)
    }
}
