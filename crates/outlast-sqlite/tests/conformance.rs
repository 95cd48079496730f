//! Runs the conformance suite and the comparison with the model, on a store in memory and on one
//! in a file.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_conformance::repairs::Editor;
use outlast_conformance::{Subject, sequences};
use outlast_core::{InstanceId, ManualClock};
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

/// Edits the file of a store.
struct FileEditor(std::path::PathBuf);

#[async_trait::async_trait]
impl Editor for FileEditor {
    async fn edit(&self, id: InstanceId, changes: &str) {
        let changes = changes.replace("TIME(", "(");
        let sql = format!("update instances set {changes} where id = {id}");
        let connection = rusqlite::Connection::open(&self.0).unwrap();
        assert_eq!(connection.execute(&sql, []).unwrap(), 1);
    }
}

mod repairs {
    use super::*;

    async fn open() -> (Subject, FileEditor) {
        let (clock, (folder, path)) = (ManualClock::default(), scene::new_path());
        let store = Sqlite::options().clock(clock.clone());
        let store = store.synchronous(Synchronous::Off).open(&path).unwrap();
        let subject = Subject::new(store, clock).guarded_by(folder);
        (subject, FileEditor(path))
    }

    outlast_conformance::repair_suite!(open);
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
