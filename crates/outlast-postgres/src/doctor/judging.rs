//! Judging the doctor's facts: facts in, findings out, without I/O.
//!
//! `doctor.rs` calls this. A finding needs an entry of its name in docs/guides/operations.md. A
//! test of `outlast` compares that page with this file.

use super::apart;
use outlast_core::{Finding, Timestamp, size, span};
use std::time::{Duration, SystemTime};

/// The store's transactions take milliseconds, and those of its users seconds.
const OPEN_MAX: Duration = Duration::from_secs(300);
/// After this time the table has grown noticeably, because vacuum could remove nothing.
const OPEN_SERIOUS: Duration = Duration::from_secs(3_600);
/// A session that is idle in a transaction also holds its locks.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// A smaller difference between two clocks does no harm: no decision mixes them.
const CLOCKS_MAX: Duration = Duration::from_secs(2);
/// At two billion transactions the server stops, to protect the stored data. Autovacuum freezes
/// rows at 200 million by default, so a higher age means that something is in its way.
const TRANSACTIONS_MAX: i64 = 500_000_000;
const TRANSACTIONS_SERIOUS: i64 = 1_500_000_000;
/// A table with fewer dead rows is small, whatever their share.
const DEAD_MIN: i64 = 10_000;
/// The indexes of an instance take a few hundred bytes.
const INDEX_BYTES_PER_INSTANCE_MAX: u64 = 4_096;
/// Indexes smaller than this are not worth a rebuild.
const INDEX_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// The server and its settings.
pub(super) struct Server {
    pub(super) version: i32,
    pub(super) version_text: String,
    pub(super) is_standby: bool,
    pub(super) is_read_only: bool,
    pub(super) isolation: String,
    pub(super) synchronous_commit: String,
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    pub(super) autovacuum: bool,
    pub(super) connections: i64,
    pub(super) connections_max: i64,
    /// The age of the oldest row that is not frozen.
    pub(super) transactions: i64,
    pub(super) clock: Timestamp,
}

impl Server {
    pub(super) fn findings(&self) -> [Finding; 7] {
        [
            self.server_version(),
            self.writable(),
            self.durability(),
            self.autovacuum(),
            self.isolation(),
            self.connections(),
            self.transaction_ids(),
        ]
    }

    fn server_version(&self) -> Finding {
        let found = format!("the server is PostgreSQL {}", self.version_text);
        match self.version {
            140_000.. => Finding::fine("server_version", found),
            _ => Finding::serious("server_version", found, "use version 14 or later"),
        }
    }

    fn writable(&self) -> Finding {
        const CHECK: &str = "writable";
        match (self.is_standby, self.is_read_only) {
            (true, _) => Finding::serious(
                CHECK,
                "the server is a standby, on which nothing can be written",
                "connect to the primary, or name all servers in the URL with target_session_attrs=read-write",
            ),
            (false, true) => Finding::serious(
                CHECK,
                "transactions of this role are read-only (default_transaction_read_only)",
                "turn the setting off for the role or the database",
            ),
            (false, false) => Finding::fine(CHECK, "the server is a primary and takes writes"),
        }
    }

    fn durability(&self) -> Finding {
        const CHECK: &str = "durability";
        if !self.fsync || !self.full_page_writes {
            let off = if self.fsync {
                "full_page_writes"
            } else {
                "fsync"
            };
            let found = format!("{off} is off: a crash of the machine can destroy the database");
            let remedy = format!("set {off} = on in postgresql.conf and reload");
            return Finding::serious(CHECK, found, remedy);
        }
        // Claims turn it off for themselves; what counts is the setting that commits get.
        match self.synchronous_commit.as_str() {
            "off" => Finding::serious(
                CHECK,
                "synchronous_commit is off: a crash can take back what was answered as committed",
                "set synchronous_commit = on for the role or the database",
            ),
            level => Finding::fine(
                CHECK,
                format!("fsync and full_page_writes are on, synchronous_commit is {level}"),
            ),
        }
    }

    fn autovacuum(&self) -> Finding {
        match self.autovacuum {
            true => Finding::fine("autovacuum", "autovacuum is on"),
            false => Finding::warning(
                "autovacuum",
                "autovacuum is off: the tables grow with every step that is run",
                "set autovacuum = on in postgresql.conf and reload",
            ),
        }
    }

    /// The store names its isolation level itself. Only users' own transactions have the default
    /// (docs/protocol.md, defect 17), so another default is no fault.
    fn isolation(&self) -> Finding {
        let found = format!("transactions begin as {}", self.isolation);
        match self.isolation.as_str() {
            "read committed" => Finding::fine("isolation", found),
            _ => Finding::warning(
                "isolation",
                found
                    + ": inserts and signals in transactions of your own may have to be tried again",
                "set default_transaction_isolation = 'read committed', or be ready to try again",
            ),
        }
    }

    fn connections(&self) -> Finding {
        const CHECK: &str = "connections";
        let (used, max) = (self.connections, self.connections_max.max(1));
        let found = format!("{used} of {max} connections are in use");
        let remedy = "lower max_connections of the stores, put a pooler in front, or raise max_connections of the server";
        match used * 100 / max {
            ..80 => Finding::fine(CHECK, found),
            80..95 => Finding::warning(CHECK, found, remedy),
            _ => Finding::serious(CHECK, found, remedy),
        }
    }

