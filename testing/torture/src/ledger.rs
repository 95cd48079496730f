//! The ledger: what really happened, outside the database. It has every effect of a step, every
//! response to the load, and every fault.
//!
//! Each process appends to its own file and waits for the disk before it continues. So an entry in
//! the ledger is true, whatever happens to the process or the database.

use anyhow::{Context as _, Result};
use outlast_core::Joined;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// Entries per sync.
const BATCH_MAX: usize = 1_000;
/// The process that drives the load, in most scenarios.
pub(crate) const SUPERVISOR: &str = "supervisor";

/// One event. Times are in microseconds since 1970 by the machine's true clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// A step ran: its effect.
    Ran(Ran),
    /// A step of a workflow ran: its effect.
    Did(Did),
    /// An insert is about to be requested. Without a later `Inserted` its result is unknown.
    Asked { token: u64, at: i64 },
    /// An insert was acknowledged.
    Inserted(Inserted),
    /// An insert was reported as a duplicate of a key.
    Duplicate { token: u64, at: i64 },
    /// A signal was acknowledged as delivered and as new under its dedup key.
    Delivered {
        instance: i64,
        dedup: String,
        at: i64,
    },
    /// An update is about to be sent, perhaps again.
    Sent {
        instance: i64,
        update: String,
        at: i64,
    },
    /// The sender of an update was told what became of it.
    Told(Told),
    /// A verb of an operator was acknowledged.
    Operated {
        verb: String,
        instance: i64,
        at: i64,
    },
    /// A worker process was killed, frozen or resumed.
    Worker {
        name: String,
        event: WorkerEvent,
        at: i64,
    },
    /// The number of outcomes that a worker has dropped so far, because their claim was lost.
    LostOutcomes { worker: String, count: u64 },
    /// The number of joins and holds that its reconciler has repaired so far.
    Mended { worker: String, count: u64 },
    /// A fault of another process: a server was killed, cut or promoted.
    Fault { kind: String, at: i64 },
}

/// The effect of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) id: i64,
    pub(crate) step: String,
    /// The visit of the step: the revision with which the instance arrived at it.
    pub(crate) visit: i64,
    pub(crate) attempt: u32,
    pub(crate) worker: String,
    pub(crate) at: i64,
    /// The awaited signals that it received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) signals: Vec<i64>,
    /// The children of the round that it saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) children: Option<Vec<i64>>,
    /// Why the join of that round woke it, and the first failed child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) joined: Option<Joined>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_failure: Option<i64>,
    /// Whether `on_cancel` ran instead of the step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelling: bool,
    /// A number that is unique to this run of the step, where the check needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nonce: Option<u64>,
}

/// The effect of a workflow step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Did {
    pub(crate) id: i64,
    /// The run of the workflow.
    pub(crate) run: i32,
    /// Unique within the run.
    pub(crate) step: String,
    /// Its result: a number that is unique to this run of the step.
    pub(crate) nonce: u64,
    /// The numbers that the workflow has received before.
    pub(crate) follows: Vec<u64>,
    pub(crate) worker: String,
    pub(crate) at: i64,
}

/// What the sender of an update was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) instance: i64,
    /// The id of the update.
    pub(crate) update: String,
    pub(crate) answer: Answer,
    /// The value, or the reason as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<serde_json::Value>,
    /// When the update was sent.
    pub(crate) asked_at: i64,
    pub(crate) at: i64,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    Failed,
    Rejected,
    /// Its instance ended without a reply.
    Ended,
    /// It was delivered, and the sender stopped waiting before the reply.
    Pending,
    /// It was acknowledged, and its id is not that of an update afterwards.
    Missing,
}

impl Answer {
    /// Returns whether it is a reply, which stands.
    pub(crate) fn is_reply(self) -> bool {
        match self {
            Answer::Done | Answer::Failed | Answer::Rejected => true,
            Answer::Ended | Answer::Pending | Answer::Missing => false,
        }
    }
}

/// An acknowledged insert, and its expected end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inserted {
    pub(crate) token: u64,
    pub(crate) id: i64,
    pub(crate) at: i64,
    /// The expected result; `None` when several are correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<String>,
    /// The expected errors, one of which must occur; empty when the instance must not fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fails_with: Vec<String>,
    /// When the insert was sent. An instance of the same partition key that was acknowledged
    /// before must start first.
    pub(crate) asked_at: i64,
}

/// An event of a worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerEvent {
    Started,
    Killed,
    Froze,
    Thawed,
    /// It ended by itself: a step crashed it.
    Died,
    /// It was asked to stop, and did.
    Stopped,
}

/// Returns the machine's true time, even in a process with a wrong clock. It asks the kernel, not
/// the C library.
pub(crate) fn now_us() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// A process's own file of the ledger. Clones write to the same file.
#[derive(Clone)]
pub(crate) struct Ledger {
    lines: mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>,
}

impl Ledger {
    /// Opens the file of this process; `name` is unique.
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Ledger> {
        let path = folder.join(format!("{name}.ledger"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file =
            file.with_context(|| format!("the ledger {} cannot be written", path.display()))?;
        let (lines, waiting) = mpsc::channel(10_000);
        std::thread::spawn(move || write_lines(file, waiting));
        Ok(Ledger { lines })
    }

    /// Writes an entry. When this returns, the entry is on the disk.
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

/// A ledger that cannot be written is useless, so the process ends.
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

/// Reads the entries that another process writes from now on.
pub(crate) struct Tail {
    file: File,
    /// The beginning of a line whose rest is not written yet.
    torn: Vec<u8>,
}

impl Tail {
    pub(crate) fn open(folder: &Path, name: &str) -> Result<Tail> {
        let mut file = File::open(folder.join(format!("{name}.ledger")))?;
        file.seek(SeekFrom::End(0))?;
        let torn = Vec::new();
        Ok(Tail { file, torn })
    }

    /// Returns the entries since the last call. The first one is left out if its line was begun
    /// before.
    pub(crate) fn read(&mut self) -> Result<Vec<Entry>> {
        self.file.read_to_end(&mut self.torn)?;
        let whole = self.torn.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = self.torn.drain(..whole.map_or(0, |end| end + 1)).collect();
        let lines = lines.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }
}

/// Reads every entry of every process; the entries of one process are in order.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in ledgers(folder)? {
        let text = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // The last line of a killed process may be torn. It was not acknowledged, so it is
            // ignored.
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
    async fn a_tail_reads_what_is_written_after_it_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.ledger");
        fs::write(&path, b"{\"what\":\"asked\",\"token\":7,\"at\":1}\n").unwrap();
        let mut tail = Tail::open(folder.path(), "one").unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"what\":\"asked\",\"tok").unwrap();
        assert_eq!(tail.read().unwrap(), []);
        file.write_all(b"en\":8,\"at\":2}\n").unwrap();
        assert_eq!(tail.read().unwrap(), [Entry::Asked { token: 8, at: 2 }]);
        assert_eq!(tail.read().unwrap(), []);
    }

    #[tokio::test]
    async fn written_entries_are_read_again_and_a_torn_line_is_ignored() {
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
