//! Response bodies that several routes share.

pub(crate) mod barrier;
pub(crate) mod instance;
pub(crate) mod time;
pub(crate) mod workflow;
