//! Brings ready instances to free slots: from the queue, or straight from an insert or a signal.

pub(super) mod fast_path;
pub(super) mod picker;
pub(super) mod queue_slots;
