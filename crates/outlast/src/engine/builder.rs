//! `EngineBuilder`: the settings of an engine, their validation, and its start.
//!
//! Users call it through [`Engine::builder`]. It writes nothing to the store before all settings
//! are valid.

use super::faults::Fault;
use super::node::Node;
use super::running::Engine;
use crate::client::Client;
use crate::codec::Codec;
use crate::definition::{Provided, Register};
use crate::error::SetupError;
use crate::machine::{Code, Registered, Registry};
use crate::trace::Propagator;
use outlast_core::limits;
use outlast_core::{Inspect, Invalid, MachineVersion, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many steps of a queue run at a time, unless `queue` sets another number.
const DEFAULT_CONCURRENCY: usize = 100;

/// Builds an engine; created by [`Engine::sqlite`], [`Engine::postgres`] and [`Engine::builder`].
#[must_use = "an engine runs when it is started"]
pub struct EngineBuilder {
    client: Client,
    settings: Settings,
    definitions: Definitions,
    only_named_queues: bool,
}

/// What an engine is given to run, before it is checked.
#[derive(Default)]
pub(crate) struct Definitions {
    pub(crate) registered: Vec<Result<Registered, SetupError>>,
    provided: Provided,
    provided_twice: Option<SetupError>,
}

impl Definitions {
    pub(crate) fn register<K>(&mut self, definition: impl Register<K>) {
        self.registered.push(definition.registration().0);
    }

    pub(crate) fn provide<T: Send + Sync + 'static>(&mut self, value: T) {
        if let Err(type_name) = self.provided.add(value) {
            self.provided_twice = Some(SetupError::ProvidedTwice { type_name });
        }
    }

    /// Checks that each name is registered once, and that all values are there.
    fn checked(self) -> Result<Code, SetupError> {
        let mut registry = Registry::default();
        for registered in self.registered {
            registry.add(registered?)?;
        }
        if let Some(twice) = self.provided_twice {
            return Err(twice);
        }
        for registered in registry.iter() {
            if let Some(missing) = registered.missing(&self.provided) {
                let definition = MachineVersion::new(registered.name, registered.version);
                return Err(SetupError::MissingData {
                    definition,
                    missing,
                });
            }
        }
        Ok(Code {
            registry,
            provided: self.provided,
        })
    }
}

/// The settings that the loops of an engine read.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) roles: Roles,
    /// How many steps run at a time, by queue.
    pub(crate) queues: BTreeMap<String, usize>,
    pub(crate) lease: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) run_ahead: u32,
    pub(crate) grace: Duration,
    pub(crate) retention: Option<Duration>,
    pub(crate) crashes_max: i32,
    /// Whether the log contains the texts of failures; `None` for the default.
    pub(crate) failures_in_logs: Option<bool>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: "outlast".into(),
            host: host(),
            roles: Roles::ALL,
            queues: BTreeMap::new(),
            lease: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            run_ahead: 100,
            grace: Duration::from_secs(20),
            retention: Some(Duration::from_secs(7 * 24 * 3600)),
            crashes_max: 10,
            failures_in_logs: None,
        }
    }
}

/// The roles of a node.
///
/// | | runs steps | does maintenance | inserts, signals, waits |
/// |---|---|---|---|
/// | [`ALL`](Roles::ALL) | yes | yes | yes |
/// | [`WORKER`](Roles::WORKER) | yes | | yes |
/// | [`MAINTENANCE`](Roles::MAINTENANCE) | | yes | yes |
/// | [`WEB`](Roles::WEB) | | | yes, and receives hints |
///
/// Maintenance returns claims of dead workers and wakes waits and joins at their deadline. It
/// applies the close policies of children, deletes old finished instances, and sets the gauges of
/// the store. At least one node must do it; any number may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Runs steps: picker, executor, committer, heartbeat, cancel watcher, stats flusher.
    pub worker: bool,
    /// Does the maintenance: reaper, timers, cascader, collector, reconciler, gauge sampler.
    pub maintenance: bool,
}

