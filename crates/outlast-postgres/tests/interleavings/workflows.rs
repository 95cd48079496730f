//! All interleavings of what happens to workflows: a park for ends of children, the ends, a signal, a deadline, a cancel, and
//! whatever else goes on or ends, on a workflow with two children in two rounds, in twos and in threes.
//!
//! Beside what tests/interleavings.rs checks: that a workflow waits for as many ends as there are children alive of the
//! rounds it waits for (I2), that all ends woke it when it was told so (I6), and that histories have what was told to be
//! written, numbered without gaps, and nothing else (I3).

use crate::interleavings::act::Act::{
    self, Claim, Collect, Deliver, DeliverFor, Fire, Reap, Retry,
};
use crate::interleavings::act::Decision::{
    Done, Fail, KeepFlow, ParkForAll, ParkForEnds, ParkForParts, ParkForTheFirst, Renew,
    StartChildren,
};
use crate::interleavings::play::{beside, both, cancel, catch, commit, hold, pairs, terminate};
use crate::interleavings::scheduler::Scenario;
use crate::interleavings::stage::Start;

fn briefly(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    scenarios.into_iter().map(Scenario::briefly).collect()
}

/// A park sees an end, or the end finds the park: never neither, never both.
#[tokio::test]
async fn a_park_for_ends_can_meet_whatever_happens() {
    let others = [
        commit(1, Done),
        commit(2, Fail),
        both([2, 1]),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        terminate([1]),
        Fire,
        Claim,
        Reap(3),
        Collect,
        commit(0, ParkForEnds),
        commit(0, Done),
    ];
    let park = commit(0, ParkForEnds);
    hold(&briefly(beside(Start::Flowing, &park, &others))).await;
}

/// One child of two; and in parts: both see the end of the second, and the first of them the other one too.
#[tokio::test]
async fn a_park_for_one_child_or_for_parts_can_meet_the_ends_of_both() {
    let others = [
        commit(1, Done),
        commit(1, Fail),
        commit(2, Done),
        commit(2, Fail),
        both([1, 2]),
        terminate([1]),
        cancel([0]),
    ];
    let mut scenarios = Vec::new();
    for park in [ParkForTheFirst, ParkForParts] {
        scenarios.extend(beside(Start::Flowing, &commit(0, park), &others));
    }
    hold(&briefly(scenarios)).await;
}

#[tokio::test]
async fn in_threes_while_a_workflow_parks_for_several_parts() {
    let park = || commit(0, ParkForParts);
    let trios = [
        [park(), commit(1, Done), commit(2, Done)],
        [park(), commit(1, Done), commit(2, Fail)],
    ];
    in_threes(Start::Flowing, &trios).await;
}

#[tokio::test]
async fn a_workflow_that_goes_on_can_meet_whatever_happens() {
    let others = [
        commit(1, Done),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        Claim,
        Reap(3),
    ];
    let mut scenarios = Vec::new();
    for flow in [KeepFlow, StartChildren, Renew] {
        scenarios.extend(beside(Start::Flowing, &commit(0, flow), &others));
    }
    hold(&briefly(scenarios)).await;
}

