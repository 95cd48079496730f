//! A run as a whole: its cancel, its successor, and its views.

mod cancelling;
mod continue_as_new;
mod engines;
mod publishing;
mod timeouts;
mod views;
