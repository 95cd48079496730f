//! The statements' defects of PROTOCOL §3, each as a change to the text as it is: for `scripts/mutants.sh`.

macro_rules! sql {
    ($statement:literal) => {
        include_str!(concat!("../sql/", $statement, ".sql"))
    };
}

/// The mutant, the statement's text, what it says, and what it says with the defect.
#[rustfmt::skip]
const EDITS: &[outlast_core::mutant::Edit] = &[
    // #1
    ("statement-does-not-run", sql!("reap/give_up"), "attempt = attempt + 1", "attempts = attempt + 1"),

    // #2: one writer cannot be overtaken between its look and its park, but it can forget to look.
    ("park-does-not-look", sql!("commit/matches"), "where consumed_at is null", "where false"),

    // #3
    ("outcome-without-fence", sql!("commit/fence"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("outcome-without-fence", sql!("commit/end"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("outcome-without-fence", sql!("commit/next_keep"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("park-without-fence", sql!("commit/fence"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("park-without-fence", sql!("commit/wait"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("release-without-fence", sql!("commit/fence"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("release-without-fence", sql!("commit/release"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),

    // #4
    ("key-comes-back", sql!("reap/return"), "locked_by = null,",
        "locked_by = null, correlation_guard = iif(instr(correlation_scope, '\"runnable\"') > 0, correlation_key, null),"),

    // #6
    ("child-is-deleted-before-the-join", sql!("operate/live_parent"), "where child.id = ?1", "where false and child.id = ?1"),
    ("child-is-collected-before-the-join", sql!("collect/due"), "where parent.id = child.parent_id", "where false"),
    ("late-end-hits-the-next-round", sql!("commit/join"), "and round = ?2", "and ?2 is not null"),
    ("dropped-children-vanish", sql!("commit/fan_out"), "children_dropped = ?7", "children_dropped = iif(?7 is null, '', '[]')"),
    ("retried-child-is-not-counted", sql!("operate/count_again"), "children_pending + 1", "children_pending + 0"),
    ("reconciler-mends-no-join", sql!("reconcile/mend_join"), "where id = ?1", "where false and id = ?1"),

    // #8
    ("two-of-a-key", sql!("claim/key_busy"), "where status = 'executing'", "where false and status = 'executing'"),

    // #9
    ("consumed-dedup-key-is-free", sql!("commit/consume_delete"), " and dedup_key is null", ""),
    ("consumed-dedup-key-is-free", sql!("commit/empty_inbox_delete"), " and dedup_key is null", ""),

    // #10
    ("signal-to-the-ended", sql!("deliver/target_by_id"), "and finished_at is null", ""),
    ("signal-to-the-ended", sql!("deliver/target_by_key"), "and finished_at is null", ""),

    // #11
    ("wakes-on-what-it-was-handed", sql!("commit/matches"),
        "and id not in (select value from json_each(?3))", "and ?3 is not null"),
    ("highest-id-mark", sql!("commit/matches"), "and id not in (select value from json_each(?3))",
        "and id > coalesce((select max(value) from json_each(?3)), 0)"),

    // #14
    ("crashes-are-not-counted", sql!("reap/return"), "crashes = crashes + 1", "crashes = crashes"),

    // #19: a transaction that begins by reading cannot write when another process has written since.
    ("deferred-transaction", "begin immediate", "immediate", "deferred"),
];

/// The statement of this text, with the defect that is on if it is one of this statement.
pub(crate) fn text(sql: &'static str) -> &'static str {
    outlast_core::mutant::reached(EDITS, sql);
    outlast_core::mutant::edited(EDITS, sql, sql)
}
