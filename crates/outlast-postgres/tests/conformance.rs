//! The PostgreSQL store keeps every rule of the contract, and agrees with the reference model
//! (I12).

mod support;

use outlast_conformance::{Subject, sequences};
use outlast_core::ManualClock;

async fn open_at(clock: ManualClock) -> Subject {
    support::subject(|options| options, clock).await
}

async fn open() -> Subject {
    open_at(ManualClock::default()).await
}

outlast_conformance::conformance_suite!(open);

#[tokio::test]
async fn the_store_agrees_with_the_model() {
    sequences::compare_with_model(open_at).await;
}
