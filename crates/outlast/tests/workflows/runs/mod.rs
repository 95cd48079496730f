//! A run as a whole: its cancel, its successor, its views and its queries.

mod cancelling;
mod continue_as_new;
mod engines;
mod publishing;
mod querying;
mod timeouts;
mod views;
