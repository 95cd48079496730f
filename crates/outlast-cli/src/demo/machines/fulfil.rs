//! A workflow: one function that reserves, packs, waits for a courier, and starts over for
//! subscriptions.

use super::{happens, work};
use outlast::prelude::*;

/// How long the parcels wait for a courier.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a parcel is on its way.
const JOURNEY: Duration = Duration::from_secs(4);

/// A purchase from reservation to delivery.
pub(in crate::demo) struct Fulfil;

/// The input of the workflow.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::demo) struct Purchase {
    pub(in crate::demo) order: u64,
    pub(in crate::demo) articles: Vec<String>,
    /// The number of deliveries left: each is a run.
    pub(in crate::demo) deliveries: u32,
}

/// A courier has the parcels.
#[derive(Serialize, Deserialize)]
pub(in crate::demo) struct PickedUp {
    pub(in crate::demo) courier: String,
}

impl Signal for PickedUp {
    const NAME: &'static str = "picked_up";
}

impl Workflow for Fulfil {
    const NAME: &'static str = "fulfil";
    type Input = Purchase;
    type Output = String;

    async fn run(&self, flow: Flow, purchase: Purchase) -> FlowResult<String> {
        let order = purchase.order;
        let hold = flow.step("reserve", async move || {
            work(Duration::from_millis(800)).await;
            Ok::<_, String>(format!("hold-{order}"))
        });
        let hold = hold.await?;
        let parcels = purchase.articles.iter();
        let parcels = parcels.map(|article| flow.activity(Pack, article.clone()));
        let parcels: Vec<_> = parcels.collect();
        let packed = flow
            .all((flow.child::<PrintLabel>(order), parcels))
            .cancel_rest()
            .await;
        let (label, parcels) = match packed {
            Ok(packed) => packed,
            Err(error) if error.is_cancelled() => return Err(error),
            Err(error) => {
                let released = flow.step("release", async move || {
                    work(Duration::from_millis(300)).await;
                    Ok::<_, String>(format!("released {hold}"))
                });
                released.await?;
                return Err(flow.fail(error));
            }
        };
        let Some(pickup) = flow.signal::<PickedUp>().timeout(PATIENCE).await? else {
            return Err(flow.fail("no courier came"));
        };
        flow.sleep(JOURNEY).await?;
        if purchase.deliveries > 1 {
            return flow.continue_as_new(Purchase {
                deliveries: purchase.deliveries - 1,
                ..purchase
            });
        }
        let (parcels, courier) = (parcels.len(), pickup.courier);
        Ok(format!(
            "{parcels} parcels with {label}, delivered by {courier}"
        ))
    }
}

/// Packs one article. It succeeds at the third attempt at the latest.
pub(in crate::demo) struct Pack;

impl Job for Pack {
    const NAME: &'static str = "pack";
    type Args = String;
    type Output = String;

    async fn perform(&self, article: String, cx: &Context) -> Result<String, JobError> {
        work(Duration::from_millis(2_500)).await;
        if happens(2) {
            return Err(JobError::fatal(format!("the {article} is broken")));
        }
        if cx.attempt() < 2 && happens(15) {
            return Err(JobError::retry("the box was too small"));
        }
        Ok(format!("a {article} in a box"))
    }
}

/// Prints the label of an order: a workflow that other workflows start.
pub(in crate::demo) struct PrintLabel;

impl Workflow for PrintLabel {
    const NAME: &'static str = "print_label";
    type Input = u64;
    type Output = String;

    async fn run(&self, flow: Flow, order: u64) -> FlowResult<String> {
        flow.sleep(Duration::from_secs(1)).await?;
        let print = flow.step("print", async move || {
            work(Duration::from_millis(600)).await;
            Ok::<_, String>(format!("label {order}"))
        });
        print.await
    }
}
