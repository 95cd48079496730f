//! Outcomes as the columns of commit/advance.sql and commit/park.sql.
//!
//! Pure functions without I/O. commit.rs and workflow_outcome.rs call them. Every `match` names
//! every outcome, so that a new outcome does not compile before each column is decided.

use outlast_core::{ClosePolicy, Commit, Join, Outcome, Proceed, Status, Until, limits, micros};

/// Returns whether commit/park.sql writes the outcome. A park of a workflow is not among them.
pub(crate) fn parks(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Wait { .. } | Outcome::FanOut { .. } => true,
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => false,
    }
}

/// Returns the next status of an instance that does not park.
pub(crate) fn status_after(outcome: &Outcome) -> Status {
    let going_on = match outcome.keeps_claim() {
        true => Status::Executing,
        false => Status::Runnable,
    };
    outcome.end().unwrap_or(going_on)
}

/// Returns the step that the row goes to; `None` keeps the stored one.
pub(crate) fn step(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Next { step, .. } | Outcome::Wait { step, .. } | Outcome::FanOut { step, .. } => {
            Some(step)
        }
        Outcome::Retry { .. }
        | Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => None,
    }
}

/// Returns the delay or the timeout in microseconds.
///
/// commit/advance.sql tells outcomes apart by it. A step with a delay goes through its queue, even
/// with a delay of 0. A delay without a step is a retry. Without either, the row finishes.
pub(crate) fn delay_us(outcome: &Outcome) -> Option<i64> {
    match outcome {
        Outcome::Retry { delay, .. } => Some(micros(*delay)),
        Outcome::Wait { timeout, .. } => timeout.map(micros),
        Outcome::FanOut { join, .. } => join.deadline.map(micros),
        Outcome::Next {
            proceed: Proceed::Requeue,
            ..
        } => Some(0),
        Outcome::Next {
            proceed: Proceed::KeepClaim,
            ..
        }
        | Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => None,
    }
}

/// Returns the error text.
///
/// It is cleaned, not refused: no outcome may fail because of the text that explains it
/// (docs/protocol.md, defect 12).
pub(crate) fn error(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Fail { reason, .. } | Outcome::Cancel { reason } => {
            Some(limits::clean_error(reason))
        }
        Outcome::Retry { error, .. } => error.as_deref().map(limits::clean_error),
        Outcome::Next { .. }
        | Outcome::Wait { .. }
        | Outcome::FanOut { .. }
        | Outcome::Flow { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. } => None,
    }
}

/// Returns whether a child may meet an occupied key, and so may not be started.
pub(crate) fn has_keyed_children(outcome: &Outcome) -> bool {
    let mut children = outcome.children().iter();
    children.any(|child| child.correlation.is_some())
}

/// Returns how a fan-out joins; `None` for other outcomes.
pub(crate) fn join(outcome: &Outcome) -> Option<&Join> {
    let Outcome::FanOut { join, .. } = outcome else {
        return None;
    };
    Some(join)
}

/// Returns how many children must succeed; `None` if all are awaited.
pub(crate) fn needs(join: &Join) -> Option<i32> {
    match join.until {
        Until::Quorum(needed) => Some(count(needed)),
        Until::All | Until::FailFast => None,
    }
}

/// Returns how many of the new children run at a time.
pub(crate) fn window(outcome: &Outcome) -> Option<i32> {
    let window = match outcome {
        Outcome::FanOut { join, .. } => join.window,
        Outcome::Flow {
            children, window, ..
        } => window.filter(|_| !children.is_empty()),
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::Wait { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => None,
    };
    window.map(count)
}

/// Converts a count. A count beyond the column's range means the same as the largest value.
fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Returns the policy as it is stored. `Abandon` is stored as null.
pub(crate) fn policy(policy: ClosePolicy) -> Option<&'static str> {
    match policy {
        ClosePolicy::Abandon => None,
        ClosePolicy::RequestCancel | ClosePolicy::Terminate => Some(policy.as_str()),
    }
}

/// Returns the awaited names as an array literal.
///
/// A nested array of the protocol is a matrix, and rows await different numbers of names. So each
/// row has a text, which the statement casts to an array.
pub(crate) fn names_literal(outcome: &Outcome) -> Option<String> {
    // A workflow that awaits no signal has null names, not an empty list.
    let of_park = outcome.park().map(|park| &park.names);
    let names = match outcome {
        Outcome::Wait { names, .. } => Some(names),
        Outcome::Flow { .. } => of_park.filter(|names| !names.is_empty()),
        Outcome::Next { .. }
        | Outcome::Retry { .. }
        | Outcome::FanOut { .. }
        | Outcome::ContinueAsNew { .. }
        | Outcome::Done { .. }
        | Outcome::Fail { .. }
        | Outcome::Cancel { .. } => None,
    }?;
    Some(text_literal(names.iter().map(String::as_str)))
}

/// Returns the ids of the signals that the step received, as an array literal.
///
/// It is a set of ids and not the highest one, because ids commit out of order (docs/protocol.md,
/// defect 11).
pub(crate) fn received_literal(commit: &Commit) -> String {
    number_literal(commit.received.iter().map(Some))
}

/// Returns texts as an array literal.
///
/// Every text is quoted, so that an empty one, `null` and braces mean themselves.
pub(crate) fn text_literal<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut literal = String::from("{");
    for text in texts {
        literal.push_str(if literal.len() > 1 { ",\"" } else { "\"" });
        let mut rest = text;
        while let Some(place) = rest.find(['"', '\\']) {
            let (plain, quoted) = rest.split_at(place);
            literal.push_str(plain);
            literal.push('\\');
            literal.push_str(&quoted[..1]);
            rest = &quoted[1..];
        }
        literal.push_str(rest);
        literal.push('"');
    }
    literal.push('}');
    literal
}

/// Returns numbers as an array literal.
pub(crate) fn number_literal<T: ToString>(numbers: impl Iterator<Item = Option<T>>) -> String {
    let null = || "null".to_owned();
    let words = numbers.map(|number| number.map_or_else(null, |it| it.to_string()));
    format!("{{{}}}", words.collect::<Vec<String>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::Json;

    #[test]
    fn awaited_names_are_quoted_as_an_array_literal() {
        let wait = Outcome::Wait {
            names: vec![
                "plain".into(),
                "with \"quotes\"".into(),
                "back\\slash, {brace}".into(),
            ],
            step: "s".into(),
            state: Json::null(),
            timeout: None,
        };
        assert_eq!(
            names_literal(&wait).as_deref(),
            Some(r#"{"plain","with \"quotes\"","back\\slash, {brace}"}"#)
        );
        assert_eq!(text_literal([].into_iter()), "{}");
        assert_eq!(text_literal(["", "é\""].into_iter()), r#"{"","é\""}"#);
    }

    #[test]
    fn numbers_are_written_as_an_array_literal() {
        assert_eq!(
            number_literal([Some(-1), None, Some(2)].into_iter()),
            "{-1,null,2}"
        );
        assert_eq!(number_literal([None::<i32>; 0].into_iter()), "{}");
    }
}
