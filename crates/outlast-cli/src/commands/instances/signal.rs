//! `outlast signal`: sends a signal to an instance.

use super::target::{not_found, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::filters::{given_key, hex_key};
use crate::output::{Format, Output, note};
use crate::parameters::Payload;
use clap::Args;
use outlast::InstanceId;
use outlast::store::{Delivery, KeyText, NewSignal, Target, limits};
use serde_json::json;

/// Arguments of `signal`.
#[derive(Args, Debug)]
pub(crate) struct SignalArgs {
    /// The id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// The name of the signal
    name: String,
    #[command(flatten)]
    payload: Payload,
    /// Deliver it at most once with this key
    #[arg(long, value_name = "KEY")]
    dedup: Option<String>,
    /// The same, with the key in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = hex_key, conflicts_with = "dedup")]
    dedup_hex: Option<KeyText>,
}

pub(crate) async fn run(
    args: &SignalArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let mut signal = NewSignal::new(args.target.clone(), &args.name, args.payload.json()?);
    if let Some(key) = &args.dedup {
        limits::check_typed_key("dedup key", key)
            .map_err(|invalid| Failure::Usage(invalid.to_string()))?;
    }
    signal.dedup_key = given_key(&args.dedup, &args.dedup_hex);
    let answers = database.client.admin().signal_rows(vec![signal]).await?;
    let answer = answers.into_iter().next().unwrap_or(Delivery::NoTarget);
    let (instance, delivery, signal_id) = match answer {
        Delivery::Delivered { id, instance, woke } => {
            match woke {
                true => note(format!("delivered to instance {instance} and woke it")),
                false => note(format!("delivered to the inbox of instance {instance}")),
            }
            (instance, "delivered", Some(id))
        }
        Delivery::Duplicate { instance } => {
            note(format!(
                "duplicate: instance {instance} already received a signal with this dedup key"
            ));
            (instance, "duplicate", None)
        }
        Delivery::NoTarget => return Err(ended_or_gone(database, &args.target).await?),
        Delivery::InboxFull { instance } => return Err(inbox_full(instance)),
    };
    match output.format {
        Format::Json => output.json(&json!({
            "instance": instance.to_string(),
            "delivery": delivery,
            "signal_id": signal_id.map(|id| id.to_string()),
        })),
        Format::Table => output.line(delivery),
        Format::Ids => output.line(instance.to_string()),
    }
}

/// A finished instance accepts no signals. The error differs from that for an instance that never
/// existed.
pub(super) async fn ended_or_gone(
    database: &Database,
    target: &Target,
) -> Result<Failure, Failure> {
    Ok(match database.client.find(target.clone()).await? {
        Some(it) => Failure::Refused(format!(
            "instance {} has finished ({}) and reads no more signals",
            it.id, it.status
        )),
        None => not_found(target),
    })
}

pub(super) fn inbox_full(instance: InstanceId) -> Failure {
    Failure::Refused(format!(
        "the inbox of instance {instance} is full; it must consume signals first"
    ))
}
