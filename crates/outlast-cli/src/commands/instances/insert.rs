//! `outlast insert`: starts an instance.

use crate::database::Database;
use crate::failure::Failure;
use crate::filters::{self, given_key};
use crate::format;
use crate::output::{Format, Output, note};
use crate::parameters::Payload;
use clap::Args;
use outlast::store::{KeyText, NewInstance, Scope, Timestamp};
use outlast::{Client, InstanceId, Status};
use outlast_core::{Inserted, MachineOffer, Start, limits};
use serde_json::json;
use std::time::Duration;

/// Arguments of `insert`.
#[derive(Args, Debug)]
pub(crate) struct InsertArgs {
    /// The machine
    machine: String,
    /// The first step
    step: String,
    #[command(flatten)]
    payload: Payload,
    /// The version of the machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    machine_version: i32,
    /// The queue. Default: the machine's own, if a worker has the machine; else `default`
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Lower runs first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    priority: i16,
    /// Start after this duration, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = format::duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Start at this time, such as 2026-11-16T14:20:00Z
    #[arg(long, value_name = "WHEN", value_parser = format::timestamp)]
    at: Option<Timestamp>,
    /// The correlation key: addresses the instance and makes it unique
    #[arg(long, value_name = "KEY", group = "given_key")]
    key: Option<String>,
    /// The correlation key in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = filters::hex_key, group = "given_key")]
    key_hex: Option<KeyText>,
    /// The statuses in which it holds the key. Default: until it finishes
    #[arg(
        long,
        value_name = "STATUS",
        value_delimiter = ',',
        requires = "given_key",
        value_parser = filters::status
    )]
    unique_in: Vec<Status>,
    /// Instances with the same partition key run one at a time
    #[arg(long, value_name = "KEY")]
    partition_key: Option<String>,
    /// The partition key in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = filters::hex_key, conflicts_with = "partition_key")]
    partition_key_hex: Option<KeyText>,
    /// Fail it as timed out after this duration, counted from its earliest start
    #[arg(long, value_name = "DURATION", value_parser = format::duration)]
    timeout: Option<Duration>,
    /// Fail it as timed out when one run of the workflow takes longer than this
    #[arg(long, value_name = "DURATION", value_parser = format::duration)]
    run_timeout: Option<Duration>,
}

impl InsertArgs {
    /// Returns the given queue, or else the machine's own.
    async fn queue(&self, client: &Client) -> String {
        if let Some(queue) = &self.queue {
            return queue.clone();
        }
        // A database role that may only enqueue cannot read workers.
        let workers = client.admin().workers().await.unwrap_or_default();
        let (machine, version) = (&self.machine, self.machine_version);
        match MachineOffer::among(&workers, machine, Some(version)) {
            Some(offer) => offer.queue.clone(),
            None => {
                note(format!(
                    "no live worker runs {machine}/{version}, so its queue is unknown; using default. \
                     Choose another with --queue"
                ));
                "default".to_owned()
            }
        }
    }

    fn row(&self, queue: String) -> Result<NewInstance, Failure> {
        let state = self.payload.json()?;
        let start = match (self.delay, self.at) {
            (Some(delay), _) => Start::After(delay),
            (None, Some(at)) => Start::At(at),
            (None, None) => Start::Now,
        };
        let mut row = NewInstance::new(&self.machine, &self.step, state)
            .version(self.machine_version)
            .queue(queue)
            .priority(self.priority)
            .start(start);
        let typed = [
            ("correlation key", &self.key),
            ("partition key", &self.partition_key),
        ];
        for (what, key) in typed {
            let key = key.as_deref();
            key.map_or(Ok(()), |key| limits::check_typed_key(what, key))
                .map_err(|invalid| Failure::Usage(invalid.to_string()))?;
        }
        row.partition_key = given_key(&self.partition_key, &self.partition_key_hex);
        if let Some(key) = given_key(&self.key, &self.key_hex) {
            row = row.correlation(key, self.scope()?);
        }
        row.timeout = self.timeout;
        row.run_timeout = self.run_timeout;
        Ok(row)
    }

    fn scope(&self) -> Result<Scope, Failure> {
        if self.unique_in.is_empty() {
            return Ok(Scope::LIVE);
        }
        let scope = Scope::of(self.unique_in.iter().copied());
        scope.map_err(|invalid| Failure::Usage(invalid.to_string()))
    }
}

/// Prints the status for people. A misspelt machine or step is stored like any other, and no
/// worker runs it. A failure of this query is ignored: the insert has succeeded.
async fn waiting_text(id: InstanceId, database: &Database, output: &Output) -> String {
    if output.format != Format::Table {
        return String::new();
    }
    let client = &database.client;
    let Ok(Some(instance)) = client.find(id).await else {
        return String::new();
    };
    let sentence = client.admin().explain(&instance).await;
    sentence.map_or_else(|_| String::new(), |sentence| format!("; it {sentence}"))
}

pub(crate) async fn run(
    args: &InsertArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let queue = args.queue(&database.client).await;
    let admin = database.client.admin();
    let answers = admin.insert_rows(vec![args.row(queue)?]).await?;
    let (id, created) = match answers.into_iter().next() {
        Some(Inserted::New { id, .. }) => (id, true),
        Some(Inserted::Duplicate { holder: Some(id) }) => (id, false),
        Some(Inserted::Duplicate { holder: None }) | None => {
            let words = "the holder of the key has just finished; try again";
            return Err(Failure::Refused(words.to_owned()));
        }
    };
    match created {
        true => note(format!(
            "inserted instance {id}{}",
            waiting_text(id, database, output).await
        )),
        false => note(format!("not inserted: instance {id} holds the key")),
    }
    match output.format {
        Format::Json => output.json(&json!({"id": id.to_string(), "created": created})),
        Format::Table | Format::Ids => output.line(id.to_string()),
    }
}
