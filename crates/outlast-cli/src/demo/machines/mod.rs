//! The machines of the demonstration. Each is small and shows another feature.

mod approval;
mod checkout;
mod fulfil;
mod invoice;
mod order;

pub(super) use approval::{Approval, Approved, Rejected, Request};
pub(super) use checkout::{Checkout, Payment, PaymentConfirmed};
pub(super) use fulfil::{Fulfil, Pack, PickedUp, PrintLabel, Purchase};
pub(super) use invoice::{Invoice, Mail};
pub(super) use order::{Fulfilment, LineItem, Order};

use std::time::Duration;

/// Sleeps as long as real work might take: instant steps would never be visible.
async fn work(at_most: Duration) {
    tokio::time::sleep(at_most.mul_f64(fastrand::f64())).await;
}

/// Returns true in this percentage of calls.
pub(super) fn happens(percent: u32) -> bool {
    fastrand::u32(0..100) < percent
}
