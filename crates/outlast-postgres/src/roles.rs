//! Rights of roles in a schema.
//!
//! Roles belong to the whole server, and its owner names them. So nothing here creates a role:
//! rights are granted to existing ones. The tables below list all rights. A test fails for an
//! object of the schema that is in none of them (docs/decisions/0023).

use crate::connection::{Pool, Pooled};
use crate::error::Failure;
use crate::migrate::{PRINTED_LOCK_TIMEOUT, SCHEMA_VERSION, take_lock};
use crate::options::check_schema_name;
use outlast_core::{Error, Invalid};
use std::time::Duration;

/// The rights of roles in the schema. Its owner, who migrates it, needs none of them.
///
/// ```
/// use outlast_postgres::Roles;
///
/// let roles = Roles::new().worker("shop_worker").enqueuer("shop_web").reader("shop_support");
/// let sql = roles.sql("outlast")?;
/// assert!(sql.contains(r#"grant select, insert, update, delete on "outlast".instances to "shop_worker";"#));
/// # Ok::<_, outlast_core::Invalid>(())
/// ```
///
/// A migration may add tables and functions, so grant the rights again after every migration. Use
/// [`Options::grant`](crate::Options::grant), or run [`sql`](Roles::sql). Both give each named
/// role exactly these rights, and revoke all its other rights in this schema. Both can be
/// repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    named: Vec<(Part, String)>,
}

/// The purpose of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Worker,
    Enqueuer,
    Reader,
}

/// The rights of each kind of role to a table, as the words of `grant`.
struct Table {
    name: &'static str,
    worker: &'static str,
    enqueuer: &'static str,
    reader: &'static str,
}

/// Every role may read the version: a store checks it first.
const TABLES: &[Table] = &[
    Table {
        name: "meta",
        worker: "select",
        enqueuer: "select",
        reader: "select",
    },
    Table {
        name: "instances",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "events",
        // Events are never updated.
        worker: "select, insert, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "views",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "signals",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "workers",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "queues",
        worker: "select, insert, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "operations",
        // The collector locks records before it deletes them, which needs the right to update one
        // column. No statement updates them.
        worker: "select, insert, update (id), delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "cascades",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "runs",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
    Table {
        name: "delays",
        worker: "select, insert, update, delete",
        enqueuer: "",
        reader: "select",
    },
];

/// The sequences that a worker's statements name.
const WORKER_SEQUENCES: &[&str] = &["instances_id_seq", "signals_id_seq"];

/// The functions that start and signal instances with the owner's rights.
const ENQUEUING: &[&str] = &[
    "insert(text, text, jsonb, integer, text, integer, timestamptz, text, text, text[], text, interval)",
    "signal(bigint, text, jsonb, text)",
    "signal(text, text, text, jsonb, text)",
    "signal(text, text, text, text, text)",
    "insert_one(text, integer, text, json, text, smallint, bigint, bigint, text, text, text[], text, bigint, bigint)",
    "deliver_one(bigint, text, text, text, json, text, bigint, boolean)",
    "update(bigint, text, jsonb, text)",
    "update(text, text, text, jsonb, text)",
];

/// The functions that return what became of an update, with the owner's rights.
const REPLIES: &[&str] = &["reply(bigint, text)", "reply(text, text, text)"];

/// The text of a key of any bytes, for calls and queries in SQL. It reads nothing.
const KEYS: &[&str] = &["key(bytea)"];

/// The clock, which every statement calls.
const CLOCK: &[&str] = &["now()"];

/// The functions with the rules of joins, for the statements that count children. They read no
/// table.
const COUNTING: &[&str] = &[
    "joined(integer, boolean, integer, integer, integer)",
    "spans(integer[], integer[], integer[], integer[])",
];

impl Roles {
    /// Returns a set without any role.
    pub fn new() -> Roles {
        Roles::default()
    }

    /// Adds a role for engines and operators. It may use every verb, and changes no schema object.
    pub fn worker(self, name: impl Into<String>) -> Roles {
        self.with(Part::Worker, name)
    }

    /// Adds a role for programs that only start and signal instances, and read replies to updates.
    ///
    /// It reads no table and calls functions only. From Rust it uses
    /// [`transaction`](crate::transaction), or a store with
    /// [`Options::enqueue_only`](crate::Options::enqueue_only).
    pub fn enqueuer(self, name: impl Into<String>) -> Roles {
        self.with(Part::Enqueuer, name)
    }

    /// Adds a role that reads everything, including states and payloads, and changes nothing.
    pub fn reader(self, name: impl Into<String>) -> Roles {
        self.with(Part::Reader, name)
    }

    fn with(mut self, part: Part, name: impl Into<String>) -> Roles {
        self.named.push((part, name.into()));
        self
    }

    /// Returns the SQL that grants these rights in `schema`. The schema's owner runs it.
    pub fn sql(&self, schema: &str) -> Result<String, Invalid> {
        let given = self.statements(schema)?;
        let lock = take_lock(schema, PRINTED_LOCK_TIMEOUT);
        let header = format!(
            "-- Outlast, schema {schema:?}, version {SCHEMA_VERSION}: who may do what.\n\
             -- For the schema's owner to run, again after every migration.\n\n"
        );
        Ok(format!("{header}{lock}\n{given}\ncommit;\n"))
    }

    /// Returns the statements in the order in which they must run.
    fn statements(&self, schema: &str) -> Result<String, Invalid> {
        check_schema_name(schema)?;
        if schema == "public" {
            return Err(Invalid::new(
                "schema",
                "is public, which everybody shares; roles are for a schema that is Outlast's alone",
            ));
        }
        if self.named.is_empty() {
            return Err(Invalid::new("roles", "are none; name at least one"));
        }
        let named = self.named.iter();
        let named = named.map(|(part, name)| quoted(name).map(|role| (*part, role)));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        let mut sql = String::new();
        revoke(&mut sql, schema, &named);
        for (part, role) in &named {
            grant(&mut sql, schema, *part, role);
        }
        Ok(sql)
    }
}

/// Revokes earlier rights of the roles, and the rights of `public`.
///
/// PostgreSQL lets every role execute a new function. Some of ours run with the owner's rights, so
/// `public` must lose that right (docs/decisions/0023).
fn revoke(sql: &mut String, schema: &str, roles: &[(Part, String)]) {
    let mut from = "public".to_owned();
    for (_, role) in roles {
        from.push_str(&format!(", {role}"));
    }
    let mut revoke = |what: String| sql.push_str(&format!("revoke all on {what} from {from};\n"));
    revoke(format!("schema \"{schema}\""));
    for table in TABLES {
        revoke(format!("\"{schema}\".{}", table.name));
    }
    for sequence in WORKER_SEQUENCES {
        revoke(format!("sequence \"{schema}\".{sequence}"));
    }
    let functions = [CLOCK, COUNTING, ENQUEUING, REPLIES, KEYS];
    for function in functions.into_iter().flatten() {
        revoke(format!("function \"{schema}\".{function}"));
    }
}

fn grant(sql: &mut String, schema: &str, part: Part, role: &str) {
    let mut grant = |what: String| sql.push_str(&format!("grant {what} to {role};\n"));
    grant(format!("usage on schema \"{schema}\""));
    for table in TABLES {
        let rights = part.rights(table);
        if !rights.is_empty() {
            grant(format!("{rights} on \"{schema}\".{}", table.name));
        }
    }
    for sequence in part.sequences() {
        grant(format!("usage on sequence \"{schema}\".{sequence}"));
    }
    for function in part.functions() {
        grant(format!("execute on function \"{schema}\".{function}"));
    }
}

impl Part {
    fn rights(self, table: &Table) -> &'static str {
        match self {
            Part::Worker => table.worker,
            Part::Enqueuer => table.enqueuer,
            Part::Reader => table.reader,
        }
    }

    fn sequences(self) -> &'static [&'static str] {
        match self {
            Part::Worker => WORKER_SEQUENCES,
            Part::Enqueuer | Part::Reader => &[],
        }
    }

    fn functions(self) -> impl Iterator<Item = &'static &'static str> {
        let functions: &[&[_]] = match self {
            Part::Worker => &[CLOCK, COUNTING, ENQUEUING, REPLIES, KEYS],
            Part::Enqueuer => &[ENQUEUING, REPLIES, KEYS],
            // To find instances that need a repair.
            Part::Reader => &[CLOCK, COUNTING, REPLIES, KEYS],
        };
        functions.iter().flat_map(|functions| functions.iter())
    }
}