/// Whatever wakes it first wakes it alone.
#[tokio::test]
async fn in_twos_while_a_workflow_is_parked() {
    let happenings = [
        commit(1, Done),
        commit(2, Done),
        commit(2, Fail),
        both([2, 1]),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        terminate([2]),
        Fire,
        Claim,
    ];
    hold(&briefly(pairs(Start::FlowParked, &happenings))).await;
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

#[tokio::test]
async fn in_threes_while_a_workflow_parks() {
    let park = || commit(0, ParkForEnds);
    let trios = [
        [park(), commit(1, Done), commit(2, Done)],
        [park(), commit(1, Done), Deliver(0)],
        [park(), commit(1, Done), cancel([0])],
        [park(), commit(1, Done), Fire],
    ];
    in_threes(Start::Flowing, &trios).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_threes_while_a_workflow_parks_and_children_end_badly() {
    let park = || commit(0, ParkForEnds);
    let trios = [
        [park(), commit(1, Done), commit(2, Fail)],
        [park(), commit(1, Fail), Deliver(0)],
        [park(), commit(1, Fail), cancel([0])],
        [park(), commit(1, Fail), Fire],
        [park(), terminate([1]), commit(2, Done)],
        [park(), both([1, 2]), terminate([0])],
        [park(), commit(1, Done), Reap(3)],
        [park(), Deliver(0), cancel([0])],
    ];
    in_threes(Start::Flowing, &trios).await;
}

#[tokio::test]
async fn in_threes_while_a_workflow_is_parked() {
    let trios = [
        [commit(1, Done), commit(2, Done), Deliver(0)],
        [commit(1, Done), commit(2, Done), Fire],
        [commit(1, Done), commit(2, Fail), cancel([0])],
        [commit(1, Done), Deliver(0), Fire],
    ];
    in_threes(Start::FlowParked, &trios).await;
}

#[tokio::test]
#[ignore = "minutes: asked for by name"]
async fn in_threes_while_a_workflow_is_parked_and_more_goes_on() {
    let trios = [
        [commit(1, Done), commit(2, Fail), Fire],
        [commit(1, Done), commit(2, Fail), Deliver(0)],
        [commit(1, Done), cancel([0]), Fire],
        [commit(1, Done), terminate([2]), Deliver(0)],
        [commit(1, Done), terminate([0]), commit(2, Done)],
        [both([1, 2]), Deliver(0), cancel([0])],
    ];
    in_threes(Start::FlowParked, &trios).await;
}

/// A park that needs all sees what is there, and what comes later finds the park.
#[tokio::test]
async fn a_park_that_needs_all_can_meet_whatever_happens() {
    let others = [
        commit(1, Done),
        commit(2, Fail),
        both([2, 1]),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        terminate([1]),
        Fire,
        Claim,
        Reap(3),
        commit(0, ParkForAll),
    ];
    let park = commit(0, ParkForAll);
    hold(&briefly(beside(Start::Flowing, &park, &others))).await;
}

/// Nothing wakes it but the last of what it needs, a bad end and a cancel.
#[tokio::test]
async fn in_twos_while_a_workflow_needs_all() {
    let happenings = [
        commit(1, Done),
        commit(2, Fail),
        both([2, 1]),
        Deliver(0),
        DeliverFor(0),
        cancel([0]),
        terminate([0]),
        Fire,
        Claim,
    ];
    hold(&briefly(pairs(Start::FlowNeedsAll, &happenings))).await;
}

/// Whichever is the last completes it: the last end, the signal, or the deadline.
#[tokio::test]
async fn the_last_of_all_that_a_workflow_needs_wakes_it() {
    let both = || both([1, 2]);
    let scenarios = [
        [vec![both(), Fire], vec![Deliver(0)]],
        [vec![Deliver(0), Fire], vec![both()]],
        [vec![both(), Deliver(0)], vec![Fire]],
        [vec![commit(1, Done), Deliver(0)], vec![commit(2, Done)]],
        [vec![commit(1, Done), Fire], vec![commit(2, Fail)]],
        [vec![both(), Fire], vec![cancel([0])]],
        [vec![both(), Fire], vec![DeliverFor(0)]],
    ];
    let scenarios =
        scenarios.map(|[one, other]| beside_each_other(Start::FlowNeedsAll, &one, &other));
    hold(&scenarios).await;
}

#[tokio::test]
async fn in_threes_while_a_workflow_needs_all() {
    let trios = [
        [both([1, 2]), Deliver(0), Fire],
        [both([1, 2]), Deliver(0), cancel([0])],
        [commit(1, Done), commit(2, Done), Deliver(0)],
    ];
    in_threes(Start::FlowNeedsAll, &trios).await;
}

#[tokio::test]
async fn in_threes_while_a_workflow_parks_that_needs_all() {
    let park = || commit(0, ParkForAll);
    let trios = [
        [park(), both([1, 2]), Deliver(0)],
        [park(), commit(1, Done), commit(2, Done)],
    ];
    in_threes(Start::Flowing, &trios).await;
}

/// A child that starts again is not counted again, and is not waited for.
#[tokio::test]
async fn a_retry_of_a_child_can_meet_the_park_of_its_workflow() {
    let retried = [commit(1, Fail), Retry(1)];
    let sessions = [&retried[..], &[commit(0, ParkForTheFirst)]];
    let scenario = Scenario::new(Start::Flowing, &sessions).briefly();
    hold(&[scenario]).await;
}

// What must be caught.

fn beside_each_other(start: Start, one: &[Act], other: &[Act]) -> Scenario {
    Scenario::new(start, &[one, other]).briefly()
}

const WAITS_FOR_THE_ENDED: &str = "I2: workflow 1 waits for 2 ends, and 1 children";

#[tokio::test]
async fn an_end_that_overlooks_a_park_is_caught() {
    let park = beside_each_other(
        Start::Flowing,
        &[commit(0, ParkForEnds)],
        &[commit(1, Done)],
    );
    catch("end-overlooks-a-park", park, &[WAITS_FOR_THE_ENDED]).await;
}

#[tokio::test]
async fn a_park_that_overlooks_ended_children_is_caught() {
    let park = beside_each_other(
        Start::Flowing,
        &[commit(0, ParkForEnds)],
        &[commit(1, Done)],
    );
    let mutant = "park-overlooks-ended-children";
    catch(mutant, park, &[WAITS_FOR_THE_ENDED]).await;
}

#[tokio::test]
async fn a_join_that_counts_one_of_two_rounds_is_caught() {
    let ends = beside_each_other(Start::FlowParked, &[both([1, 2])], &[Claim]);
    let waits = ["I2: workflow 1 waits for 1 ends, and 0 children"];
    catch("rounds-count-once", ends, &waits).await;
}

#[tokio::test]
async fn an_end_of_a_round_that_nobody_awaits_is_caught_when_it_is_counted() {
    let park = [commit(0, ParkForTheFirst), commit(2, Done)];
    let end = beside_each_other(Start::Flowing, &park, &[Claim]);
    let woken = ["I6: workflow 1 was woken by all ends, and of each part a child lives"];
    catch("end-of-a-round-nobody-awaits", end, &woken).await;
}

#[tokio::test]
async fn parts_that_are_counted_together_are_caught() {
    let park = [commit(0, ParkForParts), commit(1, Done)];
    let end = beside_each_other(Start::Flowing, &park, &[Claim]);
    let woken = ["I6: workflow 1 was woken by all ends, and of each part a child lives"];
    catch("parts-are-counted-together", end, &woken).await;
}

#[tokio::test]
async fn a_signal_that_is_not_taken_off_is_caught() {
    let ends = beside_each_other(Start::FlowNeedsAll, &[both([1, 2])], &[Deliver(0)]);
    let waits = ["I2: instance 1 waits for signal go, which is in its inbox"];
    catch("signal-is-not-taken-off", ends, &waits).await;
}

#[tokio::test]
async fn an_end_that_wakes_before_all_is_there_is_caught() {
    let ends = beside_each_other(Start::FlowNeedsAll, &[both([1, 2])], &[Deliver(0)]);
    let woken = ["I6: workflow 1 needs all and was woken: joined all, lacks {go}"];
    catch("ends-complete-a-group", ends, &woken).await;
}

#[tokio::test]
async fn a_deadline_that_wakes_before_all_is_there_is_caught() {
    let time = beside_each_other(Start::FlowNeedsAll, &[Fire], &[both([1, 2])]);
    let woken = ["I6: workflow 1 needs all and was woken: joined deadline, lacks {go}"];
    catch("deadline-completes-a-group", time, &woken).await;
}

/// The signal that this statement does not see has been waited for.
#[tokio::test]
async fn an_end_that_looks_into_the_inbox_is_caught() {
    let ends = beside_each_other(Start::FlowNeedsAll, &[both([1, 2])], &[Deliver(0)]);
    let waits = ["I2: instance 1 waits for signal go, which is in its inbox"];
    catch("end-looks-into-the-inbox", ends, &waits).await;
}

#[tokio::test]
async fn a_flow_that_ignores_a_cancel_is_caught() {
    let park = beside_each_other(Start::Flowing, &[commit(0, ParkForEnds)], &[cancel([0])]);
    let waits = ["is awaiting_children, and its cancel waits for an answer"];
    catch("flow-ignores-a-cancel", park, &waits).await;
}

#[tokio::test]
async fn events_of_an_outcome_that_is_lost_are_caught() {
    let park = beside_each_other(Start::Flowing, &[commit(0, ParkForEnds)], &[Reap(3)]);
    let recorded = ["I3: 1 has 1 events, and 0 were written"];
    catch("events-without-fence", park, &recorded).await;
}
