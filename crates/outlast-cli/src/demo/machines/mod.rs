//! What the demonstration runs: small, and each for something else that instances do.

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

/// Takes as long as real work might: steps that take no time are never seen.
async fn work(at_most: Duration) {
    tokio::time::sleep(at_most.mul_f64(fastrand::f64())).await;
}

/// Whether something happens that happens in so many of a hundred cases.
pub(super) fn happens(percent: u32) -> bool {
    fastrand::u32(0..100) < percent
}
