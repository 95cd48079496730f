//! All interleavings of two and three verbs on a parent with two children.
//!
//! The verbs are cancel, terminate, ends of children, deadlines, fan-outs, ends of the parent, and
//! the cascades that these leave. By default most tests run with the fail-fast join, whose parent
//! is woken while children live. The other joins, and three sessions with windows or cascades,
//! take minutes: `--run-ignored all`.
//!
//! Besides the checks of tests/interleavings.rs, the tests check that:
//!
//! - only ended children decide a join (I6);
//! - a window holds no child for ever (I2), and no more children run than it allows (I13);
//! - close policies reach the children, and a cancelled instance starts nothing more and ends
//!   (I13).

use crate::interleavings::act::Act::{
    self, CancelTree, Cascade, Claim, Collect, CommitClaimed, Fire, Reap, TimeOut,
};
use crate::interleavings::act::Decision::{Done, Fail, FanOut, FanOutInWindow, Keep, Park};
use crate::interleavings::play::{beside, both, cancel, catch, commit, hold, pairs, terminate};
use crate::interleavings::scheduler::Scenario;
use crate::interleavings::stage::Start;
use outlast_core::Until;

/// The verbs that can meet a parent that waits for its two children.
fn verbs_on_a_parent() -> Vec<Act> {
    vec![
        commit(1, Done),
        commit(2, Fail),
        cancel([0]),
        cancel([1]),
        terminate([0]),
        terminate([1]),
        Fire,
    ]
}

async fn hold_pairs(start: Start) {
    let pairs = pairs(start, &verbs_on_a_parent());
    let pairs: Vec<Scenario> = pairs.into_iter().map(Scenario::briefly).collect();
    hold(&pairs).await;
}

#[tokio::test]
async fn two_verbs_can_meet_while_a_parent_waits_for_all_children() {
    hold_pairs(Start::Joining(Until::All)).await;
}

#[tokio::test]
async fn two_verbs_can_meet_while_a_parent_waits_in_a_fail_fast_join() {
    hold_pairs(Start::Joining(Until::FailFast)).await;
}

#[tokio::test]
async fn two_verbs_can_meet_while_a_parent_waits_for_a_quorum() {
    hold_pairs(Start::Joining(Until::Quorum(1))).await;
}

/// Runs each two verbs while the window holds the second child.
async fn hold_pairs_with_a_window(until: Until) {
    let verbs = [
        commit(1, Done),
        commit(1, Fail),
        cancel([0]),
        cancel([1]),
        cancel([2]),
        terminate([0]),
        terminate([1]),
        terminate([2]),
        Fire,
        Claim,
    ];
    let pairs = pairs(Start::Windowed(until), &verbs);
    let pairs: Vec<Scenario> = pairs.into_iter().map(Scenario::briefly).collect();
    hold(&pairs).await;
}

