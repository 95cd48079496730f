//! The data of the dashboard's overview: counts by step, charts, and conditions that need an
//! operator.

pub(crate) mod attention;
pub(crate) mod charts;
pub(crate) mod step_counter;
