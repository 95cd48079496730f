//! The machines of the demonstration. Each is small and shows another feature.

mod approval;
mod checkout;
mod invoice;
mod order;
mod purchase;

pub(super) use approval::{Approval, Approved, Rejected, Request};
pub(super) use checkout::{Checkout, Payment, PaymentConfirmed};
pub(super) use invoice::{Mail, send_invoice};
pub(super) use order::{Fulfilment, LineItem, Order};
pub(super) use purchase::{PickedUp, Purchase, fulfil, pack, print_label};

use std::time::Duration;

/// Sleeps as long as real work might take: instant steps would never be visible.
async fn work(at_most: Duration) {
    tokio::time::sleep(at_most.mul_f64(fastrand::f64())).await;
}

/// Returns true in this percentage of calls.
pub(super) fn happens(percent: u32) -> bool {
    fastrand::u32(0..100) < percent
}
