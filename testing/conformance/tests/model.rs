//! The model keeps every rule itself, which also proves that the suite can be run.

use outlast_conformance::{Model, Subject};
use outlast_core::ManualClock;

async fn open() -> Subject {
    let clock = ManualClock::default();
    Subject::new(Model::new(clock.clone()), clock)
}

outlast_conformance::conformance_suite!(open);
