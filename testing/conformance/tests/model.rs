//! Runs the suite against the model. This also shows that a store can pass every rule.

use outlast_conformance::{Model, Subject};
use outlast_core::ManualClock;

async fn open() -> Subject {
    let clock = ManualClock::default();
    Subject::new(Model::new(clock.clone()), clock)
}

outlast_conformance::conformance_suite!(open);
