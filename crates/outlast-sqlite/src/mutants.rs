//! The statement defects of docs/protocol.md as edits of the statements, for `scripts/mutants.sh`.

macro_rules! sql {
    ($statement:literal) => {
        include_str!(concat!("../sql/", $statement, ".sql"))
    };
}

/// The mutant, the statement's text, the text to replace, and its defective replacement.
#[rustfmt::skip]
const EDITS: &[outlast_core::mutant::Edit] = &[
    // Defect 1
    ("statement-does-not-run", sql!("reap/give_up"), "attempt = attempt + 1", "attempts = attempt + 1"),

    // Defect 2: with one writer no signal comes between check and park, but the check can be
    // missing.
    ("park-does-not-look", sql!("inbox/matches"), "where consumed_at is null", "where false"),

    // Defect 3
    ("outcome-without-fence", sql!("commit/fence"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("outcome-without-fence", sql!("commit/end"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("outcome-without-fence", sql!("commit/next_keep"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("park-without-fence", sql!("commit/fence"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("park-without-fence", sql!("commit/wait"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("release-without-fence", sql!("commit/fence"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("release-without-fence", sql!("commit/release"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),

    // Defect 4
    ("key-comes-back", sql!("reap/return"), "locked_by = null,",
        "locked_by = null, correlation_guard = iif(instr(correlation_scope, '\"runnable\"') > 0, correlation_key, null),"),

    // Defect 6
    ("child-is-deleted-before-the-join", sql!("operate/live_parent"), "where child.id = ?1", "where false and child.id = ?1"),
    ("child-is-collected-before-the-join", sql!("collect/due"), "where parent.id = child.parent_id", "where false"),
    ("late-end-hits-the-next-round", sql!("join/join"), "and round = ?2", "and ?2 is not null"),
    ("dropped-children-vanish", sql!("commit/fan_out"), "children_dropped = ?7", "children_dropped = iif(?7 is null, '', '[]')"),
    ("retried-child-is-not-counted", sql!("operate/count_again"), "children_pending + 1", "children_pending + 0"),
    ("repair-counts-nothing", sql!("repair/count_again"), "where id = ?1", "where false and id = ?1"),

    // Repairs that find too little or too much
    ("repair-overlooks-a-signal", sql!("repair/unseen_signal"), "where instances.id = ?1", "where false and instances.id = ?1"),
    ("repair-takes-a-kept-signal", sql!("commit/wait"), "latest_signal = ?9,", "latest_signal = iif(?9 is null, null, null),"),
    ("repair-overlooks-a-failed-child", sql!("repair/set"), "child.status <> 'done'", "false"),
    ("repair-takes-an-earlier-failure", sql!("repair/set"), "child.finished_at > ?4 and child.status <> 'done'",
        "child.status in ('failed', 'cancelled')"),

    // Defect 6, for joins that are decided early
    ("latest-failure-is-the-first", sql!("join/join"), "coalesce(first_failure, ?5)", "coalesce(?5, first_failure)"),
    ("late-end-is-counted", sql!("join/join"), "and status = 'awaiting_children'", "and finished_at is null"),

    // Windows
    ("window-does-not-admit-the-next", sql!("window/next"), "limit ?3", "limit 0 * ?3"),
    ("window-is-not-in-order", sql!("window/next"), "order by id", "order by id desc"),

    // Cancels
    ("cancel-loses-the-claim", sql!("operate/cancel"), "cancel_answered = 0,", "cancel_answered = 0, revision = revision + 1,"),
    ("cancel-does-not-wake", sql!("operate/hasten"), "where id = ?1", "where false and id = ?1"),
    ("kept-claim-misses-the-cancel", sql!("commit/next_keep"), "(?6 or cancel_requested_at is null or cancel_answered)", "?6 is not null"),
    ("park-does-not-see-the-cancel", sql!("commit/fence"), "cancel_reason, cancel_answered,", "cancel_reason, 1,"),
    ("cancel-is-answered-for-ever", sql!("operate/retry"), "cancel_requested_at = null,\n    cancel_reason = null,\n    cancel_answered = 0,", ""),

    // Cascades
    ("end-skips-close-policies", sql!("cascade/policed"), "where on_parent_close", "where false and on_parent_close"),
    ("cascade-ends-after-a-batch", sql!("cascade/move_on"), "before_id = ?3", "before_id = 0 * ?3"),
    ("parent-is-collected-before-the-cascade", sql!("collect/due"), "where cascades.parent_id = child.id", "where false"),

    // Workflows
    ("park-does-not-look-at-children", sql!("join/already_ended"), "where child.id is null or child.finished_at is not null", "where false"),
    ("gone-child-is-waited-for", sql!("join/already_ended"), "where child.id is null or", "where"),
    ("join-sets-are-forgotten", sql!("commit/workflow_join"), "joining = ?9", "joining = iif(?9 is null, null, '[]')"),
    ("join-set-is-not-counted-down", sql!("join/join_sets"), "joining_left = ?2,", "joining_left = iif(?2 is null, null, joining_left),"),
    ("signal-passes-who-waits-for-children", sql!("deliver/target_by_id"),
        "(status = 'awaiting_signal' or status = 'awaiting_children' and joining is not null)", "status = 'awaiting_signal'"),
    ("ends-complete-a-group", sql!("join/sets"), "needs_all_revision is revision", "false"),
    ("deadline-completes-a-group", sql!("fire/due"), "needs_all_revision is revision", "false"),
    ("need-outlives-its-park", sql!("deliver/target_by_id"), "needs_all_revision is revision as needs_all",
        "needs_all_revision is not null as needs_all"),
    ("retried-child-of-a-workflow-is-counted", sql!("operate/count_again"), " and joining is null", ""),
    ("step-misses-a-cancel", sql!("commit/workflow_keep"), "(?5 or cancel_requested_at is null or cancel_answered)", "?5 is not null"),
    ("flow-without-fence", sql!("commit/workflow_keep"), "and revision = ?2 and status = 'executing'", "and ?2 is not null"),
    ("renewal-goes-on-counting", sql!("commit/continue_as_new"), "events = 0,", "events = events,"),
    ("runs-are-kept-for-ever", sql!("history/forget"), "where instance_id = ?1", "where false and instance_id = ?1"),
    ("history-outlives-its-instance", sql!("collect/remove_events"), "where instance_id = ?1", "where false and instance_id = ?1"),
    ("repair-wakes-no-workflow", sql!("repair/set"), "filter (where child.finished_at is null) as live", "as live"),

    // Views
    ("unchanged-view-is-rewritten", sql!("history/publish"), "where views.data <> excluded.data", ""),
    ("views-outlive-their-instance", sql!("collect/remove_views"), "where instance_id = ?1", "where false and instance_id = ?1"),

    // Timeouts
    ("timeout-is-early", sql!("time_out/due"), "timeout_at, run_timeout_at) <= ?1", "timeout_at, run_timeout_at) <= ?1 + 1000000"),
    ("timeout-keeps-the-revision", sql!("time_out/fail"), "revision = revision + 1,", "revision = revision,"),
    ("new-run-keeps-the-timeout", sql!("commit/continue_as_new"), "?4 + run_timeout_us", "run_timeout_at"),

    // Updates
    ("second-reply-stands", sql!("inbox/reply"), " and reply_kind is null", ""),
    ("reply-to-anothers-update", sql!("inbox/reply"), "and target_id = ?2", "and ?2 is not null"),
    ("reply-to-a-plain-signal", sql!("inbox/reply"), " and wants_reply", ""),
    ("reply-does-not-consume", sql!("inbox/reply"), "payload = null,\n    consumed_at = coalesce(consumed_at, ?3),", ""),
    ("reply-forgets-when-it-was-consumed", sql!("inbox/reply"), "coalesce(consumed_at, ?3)", "?3"),
    ("retry-leaves-updates-open", sql!("inbox/end_updates"), "reply_kind = 'ended'", "reply_kind = null"),

    // Error values
    ("error-value-is-not-written", sql!("commit/end"), "result = ?4,", "result = iif(?3 = 'done', ?4, null),"),

    // Defect 8
    ("two-of-a-key", sql!("claim/key_busy"), "where status = 'executing'", "where false and status = 'executing'"),
    ("later-row-of-a-key-goes-first", sql!("claim/older_in_line"), "where status = 'runnable'", "where false and status = 'runnable'"),

    // Defect 9
    ("consumed-dedup-key-is-free", sql!("inbox/consume_delete"), " and dedup_key is null", ""),
    ("consumed-dedup-key-is-free", sql!("inbox/clear_delete"), " and dedup_key is null", ""),

    // Defect 10
    ("signal-to-the-ended", sql!("deliver/target_by_id"), "and finished_at is null", ""),
    ("signal-to-the-ended", sql!("deliver/target_by_key"), "and finished_at is null", ""),

    // Signals to a step that runs.
    ("signal-to-a-running-step-is-not-noted", sql!("deliver/note"), "where id = ?1", "where false and id = ?1"),
    ("kept-claim-misses-a-signal", sql!("commit/next_keep"), "(?7 or latest_signal is null)", "?7 is not null"),
    ("kept-workflow-misses-a-signal", sql!("commit/workflow_keep"), "(?8 or latest_signal is null)", "?8 is not null"),
    ("new-claim-names-earlier-signals", sql!("claim/take"), "latest_signal = null,", ""),

    // Defect 11
    ("wakes-on-what-it-was-handed", sql!("inbox/matches"),
        "and id not in (select value from json_each(?3))", "and ?3 is not null"),
    ("highest-id-mark", sql!("inbox/matches"), "and id not in (select value from json_each(?3))",
        "and id > coalesce((select max(value) from json_each(?3)), 0)"),

    // Defect 14
    ("crashes-are-not-counted", sql!("reap/return"), "crashes = crashes + 1", "crashes = crashes"),

    // Defect 19: a transaction that begins by reading cannot write after another process has
    // written.
    ("deferred-transaction", "begin immediate", "immediate", "deferred"),
];

/// Returns the statement, with the active defect if that is a defect of this statement.
pub(crate) fn text(sql: &'static str) -> &'static str {
    outlast_core::mutant::reached(EDITS, sql);
    outlast_core::mutant::edited(EDITS, sql, sql)
}
