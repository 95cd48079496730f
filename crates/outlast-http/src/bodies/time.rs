//! Times on the wire: RFC 3339 in UTC, with microseconds.

use outlast_core::Timestamp;
use serde::{Serialize, Serializer};

/// A time in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Moment {
        Moment(timestamp)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write(self.0))
    }
}

impl utoipa::PartialSchema for Moment {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A time: RFC 3339 in UTC, with microseconds."))
            .examples(["2026-11-16T14:20:00.123456Z"])
            .into()
    }
}

impl utoipa::ToSchema for Moment {}

/// Formats a time. A time beyond the calendar's range becomes the last one in it.
pub(crate) fn write(timestamp: Timestamp) -> String {
    let moment = jiff::Timestamp::from_microsecond(timestamp.0).unwrap_or(if timestamp.0 < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    });
    moment.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Parses a time with any offset.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_with_microseconds_and_read_back() {
        let moment = Timestamp(1_794_838_800_123_456);
        assert_eq!(write(moment), "2026-11-16T14:20:00.123456Z");
        assert_eq!(read(&write(moment)), Some(moment));
        assert_eq!(read("2026-11-16T15:20:00.123456+01:00"), Some(moment));
        assert_eq!(write(Timestamp(0)), "1970-01-01T00:00:00.000000Z");
        assert_eq!(read("yesterday"), None);
        assert_eq!(read("2026-11-16"), None);
    }

    #[test]
    fn a_moment_beyond_the_calendar_is_still_written() {
        assert!(write(Timestamp(i64::MAX)).starts_with("9999-"));
        assert!(
            write(Timestamp(i64::MIN)).starts_with("-009999-")
                || write(Timestamp(i64::MIN)).starts_with("-9999-")
        );
    }
}
