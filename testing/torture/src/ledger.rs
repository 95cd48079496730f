//! What really happened, outside the database: every effect of a step, every answer the load got, every fault.
//!
//! Each process appends to a file of its own and waits for the disk before it goes on, so what is in the ledger
//! happened, whatever becomes of the process or the database.

use anyhow::{Context as _, Result};
use outlast_core::Joined;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// Entries that go to the disk together.
const BATCH_MAX: usize = 1_000;

/// One thing that happened. Times are in microseconds since 1970 by the machine's true clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// A step was run: its effect.
    Ran(Ran),
    /// A step of a workflow was run: its effect.
    Did(Did),
    /// An insert is about to be asked for; whether it is done is not known unless `Inserted` follows.
    Asked { token: u64, at: i64 },
    /// An insert was acknowledged.
    Inserted(Inserted),
    /// An insert was answered as a duplicate of a key.
    Duplicate { token: u64, at: i64 },
    /// A signal was acknowledged as delivered.
    Delivered {
        signal: i64,
        instance: i64,
        dedup: String,
        at: i64,
    },
    /// An operator's verb was acknowledged.
    Operated {
        verb: String,
        instance: i64,
        at: i64,
    },
    /// A worker process was killed or stopped or let go.
    Worker {
        name: String,
        event: WorkerEvent,
        at: i64,
    },
    /// What a worker has counted so far: outcomes that were dropped, since their claim was lost.
    LostOutcomes { worker: String, count: u64 },
    /// The same: joins and holds that its reconciler had to mend.
    Mended { worker: String, count: u64 },
    /// A server was killed, cut, promoted: anything that is not a worker.
    Fault { kind: String, at: i64 },
}

/// The effect of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) id: i64,
    pub(crate) step: String,
    /// The visit of the step: the revision that brought the instance to it.
    pub(crate) visit: i64,
    pub(crate) attempt: u32,
    pub(crate) worker: String,
    pub(crate) at: i64,
    /// The awaited signals it was handed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) signals: Vec<i64>,
    /// The children of the round it saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) children: Option<Vec<i64>>,
    /// Why the join of that round woke it, and whose bad end was the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) joined: Option<Joined>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_failure: Option<i64>,
    /// Whether it was not the step that ran, but what its machine has for a cancel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelling: bool,
    /// A number that no other run of a step has, where it comes to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nonce: Option<u64>,
}

/// The effect of a step of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Did {
    pub(crate) id: i64,
    /// Which run of the workflow.
    pub(crate) run: i32,
    /// Unlike that of any other step of the run.
    pub(crate) step: String,
    /// What it comes to: a number that no other run of a step has.
    pub(crate) nonce: u64,
    /// What the workflow has been told before.
    pub(crate) follows: Vec<u64>,
    pub(crate) worker: String,
    pub(crate) at: i64,
}

/// An acknowledged insert, and what is known of how it must end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inserted {
    pub(crate) token: u64,
    pub(crate) id: i64,
    pub(crate) at: i64,
    /// The result it must have; nothing is expected when there are several right ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
    /// What its error must say, one of these; it must not fail when there is nothing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fails_with: Vec<String>,
    /// When the insert was sent: an instance of the same partition key that was acknowledged before then must
    /// start first.
    pub(crate) asked_at: i64,
}

/// What was done to a worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerEvent {
    Started,
    Killed,
    Froze,
    Thawed,
    /// It ended by itself: a step took it down.
    Died,
    /// It was asked to stop, and did.
    Stopped,
}

/// The machine's true time, also in a process whose clock is set wrong: asked of the kernel, not of the C library.
pub(crate) fn now_us() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// A process's own file of the ledger. Clones write to the same one.
#[derive(Clone)]
pub(crate) struct Ledger {
    lines: mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>,
}

impl Ledger {
    /// Opens the file for this process; `name` is unlike any other's.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Ledger> {
        let path = folder.join(format!("{name}.ledger"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file =
            file.with_context(|| format!("the ledger {} cannot be written", path.display()))?;
        let (lines, waiting) = mpsc::channel(10_000);
        std::thread::spawn(move || write_lines(file, waiting));
        Ok(Ledger { lines })
    }

    /// Writes an entry; when this returns, it is on the disk.
    pub(crate) async fn write(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).expect("an entry is plain data");
        line.push(b'\n');
        let (written, wait) = oneshot::channel();
        self.lines
            .send((line, written))
            .await
            .expect("the ledger's thread lives as long as its handles");
        wait.await
            .expect("a ledger that cannot be written ends the process");
    }
}

/// A ledger that cannot be written is worth nothing, so its process ends.
fn write_lines(mut file: File, mut waiting: mpsc::Receiver<(Vec<u8>, oneshot::Sender<()>)>) {
    let mut batch = Vec::new();
    while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        let lines: Vec<u8> = batch.iter().flat_map(|(line, _)| line).copied().collect();
        if let Err(error) = file.write_all(&lines).and_then(|()| file.sync_data()) {
            eprintln!("the ledger cannot be written: {error}");
            std::process::abort();
        }
        for (_, written) in batch.drain(..) {
            let _ = written.send(());
        }
    }
}

/// Every entry of every process, each process's in its order.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in ledgers(folder)? {
        let text = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // The last line of a killed process may be torn: it was not acknowledged, so it did not happen.
            if line.ends_with(b"\n") {
                let entry = serde_json::from_slice(line);
                entries.push(entry.with_context(|| format!("a bad line in {}", path.display()))?);
            }
        }
    }
    Ok(entries)
}

fn ledgers(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "ledger")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_written_is_read_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let entry = Entry::Asked {
            token: 7,
            at: now_us(),
        };
        Ledger::open(folder.path(), "one")
            .unwrap()
            .write(&entry)
            .await;
        let path = folder.path().join("two.ledger");
        fs::write(
            path,
            b"{\"what\":\"asked\",\"token\":8,\"at\":1}\n{\"what\":\"ask",
        )
        .unwrap();
        let entries = read_all(folder.path()).unwrap();
        assert_eq!(entries, [entry, Entry::Asked { token: 8, at: 1 }]);
    }
}
