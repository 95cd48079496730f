//! Compares the model with itself. This also shows that the sequences produce every kind of
//! answer.

use outlast_conformance::{Model, Subject, sequences};
use outlast_core::ManualClock;

async fn open(clock: ManualClock) -> Subject {
    Subject::new(Model::new(clock.clone()), clock)
}

#[tokio::test]
async fn the_model_agrees_with_itself() {
    sequences::compare_with_model(open).await;
}
