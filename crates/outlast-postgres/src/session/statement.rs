//! The SQL files, and calls of them.
//!
//! Each statement is one file under `sql/`. The file name is the name of the prepared statement.
//! The files are written for the schema `outlast`. A store replaces that name once, when it is
//! made. No statement is put together from parts: a reviewer reads in the file what the server
//! runs (sql/README.md).

use outlast_core::{ClaimRef, Json};
use postgres_types_reexport::{ToSql, Type};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use tokio_postgres::types as postgres_types_reexport;

/// One statement: the name of its file, and its text.
#[derive(Clone, Copy)]
pub(crate) struct Statement {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! statements {
    ($($constant:ident = $name:literal;)*) => {
        $(pub(crate) const $constant: Statement = Statement {
            name: $name,
            text: include_str!(concat!("../../sql/", $name, ".sql")),
        };)*

        /// All statements, so that tests can prepare each of them.
        pub(crate) const ALL: &[Statement] = &[$($constant),*];
    };
}

// One line for each file. tests/schema/statements.rs compares the list with the folder.
statements! {
    INSERT = "insert/insert";
    INSERT_ALIKE = "insert/alike";
    HOLDERS = "insert/holders";
    CLAIM = "claim/claim";
    CLAIM_INBOX = "claim/inbox";
    CLAIM_CHILDREN = "claim/children";
    CLAIM_HELD = "claim/held";
    COMMIT_LOCK = "commit/lock";
    COMMIT_SPAWN = "commit/spawn";
    COMMIT_SPAWN_ALIKE = "commit/spawn_alike";
    COMMIT_REPORT_DROPPED = "commit/report_dropped";
    COMMIT_PARK_WORKFLOW = "commit/park_workflow";
    COMMIT_ADVANCE_WORKFLOW = "commit/advance_workflow";
    COMMIT_CONTINUE_AS_NEW = "commit/continue_as_new";
    COMMIT_ADVANCE = "commit/advance";
    COMMIT_PARK = "commit/park";
    COMMIT_RELEASE = "commit/release";
    HISTORY_APPEND = "history/append";
    HISTORY_PUBLISH = "history/publish";
    INBOX_CONSUME = "inbox/consume";
    INBOX_REPLY = "inbox/reply";
    INBOX_END_UPDATES = "inbox/end_updates";
    INBOX_CLEAR = "inbox/clear";
    JOIN = "join/join";
    WINDOW_FILL = "window/fill";
    WINDOW_ADMIT = "window/admit";
    LINE_LET_THROUGH = "line/let_through";
    DELIVER_LOCK = "deliver/lock";
    DELIVER = "deliver/deliver";
    DELIVER_TAKEN = "deliver/taken";
    NOTIFY = "notify/notify";
    TRANSACTION_INSERT = "transaction/insert";
    TRANSACTION_SIGNAL = "transaction/signal";
    TRANSACTION_REPLY = "transaction/reply";
    LEASE_REGISTER = "lease/register";
    LEASE_WAIT_FOR = "lease/wait_for";
    LEASE_HEARTBEAT = "lease/heartbeat";
    LEASE_HOLD = "lease/hold";
    LEASE_CLAIMS = "lease/claims";
    LEASE_LOCK = "lease/lock";
    LEASE_DEREGISTER = "lease/deregister";
    REAP_WORKERS = "reap/workers";
    REAP_CLAIMS = "reap/claims";
    REAP_RETURN = "reap/return";
    REAP_FAIL = "reap/fail";
    REAP_REMOVE = "reap/remove";
    FIRE = "fire/fire";
    FIRE_NEXT_DUE = "fire/next_due";
    TIME_OUT_DUE = "time_out/due";
    TIME_OUT_FAIL = "time_out/fail";
    TIME_OUT_NEXT = "time_out/next";
    COLLECT = "collect/collect";
    COLLECT_OPERATIONS = "collect/collect_operations";
    REPAIR_PAGE = "repair/page";
    REPAIR_FIND = "repair/find";
    REPAIR_WAKE = "repair/wake";
    REPAIR_COUNT_AGAIN = "repair/count_again";
    REPAIR_FREE = "repair/free";
    RUN_STATS_RUNS = "run_stats/runs";
    RUN_STATS_DELAYS = "run_stats/delays";
    RUN_STATS_FORGET_RUNS = "run_stats/forget_runs";
    RUN_STATS_FORGET_DELAYS = "run_stats/forget_delays";
    OPERATE_LOCK = "operate/lock";
    OPERATE_CANCEL = "operate/cancel";
    OPERATE_TERMINATE = "operate/terminate";
    OPERATE_LOCK_PARENTS = "operate/lock_parents";
    OPERATE_RETRY = "operate/retry";
    OPERATE_REJOIN = "operate/rejoin";
    OPERATE_DELETE = "operate/delete";
    OPERATE_RECORD = "operate/record";
    OPERATE_PAUSE = "operate/pause";
    OPERATE_RESUME = "operate/resume";
    CASCADE_CLOSE = "cascade/close";
    CASCADE_TAKE = "cascade/take";
    CASCADE_LOCK = "cascade/lock";
    CASCADE_LEAVE = "cascade/leave";
    CASCADE_MOVE = "cascade/move";
    CASCADE_REMOVE = "cascade/remove";
    CASCADE_LEFT = "cascade/left";
    INSPECT_NOW = "inspect/now";
    INSPECT_GET = "inspect/instances/get";
    INSPECT_FIND = "inspect/instances/find";
    INSPECT_LIST = "inspect/instances/list";
    INSPECT_LIST_FOUND = "inspect/instances/list_found";
    INSPECT_COUNT = "inspect/instances/count";
    INSPECT_SIGNALS = "inspect/instances/signals";
    INSPECT_UPDATE = "inspect/instances/update";
    INSPECT_COUNT_BY_STEP = "inspect/instances/count_by_step";
    INSPECT_CHILDREN = "inspect/families/children";
    INSPECT_FAMILY = "inspect/families/family";
    INSPECT_ROUNDS = "inspect/families/rounds";
    INSPECT_HISTORY = "inspect/histories/history";
    INSPECT_HISTORIES = "inspect/histories/histories";
    INSPECT_VIEWS = "inspect/histories/views";
    INSPECT_OPERATIONS = "inspect/operations/operations";
    INSPECT_CLOSE_ACTIONS = "inspect/operations/close_actions";
    INSPECT_QUEUES = "inspect/queues/queues";
    INSPECT_WORKERS = "inspect/queues/workers";
    INSPECT_RUNS = "inspect/run_stats/runs";
    INSPECT_DELAYS = "inspect/run_stats/delays";
    DOCTOR_SERVER = "doctor/server";
    DOCTOR_HOLDERS = "doctor/holders";
    DOCTOR_TABLE = "doctor/table";
    DOCTOR_LEASES = "doctor/leases";
    DOCTOR_TIMERS = "doctor/timers";
    DOCTOR_TIMEOUTS = "doctor/timeouts";
    DOCTOR_NEWEST = "doctor/newest";
    DOCTOR_TIMES = "doctor/times";
    DOCTOR_RIGHTS = "doctor/rights";
    DOCTOR_SCHEMA = "doctor/schema";
}

/// The texts of the statements for one schema.
pub(crate) struct Texts(HashMap<&'static str, String>);

impl Texts {
    pub(crate) fn for_schema(schema: &str, clock: Timekeeper) -> Texts {
        Texts(
            ALL.iter()
                .map(|s| {
                    let text = s.text;
                    #[cfg(outlast_mutants)]
                    let text = outlast_core::mutant::edited(crate::mutants::EDITS, s.name, text);
                    // The clock first: it looks for `outlast.now()` by that name.
                    (s.name, in_schema(&clock.put_into(text), schema))
                })
                .collect(),
        )
    }

    pub(crate) fn of(&self, statement: Statement) -> &str {
        #[cfg(outlast_mutants)]
        outlast_core::mutant::reached(crate::mutants::EDITS, statement.name);
        // The macro is the only source of statements, so each has a text here.
        &self.0[statement.name]
    }
}

/// The clock that the statements of a store use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timekeeper {
    /// The server's clock.
    Server,
    /// A test's clock, in a setting of each transaction.
    ///
    /// The schema's functions never read it: they may have more rights than their caller.
    Test,
}

impl Timekeeper {
    /// The setting that holds the test's time, in microseconds since 1970.
    pub(crate) const SETTING: &str = "outlast_test.now_us";