impl Roles {
    /// Runs steps and does the maintenance. This is the default.
    pub const ALL: Roles = Roles {
        worker: true,
        maintenance: true,
    };
    /// Runs steps only.
    pub const WORKER: Roles = Roles {
        worker: true,
        maintenance: false,
    };
    /// Does the maintenance only.
    pub const MAINTENANCE: Roles = Roles {
        worker: false,
        maintenance: true,
    };
    /// Does neither: the node inserts, signals and waits, and receives hints from other nodes.
    ///
    /// A [`Client`] does the same without hints.
    pub const WEB: Roles = Roles {
        worker: false,
        maintenance: false,
    };
}

impl EngineBuilder {
    pub(super) fn new(store: impl Store + Inspect) -> EngineBuilder {
        EngineBuilder {
            client: Client::new(store),
            settings: Settings::default(),
            definitions: Definitions::default(),
            only_named_queues: false,
        }
    }

    /// Runs this machine, job or workflow. Several versions of one can be registered.
    pub fn register<K>(mut self, definition: impl Register<K>) -> EngineBuilder {
        self.definitions.register(definition);
        self
    }

    /// Provides a value that code takes by its type, as [`Data<T>`](crate::Data).
    ///
    /// Functions with [`#[job]`](macro@crate::job) and [`#[workflow]`](macro@crate::workflow) take it as a
    /// parameter. [`start`](EngineBuilder::start) fails when one of their types is missing.
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> EngineBuilder {
        self.definitions.provide(value);
        self
    }

    /// Runs at most `concurrency` steps of this queue at a time.
    ///
    /// A worker serves the queue `default`, the queues of everything it has registered, and the
    /// queues that are named here. Default: 100 steps at a time for each.
    pub fn queue(mut self, queue: impl Into<String>, concurrency: usize) -> EngineBuilder {
        self.settings.queues.insert(queue.into(), concurrency);
        self
    }

    /// Serves only the queues that [`queue`](EngineBuilder::queue) names.
    ///
    /// Another worker must serve the others.
    pub fn only_named_queues(mut self) -> EngineBuilder {
        self.only_named_queues = true;
        self
    }

    /// Sets the roles of this node. Default: all.
    pub fn roles(mut self, roles: Roles) -> EngineBuilder {
        self.settings.roles = roles;
        self
    }

    /// Sets the worker's name in lists. It need not be unique.
    pub fn name(mut self, name: impl Into<String>) -> EngineBuilder {
        self.settings.name = name.into();
        self
    }

    /// Sets how long the worker counts as alive without a heartbeat. Default: 30 s.
    ///
    /// Steps of a killed process wait this long for another worker. Use the same value on every
    /// node.
    pub fn lease(mut self, lease: Duration) -> EngineBuilder {
        self.settings.lease = lease;
        self
    }

    /// Sets how often to look for work that no hint announced. Default: 1 s.
    ///
    /// Only work that arrived without a hint waits for it.
    pub fn poll_interval(mut self, interval: Duration) -> EngineBuilder {
        self.settings.poll_interval = interval;
        self
    }

    /// Sets how many steps of an instance run in a row. Default: 100.
    ///
    /// Then the instance goes through the queue, so that others get their turn. 0 sends every
    /// step through the queue.
    pub fn run_ahead(mut self, steps: u32) -> EngineBuilder {
        self.settings.run_ahead = steps;
        self
    }

    /// Sets how long running steps may continue when the engine stops. Default: 20 s.
    ///
    /// After that their claims are given back.
    pub fn grace(mut self, grace: Duration) -> EngineBuilder {
        self.settings.grace = grace;
        self
    }

    /// Sets how long finished instances are kept. Default: 7 days.
    pub fn retention(mut self, retention: Duration) -> EngineBuilder {
        self.settings.retention = Some(retention);
        self
    }

    /// Keeps finished instances until they are deleted by hand.
    pub fn keep_forever(mut self) -> EngineBuilder {
        self.settings.retention = None;
        self
    }

    /// Sets how many crashes in a row an instance survives. Default: 10.
    ///
    /// A crash counts when the instance was the only claim of the worker that died. It also counts
    /// when the instance was the only quarantined claim there: the only one with three crashes in
    /// a row. An instance also fails after 20 times as many crashes that do not count.
    pub fn crashes_max(mut self, crashes: u32) -> EngineBuilder {
        self.settings.crashes_max = crashes.try_into().unwrap_or(i32::MAX);
        self
    }

