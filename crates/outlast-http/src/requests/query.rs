//! The instance filter that lists, counts, event streams and bulk verbs share.

use crate::bodies::time;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::Problem;
use crate::requests::extract::parse_id;
use crate::requests::keys;
use outlast_core::{Deadline, Filter, OVERDUE_AFTER, Status, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::str::FromStr;

/// A filter, in a query or in the body of a bulk verb. An instance must match every given member.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    utoipa::IntoParams,
    utoipa::ToSchema,
)]
#[into_params(parameter_in = Query)]
#[schema(as = Filter)]
#[serde(default)]
pub(crate) struct FilterParams {
    /// Of this machine.
    pub(crate) machine: Option<String>,
    /// Of this version.
    #[serde(deserialize_with = "text")]
    #[param(value_type = Option<i32>)]
    #[schema(value_type = Option<i32>)]
    pub(crate) version: Option<String>,
    /// At this step.
    pub(crate) step: Option<String>,
    /// In one of these statuses; repeated or separated by commas. `awaiting_signal` excludes
    /// `sleeping`.
    #[serde(deserialize_with = "texts")]
    pub(crate) status: Vec<String>,
    /// In this queue.
    pub(crate) queue: Option<String>,
    /// With this correlation key, held or released.
    pub(crate) key: Option<String>,
    /// With this correlation key, in hexadecimal.
    pub(crate) key_hex: Option<String>,
    /// With this partition key.
    pub(crate) partition_key: Option<String>,
    /// With this partition key, in hexadecimal.
    pub(crate) partition_key_hex: Option<String>,
    /// Spawned by the instance with this id.
    #[serde(deserialize_with = "text")]
    pub(crate) parent: Option<String>,
    /// Inserted at or after this, RFC 3339.
    pub(crate) inserted_from: Option<String>,
    /// Inserted before this, RFC 3339.
    pub(crate) inserted_until: Option<String>,
    /// Ended at or after this, RFC 3339.
    pub(crate) ended_from: Option<String>,
    /// Ended before this, RFC 3339.
    pub(crate) ended_until: Option<String>,
    /// The last error contains this text; case-sensitive.
    pub(crate) error: Option<String>,
    /// Retried at least this many times at its step.
    #[serde(deserialize_with = "text")]
    #[param(value_type = Option<i32>)]
    #[schema(value_type = Option<i32>)]
    pub(crate) attempts_from: Option<String>,
    /// Waits for a signal or sleeps: `none` without a deadline, `overdue` with one that has
    /// passed.
    pub(crate) deadline: Option<String>,
}

/// The member names of a filter, to refuse unknown ones in a body.
const NAMES: [&str; 17] = [
    "machine",
    "version",
    "step",
    "status",
    "queue",
    "key",
    "key_hex",
    "partition_key",
    "partition_key_hex",
    "parent",
    "inserted_from",
    "inserted_until",
    "ended_from",
    "ended_until",
    "error",
    "attempts_from",
    "deadline",
];

impl FilterParams {
    /// Converts to the store's filter. `now` is the database's time.
    pub(crate) fn filter(&self, now: Timestamp) -> Result<Filter, Problem> {
        let filter = Filter {
            machine: self.machine.clone(),
            version: number("version", self.version.as_deref())?,
            step: self.step.clone(),
            statuses: self.statuses()?,
            queue: self.queue.clone(),
            correlation_key: keys::given("key", self.key.as_deref(), self.key_hex.as_deref())?,
            partition_key: keys::given(
                "partition_key",
                self.partition_key.as_deref(),
                self.partition_key_hex.as_deref(),
            )?,
            parent: self.parent.as_deref().map(parse_id).transpose()?,
            inserted_from: moment("inserted_from", self.inserted_from.as_deref())?,
            inserted_until: moment("inserted_until", self.inserted_until.as_deref())?,
            ended_from: moment("ended_from", self.ended_from.as_deref())?,
            ended_until: moment("ended_until", self.ended_until.as_deref())?,
            error: self.error.clone(),
            attempts_from: number("attempts_from", self.attempts_from.as_deref())?,
            deadline: self.deadline(now)?,
        };
        filter.check()?;
        Ok(filter)
    }

