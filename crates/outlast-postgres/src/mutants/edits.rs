//! The defects of docs/protocol.md, each as a change to the text of a statement.
//!
//! `scripts/mutants.sh` uses them, and the interleaving tests prove in every run that they catch
//! them.

/// The mutant, the statement, a text of it, and the defective text.
#[rustfmt::skip]
pub(crate) const EDITS: &[(&str, &str, &str, &str)] = &[
    // Defect 1: parameters with the wrong types; children without their version.
    ("statement-does-not-run", "reap/fail",
        "attempt = i.attempt + 1", "attempt = case when true then c.error end"),
    ("children-without-version", "commit/spawn", "g.machine, g.machine_version,", "g.machine, 1,"),
    ("children-without-version", "commit/spawn_alike", "$7, $8::integer,", "$7, least($8::integer, 1),"),

    // Defect 2: a park and a wake must lock before they look.
    ("park-does-not-lock", "commit/lock", "for no key update of i", ""),
    ("park-locks-where-it-looks", "commit/lock", "for no key update of i", ""),
    ("park-locks-where-it-looks", "commit/park", "offset 0) f\n", "offset 0) f for no key update of i\n"),
    ("delivery-does-not-lock", "deliver/lock", "for no key update of i", ""),
    ("delivery-does-not-wait", "deliver/lock", "for no key update of i", "for no key update of i skip locked"),
    ("neither-locks", "commit/lock", "for no key update of i", ""),
    ("neither-locks", "deliver/lock", "for no key update of i", ""),
    ("terminate-does-not-lock", "operate/lock", "for no key update", ""),
    ("timeout-does-not-lock", "fire/fire", "for no key update skip locked", ""),

    // Timeouts.
    ("timeout-keeps-the-revision", "time_out/fail", "revision = i.revision + 1,", "revision = i.revision,"),
    ("new-run-keeps-the-timeout", "commit/continue_as_new",
        "k.now + i.run_timeout_us * interval '1 microsecond'", "i.run_timeout_at"),
    ("time-out-does-not-lock", "time_out/due", "   for no key update skip locked", ""),
    ("timeout-is-early", "time_out/due", "<= outlast.now() and", "<= outlast.now() + interval '1 second' and"),

    // Defect 3: the fence.
    ("outcome-without-fence", "commit/advance", "and i.revision = o.revision and i.status = 'executing'", ""),
    ("outcome-without-fence", "join/join", "and i.revision = c.revision + 1", ""),
    ("outcome-without-fence", "join/join", "and i.xmin = pg_current_xact_id()::xid", ""),
    ("park-without-fence", "commit/park", "and i.revision = g.revision and i.status = 'executing'", ""),
    ("release-without-fence", "commit/release", "and i.revision = c.revision and i.status = 'executing'", ""),
    ("consumes-without-fence", "inbox/consume", "and i.revision = c.revision and i.status = 'executing'", ""),
    ("spawns-without-fence", "commit/spawn", "and p.revision = g.parent_revision and p.status = 'executing'", ""),
    ("spawns-without-fence", "commit/spawn_alike", "and p.revision = g.parent_revision and p.status = 'executing'", ""),
    ("join-counts-anothers-end", "join/join", "and i.xmin = pg_current_xact_id()::xid", ""),
    ("lost-claim-is-not-locked", "commit/lock",
        "on i.id = any (array[c.id])", "on i.id = any (array[c.id]) and i.status = 'executing'"),
    ("lost-claim-is-handed-out", "claim/held", "and i.revision = c.revision and i.status = 'executing'", ""),

    // Defect 4: a released key comes back and may collide; keys of another machine.
    ("key-comes-back", "reap/return", "then i.correlation_guard end", "then i.correlation_key end"),
    ("key-comes-back", "operate/retry", "then i.correlation_guard end", "then i.correlation_key end"),
    ("key-of-another-machine", "insert/holders", "i.machine = k.machine and ", ""),

    // Defect 5: `update … from` takes one row per parent.
    ("siblings-count-once", "join/join", "count(*)::integer as children", "1 as children"),

    // Defect 6: children that are removed, not counted or counted in the wrong round.
    ("live-child-is-deleted", "operate/delete",
        "g.parent_id is null and g.status in ('done', 'failed', 'cancelled') and not g.is_cascading", "true"),
    ("child-is-deleted-before-the-join", "operate/delete", "g.parent_id is null and ", ""),
    ("child-is-collected-before-the-join", "collect/collect",
        "select from outlast.instances p where p.id = i.parent_id", "select from outlast.instances p where false"),
    ("late-end-hits-the-next-round", "join/join",
        "where e.round = p.round", ""),
    ("dropped-children-vanish", "commit/report_dropped", "= d.children", "= null"),
    ("retried-child-is-not-counted", "operate/rejoin", "+ r.children", "+ 0"),
    ("repair-overlooks-a-join", "repair/find", "when g.status = 'awaiting_children' then", "when false then"),

    // Repairs that find too little or too much.
    ("repair-overlooks-a-signal", "repair/find", "s.target_id = g.id and s.name", "false and s.target_id = g.id and s.name"),
    ("repair-takes-a-kept-signal", "commit/park", "when cardinality(d.received) > 0", "when false"),
    ("repair-overlooks-a-failed-child", "repair/find", " or k.bad > 0", ""),
    ("repair-takes-an-earlier-failure", "repair/find",
        "count(*) filter (where n.finished_at > g.eligible_at\n                                                           and n.status <> 'done') as bad",
        "count(*) filter (where n.status in ('failed', 'cancelled')) as bad"),

    // Defect 7: locks in the caller's order, and maintenance that waits for locks.
    ("rows-in-the-order-given", "commit/lock", "order by c.id", ""),
    ("parents-in-the-order-given", "join/join", "as c (id, revision)", "with ordinality as c (id, revision, place)"),
    ("parents-in-the-order-given", "join/join", "(select i.id, i.parent_id", "(select c.place, i.id, i.parent_id"),
    ("parents-in-the-order-given", "join/join", "select o.parent_id, array_agg", "select o.parent_id, min(o.place) as place, array_agg"),
    ("parents-in-the-order-given", "join/join", "order by e.parent_id", "order by e.place"),
    ("keys-in-the-order-given", "insert/insert", "order by p.machine, p.correlation_key, p.id", "order by p.id"),
    ("children-keys-in-the-order-given", "commit/spawn", "order by g.machine, g.correlation_key, g.id", "order by g.id"),
    ("operators-rows-in-the-order-given", "operate/lock", "order by i.id", "order by array_position($1, i.id)"),
    ("maintenance-waits", "reap/workers", "for update skip locked", "for update"),
    ("maintenance-waits", "reap/claims", "for no key update skip locked", "for no key update"),
    ("maintenance-waits", "fire/fire", "for no key update skip locked", "for no key update"),
    ("maintenance-waits", "collect/collect", "for update skip locked", "for update"),
    ("parent-by-foreign-key", "migration 1", "parent_id         bigint,",
        "parent_id         bigint references outlast.instances on delete set null,"),

    // Defect 8: one running instance per partition key, in order.
    ("two-of-a-key", "migration 1", "create unique index instances_partition", "create index instances_partition"),
    ("two-of-a-key", "claim/claim",
        "where i.status = 'executing' and i.partition_key = k.partition_key\n                       offset 0)",
        "where false)"),
    ("later-row-overtakes-a-locked-one", "claim/claim", "and (i.priority, i.eligible_at, i.id) <", "and false and (i.priority, i.eligible_at, i.id) <"),
    ("sets-aside-without-locking", "claim/claim", "for share skip locked) r", ") r"),
    ("hand-over-does-not-wait", "line/let_through", "(select h.id from heads h)",
        "(select n.id from outlast.instances n where n.id = any (array(select h.id from heads h)) for no key update skip locked)"),

    // Defect 9: a consumed dedup key can be used again.
    ("consumed-dedup-key-is-free", "inbox/consume", "and r.dedup_key is not null", "and false"),
    ("consumed-dedup-key-is-free", "inbox/consume", "and r.dedup_key is null", ""),
    ("consumed-dedup-key-is-free", "inbox/clear", "and l.dedup_key is not null", "and false"),
    ("consumed-dedup-key-is-free", "inbox/clear", "and l.dedup_key is null", ""),

    // Defect 10: a finished instance takes signals.
    ("signal-to-the-ended", "deliver/deliver", "i.finished_at is not null as ended", "false as ended"),

    // Signals to a step that runs.
    ("signal-to-a-running-step-is-not-noted", "deliver/deliver", "where p.fits and p.runs", "where p.fits and p.runs and false"),
    ("sql-signal-to-a-running-step-is-not-noted", "migration 17", "elsif runs then", "elsif false then"),
    ("delivery-claims-what-it-noted", "deliver/taken", "and i.latest_signal is null", ""),
    ("new-claim-names-earlier-signals", "claim/claim", "latest_signal = null,", ""),
    ("started-workflow-misses-a-signal", "commit/park_workflow", "case when i.status = 'executing' then i.latest_signal end",
        "case when false then i.latest_signal end"),

    // Defect 11: received signals wake the step again; a highest-id mark misses late commits.
    ("wakes-on-what-it-was-handed", "commit/park", "and s.id not in (select unnest(f.received))", ""),
    ("highest-id-mark", "commit/park", "and s.id not in (select unnest(f.received))",
        "and s.id > coalesce((select max(r) from unnest(f.received) r), 0)"),

    // Defect 13: an expired lease is renewed during a delivery.
    ("delivery-for-a-dead-lease-locks-nothing", "deliver/lock",
        "where w.id = $2::bigint", "where w.id = $2::bigint and w.lease_expires_at > outlast.now()"),

    // Defect 14: a step that kills its worker runs for ever.
    ("crashes-are-not-counted", "reap/return", "crashes = i.crashes + 1", "crashes = i.crashes"),

    // Defect 15: a worker claims machines that it does not have.
    ("claims-any-machine", "claim/claim", "and i.machine || '/' || i.machine_version = any ($3)", ""),

    // Defect 16: a clock that stands still while a transaction waits.
    ("clock-of-the-transaction", "migration 10", "select statement_timestamp()", "select transaction_timestamp()"),

    // Families: failures counted once per batch; no wait for a locked row of a window; a lost
    // cancel, finished child or join; a cascade that stops half-way; a retried instance that stays
    // cancelled.
    ("failures-count-once", "join/join", "count(*) filter (where e.is_bad)::integer as failed",
        "least(count(*) filter (where e.is_bad), 1)::integer as failed"),
    ("place-is-not-waited-for", "window/admit", "for no key update) n", "for no key update skip locked) n"),
    ("window-does-not-admit-the-next", "window/admit", "limit e.places", "limit 0"),
    ("fan-out-ignores-a-cancel", "commit/spawn",
        "and (p.cancel_requested_at is null or p.cancel_answered or g.answers)", ""),
    ("fan-out-ignores-a-cancel", "commit/spawn_alike",
        "and (p.cancel_requested_at is null or p.cancel_answered or g.answers)", ""),
    ("park-ignores-a-cancel", "commit/park", "case when f.is_cancelled or f.joined", "case when f.joined"),
    ("end-leaves-no-cascade", "cascade/close", "where case when w.has_ended", "where false and case when w.has_ended"),
    ("join-leaves-no-cascade", "join/join", "where c.cascades", "where false"),
    ("deadline-leaves-no-cascade", "fire/fire", "where w.cascades", "where false"),
    ("cascade-forgets-the-rest", "cascade/move", "set at_round = $2,", "set at_round = $2::integer * 0,"),
    ("cascade-ends-at-a-short-page", "cascade/remove", 
        "where c.parent_id = k.parent_id", "where false and c.parent_id = k.parent_id"),
    ("retry-keeps-the-cancel", "operate/retry", "cancel_requested_at = null,", ""),

    // Workflows: events of a lost claim; a park and a finishing child that miss each other;
    // children of several rounds, or of a round that is not awaited; a park that ignores a cancel;
    // a history without its instance.
    ("events-without-fence", "history/append", "and i.revision = o.revision and i.status = 'executing'", ""),
    ("park-overlooks-ended-children", "commit/park_workflow",
        "select n.id, n.status, n.finished_at", "select n.id, 'runnable' as status, null::timestamptz as finished_at"),
    ("end-overlooks-a-park", "join/join",
        "and (p.status = 'awaiting_children' or p.joining is not null)", "and p.status = 'awaiting_children'"),
    ("rounds-count-once", "join/join",
        "and e.position between s.first and s.last", "and e.position between s.first and s.last and e.round = p.rounds[1]"),
    ("end-of-an-unawaited-round", "join/join",
        "on s.round = e.round and e.position between s.first and s.last", "on true"),
    ("join-sets-are-counted-together", "join/join", "where t.part = c.part", ""),
    ("flow-ignores-a-cancel", "commit/park_workflow",
        "not i.cancel_answered and not g.answers as is_cancelled", "false as is_cancelled"),
    // Parks that need all: a signal that stays awaited; one event that wakes for all; a look at
    // the inbox by the statement that may have waited; a need that outlives its park.
    ("signal-is-not-taken-off", "deliver/deliver", "awaits = w.awaits,", "awaits = i.awaits,"),
    ("ends-complete-a-group", "join/join",
        "j.joined = 'all' and p.needs_all_revision = p.revision", "j.joined = 'all' and false"),
    ("deadline-completes-a-group", "fire/fire", "is true as lacks", "is null as lacks"),
    ("end-looks-into-the-inbox", "deliver/deliver", "awaits = w.awaits,", "awaits = i.awaits,"),
    ("end-looks-into-the-inbox", "join/join", "cardinality(p.awaits) > 0",
        "p.awaits <@ array(select s.name from outlast.signals s where s.target_id = p.id and s.consumed_at is null) is false"),
    ("need-outlives-its-park", "deliver/deliver",
        "(i.needs_all_revision = i.revision) is true as needs_all", "i.needs_all_revision is not null as needs_all"),
    ("delete-leaves-events", "operate/delete", "and d.has_history", "and false"),

    // Updates: replies of lost claims, second replies, replies that leave the update in the inbox.
    ("reply-without-fence", "inbox/reply", "and i.revision = c.revision and i.status = 'executing'", ""),
    ("reply-passes-over-a-cancel", "inbox/reply",
        "and (not c.yields or i.cancel_requested_at is null or i.cancel_answered)", ""),
    ("second-reply-stands", "inbox/reply", " and s.reply_kind is null", ""),
    ("reply-to-anothers-update", "inbox/reply", "s.target_id = c.id and ", ""),
    ("reply-to-a-plain-signal", "inbox/reply", "and s.wants_reply ", ""),
    ("reply-does-not-consume", "inbox/reply", "payload = null,", ""),
    ("reply-does-not-consume", "inbox/reply", "consumed_at = coalesce(s.consumed_at, outlast.now()),", ""),
    ("reply-forgets-when-it-was-consumed", "inbox/reply", "coalesce(s.consumed_at, outlast.now())", "outlast.now()"),
    ("retry-leaves-updates-open", "inbox/end_updates", "reply_kind = 'ended'", "reply_kind = null"),
    // Views: of a lost claim, of an outcome that yields to a cancel, written again without a change,
    // and without their instance.
    ("view-without-fence", "history/publish", "and i.revision = o.revision and i.status = 'executing'", ""),
    ("view-ignores-a-cancel", "history/publish",
        "and (not o.yields or i.cancel_requested_at is null or i.cancel_answered)", ""),
    ("unchanged-view-is-rewritten", "history/publish", "where v.data::text <> excluded.data::text", ""),
    ("views-outlive-their-instance", "collect/collect",
        "delete from outlast.views v using expired e where v.instance_id = any (array[e.id]) and e.has_history",
        "delete from outlast.views v using expired e where v.instance_id = any (array[e.id]) and false"),

    // Error values: an end without its value, and a live instance with one.
    ("error-value-is-not-written", "commit/advance",
        "result = o.result::json,", "result = case when o.status = 'done' then o.result::json end,"),
    ("error-value-is-not-written", "commit/advance_workflow",
        "result = o.result::json,", "result = case when o.status = 'done' then o.result::json end,"),
    ("retry-keeps-the-error-value", "operate/retry", "result = null,", ""),
];
