//! The effects of a verb on other rows: the statements that cause them, and their answers.
//!
//! Commits, releases, reaps, cascades and operators' verbs use them. Each statement reads the rows
//! that this transaction has written before, so it must come after those writes. The order of the
//! locks is: rows that enter a window, parents, the next rows of partition keys. All verbs keep
//! this order, so that no two of them deadlock here (docs/protocol.md, defect 7).

use crate::decode::column;
use crate::error::Failure;
use crate::session::statement::{self, Call, ids_of, references, value};
use outlast_core::{ClaimRef, QueueNames};
use tokio_postgres::Row;

/// The effects on other instances.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) woken: QueueNames,
    pub(crate) cascades: bool,
}

impl Effects {
    /// Adds the effects of one statement: queues with more to claim, and cascades that were left.
    pub(crate) fn add(
        &mut self,
        statement: statement::Statement,
        rows: &[Row],
    ) -> Result<(), Failure> {
        let name = statement.name;
        // It answers no rows, but it is sent only if there is a cascade to leave.
        if name == statement::CASCADE_LEAVE.name {
            self.cascades = true;
        } else if name == statement::CASCADE_CLOSE.name {
            self.cascades |= !rows.is_empty();
        }
        for row in rows {
            if name == statement::JOIN.name {
                add_if(&mut self.woken, row, "released")?;
                self.cascades |= column::<bool>(row, "cascades")?;
            } else if name == statement::LINE_LET_THROUGH.name {
                self.woken.insert(column(row, "queue")?);
            } else if name == statement::WINDOW_ADMIT.name || name == statement::OPERATE_CANCEL.name
            {
                add_if(&mut self.woken, row, "eligible")?;
            }
        }
        Ok(())
    }
}

/// Clears the inboxes of finished instances.
///
/// Signals with a dedup key stay as tombstones, so that a message that is sent again is still a
/// duplicate (docs/protocol.md, defect 9).
pub(crate) fn clearing<'a>(ended: &[ClaimRef]) -> Call<'a> {
    statement::INBOX_CLEAR.with([value(ids_of(ended))])
}

/// Leaves cascades for children, after this transaction has written their finished parents.
///
/// Only a live parent starts children, so no child can come later and escape (I13).
pub(crate) fn closing(ended: &[ClaimRef]) -> Call<'static> {
    statement::CASCADE_CLOSE.with(references(ended))
}

/// Admits waiting siblings into windows, after this transaction has written the finished children.
///
/// Two siblings that end at once admit two rows: the second waits for the first row's lock, and
/// then takes the next one (I6).
pub(crate) fn admitting(ended: &[ClaimRef]) -> Call<'static> {
    statement::WINDOW_ADMIT.with(references(ended))
}

/// Counts finished children off their parents, after this transaction has written the children.
///
/// All ends of a batch go into one call. The statement groups them by parent, so that siblings of
/// one batch all count (docs/protocol.md, defect 5).
pub(crate) fn joining(ended: &[ClaimRef]) -> Call<'static> {
    statement::JOIN.with(references(ended))
}

/// Lets the next row of each partition key through, after this transaction has freed the keys.
///
/// A claim sets a row aside only under a share lock on the running row. So the write that frees
/// the key comes after it, and this later statement sees the row (docs/decisions/0002).
pub(crate) fn letting_through(left: &[ClaimRef]) -> Call<'static> {
    statement::LINE_LET_THROUGH.with(references(left))
}

/// Adds the queue of a row if the row's column `condition` is true.
pub(crate) fn add_if(woken: &mut QueueNames, row: &Row, condition: &str) -> Result<(), Failure> {
    if column(row, condition)? {
        woken.insert(column(row, "queue")?);
    }
    Ok(())
}

/// Adds the queues of all rows.
pub(crate) fn add_all(woken: &mut QueueNames, rows: &[Row]) -> Result<(), Failure> {
    for row in rows {
        woken.insert(column(row, "queue")?);
    }
    Ok(())
}