#[tokio::test]
async fn two_verbs_can_meet_while_a_window_holds_a_child() {
    hold_pairs_with_a_window(Until::FailFast).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn two_verbs_can_meet_while_a_window_holds_a_child_of_every_other_join() {
    hold_pairs_with_a_window(Until::All).await;
    hold_pairs_with_a_window(Until::Quorum(1)).await;
}

/// Runs verbs that leave a cascade, then the cascade, while another session runs one verb.
///
/// `places` selects the places of statements where they meet.
async fn hold_cascades(starts: &[Start], places: fn(Scenario) -> Scenario) {
    let scenario = |start, first: &Act, other: &Act| {
        let sessions = [
            &[first.clone(), Cascade(10)][..],
            std::slice::from_ref(other),
        ];
        places(Scenario::new(start, &sessions))
    };
    let others = [
        commit(1, Done),
        commit(2, Fail),
        cancel([1]),
        cancel([2]),
        terminate([1]),
        terminate([2]),
        Reap(0),
        Cascade(1),
        Claim,
    ];
    let mut scenarios = Vec::new();
    for &start in starts {
        for first in [terminate([0]), CancelTree(0), Fire] {
            scenarios.extend(others.iter().map(|other| scenario(start, &first, other)));
        }
    }
    hold(&scenarios).await;
}

#[tokio::test]
async fn a_cascade_can_meet_any_verb_on_the_children() {
    let starts = [Start::Windowed(Until::FailFast)];
    hold_cascades(&starts, Scenario::at_locks).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn a_cascade_can_meet_any_verb_on_the_children_at_every_unlocked_read() {
    let starts = [
        Start::Joining(Until::FailFast),
        Start::Windowed(Until::FailFast),
        Start::Outliving,
    ];
    hold_cascades(&starts, Scenario::at_meetings).await;
}

/// The page of the cascade is short if the child that it waits for is collected meanwhile.
fn a_cascade_and_a_collect() -> Scenario {
    let cascade = [Cascade(1), Cascade(1)];
    beside_each_other(Start::Cascading, &cascade, &[Collect])
}

#[tokio::test]
async fn children_of_a_cascade_can_be_collected_while_it_waits_for_them() {
    let page_of_both = [Cascade(10)];
    hold(&[
        a_cascade_and_a_collect(),
        beside_each_other(Start::Cascading, &page_of_both, &[Collect]),
    ])
    .await;
}

#[tokio::test]
async fn the_end_of_a_parent_can_meet_any_verb_on_its_family() {
    let others = [
        commit(1, Done),
        commit(2, Fail),
        both([1, 2]),
        cancel([0]),
        cancel([1]),
        terminate([0]),
        terminate([2]),
        CancelTree(0),
        Reap(0),
        Cascade(10),
    ];
    let mut scenarios: Vec<Scenario> = Vec::new();
    for end in [commit(0, Done), commit(0, Fail), terminate([0])] {
        let pairs = beside(Start::Outliving, &end, &others).into_iter();
        scenarios.extend(pairs.map(Scenario::briefly));
    }
    hold(&scenarios).await;
}

/// If the cancel comes first, no children start. If it comes later, it wakes their parent.
#[tokio::test]
async fn a_fan_out_can_meet_a_cancel_and_an_end() {
    let mut scenarios = Vec::new();
    for spawn in [commit(0, FanOut), commit(0, FanOutInWindow)] {
        for other in [
            cancel([0]),
            CancelTree(0),
            terminate([0]),
            Reap(0),
            Reap(3),
            Fire,
            Claim,
        ] {
            let sessions = [&[spawn.clone()][..], &[other]];
            scenarios.push(Scenario::new(Start::Executing, &sessions).briefly());
        }
    }
    hold(&scenarios).await;
}

/// The same, while the cascade runs and a third session claims and ends the new children.
#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn a_fan_out_can_meet_a_cancel_its_cascade_and_a_claim() {
    let mut scenarios = Vec::new();
    for spawn in [commit(0, FanOut), commit(0, FanOutInWindow)] {
        for other in [cancel([0]), CancelTree(0), terminate([0])] {
            let sessions = [
                &[spawn.clone()][..],
                &[other, Cascade(10)],
                &[Claim, CommitClaimed],
            ];
            scenarios.push(Scenario::new(Start::Executing, &sessions).at_meetings());
        }
    }
    hold(&scenarios).await;
}

/// The outcomes do not answer the cancel.
#[tokio::test]
async fn a_cancel_can_meet_every_outcome_of_a_running_instance() {
    let others = [
        commit(0, Park),
        commit(0, Keep),
        commit(0, Done),
        cancel([0]),
        Claim,
        Reap(3),
    ];
    let pairs = beside(Start::Executing, &cancel([0]), &others).into_iter();
    let mut scenarios: Vec<Scenario> = pairs.map(Scenario::briefly).collect();
    let parked = beside(Start::Parked, &cancel([0]), &[Fire, Claim, Act::Deliver(0)]);
    scenarios.extend(parked.into_iter().map(Scenario::briefly));
    hold(&scenarios).await;
}

async fn hold_trios(start: Start, trios: &[[Act; 3]]) {
    let mut scenarios = Vec::new();
    for trio in trios {
        let sessions: Vec<&[Act]> = trio.iter().map(std::slice::from_ref).collect();
        let scenario = Scenario::new(start, &sessions).at_meetings();
        scenarios.push(scenario.where_the_server_chooses());
    }
    hold(&scenarios).await;
}

/// Runs three verbs while both children run.
async fn hold_trios_while_joining(until: Until) {
    let trios = [
        [commit(1, Done), commit(2, Fail), cancel([0])],
        [commit(1, Done), commit(2, Fail), terminate([0])],
        [commit(1, Done), commit(2, Fail), Fire],
        [commit(1, Done), cancel([0]), Fire],
        [commit(1, Done), terminate([0]), Fire],
        [commit(1, Done), cancel([2]), terminate([0])],
        [commit(1, Fail), cancel([0]), terminate([2])],
        [cancel([0]), terminate([0]), Fire],
    ];
    hold_trios(Start::Joining(until), &trios).await;
}

/// Runs three verbs while one child runs and the window holds the other.
async fn hold_trios_with_a_window(until: Until) {
    let trios = [
        [commit(1, Done), cancel([2]), cancel([0])],
        [commit(1, Done), cancel([2]), terminate([0])],
        [commit(1, Done), terminate([2]), Fire],
        [commit(1, Done), cancel([0]), Fire],
        [commit(1, Done), cancel([2]), Claim],
        [commit(1, Fail), cancel([0]), terminate([2])],
        [commit(1, Fail), cancel([2]), Fire],
        [cancel([0]), terminate([0]), Fire],
    ];
    hold_trios(Start::Windowed(until), &trios).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn three_verbs_can_meet_while_a_parent_waits_for_all_children() {
    hold_trios_while_joining(Until::All).await;
}

#[tokio::test]
async fn three_verbs_can_meet_while_a_parent_waits_in_a_fail_fast_join() {
    hold_trios_while_joining(Until::FailFast).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn three_verbs_can_meet_while_a_parent_waits_for_a_quorum() {
    hold_trios_while_joining(Until::Quorum(1)).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn three_verbs_can_meet_while_a_window_holds_a_child() {
    hold_trios_with_a_window(Until::FailFast).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn three_verbs_can_meet_while_a_window_holds_a_child_of_every_other_join() {
    hold_trios_with_a_window(Until::All).await;
    hold_trios_with_a_window(Until::Quorum(1)).await;
}

// Defects that must be caught.

fn beside_each_other(start: Start, one: &[Act], other: &[Act]) -> Scenario {
    Scenario::new(start, &[one, other]).briefly()
}

#[tokio::test]
async fn a_join_that_counts_failures_once_is_caught() {
    let both_fail = Act::Commit(vec![(1, Fail), (2, Fail)]);
    let start = Start::Joining(Until::Quorum(1));
    let ends = beside_each_other(start, &[both_fail], &[Claim]);
    let wrong = ["I6: parent 1 was released"];
    catch("failures-count-once", ends, &wrong).await;
}

#[tokio::test]
async fn a_window_that_skips_a_locked_child_is_caught() {
    let start = Start::Windowed(Until::All);
    let ends = beside_each_other(start, &[commit(1, Done)], &[Act::Deliver(2)]);
    catch("place-is-not-waited-for", ends, &[NO_SLOT]).await;
}

#[tokio::test]
async fn a_window_that_does_not_admit_the_next_child_is_caught() {
    let start = Start::Windowed(Until::All);
    let ends = beside_each_other(start, &[commit(1, Done)], &[Claim]);
    catch("window-does-not-admit-the-next", ends, &[NO_SLOT]).await;
}

#[tokio::test]
async fn a_fan_out_that_ignores_a_cancel_is_caught() {
    let spawn = beside_each_other(Start::Executing, &[commit(0, FanOut)], &[cancel([0])]);
    let starts = ["was asked to end, and has started"];
    catch("fan-out-ignores-a-cancel", spawn, &starts).await;
}

#[tokio::test]
async fn a_park_that_ignores_a_cancel_is_caught() {
    let park = beside_each_other(Start::Executing, &[commit(0, Park)], &[cancel([0])]);
    let waits = ["is awaiting_signal, and its cancel waits for an answer"];
    catch("park-ignores-a-cancel", park, &waits).await;
}

#[tokio::test]
async fn an_end_that_leaves_no_cascade_is_caught() {
    let end = beside_each_other(Start::Outliving, &[commit(0, Done)], &[cancel([1])]);
    let unclosed = ["has ended, and child 3 lives and was not told"];
    catch("end-leaves-no-cascade", end, &unclosed).await;
}

#[tokio::test]
async fn a_join_that_leaves_no_cascade_is_caught() {
    let start = Start::Joining(Until::FailFast);
    let end = beside_each_other(start, &[commit(2, Fail)], &[Claim]);
    catch("join-leaves-no-cascade", end, &[UNCLOSED_AFTER_A_JOIN]).await;
}

#[tokio::test]
async fn a_deadline_that_leaves_no_cascade_is_caught() {
    let end = beside_each_other(Start::Joining(Until::All), &[Fire], &[Claim]);
    catch("deadline-leaves-no-cascade", end, &[UNCLOSED_AFTER_A_JOIN]).await;
}

#[tokio::test]
async fn a_cascade_that_forgets_the_remaining_children_is_caught() {
    let cascade = [terminate([0]), Cascade(1), Cascade(1)];
    let end = beside_each_other(Start::Outliving, &cascade, &[Fire]);
    let unclosed = ["has ended, and child 2 lives and was not told"];
    catch("cascade-forgets-the-rest", end, &unclosed).await;
}

#[tokio::test]
async fn a_cascade_that_takes_a_short_page_for_the_last_is_caught() {
    let scenario = a_cascade_and_a_collect();
    let unclosed = ["has ended, and child 2 lives and was not told"];
    catch("cascade-ends-at-a-short-page", scenario, &unclosed).await;
}

const NO_SLOT: &str = "waits for a place in a window, and nobody of its round has one";
const UNCLOSED_AFTER_A_JOIN: &str = "the join of 1 was decided, and child";

// Timeouts.

#[tokio::test]
async fn a_timeout_can_meet_joins_cascades_and_windows() {
    let joining = [
        commit(1, Done),
        commit(1, Fail),
        commit(2, Done),
        Fire,
        cancel([0]),
        terminate([2]),
        Cascade(1),
    ];
    let windowed = [commit(1, Done), commit(1, Fail), Fire, cancel([2])];
    let mut scenarios = Vec::new();
    // The second child alone, or the child and its parent together.
    for ended in [TimeOut(1), TimeOut(2)] {
        scenarios.extend(beside(Start::Joining(Until::All), &ended, &joining));
        scenarios.extend(beside(Start::Windowed(Until::All), &ended, &windowed));
    }
    let scenarios: Vec<Scenario> = scenarios.into_iter().map(Scenario::at_meetings).collect();
    hold(&scenarios).await;
}
