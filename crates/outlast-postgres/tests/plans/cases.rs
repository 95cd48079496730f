//! The measured statements, with the arguments of a usual batch: every statement that writes, and
//! every query for people that has one plan.

use crate::table::{
    self, ASKED, CHILD, ENDED_PARENT, FAILED, FAMILY, FIRST_EXPIRED_WORKER, FIRST_HELD,
    FIRST_PLACED, KEYED, PARENT, PARKED, PARKED_WITH_KEY, RUNNING, WORKER,
};

/// A statement with arguments.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// How many pages it may touch for each row of the batch: a fifth more than was measured
    /// (docs/performance.md).
    ///
    /// To find a row by an index takes about three pages, and to lock it one or two. Each index
    /// that its change is written to takes three or four more.
    pub(crate) buffers_per_row: u64,
    /// The types of its parameters, as the store declares them.
    pub(crate) types: &'static str,
    pub(crate) arguments: String,
    /// The instances that the transaction has already written.
    pub(crate) written: Option<String>,
}

impl Case {
    fn after_writing(self, ids: &str) -> Case {
        Case {
            written: Some(ids.to_owned()),
            ..self
        }
    }
}

/// The cases for batches of `rows` rows.
pub(crate) fn cases(rows: usize) -> Vec<Case> {
    let mut cases = vec![];
    cases.extend(claiming(rows));
    cases.extend(committing(rows));
    cases.extend(entering(rows));
    cases.extend(maintaining(rows));
    cases.extend(operating(rows));
    cases.extend(recording(rows));
    cases.extend(reading(rows));
    cases
}

fn case(
    name: &'static str,
    buffers_per_row: u64,
    types: &'static str,
    arguments: impl Into<String>,
) -> Case {
    Case {
        name,
        buffers_per_row,
        types,
        arguments: arguments.into(),
        written: None,
    }
}

fn claiming(rows: usize) -> Vec<Case> {
    let running = bigints(table::ids(RUNNING, rows));
    let parents = bigints(table::ids(PARENT, rows));
    vec![
        case("lease/hold", 0, "bigint", WORKER.to_string()),
        claim("main", rows, rows),
        case("claim/inbox", 4, "bigint[]", &running),
        case(
            "claim/held",
            4,
            "bigint[], bigint[]",
            format!("{running}, {}", same(1, rows)),
        ),
        case(
            "claim/children",
            4,
            "bigint[], integer[]",
            format!("{parents}, {}", same(1, rows)),
        ),
        case("lease/claims", 3, "bigint", WORKER.to_string()),
    ]
}

/// A claim that takes up to `rows` rows and looks at up to `reach`.
pub(crate) fn claim(queue: &str, rows: usize, reach: usize) -> Case {
    case(
        "claim/claim",
        20,
        "bigint, text, text[], bigint, bigint",
        format!("{WORKER}, '{queue}', '{{order/1,order/2,invoice/1}}', {rows}, {reach}"),
    )
}

