//! Runs the conformance suite and the comparison with the model, on a store in memory and on one
//! in a file.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_conformance::{Subject, sequences};
use outlast_core::ManualClock;
use outlast_sqlite::{Sqlite, Synchronous};

async fn in_memory_at(clock: ManualClock) -> Subject {
    Subject::new(scene::in_memory(&clock), clock)
}

/// Its commits do not wait for the disk: there are many, and no result of a verb depends on it.
async fn in_a_file_at(clock: ManualClock) -> Subject {
    let (folder, path) = scene::new_path();
    let store = Sqlite::options()
        .clock(clock.clone())
        .synchronous(Synchronous::Off)
        .open(path)
        .unwrap();
    Subject::new(store, clock).guarded_by(folder)
}

mod memory {
    use super::*;

    async fn open() -> Subject {
        in_memory_at(ManualClock::default()).await
    }

    outlast_conformance::conformance_suite!(open);

    #[tokio::test]
    async fn the_store_agrees_with_the_model() {
        sequences::compare_with_model(in_memory_at).await;
    }
}

mod file {
    use super::*;

    async fn open() -> Subject {
        in_a_file_at(ManualClock::default()).await
    }

    outlast_conformance::conformance_suite!(open);

    #[tokio::test]
    async fn the_store_agrees_with_the_model() {
        sequences::compare_with_model(in_a_file_at).await;
    }
}