    fn transaction_ids(&self) -> Finding {
        const CHECK: &str = "transaction_ids";
        let millions = self.transactions / 1_000_000;
        let found = format!(
            "the oldest row was written {millions} million transactions ago, of 2,000 million there may be"
        );
        let remedy = "see what keeps autovacuum from freezing (old transactions, replication slots), and vacuum the database";
        match self.transactions {
            ..TRANSACTIONS_MAX => Finding::fine(CHECK, found),
            TRANSACTIONS_MAX..TRANSACTIONS_SERIOUS => Finding::warning(CHECK, found, remedy),
            _ => Finding::serious(CHECK, found, remedy),
        }
    }
}

/// A session, prepared transaction or slot that keeps a transaction or a snapshot open.
pub(super) struct Holder {
    /// The kind: a session, a prepared transaction or a replication slot.
    pub(super) kind: String,
    pub(super) name: String,
    /// How long it has been open. A slot has no such time.
    pub(super) open: Option<Duration>,
    /// Whether it waits for its program, or a slot for its consumer.
    pub(super) is_idle: bool,
    /// Whether vacuum cannot remove rows that died since it was opened.
    pub(super) keeps_rows: bool,
}

pub(super) fn holders(holders: &[Holder]) -> [Finding; 2] {
    [old_snapshots(holders), idle_transactions(holders)]
}

/// Judges the oldest snapshots. A slot is among the holders only if it is far behind.
fn old_snapshots(holders: &[Holder]) -> Finding {
    const CHECK: &str = "old_snapshots";
    let is_old =
        |holder: &&Holder| holder.keeps_rows && holder.open.is_none_or(|open| open >= OPEN_MAX);
    let old: Vec<_> = holders.iter().filter(is_old).collect();
    let Some(oldest) = old.first() else {
        return Finding::fine(CHECK, "nobody keeps dead rows from being removed");
    };
    let since = oldest
        .open
        .map_or_else(|| "a million transactions and more".to_owned(), span);
    let found = format!(
        "{} {} keeps dead rows from being removed since {since}{}",
        oldest.kind,
        oldest.name,
        others(old.len())
    );
    let remedy = "end it (pg_terminate_backend, rollback prepared, pg_drop_replication_slot), and set idle_in_transaction_session_timeout";
    match oldest.open {
        Some(open) if open < OPEN_SERIOUS => Finding::warning(CHECK, found, remedy),
        Some(_) | None => Finding::serious(CHECK, found, remedy),
    }
}

fn idle_transactions(holders: &[Holder]) -> Finding {
    const CHECK: &str = "idle_transactions";
    let is_idle =
        |holder: &&Holder| holder.is_idle && holder.open.is_some_and(|open| open >= IDLE_MAX);
    let idle: Vec<_> = holders.iter().filter(is_idle).collect();
    let Some(Holder {
        kind,
        name,
        open: Some(open),
        ..
    }) = idle.first()
    else {
        return Finding::fine(CHECK, "nobody sits idle in a transaction");
    };
    let found = format!(
        "{kind} {name} sits idle in a transaction since {}, with its locks{}",
        span(*open),
        others(idle.len())
    );
    Finding::warning(
        CHECK,
        found,
        "find the program that leaves it open, and set idle_in_transaction_session_timeout",
    )
}

fn others(all: usize) -> String {
    match all {
        0 | 1 => String::new(),
        2 => ", and 1 other".to_owned(),
        all => format!(", and {} others", all - 1),
    }
}

/// How much of the table is in use.
pub(super) struct Space {
    pub(super) live: i64,
    pub(super) dead: i64,
    pub(super) vacuumed: Option<Duration>,
    pub(super) table_bytes: u64,
    pub(super) index_bytes: u64,
}

impl Space {
    pub(super) fn findings(&self) -> [Finding; 2] {
        [self.dead_rows(), self.index_size()]
    }

    fn dead_rows(&self) -> Finding {
        const CHECK: &str = "dead_rows";
        let vacuumed = self.vacuumed.map_or_else(
            || "never vacuumed".to_owned(),
            |ago| format!("last vacuumed {} ago", span(ago)),
        );
        let found = format!(
            "the table of instances has {} live and {} dead rows in {}, {vacuumed}",
            self.live,
            self.dead,
            size(self.table_bytes)
        );
        if self.dead < DEAD_MIN.max(self.live / 5) {
            return Finding::fine(CHECK, found);
        }
        Finding::warning(
            CHECK,
            found,
            "see that autovacuum runs and that no old snapshot is in its way; vacuum the table by hand meanwhile",
        )
    }

    fn index_size(&self) -> Finding {
        const CHECK: &str = "index_size";
        let live = u64::try_from(self.live).unwrap_or_default();
        let found = format!(
            "the indexes of {live} instances take {}",
            size(self.index_bytes)
        );
        let allowed = INDEX_BYTES_MIN.max(live.saturating_mul(INDEX_BYTES_PER_INSTANCE_MAX));
        if self.index_bytes <= allowed {
            return Finding::fine(CHECK, found);
        }
        Finding::warning(
            CHECK,
            found,
            "rebuild them with `reindex table concurrently`",
        )
    }
}

/// Judges the server's clock, which was read between two local times.
pub(super) fn clocks(from: SystemTime, to: SystemTime, clock: Timestamp) -> Finding {
    const CHECK: &str = "clocks";
    let apart = apart(from, to, clock);
    if apart <= CLOCKS_MAX {
        return Finding::fine(CHECK, "the clocks of the server and of this machine agree");
    }
    let found = format!(
        "the clocks of the server and of this machine are {} apart",
        span(apart)
    );
    Finding::warning(
        CHECK,
        found,
        "synchronise both; instances go by the server's, and what a program says about time by its own",
    )
}

#[cfg(test)]
#[path = "judging_tests.rs"]
mod tests;
