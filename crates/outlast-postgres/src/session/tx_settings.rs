//! How transactions begin: their kinds, and the settings of each kind.
//!
//! `session.rs` and `connection.rs` call this file. It returns text and sends nothing.

use outlast_core::Invalid;
use std::borrow::Cow;
use std::time::Duration;

/// The kind of a transaction, which decides its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxKind {
    /// For verbs that write.
    ///
    /// The settings exclude plans that are good only while a table is small. Statements keep their
    /// plan whatever the statistics say (docs/decisions/0006).
    Write,
    /// As `Write`, without waiting for the disk.
    ///
    /// A crash may lose a claim, since its step has written nothing. It may also lose run counts.
    Claim,
    /// For queries: read-only, with a free planner and a short timeout.
    Inspect,
}

impl TxKind {
    pub(crate) const ALL: [TxKind; 3] = [TxKind::Write, TxKind::Claim, TxKind::Inspect];

    /// Returns its word for names.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            TxKind::Write => "write",
            TxKind::Claim => "claim",
            TxKind::Inspect => "inspect",
        }
    }

    /// Returns the `begin` of such a transaction, without its settings.
    pub(crate) const fn begin(self) -> &'static str {
        match self {
            // Named because a database may have another default. Joins and parks must see what
            // was committed while they waited for a lock (docs/protocol.md, defect 17).
            TxKind::Write | TxKind::Claim => "begin isolation level read committed",
            // One snapshot for all calls of an answer.
            TxKind::Inspect => "begin isolation level repeatable read, read only",
        }
    }

    /// Returns the settings that decide its plans, and whether it waits for the disk.
    fn settings(self) -> impl Iterator<Item = &'static Setting> {
        // Only nested loops over index scans are left, so a statement has one plan
        // (docs/decisions/0006). A generic plan does not depend on the first values either.
        const WRITE: &[Setting] = &[
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
            ("plan_cache_mode", "force_generic_plan"),
            SEARCH_PATH,
        ];
        const UNHURRIED: &[Setting] = &[("synchronous_commit", "off")];
        // A filter that is not given is a null parameter. Only a custom plan leaves it out.
        const INSPECT: &[Setting] = &[
            ("jit", "off"),
            ("plan_cache_mode", "force_custom_plan"),
            SEARCH_PATH,
        ];
        let (shared, own) = match self {
            TxKind::Write => (WRITE, &[][..]),
            TxKind::Claim => (WRITE, UNHURRIED),
            TxKind::Inspect => (INSPECT, &[][..]),
        };
        shared.iter().chain(own)
    }
}

/// A name, and a value that needs no quoting.
type Setting = (&'static str, &'static str);

/// The search path: the system's schemas only.
///
/// Statements name our schema themselves. In another path, functions and operators of other users
/// could run with the rights of this connection's role.
const SEARCH_PATH: Setting = ("search_path", "pg_catalog, pg_temp");

/// How long the server may take before a transaction rolls back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    /// The limit for one lock.
    pub(crate) lock: Duration,
    /// The limit for one statement.
    pub(crate) statement: Duration,
}

impl Default for TimeLimits {
    fn default() -> TimeLimits {
        TimeLimits {
            lock: Duration::from_secs(10),
            statement: Duration::from_secs(60),
        }
    }
}

