//! Errors of starting an engine, and of waiting for an instance.

use outlast_core::{Error, Instance, InstanceId, Invalid, MachineVersion, Status};

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
    /// Two machines have the same name and version.
    #[error(
        "machine {0} is registered twice; give one of them another NAME, or the next VERSION if it replaces the other"
    )]
    MachineTwice(MachineVersion),
    /// A worker has no machines, so it could run nothing.
    #[error(
        "no machine is registered; call .machine(..), or .roles(Roles::WEB) for a node that only inserts and signals"
    )]
    NoMachines,
    /// A worker has no queues, so it could claim nothing.
    #[error(
        "no queue is given; call .queue(\"default\", 10), or .roles(Roles::WEB) for a node that only inserts and signals"
    )]
    NoQueues,
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
    Store(#[from] Error),
}

/// Why a wait has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait timed out; the instance continues.
    #[error("instance {} was still {} at step {} when the time was up", .0.id, .0.status, .0.step)]
    TimedOut(Box<Instance>),
    /// The instance failed or was cancelled.
    #[error("instance {id} is {status}: {}", .reason.as_deref().unwrap_or("no reason given"))]
    Ended {
        /// The instance.
        id: InstanceId,
        /// Its status.
        status: Status,
        /// Its error.
        reason: Option<String>,
    },
    /// There is no such instance: it never existed, or it was removed after its end. By key: no
    /// stored instance holds or held the key.
    #[error("there is no such instance: it was never inserted, or was removed after it ended")]
    NotFound,
    /// The id belongs to an instance of another machine, whose result this machine's `Output` must
    /// not read.
    #[error("instance {id} is of machine {found}, not of {expected}")]
    OtherMachine {
        /// The instance.
        id: InstanceId,
        /// The requested machine.
        expected: &'static str,
        /// The machine of the instance.
        found: String,
    },
    /// Its result does not decode as the machine's `Output`.
    #[error("the result of instance {id} {invalid}")]
    Result {
        /// The instance.
        id: InstanceId,
        /// What does not fit.
        invalid: Invalid,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}