fn committing(rows: usize) -> Vec<Case> {
    let running_ids = bigints(table::ids(RUNNING, rows));
    let running = format!("{running_ids}, {}", same(1, rows));
    let child_ids = bigints(table::ids(CHILD, rows));
    let children = format!("{child_ids}, {}", same(1, rows));
    let ended_parent_ids = bigints(table::ids(ENDED_PARENT, rows));
    let ended_parents = format!("{ended_parent_ids}, {}", same(0, rows));
    let placed_ids = bigints((FIRST_PLACED..).take(rows));
    let placed = format!("{placed_ids}, {}", same(0, rows));
    let positions = bigints(0..rows as i64);
    let held = texts((0..rows).map(|n| (n >= rows / 2).to_string()));
    let no = same("false", rows);
    let none = optional_texts((0..rows).map(|_| None));
    let received = texts(table::ids(RUNNING, rows).into_iter().map(|id| {
        let [first, second] = table::inbox(id);
        format!("{{{first},{second}}}")
    }));
    vec![
        case(
            "commit/lock",
            6,
            "bigint[]",
            bigints(table::ids(RUNNING, rows)),
        ),
        case(
            "commit/spawn",
            20,
            SPAWN,
            format!(
                "{running}, {}, {positions}, {}, {held}, {no}",
                new_instances(rows),
                same("terminate", rows)
            ),
        ),
        case(
            "commit/spawn_alike",
            20,
            "bigint[], bigint[], text[], integer[], boolean[], boolean[], text, integer, text, text, smallint, bigint, bigint, text, text, bigint, bigint, text",
            format!(
                "{running}, {}, {positions}, {held}, {no}, 'order', 1, 'go', 'main', 0, 0, null, null, null, null, null, 'terminate'",
                same("{}", rows)
            ),
        ),
        case(
            "window/fill",
            16,
            "bigint[], bigint[], integer[]",
            format!("{running}, {}", same(1, rows)),
        ),
        case("cascade/close", 8, FENCE, &ended_parents).after_writing(&ended_parent_ids),
        case("window/admit", 35, FENCE, &placed).after_writing(&placed_ids),
        case(
            "commit/report_dropped",
            16,
            "bigint[], bigint[], integer[], text[], text[], boolean[]",
            format!(
                "{running}, {}, {}, {}, {no}",
                bigints(0..rows as i64),
                same("order", rows),
                keys(rows)
            ),
        ),
        case(
            "inbox/consume",
            36,
            "bigint[], bigint[], text[], boolean[]",
            format!("{running}, {received}, {no}"),
        ),
        case(
            "inbox/reply",
            31,
            "bigint[], bigint[], boolean[], text[], text[], text[]",
            format!(
                "{running}, {no}, {}, {}, {}",
                texts(
                    table::ids(RUNNING, rows)
                        .into_iter()
                        .map(|id| format!("{{{}}}", table::inbox(id)[1]))
                ),
                same("{done}", rows),
                same("{1}", rows)
            ),
        ),
        case("inbox/clear", 34, "bigint[]", &running_ids),
        case("join/join", 18, FENCE, &children).after_writing(&child_ids),
        case("line/let_through", 32, FENCE, &running).after_writing(&running_ids),
        case(
            "commit/advance",
            20,
            "bigint[], bigint[], text[], text[], text[], bigint[], text[], text[], boolean[]",
            format!("{running}, {}, {no}", advances(rows)),
        ),
        case(
            "commit/park",
            22,
            "bigint[], bigint[], boolean[], text[], text[], bigint[], text[], text[], boolean[], boolean[], integer[], boolean[], integer[], text[]",
            format!(
                "{running}, {}, {received}, {no}, {no}, {}, {no}, {}, {}",
                parks(rows),
                same(2, rows),
                same(50, rows),
                same("terminate", rows)
            ),
        ),
        case(
            "history/append",
            14,
            "bigint[], bigint[], boolean[], integer[], text[], text[], text[], text[], text[]",
            format!("{running}, {no}, {}", events(rows)),
        ),
        case(
            "history/publish",
            20,
            "bigint[], bigint[], boolean[], text[], text[]",
            format!(
                "{running}, {no}, {}, {}",
                same("{progress,stage}", rows),
                same("{1,2}", rows)
            ),
        ),
        case(
            "commit/advance_workflow",
            14,
            PROCEED,
            format!(
                "{running}, {}, {no}, {no}, {none}, {none}, {}",
                same("executing", rows),
                events(rows)
            ),
        ),
        // An instance that ends leaves its page and the indexes of executing rows.
        case(
            "commit/advance_workflow",
            24,
            PROCEED,
            format!(
                "{running}, {}, {no}, {}, {}, {none}, {}",
                same("done", rows),
                same("true", rows),
                same("7", rows),
                events(rows)
            ),
        ),
        case(
            "commit/park_workflow",
            30,
            "bigint[], bigint[], text[], boolean[], boolean[], boolean[], integer[], text[], bigint[], bigint[], text[], text[], text[], text[], text[], text[], text[], boolean[]",
            format!("{running}, {}", flows(rows)),
        ),
        case(
            "commit/continue_as_new",
            25,
            "bigint[], bigint[], text[], boolean[], integer",
            format!("{running}, {}, {no}, 10", same("{}", rows)),
        ),
        case(
            "commit/release",
            20,
            "bigint[], bigint[], bigint[]",
            format!("{running}, {}", same(0, rows)),
        ),
    ]
}

