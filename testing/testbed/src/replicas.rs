//! A primary and a streaming standby that takes over when the primary is killed. All calls block.
//!
//! In synchronous mode a commit is answered when the standby has it on its disk too, unless the session says
//! otherwise (`synchronous_commit`). After a fail-over there is one server, which waits for nobody: it would wait
//! for ever. What it answers until the standby is rebuilt is on one disk only. So a fail-over loses nothing that
//! was answered, as long as the next comes after [`Replicas::rebuild`] has returned: that waits until the standby
//! has all there is and every further commit waits for it. [`Replicas::fail_over`] insists on it.
//!
//! In asynchronous mode a commit is answered without waiting: what the standby has not received when the primary
//! is killed is lost.

use crate::cluster::Cluster;
use crate::process::wait_until;

/// Two servers, gone with the value.
pub struct Replicas {
    nodes: [Cluster; 2],
    /// Which of them is the primary.
    primary: usize,
    mode: Mode,
    /// Whether the other follows, and in synchronous mode is waited for.
    following: bool,
}

/// Whether a commit waits for the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Synchronous,
    /// It does not.
    Asynchronous,
}

/// What the standby is called by the primary.
const STANDBY: &str = "outlast_standby";

/// The primary keeps enough of its log for a standby that is being copied. Memory that processes share is in the
/// folder, where it goes with it after a crash too.
const SETTINGS: &str = "shared_buffers = 32MB\nmax_connections = 100\nwal_keep_size = 1GB\n\
                        wal_retrieve_retry_interval = 100ms\ndynamic_shared_memory_type = mmap";

impl Replicas {
    /// Both servers, running, the standby up to date. Commits wait for the disk. `None`, with a word, where the
    /// server's programs are not.
    pub fn start(mode: Mode) -> Option<Replicas> {
        let (mut first, second) = (Cluster::durable()?, Cluster::place()?);
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

    /// The address of both, which leads to the one that takes writes.
    pub fn url(&self) -> String {
        let [first, second] = &self.nodes;
        format!(
            "postgres://outlast@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
            first.port(),
            second.port()
        )
    }

    /// The one that takes writes.
    pub fn primary(&self) -> &Cluster {
        &self.nodes[self.primary]
    }

    /// The other one: a standby, or what is left of the last primary.
    pub fn other(&self) -> &Cluster {
        &self.nodes[1 - self.primary]
    }

    /// Kills the primary with SIGKILL and all its processes, promotes the standby, and waits until that takes
    /// writes.
    pub fn fail_over(&mut self) {
        assert!(self.following, "there is no standby to take over: rebuild");
        self.following = false;
        self.nodes[self.primary].kill();
        self.primary = 1 - self.primary;
        self.primary().promote();
        wait_until("the standby takes writes", || {
            let asked = self.ask("select pg_is_in_recovery()");
            asked.is_some_and(|answer| answer == "f")
        });
    }

    /// Makes the killed one a standby of the new primary, from a fresh copy: whatever it had that the other did
    /// not receive is gone. When this returns the standby has all that is committed, and in synchronous mode
    /// every further commit waits for it.
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
        // Copied with the rest; on the day it is promoted it must not wait.
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
        self.wait_until_level();
        self.following = true;
    }

    /// From here on commits wait. One process tells all sessions that they do: after a checkpoint, which the same
    /// process makes, it has.
    fn wait_for_standby_from_now_on(&self) {
        let names = format!("synchronous_standby_names = '{STANDBY}'");
        self.primary().configure(&names);
        self.primary().reload();
        let checkpoint = self.primary().ask("postgres", "checkpoint");
        checkpoint.expect("a checkpoint is made");
    }

    /// Waits until the standby has on its disk what the primary has now.
    fn wait_until_level(&self) {
        let place = self.ask("select pg_current_wal_flush_lsn()");
        let place = place.expect("the primary answers");
        let state = match self.mode {
            Mode::Synchronous => "sync",
            Mode::Asynchronous => "async",
        };
        let question = format!(
            "select coalesce(bool_or(flush_lsn >= '{place}' and sync_state = '{state}'), false) \
               from pg_stat_replication where application_name = '{STANDBY}'"
        );
        wait_until("the standby is level", || {
            self.ask(&question).is_some_and(|answer| answer == "t")
        });
    }

    /// The one value of a question to the primary, if it answers.
    fn ask(&self, sql: &str) -> Option<String> {
        let rows = self.primary().ask("postgres", sql).ok()?;
        rows.into_iter().next()?.into_iter().next()
    }
}