/// Grants the rights in one transaction, under the lock that migrations take.
///
/// Between the revoke and the grant no other transaction sees a role without its rights.
pub(crate) async fn give(
    pool: &Pool,
    schema: &str,
    roles: &Roles,
    lock: Duration,
) -> Result<(), Error> {
    const OPERATION: &str = "grant";
    let given = roles.statements(schema);
    let given = given.map_err(|invalid| invalid.during(OPERATION))?;
    let client: Pooled = pool
        .get()
        .await
        .map_err(|error| Failure::Pool(error).during(OPERATION))?;
    let sql = format!("{}{given}commit", take_lock(schema, lock));
    match client.batch_execute(&sql).await {
        Ok(()) => Ok(()),
        Err(error) => {
            // The first error counts. If the connection is gone, the server rolls back.
            let _ = client.batch_execute("rollback").await;
            Err(Failure::from(error).during(OPERATION))
        }
    }
}

/// Returns the name of a role as an identifier. Refuses names with a special meaning.
fn quoted(name: &str) -> Result<String, Invalid> {
    let refuse = |why: &str| Err(Invalid::new("role", format!("{name:?} {why}")));
    if name.is_empty() || name.len() > 63 {
        return refuse("is empty or longer than the 63 bytes that PostgreSQL keeps of a name");
    }
    if name.chars().any(char::is_control) {
        return refuse("contains a control character");
    }
    // Even in quotes, `public` means every role and `none` means no role.
    if matches!(name, "public" | "none") || name.starts_with("pg_") {
        return refuse("is a name that PostgreSQL keeps for itself");
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_or_refused() {
        for (name, expected) in [
            ("web", "\"web\""),
            ("select", "\"select\""),
            ("Web Node", "\"Web Node\""),
            ("a\"; drop table x; --", "\"a\"\"; drop table x; --\""),
            ("bücher", "\"bücher\""),
        ] {
            assert_eq!(quoted(name).unwrap(), expected);
        }
        let long = "x".repeat(64);
        for name in ["", "public", "none", "pg_monitor", "a\0b", "a\nb", &long] {
            assert!(quoted(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn grants_need_a_role_and_a_schema_of_their_own() {
        let some = Roles::new().worker("w");
        assert!(some.sql("outlast").is_ok());
        assert!(some.sql("public").is_err());
        assert!(some.sql("a\"b").is_err());
        assert!(Roles::new().sql("outlast").is_err());
    }
}
