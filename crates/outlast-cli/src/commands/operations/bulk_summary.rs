//! The summary of a bulk command.

use super::verb::{Verb, VerbResult};
use crate::failure::Failure;
use crate::output::{Format, Output, note};
use outlast::InstanceId;
use serde_json::{Map, Value, json};

/// Counts instances by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BulkSummary {
    done: u64,
    never_started: u64,
    asked_before: u64,
    not_needed: u64,
    refused: u64,
    not_found: u64,
}

impl BulkSummary {
    /// Adds a batch, and prints the reason for each instance that was refused.
    pub(super) fn add(
        &mut self,
        ids: &[InstanceId],
        results: &[VerbResult],
        output: &Output,
    ) -> Result<(), Failure> {
        for (id, results) in ids.iter().zip(results) {
            match results {
                VerbResult::Done => {
                    self.done += 1;
                    print_id(*id, output)?;
                }
                VerbResult::NeverStarted => {
                    self.never_started += 1;
                    print_id(*id, output)?;
                }
                VerbResult::Repaired(need) => {
                    self.done += 1;
                    note(format!("instance {id} is repaired: {}", need.clause()));
                    print_id(*id, output)?;
                }
                VerbResult::AskedBefore => self.asked_before += 1,
                VerbResult::NotNeeded => self.not_needed += 1,
                VerbResult::Refused(why) => {
                    self.refused += 1;
                    note(format!("instance {id} {why}"));
                }
                VerbResult::NotFound => {
                    self.not_found += 1;
                    note(format!("instance {id} does not exist"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn print(&self, verb: Verb, output: &Output) -> Result<(), Failure> {
        match output.format {
            Format::Json => output.json(&self.object(verb)),
            Format::Table => output.line(self.words(verb)),
            Format::Ids => {
                note(self.words(verb));
                Ok(())
            }
        }
    }

    /// Formats `2 asked to cancel, 1 never started, 1 already requested`.
    fn words(&self, verb: Verb) -> String {
        let mut words = format!("{} {}", self.done, verb.participle());
        if self.never_started > 0 {
            words += &format!(", {} never started", self.never_started);
        }
        match self.asked_before {
            0 => {}
            1 => words += ", 1 already requested",
            several => words += &format!(", {several} already requested"),
        }
        if self.not_needed > 0 {
            words += &format!(", {} without need", self.not_needed);
        }
        words
    }

    pub(super) fn object(&self, verb: Verb) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("changed".to_owned(), json!(self.done + self.never_started));
        if verb == Verb::Cancel {
            object.insert("never_started".to_owned(), json!(self.never_started));
            object.insert("already_requested".to_owned(), json!(self.asked_before));
        }
        if verb == Verb::Repair {
            object.insert("not_needed".to_owned(), json!(self.not_needed));
        }
        object.insert("refused".to_owned(), json!(self.refused));
        object.insert("not_found".to_owned(), json!(self.not_found));
        object
    }

    /// A refused instance is a failure. An instance that was already asked to cancel is not, and
    /// neither is one that needs no repair.
    pub(super) fn into_failure(self) -> Result<(), Failure> {
        match (self.not_found, self.refused) {
            (0, 0) => Ok(()),
            (0, refused) => Err(Failure::Refused(format!("{refused} refused"))),
            (not_found, 0) => Err(Failure::NotFound(format!("{not_found} not found"))),
            (not_found, refused) => Err(Failure::Refused(format!(
                "{refused} refused, {not_found} not found"
            ))),
        }
    }
}

fn print_id(id: InstanceId, output: &Output) -> Result<(), Failure> {
    match output.format {
        Format::Ids => output.line(id.to_string()),
        Format::Table | Format::Json => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_or_missing_instances_make_the_command_fail() {
        let code = |refused, not_found| {
            let summary = BulkSummary {
                done: 1,
                asked_before: 1,
                refused,
                not_found,
                ..BulkSummary::default()
            };
            summary
                .into_failure()
                .map_or_else(|failure| failure.code(), |()| 0)
        };
        assert_eq!(code(0, 0), 0);
        assert_eq!(code(0, 1), 3);
        assert_eq!(code(1, 0), 4);
        assert_eq!(code(1, 1), 4);
    }

    #[test]
    fn the_summary_counts_each_kind_of_answer() {
        let mut summary = BulkSummary {
            done: 2,
            never_started: 1,
            asked_before: 1,
            ..BulkSummary::default()
        };
        assert_eq!(
            summary.words(Verb::Cancel),
            "2 asked to cancel, 1 never started, 1 already requested"
        );
        assert_eq!(summary.object(Verb::Cancel)["changed"], 3);
        summary = BulkSummary {
            done: 2,
            ..BulkSummary::default()
        };
        assert_eq!(summary.words(Verb::Terminate), "2 terminated");
        assert!(
            !summary
                .object(Verb::Terminate)
                .contains_key("never_started")
        );
    }
}
