//! The settings of a store, and the entry points that open it with them.
//!
//! Nothing here touches the file: `Sqlite::start` and `open.rs` do.

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

/// What survives a loss of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// A commit waits for the disk.
    ///
    /// A loss of power can undo only claims, which workers then repeat.
    #[default]
    Full,
    /// A commit survives the death of the process.
    ///
    /// A loss of power may undo the last moments, acknowledged inserts and outcomes among them.
    Normal,
    /// A commit waits for nothing.
    ///
    /// A loss of power may leave the file unreadable. Only for data that can be recreated.
    Off,
}

impl Options {
    /// Sets what a commit waits for. Default: [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Options {
        self.synchronous = synchronous;
        self
    }

    /// Sets the clock of the store. Default: the machine's clock.
    pub fn clock(mut self, clock: impl Clock) -> Options {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets how long a verb waits while another process writes to the file. Default: 5 s.
    pub fn busy_timeout(mut self, timeout: Duration) -> Options {
        self.busy_timeout = timeout;
        self
    }

    /// Sets how many questions are answered at a time. Default: 4. Minimum: 1.
    ///
    /// Each reader takes a thread and a connection. A store in memory has no readers: its
    /// questions go through the writer.
    pub fn readers(mut self, readers: usize) -> Options {
        self.readers = readers.max(1);
        self
    }

    /// Limits the size of the database, without its write-ahead log. Default: no limit.
    ///
    /// A verb that needs more space returns a transient error, as on a full disk. Removing
    /// instances makes room again.
    pub fn size_max_bytes(mut self, bytes: u64) -> Options {
        self.size_max_bytes = Some(bytes);
        self
    }

    /// Opens the file only for reading, also where it cannot be written. Default: off.
    ///
    /// Questions are answered, and verbs that write fail. The file must exist and have this
    /// version's schema.
    pub fn read_only(mut self) -> Options {
        self.read_only = true;
        self
    }

    /// Opens the file at `path`, creates it if it does not exist, and migrates its schema.
    ///
    /// Blocks the calling thread for a moment.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Sqlite> {
        Sqlite::start(self, Some(path.as_ref()))
    }

    /// Opens a store in memory that lives as long as its last handle.
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
    /// Returns the word of the pragma `synchronous`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
            Synchronous::Off => "off",
        }
    }
}
