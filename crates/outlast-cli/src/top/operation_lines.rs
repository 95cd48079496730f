//! The latest operations and their effect on children. A cascade is one line, however many
//! children it reached.

use outlast::store::{Operation, Timestamp, Verb};

/// The number of lines shown.
const SHOWN: usize = 5;

/// One line: an operation, or a run of operations on the children of one parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OperationLine {
    pub(super) verb: Verb,
    /// The target: an instance, a queue, or the children of an instance.
    pub(super) to: String,
    pub(super) by: String,
    pub(super) reason: String,
    /// The time of the last operation.
    pub(super) at: Timestamp,
}

/// Folds operations, newest first. Consecutive operations on the children of one parent become one
/// line.
pub(super) fn fold(operations: &[Operation]) -> Vec<OperationLine> {
    let is_one = |one: &Operation, next: &Operation| {
        one.cause.is_some() && (one.cause, one.verb) == (next.cause, next.verb)
    };
    let lines = operations.chunk_by(is_one).take(SHOWN);
    lines
        .filter_map(|line| Some(OperationLine::of(line.first()?, line.len())))
        .collect()
}

impl OperationLine {
    fn of(newest: &Operation, times: usize) -> OperationLine {
        OperationLine {
            verb: newest.verb,
            to: target(newest, times),
            by: newest.by.clone(),
            reason: newest.reason.clone().unwrap_or_default(),
            at: newest.at,
        }
    }
}

fn target(operation: &Operation, times: usize) -> String {
    let instance = operation.instance.map(|id| id.to_string());
    match (operation.cause, &operation.queue) {
        (Some(parent), _) if times > 1 => format!("{times} children of {parent}"),
        (Some(parent), _) => format!("a child of {parent}"),
        (None, Some(queue)) => format!("queue {queue}"),
        (None, None) => instance.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast::InstanceId;
    use outlast::store::OperationId;

    fn operation(id: i64, verb: Verb, instance: i64, cause: Option<i64>) -> Operation {
        Operation {
            id: OperationId(id),
            verb,
            instance: Some(InstanceId(instance)),
            queue: None,
            by: "ada".into(),
            reason: None,
            cause: cause.map(InstanceId),
            status_before: None,
            at: Timestamp(id),
        }
    }

    #[test]
    fn a_cascade_is_one_line_and_each_other_operation_is_one_line() {
        let mut operations: Vec<_> = (0..400)
            .map(|id| operation(500 - id, Verb::Cancel, 50, Some(7)))
            .collect();
        operations.push(operation(9, Verb::Terminate, 51, Some(7)));
        operations.push(operation(8, Verb::Cancel, 7, None));
        operations.push(operation(7, Verb::Cancel, 6, None));
        let lines = fold(&operations);
        let to: Vec<_> = lines.iter().map(|line| line.to.as_str()).collect();
        assert_eq!(to, ["400 children of 7", "a child of 7", "7", "6"]);
        assert_eq!(lines[0].at, Timestamp(500));
    }

    #[test]
    fn the_number_of_operation_lines_is_limited() {
        let operations: Vec<_> = (0..50)
            .map(|id| operation(id, Verb::Retry, id, None))
            .collect();
        assert_eq!(fold(&operations).len(), SHOWN);
    }
}
