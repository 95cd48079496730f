//! The data of each kind of event, and the kinds of calls that events belong to.
//!
//! The session writes these; the session and `view` read them. Old histories must stay readable: a
//! new field is optional.

use crate::machine::RetryPolicy;
use crate::workflow::FlowErrorKind;
use outlast_core::{
    Child, ClosePolicy, EventKind, InstanceId, Invalid, Json, NewEvent, ReplyKind, SignalId,
    Status, Timestamp,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

/// The data of `RunStarted`.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunStart {
    /// The seed of [`Flow::random`](super::Flow::random).
    pub(crate) seed: i64,
}

/// The data of `ActivityScheduled` and `ChildScheduled`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scheduled {
    pub(crate) round: i32,
    pub(crate) position: i32,
    pub(crate) machine: String,
    pub(crate) version: i32,
    pub(crate) on_parent_close: ClosePolicy,
    /// A digest of its input.
    pub(crate) input: String,
    /// The process that supplied the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<RetryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<GroupPosition>,
    /// Whether the code continued right after the start, for a child outside of groups. Older
    /// histories do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) launched: Option<bool>,
}

/// The position of a call in its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupPosition {
    /// The calls of the groups, from the outermost to the innermost.
    pub(crate) path: Vec<i32>,
    /// How many calls the outermost group has.
    pub(crate) size: usize,
    /// The index of this call among them, from 0.
    pub(crate) index: usize,
    /// Whether the outermost group is a selection, where the first member wins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) select: bool,
    /// The member of the selection that it belongs to, from 0. A group is one member. Older
    /// histories do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<usize>,
}

impl GroupPosition {
    /// Returns whether the code makes the call at the recorded position.
    pub(crate) fn fits(&self, recorded: &GroupPosition) -> bool {
        let is_same_member = recorded.member.is_none() || self.member == recorded.member;
        self.is_beside(recorded)
            && (&self.path, self.index) == (&recorded.path, recorded.index)
            && is_same_member
    }

    /// Returns whether both are of the same group, with the same kind and size.
    ///
    /// The oldest histories do not mark selections.
    pub(crate) fn is_beside(&self, other: &GroupPosition) -> bool {
        let group = |it: &GroupPosition| (it.path.first().copied(), it.size);
        let knows_kind = |it: &GroupPosition| it.select || it.member.is_some();
        let is_same_kind = self.select == other.select || !knows_kind(self) || !knows_kind(other);
        group(self) == group(other) && is_same_kind
    }
}

/// For people: `number 2 of 3 in all, calls [1, 4]`.
impl fmt::Display for GroupPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.select {
            true => CallKind::Selection,
            false => CallKind::Group,
        };
        let (number, size, kind) = (self.index + 1, self.size, kind.as_str());
        write!(
            f,
            "number {number} of {size} in {kind}, calls {:?}",
            self.path
        )?;
        match self.member.filter(|_| self.select) {
            Some(member) => write!(f, ", member {}", member + 1),
            None => Ok(()),
        }
    }
}

/// The data of `GroupAwaited` and `SelectionAwaited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outline {
    /// How many calls it has.
    pub(crate) size: usize,
    /// Its calls in their order: `1-3,7|9`.
    ///
    /// A range stands for consecutive calls, and `|` separates the members of a selection.
    pub(crate) leaves: String,
    /// How many groups it has, itself included.
    pub(crate) groups: usize,
}

impl Outline {
    pub(crate) fn of<'a>(members: impl Iterator<Item = &'a [i32]>, groups: usize) -> Outline {
        let mut size = 0;
        let members = members.map(|leaves| {
            size += leaves.len();
            let runs = leaves.chunk_by(|one, next| one + 1 == *next);
            let runs = runs.map(|run| match run {
                [first, .., last] => format!("{first}-{last}"),
                [] | [_] => run.iter().map(i32::to_string).collect(),
            });
            runs.collect::<Vec<_>>().join(",")
        });
        let leaves = members.collect::<Vec<_>>().join("|");
        Outline {
            size,
            leaves,
            groups,
        }
    }
}

/// For people: `of 3, calls 1-2,7`.
impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {}, calls {}", self.size, self.leaves)?;
        match self.groups {
            1 => Ok(()),
            groups => write!(f, " in {groups} groups"),
        }
    }
}

/// The data of `TimerScheduled`, `StepScheduled` and `SignalAwaited`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WaitData {
    /// How long a timer runs, from the event on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after_us: Option<i64>,
    /// The process that supplied the duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<GroupPosition>,
}

/// The data of `StepCompleted`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub(crate) result: Json,
}

/// The data of `StepFailed`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// `error`, `panic`, `timeout` or `invalid`.
    pub(crate) kind: String,
    pub(crate) error: String,
}

