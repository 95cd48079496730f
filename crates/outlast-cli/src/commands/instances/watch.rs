//! `outlast watch`: prints the changes of an instance.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::format::{duration, harmless, time_of_day};
use crate::json::InstanceObject;
use crate::output::{Format, Output, note};
use clap::Args;
use outlast::Status;
use outlast::store::{Instance, Target, Timestamp};
use outlast_core::Revision;
use std::time::Duration;
use tokio::time::Instant;

/// The interval between two reads. This process gets no notifications, so it polls.
const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `watch`.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// The id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// Stop after this duration
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

pub(crate) async fn run(
    args: &WatchArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let first = find(&database.client, &args.target).await?;
    // Follows the id from here on: the instance releases its key when it finishes.
    let target = Target::Id(first.id);
    let mut seen = None;
    loop {
        let instance = find(&database.client, &target).await?;
        let version = InstanceVersion::of(&instance);
        if seen != Some(version) {
            seen = Some(version);
            print(&instance, database, output).await?;
        }
        match instance.status {
            Status::Done => return Ok(()),
            Status::Failed | Status::Cancelled => return Err(Failure::Reported),
            Status::Runnable
            | Status::Executing
            | Status::AwaitingSignal
            | Status::Sleeping
            | Status::AwaitingChildren => {}
        }
        if args
            .timeout
            .is_some_and(|timeout| begun.elapsed() >= timeout)
        {
            note("timed out");
            return Err(Failure::Reported);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Identifies a version of an instance. A cancel, its answer, a slot in a window and a wake do not
/// change the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InstanceVersion {
    revision: Revision,
    status: Status,
    cancel: Option<(Timestamp, bool)>,
    held: Option<bool>,
}

impl InstanceVersion {
    fn of(it: &Instance) -> InstanceVersion {
        let cancel = it.cancel.as_ref();
        InstanceVersion {
            revision: it.revision,
            status: it.status,
            cancel: cancel.map(|cancel| (cancel.requested_at, cancel.answered)),
            held: it.held,
        }
    }
}

async fn print(it: &Instance, database: &Database, output: &Output) -> Result<(), Failure> {
    let waiting = database.client.admin().explain(it).await?;
    match output.format {
        Format::Json => output.json(&InstanceObject::full(it).waiting(waiting)),
        Format::Ids => output.line(it.id.to_string()),
        Format::Table => output.line(format!(
            "{}  {}  {}",
            time_of_day(it.updated_at),
            it.status,
            harmless(&waiting)
        )),
    }
}
