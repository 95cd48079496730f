//! Durable calls: steps, activities, timers, and what they are given.

mod activities;
mod data;
mod inputs;
mod payloads;
#[cfg(feature = "encryption")]
mod secrets;
mod steps;
mod time_and_chance;
mod timers;
