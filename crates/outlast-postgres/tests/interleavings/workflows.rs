//! All interleavings of two and three verbs on a workflow with two children in two rounds.
//!
//! The verbs are parks for ends of children, the ends, signals, deadlines, cancels and others.
//! Besides the checks of tests/interleavings.rs, the tests check that:
//!
//! - a workflow waits for as many ends as there are live children in the rounds it waits for (I2);
//! - all children have ended when the claim says so (I6);
//! - histories have exactly the reported events, numbered without gaps (I3).

use crate::interleavings::act::Act::{
    self, Claim, Collect, Deliver, DeliverFor, Fire, Reap, Retry, TimeOut,
};
use crate::interleavings::act::Decision::{
    ContinueAsNew, Done, Fail, KeepFlow, ParkForAll, ParkForEnds, ParkForFirst, ParkForSets,
    StartChildren,
};
use crate::interleavings::play::{beside, both, cancel, catch, commit, hold, pairs, terminate};
use crate::interleavings::scheduler::Scenario;
use crate::interleavings::stage::Start;

fn briefly(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    scenarios.into_iter().map(Scenario::briefly).collect()
}

/// Either the park sees an end, or the end finds the park, and never both.
#[tokio::test]
async fn a_park_for_child_ends_can_meet_any_other_verb() {
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

/// The first park waits for one child of two. The second has two join sets: the end of the second
/// child counts in both, that of the first child in one.
#[tokio::test]
async fn a_park_for_one_child_or_for_two_join_sets_can_meet_the_ends_of_both() {
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
    for park in [ParkForFirst, ParkForSets] {
        scenarios.extend(beside(Start::Flowing, &commit(0, park), &others));
    }
    hold(&briefly(scenarios)).await;
}

#[tokio::test]
async fn three_verbs_can_meet_while_a_workflow_parks_for_two_join_sets() {
    let park = || commit(0, ParkForSets);
    let trios = [
        [park(), commit(1, Done), commit(2, Done)],
        [park(), commit(1, Done), commit(2, Fail)],
    ];
    hold_trios(Start::Flowing, &trios).await;
}

#[tokio::test]
async fn a_workflow_that_proceeds_can_meet_any_other_verb() {
    let others = [
        commit(1, Done),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        Claim,
        Reap(3),
    ];
    let mut scenarios = Vec::new();
    for flow in [KeepFlow, StartChildren, ContinueAsNew] {
        scenarios.extend(beside(Start::Flowing, &commit(0, flow), &others));
    }
    hold(&briefly(scenarios)).await;
}

/// Only the first verb that wakes the workflow wakes it.
#[tokio::test]
async fn two_verbs_can_meet_while_a_workflow_is_parked() {
    let verbs = [
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
    hold(&briefly(pairs(Start::FlowParked, &verbs))).await;
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

#[tokio::test]
async fn three_verbs_can_meet_while_a_workflow_parks() {
    let park = || commit(0, ParkForEnds);
    let trios = [
        [park(), commit(1, Done), commit(2, Done)],
        [park(), commit(1, Done), Deliver(0)],
        [park(), commit(1, Done), cancel([0])],
        [park(), commit(1, Done), Fire],
    ];
    hold_trios(Start::Flowing, &trios).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn three_verbs_can_meet_while_a_workflow_parks_and_children_fail() {
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
    hold_trios(Start::Flowing, &trios).await;
}

#[tokio::test]
async fn three_verbs_can_meet_while_a_workflow_is_parked() {
    let trios = [
        [commit(1, Done), commit(2, Done), Deliver(0)],
        [commit(1, Done), commit(2, Done), Fire],
        [commit(1, Done), commit(2, Fail), cancel([0])],
        [commit(1, Done), Deliver(0), Fire],
    ];
    hold_trios(Start::FlowParked, &trios).await;
}

#[tokio::test]
#[ignore = "takes minutes: run it by name"]
async fn more_groups_of_three_verbs_can_meet_while_a_workflow_is_parked() {
    let trios = [
        [commit(1, Done), commit(2, Fail), Fire],
        [commit(1, Done), commit(2, Fail), Deliver(0)],
        [commit(1, Done), cancel([0]), Fire],
        [commit(1, Done), terminate([2]), Deliver(0)],
        [commit(1, Done), terminate([0]), commit(2, Done)],
        [both([1, 2]), Deliver(0), cancel([0])],
    ];
    hold_trios(Start::FlowParked, &trios).await;
}

/// A park that needs all sees the events before it, and later events find the park.
#[tokio::test]
async fn a_park_that_needs_all_can_meet_any_other_verb() {
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

/// Only the last event that it needs, the failure of a child and a cancel wake the workflow.
#[tokio::test]
async fn two_verbs_can_meet_while_a_workflow_needs_all() {
    let verbs = [
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
    hold(&briefly(pairs(Start::FlowNeedsAll, &verbs))).await;
}

/// The last event can be the end of a child, the signal, or the deadline.
#[tokio::test]
async fn the_last_awaited_event_wakes_a_workflow_that_needs_all() {
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
async fn three_verbs_can_meet_while_a_workflow_needs_all() {
    let trios = [
        [both([1, 2]), Deliver(0), Fire],
        [both([1, 2]), Deliver(0), cancel([0])],
        [commit(1, Done), commit(2, Done), Deliver(0)],
    ];
    hold_trios(Start::FlowNeedsAll, &trios).await;
}

#[tokio::test]
async fn three_verbs_can_meet_while_a_workflow_parks_and_needs_all() {
    let park = || commit(0, ParkForAll);
    let trios = [
        [park(), both([1, 2]), Deliver(0)],
        [park(), commit(1, Done), commit(2, Done)],
    ];
    hold_trios(Start::Flowing, &trios).await;
}

/// A retried child is not counted again, and the workflow does not wait for it.
#[tokio::test]
async fn a_retry_of_a_child_can_meet_the_park_of_its_workflow() {
    let retried = [commit(1, Fail), Retry(1)];
    let sessions = [&retried[..], &[commit(0, ParkForFirst)]];
    let scenario = Scenario::new(Start::Flowing, &sessions).briefly();
    hold(&[scenario]).await;
}

// Defects that must be caught.

fn beside_each_other(start: Start, one: &[Act], other: &[Act]) -> Scenario {
    Scenario::new(start, &[one, other]).briefly()
}

const WAITS_FOR_ENDED_CHILD: &str = "I2: workflow 1 waits for 2 ends, and 1 children";

#[tokio::test]
async fn a_child_end_that_overlooks_a_park_is_caught() {
    let park = beside_each_other(
        Start::Flowing,
        &[commit(0, ParkForEnds)],
        &[commit(1, Done)],
    );
    catch("end-overlooks-a-park", park, &[WAITS_FOR_ENDED_CHILD]).await;
}

#[tokio::test]
async fn a_park_that_overlooks_ended_children_is_caught() {
    let park = beside_each_other(
        Start::Flowing,
        &[commit(0, ParkForEnds)],
        &[commit(1, Done)],
    );
    let mutant = "park-overlooks-ended-children";
    catch(mutant, park, &[WAITS_FOR_ENDED_CHILD]).await;
}

#[tokio::test]
async fn a_join_that_counts_one_of_two_rounds_is_caught() {
    let ends = beside_each_other(Start::FlowParked, &[both([1, 2])], &[Claim]);
    let waits = ["I2: workflow 1 waits for 1 ends, and 0 children"];
    catch("rounds-count-once", ends, &waits).await;
}

#[tokio::test]
async fn a_join_that_counts_an_end_of_an_unawaited_round_is_caught() {
    let park = [commit(0, ParkForFirst), commit(2, Done)];
    let end = beside_each_other(Start::Flowing, &park, &[Claim]);
    let woken = ["I6: workflow 1 was woken by all ends, and of each part a child lives"];
    catch("end-of-an-unawaited-round", end, &woken).await;
}

#[tokio::test]
async fn a_join_that_counts_its_join_sets_together_is_caught() {
    let park = [commit(0, ParkForSets), commit(1, Done)];
    let end = beside_each_other(Start::Flowing, &park, &[Claim]);
    let woken = ["I6: workflow 1 was woken by all ends, and of each part a child lives"];
    catch("join-sets-are-counted-together", end, &woken).await;
}

#[tokio::test]
async fn a_delivery_that_leaves_its_signal_awaited_is_caught() {
    let ends = beside_each_other(Start::FlowNeedsAll, &[both([1, 2])], &[Deliver(0)]);
    let waits = ["I2: instance 1 waits for signal go, which is in its inbox"];
    catch("signal-is-not-taken-off", ends, &waits).await;
}

#[tokio::test]
async fn a_child_end_that_wakes_a_workflow_too_early_is_caught() {
    let ends = beside_each_other(Start::FlowNeedsAll, &[both([1, 2])], &[Deliver(0)]);
    let woken = ["I6: workflow 1 needs all and was woken: joined all, lacks {go}"];
    catch("ends-complete-a-group", ends, &woken).await;
}

#[tokio::test]
async fn a_deadline_that_wakes_a_workflow_too_early_is_caught() {
    let time = beside_each_other(Start::FlowNeedsAll, &[Fire], &[both([1, 2])]);
    let woken = ["I6: workflow 1 needs all and was woken: joined deadline, lacks {go}"];
    catch("deadline-completes-a-group", time, &woken).await;
}

/// The statement may have waited for the delivery, and its snapshot does not have the signal.
#[tokio::test]
async fn a_child_end_that_reads_the_inbox_is_caught() {
    let ends = beside_each_other(Start::FlowNeedsAll, &[both([1, 2])], &[Deliver(0)]);
    let waits = ["I2: instance 1 waits for signal go, which is in its inbox"];
    catch("end-looks-into-the-inbox", ends, &waits).await;
}

#[tokio::test]
async fn a_workflow_park_that_ignores_a_cancel_is_caught() {
    let park = beside_each_other(Start::Flowing, &[commit(0, ParkForEnds)], &[cancel([0])]);
    let waits = ["is awaiting_children, and its cancel waits for an answer"];
    catch("flow-ignores-a-cancel", park, &waits).await;
}

#[tokio::test]
async fn events_written_for_a_lost_outcome_are_caught() {
    let park = beside_each_other(Start::Flowing, &[commit(0, ParkForEnds)], &[Reap(3)]);
    let recorded = ["I3: 1 has 1 events, and 0 were written"];
    catch("events-without-fence", park, &recorded).await;
}

/// Whichever comes first: a timeout that meets a running workflow makes its outcome a lost one, and
/// the end of a child or a signal does not wake a workflow that has timed out.
#[tokio::test]
async fn a_timeout_can_meet_a_park_and_every_other_verb_on_a_workflow() {
    let on_running = [
        commit(0, ParkForEnds),
        commit(0, ParkForFirst),
        commit(0, ParkForSets),
        commit(0, ParkForAll),
        commit(0, KeepFlow),
        commit(0, StartChildren),
        commit(0, ContinueAsNew),
        commit(0, Done),
        commit(1, Done),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        Reap(3),
    ];
    let on_parked = [
        commit(1, Done),
        commit(2, Fail),
        both([2, 1]),
        Deliver(0),
        DeliverFor(0),
        cancel([0]),
        terminate([0]),
        Fire,
        Claim,
        Retry(0),
    ];
    let timeout = TimeOut(1);
    let mut scenarios = beside(Start::Flowing, &timeout, &on_running);
    scenarios.extend(beside(Start::FlowParked, &timeout, &on_parked));
    let needs_all = [commit(1, Done), Deliver(0), Fire];
    scenarios.extend(beside(Start::FlowNeedsAll, &timeout, &needs_all));
    hold(&briefly(scenarios)).await;
}

/// The outcome comes between the timeout and the end of a child, or after both.
#[tokio::test]
async fn a_timeout_can_meet_a_park_and_the_end_of_a_child() {
    let park = || commit(0, ParkForEnds);
    let trios = [
        [park(), TimeOut(1), commit(1, Done)],
        [park(), TimeOut(1), Deliver(0)],
    ];
    hold_trios(Start::Flowing, &trios).await;
}

/// A timeout that reads before it locks reports the end of a workflow that has parked since.
#[tokio::test]
async fn a_time_out_that_does_not_lock_first_is_caught() {
    let park = [commit(0, ParkForEnds)];
    let scenario = Scenario::new(Start::Flowing, &[&park, &[TimeOut(1)]]).briefly();
    catch("time-out-does-not-lock", scenario, &["I3: untrue answer"]).await;
}
