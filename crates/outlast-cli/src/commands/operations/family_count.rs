//! Counts the families that a command is about to end.

use super::verb::Verb;
use crate::failure::Failure;
use crate::output::{Format, Output, note};
use crate::{format, json};
use outlast::store::{Count, Family};
use outlast::{Client, InstanceId, Status};
use std::collections::{BTreeMap, BTreeSet};

/// The counts of several families.
#[derive(Debug, Default)]
pub(super) struct FamilyCount {
    roots: Vec<InstanceId>,
    missing: Vec<InstanceId>,
    members: BTreeMap<Status, u64>,
    /// Whether some families exceeded the bound of the count.
    is_partial: bool,
}

impl FamilyCount {
    pub(super) async fn of(
        client: &Client,
        ids: BTreeSet<InstanceId>,
    ) -> Result<FamilyCount, Failure> {
        let mut count = FamilyCount::default();
        for id in ids {
            match client.admin().family(id).await? {
                Some(family) => count.add(id, family),
                None => count.missing.push(id),
            }
        }
        Ok(count)
    }

    fn add(&mut self, root: InstanceId, family: Family) {
        self.roots.push(root);
        self.is_partial |= !family.complete;
        for (status, members) in family.members {
            *self.members.entry(status).or_default() += members;
        }
    }

    pub(super) fn roots(&self) -> &[InstanceId] {
        &self.roots
    }

    pub(super) fn missing(&self) -> &[InstanceId] {
        &self.missing
    }

    /// Returns the number of live instances. A named descendant of another named instance counts
    /// twice.
    pub(super) fn live(&self) -> Count {
        let members = self.members.iter();
        let live = members.filter(|(status, _)| !status.is_terminal());
        self.counted(live.map(|(_, members)| members).sum())
    }

    fn all(&self) -> Count {
        self.counted(self.members.values().sum())
    }

    fn counted(&self, number: u64) -> Count {
        match self.is_partial {
            true => Count::AtLeast(number),
            false => Count::Exactly(number),
        }
    }

    /// Returns whether there may be a live instance.
    pub(super) fn may_live(&self) -> bool {
        self.live() != Count::Exactly(0)
    }

    /// Formats `the family of instance 12`, `3 families`.
    pub(super) fn subject(&self) -> String {
        match self.roots[..] {
            [root] => format!("the family of instance {root}"),
            ref roots => format!("{} families", roots.len()),
        }
    }

    /// Formats `the family of instance 12, 57 live of 60`.
    pub(super) fn sentence(&self) -> String {
        let (live, all) = (format::count(self.live()), format::count(self.all()));
        format!("{}, {live} live of {all}", self.subject())
    }

    pub(super) fn question(&self, verb: Verb) -> String {
        format!("{} {}?", verb.word(), self.sentence())
    }

    /// Prints the counts and changes nothing.
    pub(super) fn print_counts(&self, output: &Output) -> Result<(), Failure> {
        let members: Vec<_> = self.members.iter().map(|(&it, &many)| (it, many)).collect();
        match output.format {
            Format::Json => output.json(&json::family(self.live(), &members)),
            Format::Table | Format::Ids => {
                note(format::by_status(&members));
                output.line(format::count(self.live()))
            }
        }
    }

    /// A named instance that does not exist is a failure, whatever the result of the others.
    pub(super) fn all_found(&self) -> Result<(), Failure> {
        match self.missing.len() {
            0 => Ok(()),
            missing => Err(Failure::NotFound(format!("{missing} not found"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(members: &[(Status, u64)], complete: bool) -> Family {
        Family {
            members: members.to_vec(),
            complete,
        }
    }

    #[test]
    fn a_question_says_how_many_live() {
        let mut count = FamilyCount::default();
        count.add(
            InstanceId(12),
            family(&[(Status::Executing, 2), (Status::Done, 3)], true),
        );
        assert_eq!(
            count.question(Verb::Cancel),
            "cancel the family of instance 12, 2 live of 5?"
        );
        count.add(InstanceId(40), family(&[(Status::Runnable, 1)], false));
        assert_eq!(
            count.question(Verb::Terminate),
            "terminate 2 families, 3+ live of 6+?"
        );
    }

    #[test]
    fn only_a_completely_counted_family_is_known_to_have_ended() {
        let mut count = FamilyCount::default();
        count.add(InstanceId(12), family(&[(Status::Done, 3)], true));
        assert!(!count.may_live());
        count.add(InstanceId(40), family(&[(Status::Done, 3)], false));
        assert!(count.may_live());
    }
}
