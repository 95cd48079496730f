//! The messages between nodes, as the text of a notification.
//!
//! Pure functions; `listen.rs` sends and receives. Nodes of several builds share a channel, and
//! any role of the database may notify on it. So a message that is not understood is skipped, and
//! never an error.

use outlast_core::{Hints, InstanceId, micros};
use serde_json::{Value, json};
use std::time::Duration;

/// The size limit of a message. The server accepts less than 8,000 bytes.
const MESSAGE_BYTES_MAX: usize = 7_900;

/// The version of the message form. Nodes skip messages of another form.
///
/// A new field needs no new form: older builds ignore it.
const FORM: u64 = 1;

/// A message that was understood.
pub(crate) struct ReceivedMessage {
    pub(crate) node: String,
    pub(crate) probe: Option<String>,
    pub(crate) hints: Hints,
}

impl ReceivedMessage {
    pub(crate) fn read(message: &str) -> Option<ReceivedMessage> {
        let message: Value = serde_json::from_str(message).ok()?;
        let message = message.as_object()?;
        if message.get("form")?.as_u64()? != FORM {
            return None;
        }
        let duration = |us: &Value| us.as_u64().map(Duration::from_micros);
        let mut hints = Hints::default();
        if let Some(queues) = message.get("queues") {
            for (queue, due_in) in queues.as_object()? {
                hints.queue(queue, duration(due_in)?);
            }
        }
        if let Some(due_in) = message.get("deadline") {
            hints.deadline(duration(due_in)?);
        }
        let ids = |list: &Value| -> Option<Vec<InstanceId>> {
            let ids = list.as_array()?.iter();
            ids.map(|id| id.as_i64().map(InstanceId)).collect()
        };
        if let Some(cascades) = message.get("cascades") {
            hints.cascades = cascades.as_bool()?;
        }
        if let Some(cancelled) = message.get("cancelled") {
            hints.cancelled = ids(cancelled)?;
        }
        if let Some(ended) = message.get("ended") {
            hints.ended = ids(ended)?;
        }
        Some(ReceivedMessage {
            node: message.get("node")?.as_str()?.to_owned(),
            probe: message
                .get("probe")
                .and_then(Value::as_str)
                .map(String::from),
            hints,
        })
    }
}

/// Returns a message to oneself.
pub(crate) fn probing(node: &str, probe: &str) -> String {
    json!({ "form": FORM, "node": node, "probe": probe }).to_string()
}

/// Returns the hints as one message, as far as there is room.
///
/// The order is: queues, the next deadline, whether there are cascades, cancelled instances,
/// finished instances. Durations are in microseconds.
pub(crate) fn message(node: &str, hints: &Hints) -> String {
    let mut message = BoundedMessage::new(node);
    message.list("queues", ['{', '}'], &hints.queues, |(queue, due_in)| {
        format!("{}:{}", json!(queue), micros(*due_in))
    });
    if let Some(due_in) = hints.deadline {
        message.part(&format!(",\"deadline\":{}", micros(due_in)));
    }
    if hints.cascades {
        message.part(",\"cascades\":true");
    }
    message.list("cancelled", ['[', ']'], &hints.cancelled, |id| {
        id.to_string()
    });
    message.list("ended", ['[', ']'], &hints.ended, |id| id.to_string());
    message.finish()
}

/// JSON that never exceeds the size limit of a message.
struct BoundedMessage(String);

impl BoundedMessage {
    fn new(node: &str) -> BoundedMessage {
        BoundedMessage(format!("{{\"form\":{FORM},\"node\":{}", json!(node)))
    }

    /// Adds `part` if there is room for it and the closing brace. Returns whether there was.
    fn part(&mut self, part: &str) -> bool {
        let fits = self.0.len() + part.len() < MESSAGE_BYTES_MAX;
        if fits {
            self.0.push_str(part);
        }
        fits
    }

