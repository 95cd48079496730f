//! Known defects that can be put back. Only in builds for `scripts/mutants.sh`
//! (docs/decisions/0022).
//!
//! Most are changes to the text of a statement. The others are beside the code that they break,
//! under `cfg(outlast_mutants)`. No released build contains any of them.

mod edits;

use crate::decode::instance_id;
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::in_schema;
pub(crate) use edits::EDITS;
use outlast_core::{Inserted, Inserts, NewInstance};
use std::fmt::Write;
use tokio_postgres::types::{ToSql, Type};

/// Returns a migration with the active defect, if the defect is one of this migration.
pub(crate) fn defective_migration(version: usize, text: &'static str) -> &'static str {
    let name = format!("migration {version}");
    outlast_core::mutant::reached(EDITS, &name);
    outlast_core::mutant::edited(EDITS, &name, text)
}

/// Defect 18: inserts many alike rows with separate parameters for each.
///
/// The protocol counts parameters in 16 bits.
pub(crate) async fn insert_as_values(
    session: &Session,
    rows: &[NewInstance],
) -> Result<Inserts, Failure> {
    let mut sql =
        "insert into outlast.instances (machine, step, state, queue, machine_version, status, priority, \
                   eligible_at, inserted_at, updated_at) values "
            .to_owned();
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
    for row in rows {
        let n = parameters.len();
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(
            sql,
            "{comma} (${}, ${}, ${}::text::json, ${}, 1, 'runnable', 0, outlast.now(), outlast.now(), outlast.now())",
            n + 1,
            n + 2,
            n + 3,
            n + 4,
        );
        let state = Box::leak(row.state.as_str().to_owned().into_boxed_str());
        parameters.push((&row.machine, Type::TEXT));
        parameters.push((&row.step, Type::TEXT));
        parameters.push((Box::leak(Box::new(&*state)), Type::TEXT));
        parameters.push((&row.queue, Type::TEXT));
    }
    sql.push_str(" returning id");
    let client = session.pool.get().await.map_err(Failure::Pool)?;
    let sql = in_schema(&sql, session.transactions.name());
    let mut inserts = Inserts::default();
    for row in client.query_typed(&sql, &parameters).await? {
        inserts.rows.push(Inserted::New {
            id: instance_id(&row)?,
            claimed: None,
        });
    }
    inserts.woken.insert(rows[0].queue.clone());
    Ok(inserts)
}