    /// Returns whether the filter needs the database's time.
    pub(crate) fn needs_now(&self) -> bool {
        self.deadline.as_deref() == Some("overdue")
    }

    fn statuses(&self) -> Result<Vec<Status>, Problem> {
        let words = self.status.iter().flat_map(|words| words.split(','));
        let mut statuses = words
            .map(|word| word.trim().parse::<Status>().map_err(Problem::from))
            .collect::<Result<Vec<_>, _>>()?;
        statuses.sort_unstable();
        statuses.dedup();
        Ok(statuses)
    }

    fn deadline(&self, now: Timestamp) -> Result<Option<Deadline>, Problem> {
        match self.deadline.as_deref() {
            None => Ok(None),
            Some("none") => Ok(Some(Deadline::None)),
            Some("overdue") => Ok(Some(Deadline::Before(now - OVERDUE_AFTER))),
            Some(other) => Err(Problem::invalid(format!(
                "deadline must be none or overdue, not {other:?}"
            ))),
        }
    }

    /// Refuses members of a body that are not part of a filter.
    pub(crate) fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), Problem> {
        let unknown = names.into_iter().find(|name| !NAMES.contains(name));
        unknown.map_or(Ok(()), |name| {
            Err(Problem::invalid(format!(
                "unknown filter {name:?}; allowed: {}",
                NAMES.join(", ")
            )))
        })
    }
}

/// The size of a page and its start.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct PageParams {
    /// The number of instances. Default: 50, at most 200.
    #[param(value_type = Option<u32>)]
    pub(crate) limit: Option<String>,
    /// The `next` of the previous page.
    pub(crate) cursor: Option<String>,
    /// Whether to include states and results.
    #[param(value_type = Option<bool>)]
    pub(crate) full: Option<String>,
}

impl PageParams {
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        limit(self.limit.as_deref())
    }

    pub(crate) fn is_full(&self) -> Result<bool, Problem> {
        flag("full", self.full.as_deref())
    }
}

/// Parses the size of a page.
pub(crate) fn limit(given: Option<&str>) -> Result<usize, Problem> {
    let limit = number("limit", given)?.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::invalid(format!(
        "limit must be between 1 and {PAGE_MAX}, not {limit}"
    )))
}

/// Parses a number; the error names the parameter.
pub(crate) fn number<T: FromStr>(what: &str, given: Option<&str>) -> Result<Option<T>, Problem> {
    let wrong =
        |text: &str| Problem::invalid(format!("{what} must be a number in range, not {text:?}"));
    given
        .map(|text| text.parse().map_err(|_| wrong(text)))
        .transpose()
}

/// Parses `true` or `false`. Default: `false`.
pub(crate) fn flag(what: &str, given: Option<&str>) -> Result<bool, Problem> {
    match given {
        Some("true" | "1" | "") => Ok(true),
        Some("false" | "0") | None => Ok(false),
        Some(other) => Err(Problem::invalid(format!(
            "{what} must be true or false, not {other:?}"
        ))),
    }
}

fn moment(what: &str, given: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let wrong = |text: &str| {
        Problem::invalid(format!(
            "{what} must be a time such as 2026-11-16T14:20:00Z, not {text:?}"
        ))
    };
    given
        .map(|text| time::read(text).ok_or_else(|| wrong(text)))
        .transpose()
}

/// Reads text, or in JSON also a number.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Text;
    impl de::Visitor<'_> for Text {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a number")
        }

        fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
            Ok(Some(text.to_owned()))
        }

        fn visit_u64<E>(self, number: u64) -> Result<Option<String>, E> {
            Ok(Some(number.to_string()))
        }

        fn visit_i64<E>(self, number: i64) -> Result<Option<String>, E> {
            Ok(Some(number.to_string()))
        }

        fn visit_unit<E>(self) -> Result<Option<String>, E> {
            Ok(None)
        }
    }
    deserializer.deserialize_any(Text)
}

/// Reads several texts, or one.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Texts;
    impl<'de> de::Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a list of strings")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_unit<E>(self) -> Result<Vec<String>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
            let mut texts = Vec::new();
            while let Some(text) = seq.next_element()? {
                texts.push(text);
            }
            Ok(texts)
        }
    }
    deserializer.deserialize_seq(Texts)
}
