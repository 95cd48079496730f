//! What an instance waits for, in one sentence.

use crate::api::Api;
use crate::problem::Problem;
use outlast_core::{Instance, Status};

pub(crate) async fn sentence(_api: &Api, instance: &Instance) -> Result<String, Problem> {
    Ok(match instance.status {
        Status::Runnable => "It waits for a worker.".to_owned(),
        Status::Executing => "A worker runs it.".to_owned(),
        Status::AwaitingSignal => "It waits for a signal.".to_owned(),
        Status::AwaitingChildren => "It waits for its children.".to_owned(),
        Status::Done | Status::Failed | Status::Cancelled => "It has ended.".to_owned(),
    })
}
