//! Errors: of starting an engine, of finding, signalling and awaiting an instance, and `Error`,
//! which each of them converts into.

use crate::definition::{Fails, MissingData};
use crate::testing::ReplayError;
use outlast_core::{
    Error as StoreError, Instance, InstanceId, Invalid, Json, MachineVersion, Status, Target, key,
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The result of a program that uses this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of this crate: `?` converts the others into it, for a `main` function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine did not start.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The store did not answer, or refused the request.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such instance.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The signal was not delivered.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// The request has no reply.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The wait has no result.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// A value is out of bounds, for example a key of a codec.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A recorded history does not fit the code.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The engine stopped while steps were still running.
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    /// An error of the program, for example of connecting to another service.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Another error of the program.
    #[error(transparent)]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Some steps did not end within the grace of a stop. Their claims were given back, and they run
/// again on another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "steps were still running {grace:?} after the stop; their claims were given back, and they run again elsewhere"
)]
pub struct ShutdownError {
    /// How long the steps were given.
    pub grace: Duration,
}

/// Why there is no handle, or why it could not read its instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// There is no such instance: it never existed, or it was removed after its end.
    #[error("{}", no_instance(target))]
    NotFound {
        /// The id or the key.
        target: Target,
    },
    /// The id belongs to an instance of another machine.
    #[error("instance {id} is of machine {found}, not of {expected}")]
    OtherMachine {
        /// The instance.
        id: InstanceId,
        /// The requested machine.
        expected: &'static str,
        /// The machine of the instance.
        found: String,
    },
    /// Its state does not decode as the machine's `State`.
    #[error("instance {id}: {invalid}")]
    Undecodable {
        /// The instance.
        id: InstanceId,
        /// What does not fit.
        invalid: Invalid,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn no_instance(target: &Target) -> String {
    match target {
        Target::Id(id) => {
            format!(
                "there is no instance {id}: it was never started, or was removed after it ended"
            )
        }
        Target::Key { machine, key } => {
            let key = key::quoted(key);
            format!(
                "no stored instance of {machine} holds or held the key {key}; start one with .key({key})"
            )
        }
    }
}

/// Why a signal was not delivered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// There is no such instance, no live instance holds the key, or the instance has ended.
    #[error(
        "signal {signal} was not delivered: the instance has ended, or no live instance holds the key; \
         signal_or_start starts one"
    )]
    NoTarget {
        /// The name of the signal.
        signal: String,
    },
    /// The instance already holds as many unconsumed signals as it may.
    #[error(
        "signal {signal} was not delivered: the inbox of instance {instance} is full; send it again later"
    )]
    InboxFull {
        /// The name of the signal.
        signal: String,
        /// The instance.
        instance: InstanceId,
    },
    /// The store did not answer, or refused the signal.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The code refused the request before anything was recorded.
    #[error("{request} was rejected: {reason}")]
    Rejected {
        /// The name of the request.
        request: String,
        /// Why.
        reason: String,
    },
    /// The code that handles the request failed. The instance itself goes on.
    #[error("{request} failed: {error}")]
    Failed {
        /// The name of the request.
        request: String,
        /// The error of the code.
        error: String,
    },
    /// The instance ended, and the request has no reply.
    #[error("{request} has no reply: instance {instance} ended first")]
    Ended {
        /// The name of the request.
        request: String,
        /// The instance.
        instance: InstanceId,
    },
    /// The time was up before the reply. The update stays, and can be sent again under its id.
    #[error("{request} has no reply yet; send it again with the id {id:?} to wait on")]
    TimedOut {
        /// The name of the request.
        request: String,
        /// The id of the update.
        id: String,
    },
    /// The instance was sent a plain signal under this dedup key, which has no reply.
    #[error("{request} was not sent: {id:?} is the dedup key of a signal; choose another id")]
    IdTaken {
        /// The name of the request.
        request: String,
        /// The id.
        id: String,
    },
    /// The update was not delivered.
    #[error(transparent)]
    Signal(SignalError),
    /// The request does not decode as the type that the code expects.
    #[error("{request}: {invalid}")]
    Malformed {
        /// The name of the request.
        request: String,
        /// What does not fit.
        invalid: Invalid,
    },
    /// The code of the instance is not in this process, so it cannot be asked here.
    #[error(
        "the code of {definition} is not here; ask a process whose engine has it registered, or the HTTP server of \
         that process"
    )]
    NoCode {
        /// The workflow and its version.
        definition: MachineVersion,
    },
    /// The instance is no workflow.
    #[error("instance {id} is of machine {machine}, which is no workflow: its state is its view")]
    NotAWorkflow {
        /// The instance.
        id: InstanceId,
        /// Its machine.
        machine: String,
    },
    /// The code handles no request of this name, or has not come to its registration.
    #[error("instance {id}: {}", no_handler(workflow, request, known))]
    NoHandler {
        /// The instance.
        id: InstanceId,
        /// The name of the request.
        request: String,
        /// The workflow.
        workflow: String,
        /// The names that the code handles, in order.
        known: Vec<String>,
    },
    /// The history of the instance does not fit the code, or the code breaks a rule of workflows.
    #[error("instance {id} cannot be replayed: the history has {expected}; the code has {found}")]
    Blocked {
        /// The instance.
        id: InstanceId,
        /// The call of the history.
        expected: String,
        /// The call of the code.
        found: String,
    },
    /// The reply does not decode as its type.
    #[error("instance {id}: {invalid}")]
    Undecodable {
        /// The instance.
        id: InstanceId,
        /// What does not fit.
        invalid: Invalid,
    },
    /// The instance was not found.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn no_handler(workflow: &str, request: &str, known: &[String]) -> String {
    let known = match known {
        [] => "it handles none".to_owned(),
        known => format!("it handles {}", known.join(", ")),
    };
    format!("the code of {workflow} handles no request {request:?} so far; {known}")
}

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A machine cannot be registered.
    #[error("machine {machine}: {invalid}")]
    Machine {
        /// Its name and version.
        machine: String,
        /// What is wrong with it, and how to correct it.
        invalid: Invalid,
    },
    /// Two machines, jobs or workflows have the same name and version.
    #[error(
        "{0} is registered twice; give one of them another name, or the next version if it replaces the other"
    )]
    MachineTwice(MachineVersion),
    /// A worker has no machines, so it could run nothing.
    #[error(
        "nothing is registered; call .register(..) with a machine, a job or a workflow, or .roles(Roles::WEB) for a \
         node that only starts and signals instances"
    )]
    NoMachines,
    /// A worker has no queues, so it could claim nothing.
    #[error(
        "no queue is named, and .only_named_queues() leaves out the others; call .queue(\"default\", 10), or \
         .roles(Roles::WEB) for a node that only starts and signals instances"
    )]
    NoQueues,
    /// Code takes a value that was not provided.
    #[error("{definition} takes a value of type {}, which is not provided; call .provide(..) with one", missing.type_name)]
    MissingData {
        /// The name and version of the machine, job or workflow.
        definition: MachineVersion,
        /// The value.
        missing: MissingData,
    },
    /// Two values of one type were provided.
    #[error("a value of type {type_name} is provided twice; wrap one of them in a type of its own")]
    ProvidedTwice {
        /// The type.
        type_name: &'static str,
    },
    /// A setting is out of bounds.
    #[error("{0}")]
    Setting(Invalid),
    /// Panics abort this program, so one bad step would end the whole process.
    #[error(
        "this program is built with panic = \"abort\": a step that panics would end the process and every step beside it; remove it from the profile in Cargo.toml"
    )]
    PanicsAbort,
    /// The system could not start the watchdog thread.
    #[error("could not start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The store did not register the worker.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a wait has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait timed out; the instance continues.
    #[error(
        "instance {} was still {} at step {} when the time was up{}", instance.id, instance.status, instance.step,
        why.as_ref().map(|why| format!(": it {why}")).unwrap_or_default()
    )]
    TimedOut {
        /// The instance.
        instance: Box<Instance>,
        /// What it waits for, in one sentence, where that was read.
        why: Option<String>,
    },
    /// The instance failed or was cancelled.
    #[error("instance {id} is {status}: {}", .reason.as_deref().unwrap_or("no reason given"))]
    Ended {
        /// The instance.
        id: InstanceId,
        /// Its status.
        status: Status,
        /// Its error.
        reason: Option<String>,
        /// Its error as a value, with the name of its machine, when it failed with one.
        value: Option<(String, Json)>,
    },
    /// There is no such instance: it never existed, or it was removed after its end. By key: no
    /// stored instance holds or held the key.
    #[error("there is no such instance: it was never started, or was removed after it ended")]
    NotFound,
    /// Its result does not decode as the machine's `Output`.
    #[error("the result of instance {id} cannot be read: {invalid}")]
    Result {
        /// The instance.
        id: InstanceId,
        /// What does not fit.
        invalid: Invalid,
    },
    /// It failed with a value that does not decode as the requested error type.
    #[error("the error value of instance {id} cannot be read: {invalid}")]
    ErrorValue {
        /// The instance.
        id: InstanceId,
        /// What does not fit.
        invalid: Invalid,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WaitError {
    /// Returns the error with which an instance of `D` failed; otherwise the unchanged error.
    ///
    /// An instance that failed with a text, or ended otherwise, has no such error. A stored value
    /// that `D::Error` does not read is a [`WaitError::ErrorValue`].
    pub fn downcast<D: Fails>(self) -> Result<D::Error, WaitError>
    where
        D::Error: DeserializeOwned,
    {
        if let WaitError::Ended {
            id,
            value: Some((machine, value)),
            ..
        } = &self
            && machine == D::NAME
        {
            return decode(value).map_err(|invalid| WaitError::ErrorValue { id: *id, invalid });
        }
        Err(self)
    }
}

/// Decodes a value, unless it is encoded: a type that accepts any JSON would read the code.
pub(crate) fn decode<T: DeserializeOwned>(value: &Json) -> Result<T, Invalid> {
    match value.as_encoded() {
        Some(_) => Err(Invalid::new(
            "it",
            "is encoded, and this client has no codec",
        )),
        None => value.decode(),
    }
}
