//! The changes that the mutants of updates make.

use crate::model::Tables;
use outlast_core::*;

/// Forgets the replies to the updates that outcomes answer once more.
pub(super) fn forget_replies(commits: &[Commit], tables: &mut Tables) {
    let replies = commits.iter().flat_map(|commit| &commit.replies);
    for reply in replies {
        tables.replies.remove(&reply.signal);
    }
}

/// Restores the replies that no outcome has replaced.
pub(super) fn restore_replies(before: &Tables, tables: &mut Tables) {
    for (signal, state) in &before.replies {
        let answer = || state.clone();
        tables.replies.entry(*signal).or_insert_with(answer);
    }
}

/// Writes the replies of the outcomes that were answered as lost.
pub(super) fn write_lost_replies(
    commits: &[Commit],
    answers: &[Answer],
    tables: &mut Tables,
    now: Timestamp,
) {
    for (commit, answer) in commits.iter().zip(answers) {
        if *answer == Answer::Lost {
            tables.reply(commit.claim.id, commit.replies.clone(), now);
        }
    }
}

/// Puts the updates back into the inbox that a wait has answered.
pub(super) fn put_back(before: &Tables, commits: &[Commit], tables: &mut Tables) {
    let waits = commits
        .iter()
        .filter(|commit| matches!(commit.outcome, Outcome::Wait { .. }));
    for reply in waits.flat_map(|commit| &commit.replies) {
        if let (Some(old), Some(row)) = (
            before.signals.get(&reply.signal),
            tables.signals.get_mut(&reply.signal),
        ) {
            row.clone_from(old);
        }
    }
}
