//! Reading the inbox of a claim that its worker keeps.
//!
//! The engine calls this between two steps, when a commit has named a signal that the worker has
//! not seen. Nothing is written.

use crate::decode;
use crate::session::Session;
use crate::session::statement::{self, references, value};
use crate::session::tx_settings::TxKind;
use outlast_core::{ClaimRef, Result, Signal};

/// Returns the unconsumed signals of a claim, oldest first; `None` when the claim is lost.
pub(crate) async fn inbox(session: &Session, claim: ClaimRef) -> Result<Option<Vec<Signal>>> {
    let once = || async move {
        let calls = [
            statement::CLAIM_INBOX.with([value(vec![claim.id.0])]),
            // Last, as in a claim: a claim that is held after the read was held during it. So no
            // other worker had consumed a signal.
            statement::CLAIM_HELD.with(references(&[claim])),
        ];
        let answers = session.transact(TxKind::Claim, &calls).await?;
        if answers[1].is_empty() {
            return Ok(None);
        }
        let signals = answers[0].iter().map(decode::signal);
        signals.collect::<Result<_, _>>().map(Some)
    };
    session.retry("inbox", || Box::pin(once())).await
}
