//! Histories for people: data of events, open waits of a workflow, origins of children.
//!
//! The command line, the HTTP API and the dashboard read these. Nothing here decides how a
//! workflow runs.

pub(super) mod detail;
pub(super) mod export;
pub(super) mod lineage;
pub(super) mod origin;
pub(super) mod timeline;
pub(super) mod waits;

pub use detail::EventDetail;
pub use export::{ExportedChild, ExportedEvent, ExportedPolicy, ExportedRun};
pub use lineage::ChildCall;
pub use origin::Origin;
pub use timeline::{PolicyApplied, TimelineEntry};
pub use waits::{Blocked, GroupPlace, GroupWait, Handled, OpenWait, Waits, WindowWait, open_waits};
