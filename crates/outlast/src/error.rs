//! What can go wrong before an engine runs, and while somebody waits.

use outlast_core::{Error, Instance, InstanceId, Invalid, MachineVersion, Status};

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A machine cannot be registered as it is.
    #[error("machine {machine}: {invalid}")]
    Machine {
        /// Its name and version.
        machine: String,
        /// What is wrong with it, and how to mend it.
        invalid: Invalid,
    },
    /// Two machines have one name and version.
    #[error(
        "machine {0} is registered twice; give one of them another NAME, or the next VERSION if it replaces the other"
    )]
    MachineTwice(MachineVersion),
    /// A worker without machines has nothing it could run.
    #[error(
        "no machine is registered; call .machine(..), or .roles(Roles::WEB) for a node that only inserts and signals"
    )]
    NoMachines,
    /// A worker without queues has nowhere to take work from.
    #[error(
        "no queue is given; call .queue(\"default\", 10), or .roles(Roles::WEB) for a node that only inserts and signals"
    )]
    NoQueues,
    /// A setting is out of bounds.
    #[error("{0}")]
    Setting(Invalid),
    /// Panics end the process here, so that one bad step would take everything down.
    #[error(
        "this program is built with panic = \"abort\": a step that panics would end the process and every step beside it; remove it from the profile in Cargo.toml"
    )]
    PanicsAbort,
    /// The system gave no thread to the watchdog.
    #[error("no thread can be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The store did not let the worker in.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Why a wait has no result to give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The time was up; it goes on.
    #[error("instance {} is still {} at step {} when the time was up", .0.id, .0.status, .0.step)]
    TimedOut(Box<Instance>),
    /// It failed or was cancelled.
    #[error("instance {id} is {status}: {}", .reason.as_deref().unwrap_or("no reason given"))]
    Ended {
        /// Which one.
        id: InstanceId,
        /// How it ended.
        status: Status,
        /// Why.
        reason: Option<String>,
    },
    /// There is no such instance: it never was, or it was removed after it ended. By key: no stored instance holds
    /// or held the key.
    #[error("there is no such instance: it was never inserted, or was removed after it ended")]
    NotFound,
    /// The id is of an instance of another machine, whose result this machine's `Output` must not read.
    #[error("instance {id} is of machine {found}, not of {expected}")]
    OtherMachine {
        /// Which one.
        id: InstanceId,
        /// The machine that was asked for.
        expected: &'static str,
        /// The machine of the instance.
        found: String,
    },
    /// Its result is not what the machine's `Output` reads.
    #[error("the result of instance {id} {invalid}")]
    Result {
        /// Which one.
        id: InstanceId,
        /// What does not fit.
        invalid: Invalid,
    },
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] Error),
}