    /// Returns the statement with this clock.
    pub(crate) fn put_into(self, text: &str) -> Cow<'_, str> {
        match self {
            Timekeeper::Server => text.into(),
            Timekeeper::Test => {
                let setting = Timekeeper::SETTING;
                let now = format!(
                    "(timestamptz 'epoch' + current_setting('{setting}')::bigint * interval '1 microsecond')"
                );
                text.replace("outlast.now()", &now).into()
            }
        }
    }
}

/// Returns SQL that was written for the schema `outlast`, for `schema`.
///
/// The name was validated, so quoting it cannot change the meaning of the SQL. Every `outlast.` is
/// replaced, in comments and literals too. So no statement may use that word for anything else.
pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace("outlast.", &format!("\"{schema}\"."))
}

/// One statement with its parameters, ready to be sent.
pub(crate) struct Call<'a> {
    pub(crate) statement: Statement,
    pub(crate) parameters: Vec<Parameter<'a>>,
}

impl Statement {
    /// Returns a call with these parameters, `$1` first.
    ///
    /// Nothing here compares them with the header. A wrong number or type is an error of the call.
    pub(crate) fn with<'a>(self, parameters: impl Into<Vec<Parameter<'a>>>) -> Call<'a> {
        Call {
            statement: self,
            parameters: parameters.into(),
        }
    }
}

