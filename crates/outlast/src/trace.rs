//! Traces across waits, workers and children.
//!
//! An instance stores the trace it was started in, as a W3C `traceparent`. Every span of its steps
//! has it, and children inherit it. Only the tracing backend knows the caller's trace and how to
//! attach a span to it. A [`Propagator`] connects it. Without a propagator, an instance that is
//! started outside a step starts a new trace.
//!
//! ```
//! use outlast::{Client, Sqlite};
//! use outlast::trace::Propagator;
//!
//! /// With OpenTelemetry, `current` would inject the current context, and `attach` would set the
//! /// span's parent to the extracted one.
//! struct Fixed;
//!
//! impl Propagator for Fixed {
//!     fn current(&self) -> Option<String> {
//!         Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into())
//!     }
//!     fn attach(&self, _span: &tracing::Span, _traceparent: &str) {}
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Sqlite::in_memory()?).propagator(Fixed);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use tracing::Span;

/// Connects the traces that are stored with instances to a tracing backend.
pub trait Propagator: Send + Sync + 'static {
    /// Returns the `traceparent` of the caller, if it is in a trace.
    fn current(&self) -> Option<String>;

    /// Attaches the span of a step to the trace of its instance.
    fn attach(&self, span: &Span, traceparent: &str);
}

/// A propagator without a backend.
pub(crate) struct NoPropagator;

impl Propagator for NoPropagator {
    fn current(&self) -> Option<String> {
        None
    }

    fn attach(&self, _span: &Span, _traceparent: &str) {}
}

impl fmt::Debug for dyn Propagator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Propagator")
    }
}

/// Creates a `traceparent` that starts a trace. The specification forbids ids of zero.
pub(crate) fn new_traceparent() -> String {
    let trace = fastrand::u128(1..);
    let span = fastrand::u64(1..);
    format!("00-{trace:032x}-{span:016x}-01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_traceparent_has_the_shape_of_the_specification() {
        let lengths: Vec<_> = new_traceparent().split('-').map(str::len).collect();
        assert_eq!(lengths, [2, 32, 16, 2]);
        assert_ne!(new_traceparent(), new_traceparent());
    }
}