    /// Adds a list of the entries that fit.
    fn list<T>(
        &mut self,
        name: &str,
        [open, close]: [char; 2],
        entries: impl IntoIterator<Item = T>,
        written: impl Fn(T) -> String,
    ) {
        let mut list = format!(",\"{name}\":{open}");
        let room = MESSAGE_BYTES_MAX.saturating_sub(self.0.len() + 2);
        let (mut separator, mut any, mut left_out) = ("", false, 0);
        for entry in entries {
            let entry = written(entry);
            if list.len() + separator.len() + entry.len() > room {
                left_out += 1;
                continue;
            }
            list.push_str(separator);
            list.push_str(&entry);
            (separator, any) = (",", true);
        }
        if left_out > 0 {
            tracing::debug!(name, left_out, "hints left out of a message that is full");
        }
        if any {
            list.push(close);
            self.part(&list);
        }
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Hints {
        ReceivedMessage::read(message)
            .expect("the message is readable")
            .hints
    }

    #[test]
    fn hints_are_read_as_they_were_written() {
        let mut hints = Hints::default();
        hints.queue("ma\"il\\ü'", Duration::from_micros(1_500));
        hints.queue("default", Duration::ZERO);
        hints.deadline(Duration::from_secs(10 * 366 * 24 * 3600));
        hints.ended = vec![InstanceId(1), InstanceId(i64::MAX)];
        hints.cancelled = vec![InstanceId(2)];
        hints.cascades = true;
        let message = message("me", &hints);
        assert_eq!(read(&message), hints);
        assert_eq!(
            ReceivedMessage::read(&message)
                .expect("the message is readable")
                .node,
            "me"
        );
    }

    #[test]
    fn a_message_that_is_too_long_keeps_queues_then_the_deadline_then_the_first_ended() {
        let mut hints = Hints::default();
        hints.deadline(Duration::from_secs(1));
        hints.ended = (1..=10_000).map(InstanceId).collect();
        for queues in [0, 1, 20, 37, 100] {
            hints.queues.clear();
            for n in 0..queues {
                hints.queue(&format!("{n:0200}"), Duration::ZERO);
            }
            let message = message("me", &hints);
            assert!(message.len() <= MESSAGE_BYTES_MAX, "{}", message.len());
            let read = read(&message);
            assert_eq!(read.queues.len(), queues.min(38), "{queues} queues");
            assert_eq!(read.ended, hints.ended[..read.ended.len()]);
            if queues < 38 {
                assert_eq!(read.deadline, hints.deadline);
            }
            if queues == 0 {
                assert!(read.ended.len() > 1_000);
            }
        }
    }

    #[test]
    fn a_message_names_cancelled_instances_before_ended_ones() {
        let mut hints = Hints {
            cascades: true,
            ..Hints::default()
        };
        hints.cancelled = (1..=10_000).map(InstanceId).collect();
        hints.ended = (1..=10_000).map(InstanceId).collect();
        let message = message("me", &hints);
        assert!(message.len() <= MESSAGE_BYTES_MAX, "{}", message.len());
        let read = read(&message);
        assert!(read.cascades);
        assert!(read.cancelled.len() > 1_000);
        assert_eq!(read.cancelled, hints.cancelled[..read.cancelled.len()]);
    }

    /// Older builds, without families, send no more fields than these.
    #[test]
    fn a_message_without_families_is_read() {
        let read = read(r#"{"form":1,"node":"a","queues":{"q":0},"deadline":5,"ended":[7]}"#);
        assert_eq!(read.ended, [InstanceId(7)]);
        assert!(read.cancelled.is_empty() && !read.cascades);
    }

    #[test]
    fn a_message_of_another_form_is_not_read() {
        for message in [
            "",
            "hello",
            "[]",
            "{}",
            r#"{"form":2,"node":"a"}"#,
            r#"{"form":1}"#,
            r#"{"form":1,"node":"a","queues":["default"]}"#,
            r#"{"form":1,"node":"a","queues":{"default":-1}}"#,
            r#"{"form":1,"node":"a","deadline":"soon"}"#,
            r#"{"form":1,"node":"a","ended":[1.5]}"#,
            r#"{"form":1,"node":"a","cancelled":{}}"#,
            r#"{"form":1,"node":"a","cascades":1}"#,
        ] {
            assert!(ReceivedMessage::read(message).is_none(), "{message}");
        }
        // A field that a later build adds is ignored.
        assert!(read(r#"{"form":1,"node":"a","paused":["default"]}"#).is_empty());
    }
}
