//! The collector's verb: removes instances and operations older than the retention, in batches.
//!
//! It spares children that a live parent may still read, and parents whose cascade is not done
//! (docs/protocol.md, defect 6). It skips rows that another transaction has locked.

use crate::decode::instance_id;
use crate::error::Failure;
use crate::session::Session;
use crate::session::statement::{self, value};
use crate::session::tx_settings::TxKind;
use outlast_core::limits::BATCH_MAX;
use outlast_core::{CollectRequest, Collected, Result, micros};

pub(crate) async fn collect(session: &Session, request: CollectRequest) -> Result<Collected> {
    request
        .check()
        .map_err(|invalid| invalid.during("collect"))?;
    session
        .retry("collect", || Box::pin(collect_once(session, request)))
        .await
}

async fn collect_once(session: &Session, request: CollectRequest) -> Result<Collected, Failure> {
    let up_to = |max: usize| [value(micros(request.retention)), value(max as i64)];
    let calls = [
        statement::COLLECT.with(up_to(request.max)),
        statement::COLLECT_OPERATIONS.with(up_to(BATCH_MAX)),
    ];
    let answers = session.transact(TxKind::Write, &calls).await?;
    let removed = answers[0]
        .iter()
        .map(instance_id)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Collected {
        // A batch that is not full may have skipped locked rows. They wait for the next round.
        more: removed.len() == request.max,
        removed,
    })
}
