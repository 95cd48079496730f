//! A workflow: one function that reserves, packs, waits for a courier, and starts over for
//! subscriptions.

use super::{happens, work};
use outlast::JobError;
use outlast::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long the parcels wait for a courier.
const PATIENCE: Duration = MINUTE;
/// How long a parcel is on its way.
const JOURNEY: Duration = Duration::from_secs(4);

/// The input of the workflow.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::demo) struct Purchase {
    pub(in crate::demo) order: u64,
    pub(in crate::demo) articles: Vec<String>,
    /// The number of deliveries left: each is a run.
    pub(in crate::demo) deliveries: u32,
}

/// A courier has the parcels.
#[derive(Signal, Serialize, Deserialize)]
pub(in crate::demo) struct PickedUp {
    pub(in crate::demo) courier: String,
}

/// Asks a purchase where its parcels are.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = String)]
pub(in crate::demo) struct Whereabouts;

/// A purchase from reservation to delivery.
#[workflow]
pub(in crate::demo) async fn fulfil(flow: Flow, purchase: Purchase) -> FlowResult<String> {
    let order = purchase.order;
    let place = Arc::new(Mutex::new("in the shelves".to_owned()));
    let seen = place.clone();
    flow.on_query(move |_: Whereabouts| Ok(lock(&seen).clone()))?;
    let hold = flow.step("reserve", async || reserve(order).await).await?;
    let articles = purchase.articles.iter().cloned();
    let parcels: Vec<_> = articles
        .map(|article| flow.run(pack::with(article)))
        .collect();
    let packed = flow
        .all((flow.run(print_label::with(order)), parcels))
        .cancel_rest()
        .await;
    let (label, parcels) = match packed {
        Ok(packed) => packed,
        Err(error) if error.is_cancelled() => return Err(error),
        Err(error) => {
            flow.step("release", async || release(&hold).await).await?;
            return flow.fail(error);
        }
    };
    *lock(&place) = format!("packed, as {} parcels", parcels.len());
    let Some(pickup) = flow.signal::<PickedUp>().timeout(PATIENCE).await? else {
        return flow.fail("no courier came");
    };
    *lock(&place) = format!("with {}", pickup.courier);
    flow.sleep(JOURNEY).await?;
    if purchase.deliveries > 1 {
        return flow.continue_as_new(Purchase {
            deliveries: purchase.deliveries - 1,
            ..purchase
        });
    }
    *lock(&place) = "delivered".into();
    let (parcels, courier) = (parcels.len(), pickup.courier);
    Ok(format!(
        "{parcels} parcels with {label}, delivered by {courier}"
    ))
}

/// Locks what the code and its handler share.
fn lock(place: &Mutex<String>) -> MutexGuard<'_, String> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packs one article. It succeeds at the third attempt at the latest.
#[job]
pub(in crate::demo) async fn pack(article: String, cx: &Context) -> Result<String, JobError> {
    work(Duration::from_millis(2_500)).await;
    if happens(2) {
        return Err(JobError::fatal(format!("the {article} is broken")));
    }
    if cx.attempt() < 2 && happens(15) {
        return Err(JobError::retry("the box was too small"));
    }
    Ok(format!("a {article} in a box"))
}

/// Prints the label of an order: a workflow that other workflows start.
#[workflow]
pub(in crate::demo) async fn print_label(flow: Flow, order: u64) -> FlowResult<String> {
    flow.sleep(Duration::from_secs(1)).await?;
    flow.step("print", async || print(order).await).await
}

/// Calls the warehouse.
async fn reserve(order: u64) -> std::io::Result<String> {
    work(Duration::from_millis(800)).await;
    Ok(format!("hold-{order}"))
}

/// Calls the warehouse.
async fn release(hold: &str) -> std::io::Result<String> {
    work(Duration::from_millis(300)).await;
    Ok(format!("released {hold}"))
}

/// Calls the printer.
async fn print(order: u64) -> std::io::Result<String> {
    work(Duration::from_millis(600)).await;
    Ok(format!("label {order}"))
}
