//! All interleavings of what happens in families: cancel, terminate, the end of a child, a deadline, a fan-out, the end of
//! the parent, and the cascades these leave, on a parent with two children, in twos and in threes.
//!
//! The ordinary run takes each kind of meeting for the join that a single failure decides, whose parent is woken while
//! children live. All joins, and three sessions that meet beside windows and cascades, take minutes: `--run-ignored all`.
//!
//! Beside what tests/interleavings.rs checks: that a join is decided by what has ended and by nothing else (I6), that
//! nobody waits for ever for a place in a window (I2) and no more run than have one, that children are told what
//! became of their parent, and that who was asked to end starts nothing any more and ends (I13).

use crate::interleavings::act::Act::{self, CancelTree, Cascade, Claim, CommitClaimed, Fire, Reap};
use crate::interleavings::act::Decision::{Done, Fail, FanOut, FanOutInWindow, Keep, Park};
use crate::interleavings::play::{beside, both, cancel, catch, commit, hold, pairs, terminate};
use crate::interleavings::scheduler::Scenario;
use crate::interleavings::stage::Start;
use outlast_core::Until;

/// What can happen to a parent that waits for its two children.
fn happenings() -> Vec<Act> {
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

async fn in_twos(start: Start) {
    let pairs = pairs(start, &happenings());
    let pairs: Vec<Scenario> = pairs.into_iter().map(Scenario::briefly).collect();
    hold(&pairs).await;
}

#[tokio::test]
async fn in_twos_while_a_parent_waits_for_all() {
    in_twos(Start::Joining(Until::All)).await;
}

#[tokio::test]
async fn in_twos_while_a_parent_waits_for_a_failure() {
    in_twos(Start::Joining(Until::FailFast)).await;
}

#[tokio::test]
async fn in_twos_while_a_parent_waits_for_one_that_is_done() {
    in_twos(Start::Joining(Until::Quorum(1))).await;
}

/// What can happen while the second child waits for its place.
async fn in_twos_with_a_window(until: Until) {
    let happenings = [
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
    let pairs = pairs(Start::Windowed(until), &happenings);
    let pairs: Vec<Scenario> = pairs.into_iter().map(Scenario::briefly).collect();
    hold(&pairs).await;
}

#[tokio::test]
async fn in_twos_while_one_child_waits_for_a_place() {
    in_twos_with_a_window(Until::FailFast).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_twos_while_one_child_waits_for_a_place_and_its_parent_for_others() {
    in_twos_with_a_window(Until::All).await;
    in_twos_with_a_window(Until::Quorum(1)).await;
}

/// Each leaves a cascade, which is carried out beside the other, meeting it where `place` says.
async fn a_cascade_beside_the_children(starts: &[Start], place: fn(Scenario) -> Scenario) {
    let kin = |start, first: &Act, other: &Act| {
        let sessions = [
            &[first.clone(), Cascade(10)][..],
            std::slice::from_ref(other),
        ];
        place(Scenario::new(start, &sessions))
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
            scenarios.extend(others.iter().map(|other| kin(start, &first, other)));
        }
    }
    hold(&scenarios).await;
}

#[tokio::test]
async fn a_cascade_can_meet_whatever_happens_to_the_children() {
    let starts = [Start::Windowed(Until::FailFast)];
    a_cascade_beside_the_children(&starts, Scenario::at_locks).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn a_cascade_can_meet_whatever_happens_to_the_children_at_every_look() {
    let starts = [
        Start::Joining(Until::FailFast),
        Start::Windowed(Until::FailFast),
        Start::Outliving,
    ];
    a_cascade_beside_the_children(&starts, Scenario::at_meetings).await;
}

#[tokio::test]
async fn the_end_of_a_parent_can_meet_whatever_happens_to_its_children() {
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

/// A cancel comes before the children, and there are none; or after them, and they are woken from.
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

/// The same while what it leaves is carried out and what was started is run.
#[tokio::test]
#[ignore = "minutes: asked for by name"]
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

/// Outcomes that do not answer it beside a cancel of who runs.
#[tokio::test]
async fn a_cancel_can_meet_every_outcome_of_who_runs() {
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

async fn in_threes(start: Start, trios: &[[Act; 3]]) {
    let mut scenarios = Vec::new();
    for trio in trios {
        let sessions: Vec<&[Act]> = trio.iter().map(std::slice::from_ref).collect();
        let scenario = Scenario::new(start, &sessions).at_meetings();
        scenarios.push(scenario.where_the_server_chooses());
    }
    hold(&scenarios).await;
}

/// Both children run.
async fn in_threes_while_joining(until: Until) {
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
    in_threes(Start::Joining(until), &trios).await;
}

/// One child runs, and the other waits for its place.
async fn in_threes_with_a_window(until: Until) {
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
    in_threes(Start::Windowed(until), &trios).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_threes_while_a_parent_waits_for_all() {
    in_threes_while_joining(Until::All).await;
}

#[tokio::test]
async fn in_threes_while_a_parent_waits_for_a_failure() {
    in_threes_while_joining(Until::FailFast).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_threes_while_a_parent_waits_for_one_that_is_done() {
    in_threes_while_joining(Until::Quorum(1)).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_threes_while_one_child_waits_for_a_place() {
    in_threes_with_a_window(Until::FailFast).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_threes_while_one_child_waits_for_a_place_and_its_parent_for_others() {
    in_threes_with_a_window(Until::All).await;
    in_threes_with_a_window(Until::Quorum(1)).await;
}

// What must be caught.

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
async fn a_place_that_is_not_waited_for_is_caught() {
    let start = Start::Windowed(Until::All);
    let ends = beside_each_other(start, &[commit(1, Done)], &[Act::Deliver(2)]);
    catch("place-is-not-waited-for", ends, &[NO_PLACE]).await;
}

#[tokio::test]
async fn a_place_that_is_not_passed_on_is_caught() {
    let start = Start::Windowed(Until::All);
    let ends = beside_each_other(start, &[commit(1, Done)], &[Claim]);
    catch("place-is-not-passed-on", ends, &[NO_PLACE]).await;
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
    let untold = ["has ended, and child 3 lives and was not told"];
    catch("end-leaves-no-cascade", end, &untold).await;
}

#[tokio::test]
async fn a_join_that_leaves_no_cascade_is_caught() {
    let start = Start::Joining(Until::FailFast);
    let end = beside_each_other(start, &[commit(2, Fail)], &[Claim]);
    catch("join-leaves-no-cascade", end, &[UNTOLD_OF_A_JOIN]).await;
}

#[tokio::test]
async fn a_deadline_that_leaves_no_cascade_is_caught() {
    let end = beside_each_other(Start::Joining(Until::All), &[Fire], &[Claim]);
    catch("deadline-leaves-no-cascade", end, &[UNTOLD_OF_A_JOIN]).await;
}

#[tokio::test]
async fn a_cascade_that_forgets_the_rest_is_caught() {
    let cascade = [terminate([0]), Cascade(1), Cascade(1)];
    let end = beside_each_other(Start::Outliving, &cascade, &[Fire]);
    let untold = ["has ended, and child 2 lives and was not told"];
    catch("cascade-forgets-the-rest", end, &untold).await;
}

const NO_PLACE: &str = "waits for a place in a window, and nobody of its round has one";
const UNTOLD_OF_A_JOIN: &str = "the join of 1 was decided, and child";