const FENCE: &str = "bigint[], bigint[]";
const SPAWN: &str = "bigint[], bigint[], text[], integer[], text[], text[], text[], smallint[], bigint[], bigint[], text[], text[], text[], text[], bigint[], bigint[], integer[], text[], boolean[], boolean[]";
const PROCEED: &str = "bigint[], bigint[], text[], boolean[], boolean[], text[], text[], integer[], text[], text[], text[], text[], text[]";

/// The value of a column for a kind of outcome.
type Column<'a> = &'a dyn Fn(&str) -> Option<&'static str>;

/// Status, step, state, delay, result and error of outcomes that advance or end, in turn.
fn advances(rows: usize) -> String {
    let columns: [Column<'_>; 6] = [
        &|kind| match kind {
            "keep" => Some("executing"),
            "next" | "retry" => Some("runnable"),
            _ => Some("done"),
        },
        &|kind| ["keep", "next"].contains(&kind).then_some("pack"),
        &|kind| ["keep", "next", "retry"].contains(&kind).then_some("{}"),
        &|kind| ["next", "retry"].contains(&kind).then_some("1000000"),
        &|kind| (kind == "done").then_some("{}"),
        &|kind| (kind == "retry").then_some("it was so"),
    ];
    in_turn(&["keep", "next", "retry", "done"], &columns, rows)
}

/// For outcomes that park, in turn: whether for children, step, state, timeout and names.
fn parks(rows: usize) -> String {
    let columns: [Column<'_>; 5] = [
        &|kind| Some(if kind == "wait" { "false" } else { "true" }),
        &|_| Some("pack"),
        &|_| Some("{}"),
        &|kind| (kind == "wait").then_some("1000000"),
        &|kind| (kind == "wait").then_some("{paid,stopped}"),
    ];
    in_turn(&["wait", "fan_out"], &columns, rows)
}

/// Outcomes of workflows, in turn: park for signals, park for two children, start children and go
/// on.
fn flows(rows: usize) -> String {
    let before: [Column<'_>; 13] = [
        &|kind| (kind == "start").then_some("runnable"),
        &|_| Some("false"),
        &|kind| Some(if kind == "start" { "true" } else { "false" }),
        &|_| Some("false"),
        &|kind| (kind == "start").then_some("50"),
        &|kind| (kind != "start").then_some("{paid,stopped}"),
        &|kind| (kind != "start").then_some("1000000"),
        &|_| None,
        &|kind| (kind == "ends").then_some("{1}"),
        &|kind| (kind == "ends").then_some("{1}"),
        &|kind| (kind == "ends").then_some("{0}"),
        &|kind| (kind == "ends").then_some("{1}"),
        &|kind| (kind == "ends").then_some("{2}"),
    ];
    let kinds = ["wait", "ends", "start"];
    let is_ends = |n: usize| kinds[n % kinds.len()] == "ends";
    let running = table::ids(RUNNING, rows).into_iter().enumerate();
    let children = running.map(|(n, id)| is_ends(n).then(|| format!("{{{},{}}}", id - 3, id - 2)));
    let awaited_by = (0..rows).map(|n| is_ends(n).then(|| "{1,1}".to_owned()));
    // Every second row that parks needs all.
    let needs_all = (0..rows).map(|n| n % 2 == 1 && kinds[n % kinds.len()] != "start");
    let before = in_turn(&kinds, &before, rows);
    format!(
        "{before}, {}, {}, {}",
        optional_texts(children),
        optional_texts(awaited_by),
        texts(needs_all.map(|it| it.to_string()))
    )
}

