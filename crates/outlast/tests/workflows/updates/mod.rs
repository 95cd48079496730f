//! Updates of workflows: handlers, calls, replies, and conditions.

mod calls;
mod crashes;
mod ends;
mod handlers;
mod rejections;

use crate::support::*;
use outlast::Status;
use outlast::client::RequestError;
use outlast::machine::Request;
use outlast::prelude::*;
use outlast::store::{EventKind, NewSignal, SentUpdate, UpdateState};

/// Adds to a number, and wants the sum.
#[derive(Clone, Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
struct Add(u64);

/// Asks the workflow to let its child go.
#[derive(Clone, Signal, Serialize, Deserialize)]
#[signal(reply = String)]
struct ApproveChild {
    by: String,
}

/// Sends an update without waiting for its reply.
async fn send<R: Request>(on: &impl HasClient, to: Scripted, id: &str, request: R) {
    let sent = on.client().update(to, request).id(id);
    let sent = sent.timeout(Duration::ZERO).await;
    assert!(
        matches!(sent, Err(RequestError::TimedOut { .. })),
        "it has a reply already"
    );
}

/// Returns the reply to [`Add`] under an id, as it is now.
async fn reply(on: &impl HasClient, of: Scripted, id: &str) -> Result<u64, RequestError> {
    on.client()
        .update(of, Add(0))
        .id(id)
        .timeout(Duration::ZERO)
        .await
}

/// Returns the state of an update.
async fn state(on: &impl HasClient, of: Scripted, id: &str) -> UpdateState {
    let found = on
        .client()
        .admin()
        .update(of, id, Duration::ZERO)
        .await
        .unwrap();
    let SentUpdate { state, .. } = found.expect("there is such an update");
    state
}

/// Sends an update whose payload is this JSON.
async fn send_raw(on: &impl HasClient, to: Scripted, name: &str, id: &str, payload: Value) {
    let payload = outlast::store::Json::of(&payload).unwrap();
    let signal = NewSignal::new(to.get().into(), name, payload).update(id);
    on.client().admin().send_update(signal).await.unwrap();
}

/// Returns how many events of these kinds a history has.
async fn counts<const N: usize>(
    on: &impl HasClient,
    id: Scripted,
    kinds: [EventKind; N],
) -> [usize; N] {
    let events = history(on, id, 1).await;
    kinds.map(|kind| count(&events, kind))
}
