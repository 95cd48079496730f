//! The fence: whether a claim still holds, and the work that follows when its instance leaves it.
//!
//! The outcomes and `release` call it. The updates repeat the fence in their conditions. Children,
//! events and consumed signals have no fence of their own: they must only be written once it has
//! held (I3).

use crate::decode::Columns;
use crate::error::Fault;
use crate::tx::Tx;
use crate::verbs::effects::partition_line;
use crate::verbs::effects::{ChildPosition, Ended};
use outlast_core::{
    CancelRequest, ClaimRef, Commit, InstanceId, Outcome, QueueNames, SignalId, Status, Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};

const FENCE: &str = include_str!("../../../sql/commit/fence.sql");

/// The columns of an instance whose claim still holds, as they are before the outcome.
pub(super) struct FencedRow {
    queue: String,
    pub(super) eligible_at: Timestamp,
    partition_key: Option<String>,
    child_position: Option<ChildPosition>,
    /// Whether it has a place in the window of its siblings.
    has_place: bool,
    pub(super) round: i32,
    pub(super) cancel: Option<CancelRequest>,
    /// The latest signal that was delivered since the claim.
    pub(super) latest_signal: Option<SignalId>,
}

/// Returns the row if its claim still holds (I3).
///
/// With one writer, the answer stays true for the rest of the transaction.
pub(super) fn fence(tx: &Tx<'_>, claim: ClaimRef) -> Result<Option<FencedRow>, Fault> {
    let fenced = tx
        .prepare(FENCE)?
        .query_row(params![claim.id.0, claim.revision.0], FencedRow::decode)
        .optional()?;
    Ok(fenced)
}

impl FencedRow {
    /// Decodes the columns in the order of `commit/fence.sql`.
    fn decode(row: &Row<'_>) -> rusqlite::Result<FencedRow> {
        let mut columns = Columns::of(row);
        Ok(FencedRow {
            queue: columns.next()?,
            eligible_at: Timestamp(columns.next()?),
            partition_key: columns.next()?,
            child_position: columns.next_child_position()?,
            has_place: columns.next::<Option<bool>>()? == Some(false),
            round: columns.next()?,
            cancel: columns.next_cancel()?,
            latest_signal: columns.next::<Option<i64>>()?.map(SignalId),
        })
    }

    /// Whether a cancel is pending that the outcome does not answer. Then nothing new may begin.
    pub(super) fn meets_cancel(&self, commit: &Commit) -> bool {
        let pending = self.cancel.as_ref().is_some_and(|cancel| !cancel.answered);
        pending && !commit.answers_cancel
    }

    /// Whether a pending cancel keeps the outcome from being written.
    ///
    /// A park of a workflow would sleep through the cancel. Children that it starts would be in
    /// the history, but not in the rounds that the cascade of the cancel covers
    /// (docs/decisions/0029).
    pub(super) fn stops(&self, commit: &Commit) -> bool {
        let is_flow = matches!(commit.outcome, Outcome::Flow { .. });
        let begins = commit.outcome.park().is_some() || commit.outcome.begins_round();
        #[cfg(outlast_mutants)]
        let begins = begins && !outlast_core::mutant::is("flow-passes-over-a-cancel");
        is_flow && begins && self.meets_cancel(commit)
    }

    /// Runs the follow-up work of an instance that is live and no longer executing.
    ///
    /// Must come after the update of the row, which frees its partition key.
    pub(super) fn leave_for(
        self,
        tx: &Tx<'_>,
        status: Status,
        eligible_at: Timestamp,
        woken: &mut QueueNames,
    ) -> Result<Option<Status>, Fault> {
        let row = UnclaimedRow {
            queue: self.queue,
            eligible_at,
            partition_key: self.partition_key,
        };
        row.follow(tx, status, woken)?;
        Ok(Some(status))
    }

    /// Turns the row into a finished row, for its effects.
    pub(super) fn ended(self, id: InstanceId, status: Status) -> Ended {
        Ended {
            id,
            status,
            partition_key: self.partition_key,
            child_position: self.child_position,
            had_place: self.has_place,
            round: self.round,
        }
    }
}

/// A live row that is no longer executing.
pub(crate) struct UnclaimedRow {
    queue: String,
    eligible_at: Timestamp,
    partition_key: Option<String>,
}

impl UnclaimedRow {
    pub(crate) fn decode(row: &Row<'_>) -> rusqlite::Result<UnclaimedRow> {
        Ok(UnclaimedRow {
            queue: row.get("queue")?,
            eligible_at: Timestamp(row.get("eligible_at")?),
            partition_key: row.get("partition_key")?,
        })
    }

    /// Does the follow-up work of a row that left its claim.
    ///
    /// Adds a hint if the row can be claimed at once, and lets the next row of its partition key
    /// through. The row is in the line again by then and may itself go first.
    pub(crate) fn follow(
        self,
        tx: &Tx<'_>,
        status: Status,
        woken: &mut QueueNames,
    ) -> Result<(), Fault> {
        if status == Status::Runnable && self.eligible_at <= tx.now {
            woken.insert(self.queue);
        }
        if let Some(key) = self.partition_key {
            partition_line::let_through(tx, &key, woken)?;
        }
        Ok(())
    }
}
