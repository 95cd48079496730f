//! A primary and a streaming standby that takes over when the primary is killed. All calls block.
//!
//! In synchronous mode a commit is acknowledged when the standby has it on its disk too, unless
//! the session sets `synchronous_commit`. After a fail-over the single server does not wait for a
//! standby, because it would wait forever. Its commits are on one disk only until the standby is
//! rebuilt.
//!
//! So a fail-over loses no acknowledged commit if it comes after [`Replicas::rebuild`] has
//! returned. That waits until the standby has everything and every further commit waits for it.
//! [`Replicas::fail_over`] asserts this.
//!
//! In asynchronous mode a commit does not wait. Commits that the standby has not received when the
//! primary is killed are lost.

use crate::cluster::Cluster;
use crate::process::wait_until;

/// Two servers, removed when the value is dropped.
pub struct Replicas {
    nodes: [Cluster; 2],
    /// The index of the primary.
    primary: usize,
    mode: Mode,
    /// Whether the other one follows, and in synchronous mode confirms commits.
    following: bool,
}

/// Whether a commit waits for the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A commit waits.
    Synchronous,
    /// A commit does not wait.
    Asynchronous,
}

/// The standby's name at the primary.
const STANDBY: &str = "outlast_standby";

/// The primary keeps enough of its log for a standby that is being copied. Shared memory is in the
/// folder, so it is removed with it, even after a crash.
const SETTINGS: &str = "shared_buffers = 32MB\nmax_connections = 100\nwal_keep_size = 1GB\n\
                        wal_retrieve_retry_interval = 100ms\ndynamic_shared_memory_type = mmap";

impl Replicas {
    /// Starts both servers and waits until the standby is up to date. Commits wait for the disk.
    /// Returns `None`, with a message, if the server's programs are missing.
    pub fn start(mode: Mode) -> Option<Replicas> {
        let (mut first, second) = (Cluster::durable()?, Cluster::for_copy()?);
        first.configure(SETTINGS);
        first.start();
        let mut replicas = Replicas {
            nodes: [first, second],
            primary: 0,
            mode,
            following: false,
        };
        replicas.rebuild();
        Some(replicas)
    }

    /// Returns a URL of both servers, which connects to the one that accepts writes.
    pub fn url(&self) -> String {
        let [first, second] = &self.nodes;
        format!(
            "postgres://outlast@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
            first.port(),
            second.port()
        )
    }

    /// Returns the server that accepts writes.
    pub fn primary(&self) -> &Cluster {
        &self.nodes[self.primary]
    }

    /// Returns the other one: a standby, or the remains of the last primary.
    pub fn other(&self) -> &Cluster {
        &self.nodes[1 - self.primary]
    }

    /// Kills the primary and all its processes with SIGKILL, promotes the standby, and waits until
    /// it accepts writes.
    pub fn fail_over(&mut self) {
        assert!(self.following, "there is no standby to take over: rebuild");
        self.following = false;
        self.nodes[self.primary].kill();
        self.primary = 1 - self.primary;
        self.primary().promote();
        wait_until("the new primary accepts writes", || {
            let asked = self.ask("select pg_is_in_recovery()");
            asked.is_some_and(|answer| answer == "f")
        });
    }

    /// Makes the killed server a standby of the new primary, from a fresh copy. Commits that the
    /// other did not receive are gone. When this returns, the standby has every commit, and in
    /// synchronous mode every further commit waits for it.
    pub fn rebuild(&mut self) {
        if self.following {
            return;
        }
        let [first, second] = &mut self.nodes;
        let (primary, other) = match self.primary {
            0 => (first, second),
            _ => (second, first),
        };
        other.copy(primary, STANDBY);
        // The setting was copied with the rest; after a promotion the server must not wait.
        other.configure("synchronous_standby_names = ''");
        other.start();
        wait_until("the standby follows", || {
            let rows = other.ask(
                "postgres",
                "select from pg_stat_wal_receiver where status = 'streaming'",
            );
            rows.is_ok_and(|rows| !rows.is_empty())
        });
        if self.mode == Mode::Synchronous {
            self.wait_for_standby_from_now_on();
        }
        self.wait_until_caught_up();
        self.following = true;
    }

    /// Commits wait from here on. The checkpointer publishes that to all sessions. It has done so
    /// once a checkpoint is complete, because the same process makes it.
    fn wait_for_standby_from_now_on(&self) {
        let names = format!("synchronous_standby_names = '{STANDBY}'");
        self.primary().configure(&names);
        self.primary().reload();
        let checkpoint = self.primary().ask("postgres", "checkpoint");
        checkpoint.expect("a checkpoint is made");
    }

    /// Waits until the standby has on its disk everything that the primary has now.
    fn wait_until_caught_up(&self) {
        let position = self.ask("select pg_current_wal_flush_lsn()");
        let position = position.expect("the primary answers");
        let state = match self.mode {
            Mode::Synchronous => "sync",
            Mode::Asynchronous => "async",
        };
        let question = format!(
            "select coalesce(bool_or(flush_lsn >= '{position}' and sync_state = '{state}'), false) \
               from pg_stat_replication where application_name = '{STANDBY}'"
        );
        wait_until("the standby has the whole log of the primary", || {
            self.ask(&question).is_some_and(|answer| answer == "t")
        });
    }

    /// Returns the single value of a query to the primary, if it responds.
    fn ask(&self, sql: &str) -> Option<String> {
        let rows = self.primary().ask("postgres", sql).ok()?;
        rows.into_iter().next()?.into_iter().next()
    }
}
