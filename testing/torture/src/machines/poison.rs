//! Steps that crash their worker, or return values that cannot be stored.

use super::Effects;
use crate::crew::Poison as Limits;
use anyhow::{Context as _, Result};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::Value;

pub(crate) struct Poison(Effects);

/// Each variant is a step that harms its worker in another way.
#[steps]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dose {
    /// Aborts the process.
    Abort { token: u64 },
    /// Allocates memory until none is left.
    Exhaust { token: u64 },
    /// Blocks its thread forever.
    Block { token: u64 },
    /// Returns ten megabytes.
    Huge { token: u64 },
    /// Returns a text with `\u0000`.
    Nul { token: u64 },
    /// Returns JSON 5,000 deep.
    Deep { token: u64 },
    /// Fails with control characters.
    Garble { token: u64 },
    /// Panics with control characters.
    Panic { token: u64 },
}

impl Dose {
    pub(crate) const KINDS: [fn(u64) -> Dose; 8] = [
        |token| Dose::Abort { token },
        |token| Dose::Exhaust { token },
        |token| Dose::Block { token },
        |token| Dose::Huge { token },
        |token| Dose::Nul { token },
        |token| Dose::Deep { token },
        |token| Dose::Garble { token },
        |token| Dose::Panic { token },
    ];

    /// Returns the texts of which the instance's error must contain one.
    pub(crate) fn reasons(self) -> Vec<String> {
        const DOWN: &str = "took its worker down";
        let reasons: &[&str] = match self {
            Dose::Abort { .. } | Dose::Exhaust { .. } => &[DOWN],
            // The supervisor kills a process whose threads are all blocked before its watchdog can
            // act.
            Dose::Block { .. } => &["blocks its thread", DOWN],
            Dose::Huge { .. } => &["bytes"],
            Dose::Nul { .. } => &["u0000"],
            Dose::Deep { .. } => &["deep"],
            Dose::Garble { .. } => &["a garbled error"],
            Dose::Panic { .. } => &["a garbled panic"],
        };
        reasons.iter().map(ToString::to_string).collect()
    }
}

/// Control characters, with words between them that must survive.
const GARBLED: &str = "\u{0}\u{1}\u{7}\u{8}\u{1b}[2J\r\n";

impl Machine for Poison {
    const NAME: &'static str = "poison";
    /// Short, so that a blocked step is detected soon.
    const STEP_TIMEOUT: Duration = Duration::from_secs(1);
    type State = Dose;
    type Output = Value;

    async fn step(&self, dose: Dose, cx: &Context) -> StepResult<Self> {
        self.0.of(cx).await;
        done(match dose {
            Dose::Abort { .. } => std::process::abort(),
            Dose::Exhaust { .. } => exhaust(),
            Dose::Block { .. } => block(),
            Dose::Huge { .. } => Value::String("x".repeat(10_000_000)),
            Dose::Nul { .. } => Value::String("a\u{0}b".into()),
            Dose::Deep { .. } => (0..5_000).fold(Value::Null, |inner, _| Value::Array(vec![inner])),
            Dose::Garble { .. } => {
                return Err(
                    std::io::Error::other(format!("{GARBLED}a garbled error{GARBLED}")).into(),
                );
            }
            Dose::Panic { .. } => panic!("{GARBLED}a garbled panic{GARBLED}"),
        })
    }
}

/// Allocates until an allocation fails, which ends the process.
fn exhaust() -> Value {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(vec![0; 16 * 1024 * 1024]);
        std::hint::black_box(&eaten);
    }
}

fn block() -> Value {
    loop {
        std::thread::park();
    }
}

/// Registers the poisonous machine, and limits the memory of this process to protect the host.
pub(crate) fn register(
    builder: EngineBuilder,
    effects: &Effects,
    limits: &Limits,
) -> Result<EngineBuilder> {
    let limit = Rlimit {
        current: Some(limits.memory_max),
        maximum: Some(limits.memory_max),
    };
    setrlimit(Resource::As, limit).context("the memory of a worker cannot be limited")?;
    Ok(builder.register(Poison(effects.clone())))
}
