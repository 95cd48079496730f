//! How a store is opened.

use crate::Sqlite;
use outlast_core::{Clock, Result, SystemClock};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How to open a store; made by [`Sqlite::options`].
///
/// ```
/// use outlast_sqlite::{Sqlite, Synchronous};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db");
/// let store = Sqlite::options()
///     .synchronous(Synchronous::Normal)
///     .busy_timeout(Duration::from_secs(30))
///     .open(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) synchronous: Synchronous,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) size_max_bytes: Option<u64>,
    pub(crate) read_only: bool,
}

/// How far an answer can be trusted when the machine loses power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// What was answered is on the disk. Only claims may be forgotten, and are then made again.
    #[default]
    Full,
    /// What was answered survives the death of the process. A loss of power may take the last moments
    /// with it: acknowledged inserts and outcomes among them.
    Normal,
    /// Nothing is waited for. A loss of power may leave the file unreadable; for data that can be made
    /// again.
    Off,
}

impl Options {
    /// What a commit waits for. Default: [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Options {
        self.synchronous = synchronous;
        self
    }

    /// Where the store takes its time from. Default: the machine's clock.
    pub fn clock(mut self, clock: impl Clock) -> Options {
        self.clock = Arc::new(clock);
        self
    }

    /// How long a verb waits while another process writes to the file. Default: 5 seconds.
    pub fn busy_timeout(mut self, timeout: Duration) -> Options {
        self.busy_timeout = timeout;
        self
    }

    /// How many questions are answered at a time; each takes a thread and a connection. Default: 4, at
    /// least 1. In memory there are none: questions go through the writer.
    pub fn readers(mut self, readers: usize) -> Options {
        self.readers = readers.max(1);
        self
    }

    /// How large the database may grow, not counting its write-ahead log. A verb that needs more answers
    /// a transient error, as on a full disk; removing instances makes room again. Default: no limit.
    pub fn size_max_bytes(mut self, bytes: u64) -> Options {
        self.size_max_bytes = Some(bytes);
        self
    }

    /// Opens a file only to look at it, also where it cannot be written: questions are answered, and verbs that write fail.
    /// The file must be there and have this version's schema. Default: off.
    pub fn read_only(mut self) -> Options {
        self.read_only = true;
        self
    }

    /// Opens the file at `path`, creates it if there is none, and brings its schema up to date. Blocks
    /// for a moment.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Sqlite> {
        Sqlite::start(self, Some(path.as_ref()))
    }

    /// A store that lives as long as its last handle.
    pub fn in_memory(self) -> Result<Sqlite> {
        Sqlite::start(self, None)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            synchronous: Synchronous::default(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            size_max_bytes: None,
            read_only: false,
        }
    }
}

impl Synchronous {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
            Synchronous::Off => "off",
        }
    }
}