    /// Encodes what is written and decodes what is read ([`codec`](crate::codec)).
    ///
    /// This covers states, results, payloads of signals and error texts. The clients of the engine
    /// use the codec too.
    pub fn codec(mut self, codec: impl Codec) -> EngineBuilder {
        self.client = self.client.codec(codec);
        self
    }

    /// Writes the texts of errors and panics, with their causes, into the log and into spans.
    ///
    /// Such a text may quote the state of the instance. Default: texts are written, unless a
    /// [`codec`](EngineBuilder::codec) is set.
    pub fn failures_in_logs(mut self) -> EngineBuilder {
        self.settings.failures_in_logs = Some(true);
        self
    }

    /// Keeps the texts of failures out of the log and out of spans.
    ///
    /// The log still contains machine, step, instance, attempt, the kind of failure and what
    /// happens next. The text is stored with the instance.
    pub fn failures_not_in_logs(mut self) -> EngineBuilder {
        self.settings.failures_in_logs = Some(false);
        self
    }

    /// Connects the traces of instances to a tracing backend.
    pub fn propagator(mut self, propagator: impl Propagator) -> EngineBuilder {
        self.client = self.client.propagator(propagator);
        self
    }

    /// Validates the settings, registers the worker and starts the loops.
    pub async fn start(self) -> Result<Engine, SetupError> {
        let mut settings = self.settings;
        if !self.only_named_queues {
            let registered = self.definitions.registered.iter().flatten();
            for queue in registered.map(Registered::queue).chain(["default"]) {
                let queues = &mut settings.queues;
                queues
                    .entry(queue.to_owned())
                    .or_insert(DEFAULT_CONCURRENCY);
            }
        }
        let node = assemble(self.client, settings, self.definitions, None)?;
        Engine::run(Arc::new(node)).await
    }
}

/// Validates the settings and creates a node from them.
pub(crate) fn assemble(
    mut client: Client,
    settings: Settings,
    definitions: Definitions,
    fault: Option<Fault>,
) -> Result<Node, SetupError> {
    refuse_aborting_panics(cfg!(panic = "abort"))?;
    let code = Arc::new(definitions.checked()?);
    if settings.roles.worker && code.registry.is_empty() {
        return Err(SetupError::NoMachines);
    }
    if settings.roles.worker && settings.queues.is_empty() {
        return Err(SetupError::NoQueues);
    }
    check(&settings).map_err(SetupError::Setting)?;
    client.code = Arc::downgrade(&code);
    Ok(Node::new(client, settings, code, fault))
}

fn refuse_aborting_panics(panics_abort: bool) -> Result<(), SetupError> {
    if panics_abort {
        return Err(SetupError::PanicsAbort);
    }
    Ok(())
}

fn check(settings: &Settings) -> Result<(), Invalid> {
    /// A higher number of slots on one node is a typing error.
    const CONCURRENCY_MAX: usize = 100_000;
    limits::check_new_name("worker name", &settings.name)?;
    limits::check_lease(settings.lease)?;
    for (queue, concurrency) in &settings.queues {
        limits::check_name("queue", queue)?;
        if !(1..=CONCURRENCY_MAX).contains(concurrency) {
            return Err(Invalid::new(
                format!("queue {queue:?}"),
                format!("has {concurrency} slots; give it between 1 and {CONCURRENCY_MAX}"),
            ));
        }
    }
    if settings.poll_interval.is_zero() {
        return Err(Invalid::new(
            "poll interval",
            "is zero, so the engine would query without a pause; set at least 1 ms",
        ));
    }
    if let Some(retention) = settings.retention {
        limits::check_delay("retention", retention)?;
    }
    Ok(())
}

/// Returns the host name if it is known. Only people read it.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.map(|it| it.trim().to_owned());
    name.filter(|it| limits::check_new_name("host", it).is_ok())
        .unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_panics_abort_is_refused_with_the_line_to_remove() {
        assert!(refuse_aborting_panics(false).is_ok());
        let refusal = refuse_aborting_panics(true).unwrap_err().to_string();
        assert!(refusal.contains("panic = \"abort\""), "{refusal}");
    }
}