/// Returns kind and text of a `StepFailed`, in the words of logs and metrics.
pub(crate) fn failed_step(event: &NewEvent) -> (&'static str, String) {
    let Ok(Failed { kind, error }) = data(event) else {
        return ("error", String::new());
    };
    let kind = match kind.as_str() {
        "panic" => "panic",
        "timeout" => "timeout",
        "invalid" => "outcome",
        _ => "error",
    };
    (kind, error)
}

/// The data of `ChildStarted` and of every event for a finished child.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ended {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<InstanceId>,
    pub(crate) run: i32,
    /// Its output, or the value of its failure; an error without fields is `null`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The data of `SignalConsumed`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Consumed {
    pub(crate) signal: SignalId,
    pub(crate) payload: Json,
    /// The id of an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<String>,
}

/// The data of `UpdateAccepted`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) signal: SignalId,
    /// The id of the update; a plain signal has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<String>,
    pub(crate) payload: Json,
}

/// The data of `UpdateCompleted`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct UpdateReply {
    pub(crate) signal: SignalId,
    /// The id of the update; a plain signal has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<String>,
    pub(crate) kind: ReplyKind,
    /// The value, or the reason as a JSON string.
    pub(crate) reply: Json,
}

/// The data of `GroupResolved` and `SelectionResolved`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Resolved {
    /// The call whose failure it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<i32>,
    /// The member that was first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) winner: Option<usize>,
}

/// The data of `VersionMarked`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Marked {
    pub(crate) version: i32,
}

/// The data of `CancelRequested`, `FailureHandled`, `RunFailed`, `RunCancelled` and `TimedOut`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Reason {
    pub(crate) reason: String,
}

/// The data of `ContinuedAsNew`: the input of the run that ends.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Renewed {
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) input: Option<Json>,
}

/// Reads a present field, including `null`, as `Some`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// The data of `ReplayBlocked`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mismatch {
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// The data of `ChildMessaged`: a message that was sent to a child.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ChildMessage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<InstanceId>,
    pub(crate) answer: String,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Step,
    Activity,
    Child,
    Timer,
    Signal,
    Message,
    Group,
    Selection,
}

impl CallKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CallKind::Step => "step",
            CallKind::Activity => "activity",
            CallKind::Child => "child",
            CallKind::Timer => "timer",
            CallKind::Signal => "signal",
            CallKind::Message => "message",
            CallKind::Group => "all",
            CallKind::Selection => "select",
        }
    }

    /// Returns whether the call is another instance.
    pub(crate) fn is_child(self) -> bool {
        matches!(self, CallKind::Activity | CallKind::Child)
    }

    /// Returns the kind of call that an event belongs to; `None` for events of the run itself.
    pub(crate) fn of(event: EventKind) -> Option<CallKind> {
        Some(match event {
            EventKind::StepScheduled | EventKind::StepCompleted | EventKind::StepFailed => {
                CallKind::Step
            }
            EventKind::ActivityScheduled
            | EventKind::ActivityCompleted
            | EventKind::ActivityFailed
            | EventKind::ActivityCancelled => CallKind::Activity,
            EventKind::ChildScheduled
            | EventKind::ChildStarted
            | EventKind::ChildCompleted
            | EventKind::ChildFailed
            | EventKind::ChildCancelled
            | EventKind::ChildTerminated => CallKind::Child,
            EventKind::ChildMessaged => CallKind::Message,
            EventKind::GroupAwaited | EventKind::GroupResolved => CallKind::Group,
            EventKind::SelectionAwaited | EventKind::SelectionResolved => CallKind::Selection,
            EventKind::TimerScheduled | EventKind::TimerFired | EventKind::TimerCancelled => {
                CallKind::Timer
            }
            EventKind::SignalAwaited | EventKind::SignalConsumed => CallKind::Signal,
            EventKind::RunStarted
            | EventKind::UpdateAccepted
            | EventKind::UpdateCompleted
            | EventKind::VersionMarked
            | EventKind::CancelRequested
            | EventKind::FailureHandled
            | EventKind::ReplayBlocked
            | EventKind::ContinuedAsNew
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
            | EventKind::TimedOut
            | EventKind::Transitioned => return None,
        })
    }
}

/// Creates an event to write.
pub(crate) fn event(
    kind: EventKind,
    call: Option<i32>,
    name: &str,
    data: &impl Serialize,
    at: Option<Timestamp>,
) -> NewEvent {
    NewEvent {
        kind,
        call,
        name: name.to_owned(),
        data: document(data),
        at,
    }
}

/// Encodes the data of an event.
///
/// The values in it were stored or checked before. A value may use the whole limit for one value,
/// and the event around it adds a little more.
fn document(data: &impl Serialize) -> Json {
    Json::around(data).expect("events are plain JSON")
}

/// Reads the data of an event.
pub(crate) fn data<T: DeserializeOwned>(event: &NewEvent) -> Result<T, Invalid> {
    data_of(&event.data).map_err(|invalid| invalid.within(format_args!("event {}", event.kind)))
}

