//! `outlast update`: sends an update to an instance, and waits for the reply.

use super::signal::{ended_or_gone, inbox_full};
use super::target::target;
use crate::database::Database;
use crate::failure::Failure;
use crate::filters::{given_key, hex_key};
use crate::format::{duration, rfc3339};
use crate::json::{key_digits, raw, shown_key};
use crate::output::{Format, Output};
use crate::parameters::Payload;
use clap::Args;
use outlast::client::RequestError;
use outlast::store::{KeyText, NewSignal, Reply, ReplyKind, Target, UpdateState, limits};
use outlast::{LookupError, SignalError};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// Arguments of `update`.
#[derive(Args, Debug)]
pub(crate) struct UpdateArgs {
    /// The id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// The name of the update
    name: String,
    #[command(flatten)]
    payload: Payload,
    /// The id of the update; sent again under its id, it has the same reply. Default: a random one
    #[arg(long, value_name = "KEY")]
    id: Option<String>,
    /// The same, with the id in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = hex_key, conflicts_with = "id")]
    id_hex: Option<KeyText>,
    /// Wait at most this long for the reply
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    wait: Duration,
}

/// An update, and what became of it.
#[derive(Serialize)]
struct UpdateObject<'a> {
    update: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_hex: Option<&'a str>,
    instance: String,
    name: &'a str,
    state: &'static str,
    kind: Option<&'static str>,
    reply: Option<Box<RawValue>>,
    reason: Option<&'a str>,
    replied_at: Option<String>,
}

pub(crate) async fn run(
    args: &UpdateArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    if let Some(id) = &args.id {
        limits::check_typed_key("id", id).map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    }
    let id =
        given_key(&args.id, &args.id_hex).unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
    let mut signal = NewSignal::new(args.target.clone(), &args.name, args.payload.json()?);
    signal.wants_reply = true;
    signal.dedup_key = Some(id.clone());
    let admin = database.client.admin();
    let instance = match admin.send_update(signal).await {
        Ok(instance) => instance,
        Err(error) => return Err(unsent(error, database, &args.target).await),
    };
    let stored = Some(id.clone());
    let (shown, digits) = (shown_key(&stored).unwrap_or_default(), key_digits(&stored));
    let Some(update) = admin.update(instance, &id, args.wait).await? else {
        let (request, id) = (args.name.clone(), shown);
        return Err(Failure::Refused(
            RequestError::IdTaken { request, id }.to_string(),
        ));
    };
    let (state, reply) = match &update.state {
        UpdateState::Pending => ("pending", None),
        UpdateState::Replied(reply) => ("replied", Some(reply)),
        UpdateState::Ended => ("ended", None),
    };
    let is_done = reply.is_some_and(|it| it.kind == ReplyKind::Done);
    let value = reply.filter(|_| is_done).map(|it| &it.data);
    let reason = reply.filter(|_| !is_done).map(reason_of);
    match output.format {
        Format::Json => output.json(&UpdateObject {
            update: &shown,
            update_hex: digits.as_deref(),
            instance: instance.to_string(),
            name: &update.name,
            state,
            kind: reply.map(|it| it.kind.as_str()),
            reply: value.and_then(raw),
            reason: reason.as_deref(),
            replied_at: reply.map(|it| rfc3339(it.at)),
        })?,
        Format::Table => {
            if let Some(value) = value {
                output.document(value.as_str())?;
            }
        }
        Format::Ids => output.line(instance.to_string())?,
    }
    let name = &update.name;
    Err(match (update.state, reason.unwrap_or_default()) {
        (UpdateState::Replied(reply), reason) => match reply.kind {
            ReplyKind::Done => return Ok(()),
            ReplyKind::Failed => Failure::Failed(format!("{name} failed: {reason}")),
            ReplyKind::Rejected => Failure::Refused(format!("{name} was rejected: {reason}")),
        },
        (UpdateState::Ended, _) => Failure::Refused(format!(
            "{name} has no reply: instance {instance} ended first"
        )),
        (UpdateState::Pending, _) => {
            let given = match digits {
                Some(digits) => format!("--id-hex {digits}"),
                None => format!("--id {shown}"),
            };
            Failure::Failed(format!(
                "no reply to {name} yet; the update stays: wait on with `outlast update {instance} \
                 {name} {given}`"
            ))
        }
    })
}

fn reason_of(reply: &Reply) -> String {
    let reason = reply.data.decode();
    // A codec may have encoded it, and this program has no keys.
    reason.unwrap_or_else(|_| reply.data.as_str().to_owned())
}

/// The failure of an update that was not delivered.
async fn unsent(error: RequestError, database: &Database, target: &Target) -> Failure {
    match error {
        RequestError::Store(error)
        | RequestError::Lookup(LookupError::Store(error))
        | RequestError::Signal(SignalError::Store(error)) => error.into(),
        RequestError::Signal(SignalError::InboxFull { instance, .. }) => inbox_full(instance),
        RequestError::Ended { .. } | RequestError::Lookup(_) => ended_or_gone(database, target)
            .await
            .unwrap_or_else(|it| it),
        other @ (RequestError::Signal(_)
        | RequestError::Rejected { .. }
        | RequestError::Failed { .. }
        | RequestError::TimedOut { .. }
        | RequestError::IdTaken { .. }
        | RequestError::Malformed { .. }
        | RequestError::NoCode { .. }
        | RequestError::NotAWorkflow { .. }
        | RequestError::NoHandler { .. }
        | RequestError::Blocked { .. }
        | RequestError::Undecodable { .. }
        | _) => Failure::Failed(other.to_string()),
    }
}