impl TimeLimits {
    /// The limit for queries of people. Their snapshot keeps vacuum from removing dead rows.
    const INSPECT_MAX: Duration = Duration::from_secs(10);
    /// The largest limit. The server accepts up to 24 days; a day is more than any verb needs.
    const MAX: Duration = Duration::from_secs(24 * 3600);

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        for (what, limit) in [
            ("lock_timeout", self.lock),
            ("statement_timeout", self.statement),
        ] {
            // The server takes 0 for no limit.
            if limit < Duration::from_millis(1) || limit > TimeLimits::MAX {
                return Err(Invalid::new(
                    what,
                    format!("is {limit:?}; it must be between 1 ms and a day"),
                ));
            }
        }
        Ok(())
    }

    /// Returns the settings of a transaction.
    fn settings(&self, tx_kind: TxKind) -> impl Iterator<Item = (&'static str, String)> {
        let statement = match tx_kind {
            TxKind::Write | TxKind::Claim => self.statement,
            TxKind::Inspect => self.statement.min(TimeLimits::INSPECT_MAX),
        };
        let limits = [
            ("lock_timeout", self.lock.as_millis().to_string()),
            ("statement_timeout", statement.as_millis().to_string()),
        ];
        let fixed = tx_kind.settings();
        fixed
            .map(|&(name, value)| (name, value.to_owned()))
            .chain(limits)
    }

    /// Returns the SQL that sets a connection up for verbs that write, for its whole life.
    ///
    /// It also sets the isolation level for statements without a `begin`.
    pub(crate) fn for_life(&self) -> String {
        let settings = self.settings(TxKind::Write);
        let settings = settings.map(|(name, value)| format!("set {name} = {value}; "));
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("isolation-of-the-database") {
            return settings.collect();
        }
        settings.collect::<String>() + "set default_transaction_isolation = 'read committed'"
    }

    /// Returns the `begin` after [`for_life`](TimeLimits::for_life): only the differing settings.
    pub(crate) fn opening_for_life(&self, tx_kind: TxKind) -> Cow<'static, str> {
        match tx_kind {
            TxKind::Write => "begin isolation level read committed".into(),
            TxKind::Claim => {
                "begin isolation level read committed; set local synchronous_commit = off".into()
            }
            TxKind::Inspect => {
                // `default` is the setting of the role or the database: the planner is free again.
                let freed = TxKind::Write.settings();
                let freed = freed.map(|(name, _)| format!("; set local {name} = default"));
                let set = self.settings(tx_kind);
                let set = set.map(|(name, value)| format!("; set local {name} = {value}"));
                let settings: String = freed.chain(set).collect();
                (tx_kind.begin().to_owned() + &settings).into()
            }
        }
    }

    /// Returns the SQL that begins a transaction with its settings, on any connection.
    pub(crate) fn opening(&self, tx_kind: TxKind) -> String {
        let settings = self.settings(tx_kind);
        let settings = settings.map(|(name, value)| format!("; set local {name} = {value}"));
        tx_kind.begin().to_owned() + &settings.collect::<String>()
    }

    /// Returns a query that makes those settings for its transaction.
    ///
    /// It is prepared once. The server then parses no `set` statements in each transaction. It is
    /// for connections that may lead through a pooler, where no setting may outlive its
    /// transaction (docs/decisions/0010).
    pub(crate) fn setting_query(&self, tx_kind: TxKind) -> String {
        let settings = self.settings(tx_kind);
        let settings: Vec<_> = settings
            .map(|(name, value)| format!("set_config('{name}', '{value}', true) is not null"))
            .collect();
        // As conditions, so that the server does not return the values.
        format!("select where {}", settings.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_for_life_leave_a_transaction_only_the_differing_settings() {
        let limits = TimeLimits::default();
        let claims = limits.opening(TxKind::Claim);
        let differs = claims
            .split("; ")
            .filter(|setting| !limits.opening(TxKind::Write).contains(setting));
        let begin = TxKind::Claim.begin();
        let opening: Vec<_> = std::iter::once(begin).chain(differs).collect();
        assert_eq!(limits.opening_for_life(TxKind::Claim), opening.join("; "));
        assert_eq!(
            limits.opening_for_life(TxKind::Write),
            TxKind::Write.begin()
        );
    }

    #[test]
    fn both_ways_to_begin_make_the_same_settings() {
        let limits = TimeLimits::default();
        for tx_kind in TxKind::ALL {
            let (opening, query) = (limits.opening(tx_kind), limits.setting_query(tx_kind));
            let one_by_one: Vec<_> = opening
                .split("; set local ")
                .skip(1)
                .map(|setting| setting.replace(" = ", " "))
                .collect();
            let together: Vec<_> = query
                .split("set_config('")
                .skip(1)
                .filter_map(|call| call.split_once("', true)"))
                .map(|(setting, _)| setting.replace("', '", " "))
                .collect();
            assert!(one_by_one.len() >= 4, "{opening}");
            assert_eq!(one_by_one, together);
        }
    }
}
