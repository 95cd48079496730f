//! Removing what ended long ago.

use crate::error::Failure;
use crate::row::instance_id;
use crate::session::{Purpose, Session};
use crate::statement::{self, value};
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
    let bounds = || [value(micros(request.retention)), value(request.max as i64)];
    let calls = [
        statement::COLLECT.with(bounds()),
        statement::COLLECT_OPERATIONS.with(bounds()),
    ];
    let answers = session.transact(Purpose::Write, &calls).await?;
    let removed = answers[0]
        .iter()
        .map(instance_id)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Collected {
        more: removed.len() == request.max,
        removed,
    })
}