/// One event for each outcome.
fn events(rows: usize) -> String {
    [
        same(1, rows),
        same("{step_completed}", rows),
        same("{1}", rows),
        same("{reserve}", rows),
        same("{\"{}\"}", rows),
        same("{null}", rows),
    ]
    .join(", ")
}

/// The columns of `rows` outcomes whose kinds take turns.
fn in_turn(kinds: &[&str], columns: &[Column<'_>], rows: usize) -> String {
    let turns = || kinds.iter().cycle().take(rows);
    let mut lists = Vec::new();
    for column in columns {
        lists.push(optional_texts(
            turns().map(|kind| column(kind).map(String::from)),
        ));
    }
    lists.join(", ")
}

fn entering(rows: usize) -> Vec<Case> {
    let parked: Vec<i64> = mixed(table::ids(PARKED, rows), table::ids(PARKED_WITH_KEY, rows));
    let by_key = |id: i64| id % 100 == PARKED_WITH_KEY;
    let targets = bigints(parked.iter().copied());
    vec![
        case(
            "insert/insert",
            10,
            INSERT,
            format!("null, {}", new_instances(rows)),
        ),
        case(
            "insert/alike",
            10,
            "text[], text, integer, text, text, smallint, bigint, bigint, text, text, bigint, bigint",
            format!(
                "{}, 'order', 1, 'start', 'main', 0, 0, null, null, 'trace', null, null",
                same("{}", rows)
            ),
        ),
        case(
            "insert/holders",
            4,
            "text[], text[]",
            format!("{}, {}", same("order", rows), keys(rows)),
        ),
        case(
            "deliver/lock",
            6,
            "bigint[], bigint",
            format!("{targets}, {WORKER}"),
        ),
        case(
            "deliver/deliver",
            35,
            DELIVER,
            format!(
                "{targets}, {}, {}, {}, {}, {}, 10000, {WORKER}, '{{main}}', '{{order/1,invoice/1}}', 100, {}",
                optional_texts(parked.iter().map(|&id| by_key(id).then(|| "order".into()))),
                optional_texts(
                    parked
                        .iter()
                        .map(|&id| by_key(id).then(|| format!("c{id}")))
                ),
                same("paid", rows),
                same("{\"amount\": 100}", rows),
                optional_texts(
                    parked
                        .iter()
                        .map(|id| (id % 3 == 0).then(|| format!("event {id}")))
                ),
                texts(parked.iter().map(|id| (id % 6 == 0).to_string())),
            ),
        ),
        case("deliver/taken", 4, "bigint[]", &targets),
    ]
}

const DELIVER: &str = "bigint[], text[], text[], text[], text[], text[], bigint, bigint, text[], text[], bigint, boolean[]";
const INSERT: &str = "bigint, text[], integer[], text[], text[], text[], smallint[], bigint[], bigint[], text[], text[], text[], text[], bigint[], bigint[]";

/// New instances. Every second one has a correlation key, and half of these keys are occupied.
fn new_instances(rows: usize) -> String {
    let every_second = |n: usize| n.is_multiple_of(2);
    [
        same("order", rows),
        same(1, rows),
        same("start", rows),
        same("{}", rows),
        same("main", rows),
        same(0, rows),
        same(0, rows),
        optional_texts((0..rows).map(|_| None)),
        optional_texts((0..rows).map(|n| (n % 10 == 0).then(|| format!("new {n}")))),
        optional_texts((0..rows).map(|n| {
            every_second(n).then(|| match n % 4 {
                0 => format!("c{}", n as i64 * 100 + KEYED),
                _ => format!("new {n}"),
            })
        })),
        optional_texts((0..rows).map(|n| every_second(n).then(|| "{runnable,executing}".into()))),
        optional_texts((0..rows).map(|n| every_second(n).then(|| format!("trace {n}")))),
        optional_texts((0..rows).map(|n| (n % 10 == 5).then(|| "60000000".into()))),
        optional_texts((0..rows).map(|_| None)),
    ]
    .join(", ")
}

fn maintaining(rows: usize) -> Vec<Case> {
    let expired = bigints(FIRST_EXPIRED_WORKER..FIRST_EXPIRED_WORKER + 10);
    let running = format!("{}, {}", bigints(table::ids(RUNNING, rows)), same(1, rows));
    let counted = same(0, rows);
    let day_us = 24_i64 * 3600 * 1_000_000;
    vec![
        case(
            "lease/register",
            0,
            "text, text, text, text[], bigint, text",
            "'w', 'host', '1', '{main}', 60000000, '[]'",
        ),
        case(
            "lease/heartbeat",
            0,
            "bigint, bigint",
            format!("{WORKER}, 60000000"),
        ),
        case("lease/wait_for", 0, "bigint", WORKER.to_string()),
        case("lease/lock", 0, "bigint", WORKER.to_string()),
        case("lease/deregister", 0, "bigint", WORKER.to_string()),
        case("reap/workers", 1, "bigint", rows.to_string()),
        case(
            "reap/claims",
            3,
            "bigint[], bigint",
            format!("{expired}, {rows}"),
        ),
        case(
            "reap/return",
            20,
            "bigint[], bigint[], integer[]",
            format!("{running}, {counted}"),
        ),
        case(
            "reap/fail",
            16,
            "bigint[], bigint[], text[], integer[]",
            format!("{running}, {}, {counted}", same("gave up", rows)),
        ),
        case("reap/remove", 1, "bigint[]", &expired),
        case("fire/fire", 19, "bigint", rows.to_string()),
        case("fire/next_due", 0, "", ""),
        case("time_out/due", 10, "bigint", rows.to_string()),
        case(
            "time_out/fail",
            30,
            "bigint[], bigint[], text[], text[]",
            format!(
                "{running}, {}, {}",
                same("timed out", rows),
                same("{}", rows)
            ),
        ),
        case("time_out/next", 0, "", ""),
        case(
            "collect/collect",
            17,
            "bigint, bigint",
            format!("{day_us}, {rows}"),
        ),
        case(
            "collect/collect_operations",
            8,
            "bigint, bigint",
            format!("{day_us}, {rows}"),
        ),
        case("repair/page", 1, "bigint, bigint", format!("5000, {rows}")),
        case(
            "repair/find",
            15,
            "bigint[], boolean",
            format!("{}, false", bigints(table::ids(PARENT, rows))),
        ),
        case(
            "repair/wake",
            15,
            "bigint[], text[]",
            format!(
                "{}, array_fill(null::text, array[{rows}])",
                bigints(table::ids(PARKED, rows))
            ),
        ),
        case(
            "repair/count_again",
            15,
            "bigint[]",
            bigints(table::ids(PARENT, rows)),
        ),
        case(
            "repair/free",
            21,
            "bigint[]",
            bigints(mixed(
                table::ids(table::SET_ASIDE, rows),
                (FIRST_HELD..).take(rows).collect(),
            )),
        ),
    ]
}

fn operating(rows: usize) -> Vec<Case> {
    let any = mixed(table::ids(CHILD, rows), table::ids(PARKED, rows));
    let ended = mixed(table::ids(FAILED, rows), table::ids(FAILED + 2, rows));
    let ended_fence = format!("{}, {}", bigints(ended.clone()), same(0, rows));
    let running = format!("{}, {}", bigints(table::ids(RUNNING, rows)), same(1, rows));
    let child_ids = bigints(table::ids(CHILD, rows));
    let children = format!("{child_ids}, {}", same(1, rows));
    vec![
        case("operate/lock", 6, "bigint[]", bigints(any)),
        case(
            "operate/cancel",
            20,
            "bigint[], bigint[], text",
            format!("{running}, 'why'"),
        ),
        case(
            "operate/terminate",
            20,
            "bigint[], bigint[], text",
            format!("{running}, 'why'"),
        ),
        case("cascade/take", 0, "", ""),
        case("cascade/lock", 15, "bigint, bigint", format!("1, {rows}")),
        case(
            "cascade/leave",
            12,
            "text, text, text, bigint[], integer[]",
            format!("'cancel', 'me', 'why', {child_ids}, {}", same(1, rows)),
        ),
        case(
            "cascade/move",
            0,
            "bigint, integer, bigint",
            "1, 1, 1150000",
        ),
        case(
            "cascade/remove",
            0,
            "bigint, integer, bigint",
            "1, 1, 1000000",
        ),
        case("cascade/left", 0, "", ""),
        case(
            "inbox/end_updates",
            18,
            "bigint[]",
            bigints(table::ids(ASKED, rows)),
        ),
        case("operate/retry", 16, FENCE, &ended_fence),
        case("operate/lock_parents", 11, "bigint[]", &child_ids),
        case("operate/rejoin", 12, FENCE, &children),
        case("operate/delete", 26, "bigint[]", bigints(ended.clone())),
        case(
            "operate/record",
            10,
            "text, text, text, bigint[], text[], bigint",
            format!(
                "'retry', 'me', null, {}, {}, null",
                bigints(ended),
                same("failed", rows)
            ),
        ),
        case(
            "operate/pause",
            0,
            "text, text, text",
            "'quiet', 'me', 'why'",
        ),
        case(
            "operate/resume",
            0,
            "text, text, text",
            "'quiet', 'me', 'why'",
        ),
    ]
}

fn recording(rows: usize) -> Vec<Case> {
    let minutes = || same("2026-11-16 12:00:00+00", rows);
    let steps = texts((0..rows).map(|n| format!("step {n}")));
    let day_us = 24_i64 * 3600 * 1_000_000;
    vec![
        case(
            "run_stats/runs",
            10,
            "timestamptz[], text[], integer[], text[], text[], text[], bigint[], bigint[]",
            format!(
                "{}, {}, {}, {steps}, {}, {}, {}, {}",
                minutes(),
                same("order", rows),
                same(1, rows),
                same("next", rows),
                same("ship", rows),
                same(1, rows),
                same(1_000, rows)
            ),
        ),
        case(
            "run_stats/delays",
            10,
            "timestamptz[], text[], smallint[], bigint[]",
            format!(
                "{}, {}, {}, {}",
                minutes(),
                texts((0..rows).map(|n| format!("queue {n}"))),
                same(3, rows),
                same(1, rows)
            ),
        ),
        case(
            "run_stats/forget_runs",
            4,
            "bigint, bigint",
            format!("{day_us}, {rows}"),
        ),
        case(
            "run_stats/forget_delays",
            4,
            "bigint, bigint",
            format!("{day_us}, {rows}"),
        ),
    ]
}

/// Queries that read a bounded part of the table.
///
/// No row matches the filter of the list, so that it reads as much as it may.
fn reading(rows: usize) -> Vec<Case> {
    let parent = table::ids(PARENT, 1)[0];
    let nulls = |count: usize| vec!["null"; count].join(", ");
    let expired = table::ids(PARKED, rows);
    let deadline = format!("now() + ({} - 100000) * interval '1 second'", expired[0]);
    // The time at which the first of the old instances ended (fill.sql).
    let ended = "date_trunc('day', now()) - interval '3 days'";
    vec![
        case(
            "inspect/instances/count_by_step",
            2,
            "bigint, bigint, bigint, integer, text, text",
            format!("5000, {rows}, 10000000, 5, 'blocked: ', 'blocked: goes in circles: '"),
        ),
        case(
            "inspect/families/rounds",
            2,
            "bigint, bigint",
            format!("{parent}, 100000"),
        ),
        case(
            "inspect/families/family",
            4,
            "bigint, bigint",
            format!("{FAMILY}, {rows}"),
        ),
        case(
            "inspect/histories/history",
            2,
            "bigint, integer, integer, bigint, bigint",
            format!("{FAMILY}, 7, 100, {rows}, 4194304"),
        ),
        case(
            "inspect/histories/histories",
            1,
            "bigint, integer",
            format!("{FAMILY}, 10"),
        ),
        case(
            "inspect/instances/update",
            1,
            "bigint, text",
            format!("{}, 'd1'", table::ids(RUNNING, 1)[0]),
        ),
        case(
            "inspect/histories/views",
            1,
            "bigint, text, integer",
            format!("{FAMILY}, null, 20"),
        ),
        case(
            "inspect/instances/list",
            2,
            LIST,
            format!(
                "'nothing', {}, 900000, 51, {rows}, true, 4194304",
                nulls(16)
            ),
        ),
        // Filters by `sleeping`, and no instance sleeps.
        case(
            "inspect/instances/list",
            2,
            LIST,
            format!(
                "{}, '{{awaiting_signal}}', {}, true, 900000, 51, {rows}, true, 4194304",
                nulls(3),
                nulls(12)
            ),
        ),
        case(
            "inspect/instances/list_found",
            6,
            LIST_FOUND,
            format!(
                "{}, {deadline}, null, null, null, 900000, 51, {}, 'deadline', true, 4194304",
                nulls(13),
                rows * 10
            ),
        ),
        case(
            "inspect/instances/list_found",
            6,
            LIST_FOUND,
            format!(
                "{}, '{{awaiting_signal}}', {}, {deadline}, null, null, false, 900000, 51, {}, 'deadline', true, 4194304",
                nulls(3),
                nulls(9),
                rows * 10
            ),
        ),
        case(
            "inspect/instances/list_found",
            6,
            LIST_FOUND,
            format!(
                "{}, {ended}, {ended} + {} * interval '1 millisecond', null, 900000, 51, {}, 'ended', true, 4194304",
                nulls(14),
                table::ids(FAILED, 1)[0],
                rows * 10
            ),
        ),
    ]
}

const LIST: &str = "text, integer, text, text[], text, text, text, bigint, timestamptz, timestamptz, text, integer, boolean, timestamptz, timestamptz, timestamptz, boolean, bigint, bigint, bigint, boolean, bigint";
const LIST_FOUND: &str = "text, integer, text, text[], text, text, text, bigint, timestamptz, timestamptz, text, integer, boolean, timestamptz, timestamptz, timestamptz, boolean, bigint, bigint, bigint, text, boolean, bigint";

/// Occupied correlation keys.
fn keys(rows: usize) -> String {
    texts(
        table::ids(KEYED, rows)
            .into_iter()
            .map(|id| format!("c{id}")),
    )
}

/// Elements of both, in turn.
fn mixed(one: Vec<i64>, other: Vec<i64>) -> Vec<i64> {
    let both = one.into_iter().zip(other).enumerate();
    both.map(|(n, (one, other))| if n % 2 == 0 { one } else { other })
        .collect()
}

fn bigints(ids: impl IntoIterator<Item = i64>) -> String {
    texts(ids.into_iter().map(|id| id.to_string()))
}

fn same(value: impl ToString, rows: usize) -> String {
    texts((0..rows).map(|_| value.to_string()))
}

fn texts(values: impl IntoIterator<Item = String>) -> String {
    optional_texts(values.into_iter().map(Some))
}

/// An array literal of any element type.
fn optional_texts(values: impl IntoIterator<Item = Option<String>>) -> String {
    let quoted: Vec<String> = values
        .into_iter()
        .map(|value| match value {
            Some(value) => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
            None => "null".into(),
        })
        .collect();
    format!("'{{{}}}'", quoted.join(","))
}
