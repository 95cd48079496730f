//! Fans out to its line items with a window, and joins them. They end with the order.

use super::{happens, work};
use outlast::Outcome;
use outlast::prelude::*;
use outlast::store::ClosePolicy;

/// The number of line items that are packed at a time.
const HANDS: usize = 3;
/// After this long, the parcel leaves with the items that are ready.
const DEPARTURE: Duration = Duration::from_secs(25);

/// An order of several articles.
pub(in crate::demo) struct Order;

/// The steps of an order.
#[steps]
pub(in crate::demo) enum Fulfilment {
    Pack { order: u64, articles: Vec<String> },
    Ship { order: u64 },
}

/// The items that were sent, and those that were not.
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
        match state {
            Fulfilment::Pack { order, articles } => {
                let lines = articles
                    .into_iter()
                    .map(|article| LineItem::with(Line::Pick { article }));
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
                    true => fail(format!("no article of order {order} is in stock")),
                    false => done(Shipment {
                        parcels: parcels.into_iter().flatten().collect(),
                        missing,
                    }),
                }
            }
        }
    }
}

/// One article of an order.
pub(in crate::demo) struct LineItem;

/// The steps of a line item.
#[steps]
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
            // The instance was cancelled: its next outcome ends it.
            () = cx.cancelled() => return Ok(Outcome::requeue(state)),
        }
        match state {
            Line::Pick { article } if happens(8) => fail(format!("no {article} in stock")),
            Line::Pick { article } => next(Line::Pack { article }),
            Line::Pack { article } => done(format!("a {article} in a box")),
        }
    }
}