/// Reads the data of an event from its JSON.
pub(crate) fn data_of<T: DeserializeOwned>(data: &Json) -> Result<T, Invalid> {
    data.decode()
}

/// Returns the event for a finished child; `None` while it runs.
pub(crate) fn end_of(kind: CallKind, child: &Child) -> Option<EventKind> {
    let is_activity = kind == CallKind::Activity;
    Some(match child.status {
        Status::Done if is_activity => EventKind::ActivityCompleted,
        Status::Done => EventKind::ChildCompleted,
        Status::Failed if is_activity => EventKind::ActivityFailed,
        Status::Failed => EventKind::ChildFailed,
        Status::Cancelled if is_activity => EventKind::ActivityCancelled,
        Status::Cancelled => match was_terminated(child) {
            true => EventKind::ChildTerminated,
            false => EventKind::ChildCancelled,
        },
        Status::Runnable
        | Status::Executing
        | Status::AwaitingSignal
        | Status::Sleeping
        | Status::AwaitingChildren => return None,
    })
}

/// Returns whether a child was terminated, by its recorded error.
///
/// A terminated instance cannot give a reason itself.
fn was_terminated(child: &Child) -> bool {
    let error = child.last_error.as_deref().unwrap_or_default();
    error.starts_with("terminated by ")
}

/// Returns the kind of error for a child that failed.
pub(crate) fn failure_kind(event: EventKind) -> FlowErrorKind {
    let kinds = [
        (EventKind::ActivityFailed, FlowErrorKind::ActivityFailed),
        (
            EventKind::ActivityCancelled,
            FlowErrorKind::ActivityCancelled,
        ),
        (EventKind::ChildCancelled, FlowErrorKind::ChildCancelled),
        (EventKind::ChildTerminated, FlowErrorKind::ChildTerminated),
    ];
    let found = kinds.into_iter().find(|(of, _)| *of == event);
    found.map_or(FlowErrorKind::ChildFailed, |(_, kind)| kind)
}

/// Returns the number of this process, drawn once at random.
pub(crate) fn process() -> u32 {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    *PROCESS.get_or_init(|| fastrand::u32(..))
}

/// Returns a digest of an argument, to compare it with the argument of another replay.
///
/// Members of an object are sorted first: those of a `HashMap` have another order each time.
pub(crate) fn digest(json: &Json) -> String {
    // Without an object there is nothing to sort.
    let value = json.as_str().contains('{').then(|| json.decode::<Value>());
    match value {
        Some(Ok(value)) => {
            let mut text = String::with_capacity(json.as_str().len());
            write_sorted(&value, &mut text);
            digest_of(&text)
        }
        Some(Err(_)) | None => digest_of(json.as_str()),
    }
}

/// Returns whether a digest matches. Older histories have the digest of the unsorted text.
pub(crate) fn is_digest_of(digest: &str, json: &Json) -> bool {
    digest_of(json.as_str()) == digest || self::digest(json) == digest
}

fn digest_of(text: &str) -> String {
    format!("{:016x}", fnv(text.as_bytes()))
}

/// Writes a value with sorted members of objects, whatever features serde_json is built with.
fn write_sorted(value: &Value, into: &mut String) {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, &Value> = members.iter().collect();
            for (name, member) in members {
                into.push_str(&Value::from(name.as_str()).to_string());
                into.push(':');
                write_sorted(member, into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(elements) => {
            for element in elements {
                write_sorted(element, into);
                into.push(',');
            }
            into.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            into.push_str(&value.to_string());
        }
    }
}

/// FNV-1a: the same in every build. It is not cryptographic.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash ^= u64::from(*byte);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of_text(text: &str) -> String {
        digest(&Json::stored(text.to_owned()).unwrap())
    }

    #[test]
    fn a_digest_ignores_the_order_of_members_and_nothing_else() {
        let one = r#"{"a":1,"b":{"x":[1,2],"y":"}"}}"#;
        let same = r#"{"b":{"y":"}","x":[1,2]},"a":1}"#;
        assert_eq!(digest_of_text(one), digest_of_text(same));
        for other in [
            r#"{"a":1,"b":{"x":[2,1],"y":"}"}}"#,
            r#"{"a":1,"b":{"x":[1,2]},"y":"}"}"#,
            r#"{"a":1,"b":{"x":[1,2],"y":"]"}}"#,
            r#"{"a":"1","b":{"x":[1,2],"y":"}"}}"#,
        ] {
            assert_ne!(digest_of_text(one), digest_of_text(other), "{other}");
        }
    }

    #[test]
    fn digests_from_before_members_were_sorted_still_match() {
        let given = Json::stored(r#"{"b":1,"a":2}"#.into()).unwrap();
        assert!(is_digest_of(&digest_of(given.as_str()), &given));
        assert!(is_digest_of(&digest(&given), &given));
        assert!(!is_digest_of(&digest(&Json::null()), &given));
    }
}
