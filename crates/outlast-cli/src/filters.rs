//! The instance filters that several commands share.

use crate::format::{self, Moment};
use clap::{Args, ValueEnum};
use outlast::store::{Deadline, Filter, KeyText, Timestamp};
use outlast::{InstanceId, Status};

/// Filters; an instance must match all that are given.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Of this machine
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    /// Of this version of the machine
    #[arg(long, value_name = "N")]
    pub(crate) machine_version: Option<i32>,
    /// At this step
    #[arg(long, value_name = "NAME")]
    pub(crate) step: Option<String>,
    /// In one of these statuses; separated by commas, or repeated
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    pub(crate) status: Vec<Status>,
    /// In this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// With this correlation key, held or released
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// With this correlation key in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = hex_key, conflicts_with = "key")]
    pub(crate) key_hex: Option<KeyText>,
    /// With this partition key
    #[arg(long, value_name = "KEY")]
    pub(crate) partition_key: Option<String>,
    /// With this partition key in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = hex_key, conflicts_with = "partition_key")]
    pub(crate) partition_key_hex: Option<KeyText>,
    /// Started by this instance
    #[arg(long, value_name = "ID", value_parser = instance_id)]
    pub(crate) parent: Option<InstanceId>,
    /// Inserted at or after this time (2026-11-16T14:20:00Z), or at most this long ago (2h)
    #[arg(long, value_name = "WHEN", value_parser = format::moment)]
    pub(crate) since: Option<Moment>,
    /// Inserted before this time, or longer ago than this
    #[arg(long, value_name = "WHEN", value_parser = format::moment)]
    pub(crate) until: Option<Moment>,
    /// Finished at or after this time, or at most this long ago
    #[arg(long, value_name = "WHEN", value_parser = format::moment)]
    pub(crate) ended_since: Option<Moment>,
    /// Finished before this time, or longer ago than this
    #[arg(long, value_name = "WHEN", value_parser = format::moment)]
    pub(crate) ended_until: Option<Moment>,
    /// With this text in the last error
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Retried at least this many times at its step
    #[arg(long, value_name = "N")]
    pub(crate) attempts: Option<i32>,
    /// Waiting for a signal without a deadline, or past it
    #[arg(long, value_name = "WHICH")]
    pub(crate) deadline: Option<WhichDeadline>,
}

/// A condition on the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichDeadline {
    /// Without a deadline
    None,
    /// Past its deadline
    Overdue,
}

impl Filters {
    /// Returns whether no filter is given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Filters::default()
    }

    /// Converts to the store's filter. Ages count back from `now`.
    pub(crate) fn at(&self, now: Timestamp) -> Filter {
        Filter {
            machine: self.machine.clone(),
            version: self.machine_version,
            step: self.step.clone(),
            statuses: self.status.clone(),
            queue: self.queue.clone(),
            correlation_key: given_key(&self.key, &self.key_hex),
            partition_key: given_key(&self.partition_key, &self.partition_key_hex),
            parent: self.parent,
            inserted_from: self.since.map(|moment| moment.before(now)),
            inserted_until: self.until.map(|moment| moment.before(now)),
            ended_from: self.ended_since.map(|moment| moment.before(now)),
            ended_until: self.ended_until.map(|moment| moment.before(now)),
            error: self.error.clone(),
            attempts_from: self.attempts,
            deadline: self.deadline.map(|which| match which {
                WhichDeadline::None => Deadline::None,
                WhichDeadline::Overdue => Deadline::Before(now),
            }),
        }
    }
}

/// Parses a status.
pub(crate) fn status(word: &str) -> Result<Status, String> {
    word.trim()
        .parse()
        .map_err(|invalid: outlast::store::Invalid| invalid.to_string())
}

/// Parses a key in hexadecimal: `00ff`, or `\x00ff` as it is shown.
pub(crate) fn hex_key(digits: &str) -> Result<KeyText, String> {
    KeyText::from_hex(digits).map_err(|invalid| invalid.to_string())
}

/// Returns the key that one of two options gives, as stored.
pub(crate) fn given_key(text: &Option<String>, hex: &Option<KeyText>) -> Option<String> {
    text.clone().or_else(|| hex.clone().map(String::from))
}

/// Parses the id of an instance.
pub(crate) fn instance_id(text: &str) -> Result<InstanceId, String> {
    let id = text.trim().parse().map(InstanceId);
    id.map_err(|_| format!("{text:?} is not an instance id; ids are whole numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_without_options_match_every_instance() {
        assert!(Filters::default().is_empty());
        assert_eq!(Filters::default().at(Timestamp(0)), Filter::default());
        let filters = Filters {
            deadline: Some(WhichDeadline::Overdue),
            ..Filters::default()
        };
        assert!(!filters.is_empty());
        let filter = filters.at(Timestamp(7));
        assert_eq!(filter.deadline, Some(Deadline::Before(Timestamp(7))));
    }

    #[test]
    fn ages_in_filters_are_counted_back_from_now() {
        let second_ago = format::moment("1s").unwrap();
        let filters = Filters {
            ended_since: Some(second_ago),
            ended_until: Some(Moment::At(Timestamp(42))),
            ..Filters::default()
        };
        assert!(!filters.is_empty());
        let filter = filters.at(Timestamp(3_000_000));
        assert_eq!(filter.ended_from, Some(Timestamp(2_000_000)));
        assert_eq!(filter.ended_until, Some(Timestamp(42)));
    }

    #[test]
    fn ids_and_statuses_are_parsed_and_errors_say_what_is_valid() {
        assert_eq!(instance_id(" 42\n"), Ok(InstanceId(42)));
        assert!(instance_id("x").unwrap_err().contains("whole numbers"));
        assert_eq!(status("done"), Ok(Status::Done));
        assert!(status("paused").unwrap_err().contains("runnable"));
        assert_eq!(hex_key("00FF"), Ok(KeyText::from(b"\x00\xff")));
        assert_eq!(hex_key(r"\x00ff"), Ok(KeyText::from(b"\x00\xff")));
        assert!(hex_key("0x").unwrap_err().contains("two digits"));
    }
}
