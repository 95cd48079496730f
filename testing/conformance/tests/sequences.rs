//! The model agrees with itself, which also proves that the sequences see every kind of answer.

use outlast_conformance::{Model, Subject, sequences};
use outlast_core::ManualClock;

async fn open(clock: ManualClock) -> Subject {
    Subject::new(Model::new(clock.clone()), clock)
}

#[tokio::test]
async fn the_model_agrees_with_itself() {
    sequences::compare_with_model(open).await;
}