/// A value with its SQL type, so that a statement can be sent without preparing it first.
///
/// Without the type the driver would prepare each text to learn it, one more round trip.
pub(crate) struct Parameter<'a> {
    pub(crate) value: Box<dyn ToSql + Sync + Send + 'a>,
    pub(crate) sql_type: Type,
}

/// Values that have one SQL type.
///
/// A batch is one array per column. The protocol counts parameters in 16 bits, so a parameter per
/// row would bound a batch (docs/protocol.md, defect 18).
pub(crate) trait Typed: ToSql + Sync + Send {
    fn sql_type() -> Type;
}

macro_rules! typed {
    ($($rust:ty => $sql:ident;)*) => {
        $(impl Typed for $rust {
            fn sql_type() -> Type { Type::$sql }
        })*
    };
}

typed! {
    bool => BOOL;
    i64 => INT8;
    i32 => INT4;
    i16 => INT2;
    &str => TEXT;
    String => TEXT;
    std::time::SystemTime => TIMESTAMPTZ;
    Vec<std::time::SystemTime> => TIMESTAMPTZ_ARRAY;
    Vec<i64> => INT8_ARRAY;
    Vec<Option<i64>> => INT8_ARRAY;
    Vec<i32> => INT4_ARRAY;
    Vec<Option<i32>> => INT4_ARRAY;
    Vec<i16> => INT2_ARRAY;
    Vec<bool> => BOOL_ARRAY;
    Vec<Option<bool>> => BOOL_ARRAY;
    Vec<&str> => TEXT_ARRAY;
    Vec<Option<&str>> => TEXT_ARRAY;
    Vec<String> => TEXT_ARRAY;
    Vec<Option<String>> => TEXT_ARRAY;
}

impl<T: Typed> Typed for Option<T> {
    fn sql_type() -> Type {
        T::sql_type()
    }
}

/// Wraps a value as a parameter.
pub(crate) fn value<'a, T: Typed + 'a>(value: T) -> Parameter<'a> {
    Parameter {
        value: Box::new(Unlogged(value)),
        sql_type: T::sql_type(),
    }
}

/// Returns the JSON documents of a column, as text.
///
/// The statements cast them to `json`, which keeps every character (docs/decisions/0001).
pub(crate) fn documents<'a>(
    values: impl Iterator<Item = Option<&'a Json>>,
) -> Vec<Option<&'a str>> {
    values.map(|json| json.map(Json::as_str)).collect()
}

/// A value that stays out of logs: the driver writes parameters into its debug log.
struct Unlogged<T>(T);

impl<T> fmt::Debug for Unlogged<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<T: ToSql> ToSql for Unlogged<T> {
    fn to_sql(
        &self,
        sql_type: &Type,
        out: &mut postgres_types_reexport::private::BytesMut,
    ) -> Result<postgres_types_reexport::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql(sql_type, out)
    }

    fn accepts(sql_type: &Type) -> bool {
        T::accepts(sql_type)
    }

    postgres_types_reexport::to_sql_checked!();
}

/// Returns claims as the two arrays that are the first parameters of every fenced statement.
///
/// The revisions are those before this transaction writes, also for statements after the write.
/// Those add one to it and compare `xmin` too (docs/decisions/0008).
pub(crate) fn references(claims: &[ClaimRef]) -> [Parameter<'static>; 2] {
    [
        value(ids_of(claims)),
        value(
            claims
                .iter()
                .map(|claim| claim.revision.0)
                .collect::<Vec<i64>>(),
        ),
    ]
}

pub(crate) fn ids_of(claims: &[ClaimRef]) -> Vec<i64> {
    claims.iter().map(|claim| claim.id.0).collect()
}
