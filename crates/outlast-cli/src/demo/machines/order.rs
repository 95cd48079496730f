//! Fans out to its line items, a few at a time, and joins them. They end with it.

use super::{happens, work};
use outlast::prelude::*;

/// So many people pick and pack for one order.
const HANDS: usize = 3;
/// After this long the parcel goes with what there is.
const DEPARTURE: Duration = Duration::from_secs(25);

/// An order of several articles.
pub(in crate::demo) struct Order;

/// Where an order stands.
#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(in crate::demo) enum Fulfilment {
    Pack { order: u64, articles: Vec<String> },
    Ship { order: u64 },
}

/// What was sent, and what could not be.
#[derive(Serialize, Deserialize)]
pub(in crate::demo) struct Shipment {
    parcels: Vec<String>,
    missing: usize,
}

impl Machine for Order {
    const NAME: &'static str = "order";
    type State = Fulfilment;
    type Output = Shipment;

    async fn step(&self, state: Fulfilment, cx: &Context) -> StepResult<Self> {
        Ok(match state {
            Fulfilment::Pack { order, articles } => {
                let lines = articles
                    .into_iter()
                    .map(|article| New::<LineItem>(Line::Pick { article }));
                fan_out(lines)
                    .window(HANDS)
                    .deadline(DEPARTURE)
                    .cancel_rest()
                    .on_parent_close(ClosePolicy::RequestCancel)
                    .then(Fulfilment::Ship { order })
            }
            Fulfilment::Ship { order } => {
                let lines = cx.children::<LineItem>()?.into_iter();
                let parcels: Vec<_> = lines.map(|line| line.into_output().ok()).collect();
                let missing = parcels.iter().filter(|parcel| parcel.is_none()).count();
                work(Duration::from_secs(1)).await;
                match missing == parcels.len() {
                    true => Outcome::fail(format!("nothing of order {order} is in stock")),
                    false => Outcome::done(Shipment {
                        parcels: parcels.into_iter().flatten().collect(),
                        missing,
                    }),
                }
            }
        })
    }
}

/// One article of an order.
pub(in crate::demo) struct LineItem;

/// Where a line stands.
#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
pub(in crate::demo) enum Line {
    Pick { article: String },
    Pack { article: String },
}

impl Machine for LineItem {
    const NAME: &'static str = "line_item";
    type State = Line;
    type Output = String;

    async fn step(&self, state: Line, cx: &Context) -> StepResult<Self> {
        tokio::select! {
            () = work(Duration::from_millis(2_500)) => {}
            // Nobody wants it any more: what comes next is that it ends.
            () = cx.cancelled() => return Ok(Outcome::requeue(state)),
        }
        Ok(match state {
            Line::Pick { article } if happens(8) => Outcome::fail(format!("no {article} in stock")),
            Line::Pick { article } => Outcome::next(Line::Pack { article }),
            Line::Pack { article } => Outcome::done(format!("a {article} in a box")),
        })
    }
}
