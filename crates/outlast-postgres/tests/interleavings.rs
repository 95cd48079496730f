//! All interleavings of the verbs, statement by statement.
//!
//! A checker that has never failed proves nothing. So some tests put back the defects of
//! docs/protocol.md, and assert that their scenarios catch them.
//!
//! Each test runs every schedule of its scenarios. After each schedule it checks that:
//!
//! - no wake-up was lost (I2);
//! - no outcome was written twice or by the wrong claim (I3);
//! - no ended instance changed its status (I4);
//! - every join came once, and after its children (I6);
//! - no signal was lost or consumed twice (I7);
//! - instances of a partition key execute in order and are not left blocked (I8);
//! - verbs reported the changes that they made;
//! - every instance can come to rest;
//! - no two transactions waited for each other.

#![allow(clippy::print_stdout, reason = "people read the number of schedules")]

#[path = "interleavings/families.rs"]
mod families;
mod support;
#[path = "interleavings/updates.rs"]
mod updates;
#[path = "interleavings/workflows.rs"]
mod workflows;

mod interleavings {
    pub(crate) mod act;
    pub(crate) mod check;
    pub(crate) mod defects;
    pub(crate) mod gate;
    pub(crate) mod play;
    pub(crate) mod scheduler;
    pub(crate) mod stage;
    pub(crate) mod world;
}

use interleavings::act::Act::{
    self, Claim, Collect, CommitClaimed, Deliver, DeliverFor, Deregister, Fire, Insert, Reap,
    Release, Retry, SignalOrInsert, TimeOut,
};
use interleavings::act::Decision::{Done, Fail, FanOut, Keep, Next, Park, ParkForAll, ParkForEnds};
use interleavings::play::{beside, both, cancel, catch, commit, hold, pairs, survive, terminate};
use interleavings::scheduler::Scenario;
use interleavings::stage::Start;
use outlast_core::Until;
use std::slice::from_ref;

/// Crashes that a step may cause before its instance fails.
const CRASHES_MAX: i32 = 3;

// One instance.

#[tokio::test]
async fn outcomes_signals_and_timers_on_one_executing_instance_can_meet_in_any_order() {
    let acts = [
        commit(0, Park),
        commit(0, Done),
        commit(0, Next),
        commit(0, Keep),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        Fire,
        terminate([0]),
        Collect,
    ];
    hold(&pairs(Start::Executing, &acts)).await;
}

/// The signal is acknowledged before the commit begins, whatever meets the two.
#[tokio::test]
async fn a_commit_that_keeps_its_claim_names_every_earlier_signal_in_any_order() {
    let others = [
        commit(0, Keep),
        commit(0, Park),
        Release(0),
        Deliver(0),
        DeliverFor(0),
        Fire,
        Claim,
        Reap(CRASHES_MAX),
        Act::Cancel(vec![0]),
    ];
    let chain = [Deliver(0), commit(0, Keep)];
    let scenario = |other: &Act| Scenario::new(Start::Executing, &[&chain, from_ref(other)]);
    let scenarios: Vec<Scenario> = others.iter().map(scenario).map(Scenario::briefly).collect();
    hold(&scenarios).await;
}

#[tokio::test]
async fn a_reap_can_meet_every_other_verb_on_one_executing_instance() {
    let others = [
        commit(0, Park),
        commit(0, Done),
        commit(0, Next),
        commit(0, Keep),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        Fire,
        terminate([0]),
        Collect,
        Reap(CRASHES_MAX),
        Reap(0),
    ];
    hold(&beside(Start::Executing, &Reap(CRASHES_MAX), &others)).await;
}

#[tokio::test]
async fn a_claim_can_meet_every_other_verb_on_one_executing_instance() {
    let others = [
        commit(0, Park),
        commit(0, Done),
        commit(0, Next),
        commit(0, Keep),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        Fire,
        terminate([0]),
        Collect,
        Reap(CRASHES_MAX),
    ];
    hold(&beside(Start::Executing, &Claim, &others)).await;
}

#[tokio::test]
async fn verbs_on_one_parked_or_runnable_instance_can_meet_in_any_order() {
    let on_parked = [
        Deliver(0),
        Fire,
        terminate([0]),
        Claim,
        Collect,
        commit(0, Done),
        commit(0, Park),
        Reap(CRASHES_MAX),
    ];
    let on_runnable = [Deliver(0), Fire, terminate([0]), Claim, Collect];
    // A stale outcome locks nothing, so its places would only multiply the schedules.
    let parked = pairs(Start::Parked, &on_parked).into_iter();
    let mut scenarios: Vec<Scenario> = parked.map(Scenario::briefly).collect();
    scenarios.extend(pairs(Start::Runnable, &on_runnable));
    hold(&scenarios).await;
}

/// The instance needs no repair, whatever the two are doing.
#[tokio::test]
async fn a_repair_beside_any_other_verb_changes_nothing() {
    let repair = Act::Repair(vec![0]);
    let on_executing = [
        commit(0, Park),
        commit(0, Done),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        Reap(CRASHES_MAX),
    ];
    let on_parked = [Deliver(0), DeliverFor(0), Fire, Claim, cancel([0])];
    let all = Act::Repair(vec![0, 1, 2]);
    let of_children = [commit(1, Done), commit(2, Fail), both([1, 2]), Fire];
    let in_line = [commit(0, Done), Claim, terminate([0])];
    let mut scenarios = beside(Start::Executing, &repair, &on_executing);
    scenarios.extend(beside(Start::Parked, &repair, &on_parked));
    for start in [
        Start::Family,
        Start::Joining(Until::FailFast),
        Start::FlowParked,
        Start::FlowNeedsAll,
    ] {
        scenarios.extend(beside(start, &all, &of_children));
    }
    // Child 2 is held.
    let windowed = Start::Windowed(Until::All);
    scenarios.extend(beside(windowed, &all, &of_children[..1]));
    let both_ends = [from_ref(&all), &[commit(2, Done)], &of_children[..1]];
    scenarios.push(Scenario::new(Start::Family, &both_ends).briefly());
    let parks = [
        commit(0, ParkForEnds),
        commit(0, ParkForAll),
        commit(1, Done),
    ];
    scenarios.extend(beside(Start::Flowing, &all, &parks));
    scenarios.extend(beside(Start::Line, &all, &in_line));
    scenarios.extend(beside(Start::LineSetAside, &all, &in_line));
    hold(&scenarios).await;
}

/// The first of all that wake it does so, and the others find it awake.
#[tokio::test]
async fn a_repair_of_a_lost_instance_can_meet_every_other_verb() {
    let repair = Act::Repair(vec![0]);
    let others = [
        Act::Repair(vec![0]),
        Deliver(0),
        Fire,
        Claim,
        cancel([0]),
        terminate([0]),
        TimeOut(1),
    ];
    let beside = |other: &Act| {
        let other = [other.clone(), Claim];
        Scenario::new(Start::Lost, &[from_ref(&repair), &other]).briefly()
    };
    let scenarios: Vec<Scenario> = others.iter().map(beside).collect();
    hold(&scenarios).await;
}

#[tokio::test]
async fn three_sessions_on_one_instance_can_meet_in_any_order() {
    let executing = |sessions: &[&[Act]]| Scenario::new(Start::Executing, sessions).briefly();
    let parked = |sessions: &[&[Act]]| Scenario::new(Start::Parked, sessions).briefly();
    hold(&[
        executing(&[&[commit(0, Park)], &[Deliver(0)], &[Fire]]),
        executing(&[&[commit(0, Park)], &[Deliver(0)], &[Claim]]),
        executing(&[&[commit(0, Park)], &[Deliver(0)], &[Deliver(0)]]),
        executing(&[&[commit(0, Park)], &[Deliver(0)], &[terminate([0])]]),
        executing(&[&[commit(0, Park)], &[Deliver(0)], &[Reap(CRASHES_MAX)]]),
        executing(&[&[commit(0, Done)], &[Deliver(0)], &[terminate([0])]]),
        executing(&[&[commit(0, Done)], &[Deliver(0)], &[Collect]]),
        parked(&[&[Deliver(0)], &[Fire], &[Claim]]),
        parked(&[&[Deliver(0)], &[Fire], &[terminate([0])]]),
    ])
    .await;
}

// Instances that have taken too long.

#[tokio::test]
async fn a_timeout_can_meet_every_other_verb_on_one_instance() {
    let on_executing = [
        commit(0, Park),
        commit(0, Done),
        commit(0, Next),
        commit(0, Keep),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        cancel([0]),
        terminate([0]),
        Reap(CRASHES_MAX),
        Reap(0),
        TimeOut(1),
    ];
    let on_parked = [
        Deliver(0),
        DeliverFor(0),
        Fire,
        Claim,
        cancel([0]),
        terminate([0]),
        Retry(0),
        TimeOut(1),
    ];
    let on_line = [Claim, commit(0, Done), terminate([1])];
    let scenarios = [
        beside(Start::Executing, &TimeOut(1), &on_executing),
        beside(Start::Parked, &TimeOut(1), &on_parked),
        beside(
            Start::Runnable,
            &TimeOut(1),
            &[Claim, Deliver(0), cancel([0])],
        ),
        beside(Start::HolderParked, &TimeOut(1), &[SignalOrInsert, Insert]),
        beside(Start::LineSetAside, &TimeOut(1), &on_line),
    ];
    let scenarios = scenarios.into_iter().flatten().map(Scenario::briefly);
    hold(&scenarios.collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_timeout_of_a_child_or_its_parent_can_meet_the_ends_of_the_others() {
    let family = |first: Act, second: Act| Scenario::new(Start::Family, &[&[first], &[second]]);
    let mut scenarios = Vec::new();
    // The second child alone, or the child and its parent together.
    for ended in [1, 2] {
        for other in [
            commit(1, Done),
            commit(2, Done),
            commit(1, Fail),
            terminate([0]),
            terminate([2]),
            Reap(CRASHES_MAX),
            TimeOut(1),
        ] {
            scenarios.push(family(TimeOut(ended), other).briefly());
        }
    }
    hold(&scenarios).await;
}

// Deliveries that claim their target.

#[tokio::test]
async fn a_delivery_that_claims_can_meet_any_other_verb_on_its_target() {
    let others = [
        commit(0, Park),
        commit(0, Done),
        commit(0, Next),
        commit(0, Keep),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        DeliverFor(0),
        Fire,
        terminate([0]),
        Claim,
        Reap(CRASHES_MAX),
    ];
    let executing = beside(Start::Executing, &DeliverFor(0), &others).into_iter();
    let mut scenarios: Vec<Scenario> = executing.map(Scenario::briefly).collect();
    let others = [
        Deliver(0),
        DeliverFor(0),
        Fire,
        terminate([0]),
        Claim,
        Collect,
        commit(0, Park),
        Reap(CRASHES_MAX),
        Deregister,
    ];
    let parked = beside(Start::Parked, &DeliverFor(0), &others).into_iter();
    scenarios.extend(parked.map(Scenario::briefly));
    hold(&scenarios).await;
}

#[tokio::test]
async fn an_instance_claimed_by_a_delivery_can_end_and_its_worker_can_deregister() {
    let parked = |sessions: &[&[Act]]| Scenario::new(Start::Parked, sessions).briefly();
    let claimed = [DeliverFor(0), CommitClaimed];
    hold(&[
        parked(&[&claimed, &[Deliver(0)]]),
        parked(&[&claimed, &[Fire]]),
        parked(&[&claimed, &[terminate([0])]]),
        parked(&[&[DeliverFor(0)], &[Deregister, Reap(CRASHES_MAX)]]),
        parked(&[&[DeliverFor(0)], &[Deregister], &[Deliver(0)]]).at_meetings(),
        parked(&[&[DeliverFor(0)], &[DeliverFor(0)], &[Fire]]).at_meetings(),
        parked(&[&[DeliverFor(0)], &[Fire], &[terminate([0])]]).at_meetings(),
    ])
    .await;
}

// A parent with two children.

#[tokio::test]
async fn two_children_can_end_in_any_order_and_their_parent_joins_once() {
    let family = |sessions: &[&[Act]]| Scenario::new(Start::Family, sessions).briefly();
    hold(&[
        family(&[&[commit(1, Done)], &[commit(2, Done)]]),
        family(&[&[commit(1, Done)], &[terminate([2])]]),
        family(&[&[terminate([1])], &[terminate([2])]]),
        family(&[&[both([1, 2])], &[both([2, 1])]]),
        family(&[&[both([1, 2])], &[terminate([2])]]),
        family(&[&[both([1, 2])], &[terminate([1, 2])]]),
        family(&[&[commit(1, Done)], &[Deliver(0)]]),
        family(&[&[commit(1, Done)], &[terminate([0])]]),
        family(&[&[both([1, 2])], &[terminate([0])]]),
        family(&[&[commit(1, Done)], &[Collect]]),
        family(&[&[both([1, 2])], &[Collect]]),
        family(&[&[both([1, 2])], &[Claim]]),
    ])
    .await;
}

#[tokio::test]
async fn the_reaper_can_fail_a_child_while_its_sibling_ends() {
    let family = |sessions: &[&[Act]]| Scenario::new(Start::Family, sessions).briefly();
    hold(&[
        family(&[&[commit(1, Done)], &[Reap(0)]]),
        family(&[&[terminate([1])], &[Reap(0)]]),
        family(&[&[terminate([0])], &[Reap(0)]]),
        family(&[&[commit(2, Done)], &[Reap(0)]]),
        family(&[&[terminate([2])], &[Reap(0)]]),
    ])
    .await;
}

#[tokio::test]
async fn the_last_child_can_end_while_any_other_verb_changes_its_family() {
    let family =
        |sessions: &[&[Act]]| Scenario::new(Start::FamilyWithOneFailed, sessions).briefly();
    let zombie = |sessions: &[&[Act]]| Scenario::new(Start::FamilyWithZombie, sessions).briefly();
    hold(&[
        family(&[&[commit(2, Done)], &[Collect]]),
        family(&[&[commit(2, Done)], &[Claim]]),
        family(&[&[commit(2, Done)], &[Retry(1)]]),
        family(&[&[commit(2, Done)], &[terminate([0])]]),
        family(&[&[commit(2, Done)], &[Reap(CRASHES_MAX)]]),
        zombie(&[&[commit(3, Done)], &[commit(2, Done)]]),
        zombie(&[&[commit(3, Done)], &[both([1, 2])]]),
    ])
    .await;
}

#[tokio::test]
async fn three_sessions_on_a_family_can_meet_in_any_order() {
    let family = |sessions: &[&[Act]]| Scenario::new(Start::Family, sessions).at_meetings();
    hold(&[
        family(&[&[commit(1, Done)], &[commit(2, Done)], &[terminate([0])]]),
        family(&[&[commit(1, Done)], &[commit(2, Done)], &[Claim]]),
        family(&[&[commit(1, Done)], &[commit(2, Done)], &[Collect]]),
        family(&[&[commit(1, Done)], &[commit(2, Done)], &[terminate([2])]]),
        family(&[&[commit(1, Done)], &[Reap(0)], &[terminate([0])]]),
        family(&[&[both([1, 2])], &[terminate([2])], &[terminate([1])]]),
    ])
    .await;
}

#[tokio::test]
async fn children_can_be_claimed_and_ended_while_their_parent_still_spawns() {
    let spawning = |sessions: &[&[Act]]| {
        Scenario::new(Start::Executing, sessions).without(Start::Family.idle())
    };
    let fan_out = [commit(0, FanOut)];
    hold(&[
        spawning(&[&fan_out, &[Claim]]),
        spawning(&[&fan_out, &[Claim, CommitClaimed]]),
        spawning(&[&fan_out, &[Claim, CommitClaimed, Claim]]),
        spawning(&[&fan_out, &[Claim], &[Claim]]),
    ])
    .await;
}

// Partition keys.

#[tokio::test]
async fn a_claim_can_meet_any_verb_on_the_running_instance_of_its_partition_key() {
    let others = [
        commit(0, Done),
        commit(0, Next),
        commit(0, Park),
        Release(0),
        terminate([0]),
        terminate([1]),
        Deliver(1),
        Reap(CRASHES_MAX),
    ];
    let line = beside(Start::Line, &Claim, &others);
    let scenarios: Vec<Scenario> = line.into_iter().map(Scenario::briefly).collect();
    hold(&scenarios).await;
}

#[tokio::test]
async fn no_instance_stays_blocked_behind_a_free_partition_key() {
    let aside = |sessions: &[&[Act]]| Scenario::new(Start::LineSetAside, sessions).briefly();
    let mut scenarios: Vec<Scenario> =
        [commit(0, Done), commit(0, Next), Release(0), terminate([0])]
            .iter()
            .flat_map(|leaving| {
                [Claim, terminate([1]), Deliver(1), Reap(CRASHES_MAX)]
                    .map(|other| aside(&[from_ref(leaving), &[other]]))
            })
            .collect();
    scenarios.extend([
        aside(&[&[terminate([1])], &[Claim]]),
        aside(&[&[Reap(CRASHES_MAX)], &[terminate([1])]]),
    ]);
    hold(&scenarios).await;
}

#[tokio::test]
async fn claims_of_one_partition_key_can_meet_in_any_order_and_one_wins() {
    let idle = |sessions: &[&[Act]]| Scenario::new(Start::LineIdle, sessions).briefly();
    hold(&[
        idle(&[&[Claim], &[Claim]]),
        idle(&[&[Claim], &[terminate([0])]]),
        idle(&[&[Claim], &[Deliver(0)]]),
        idle(&[&[Claim], &[Deliver(1)]]),
        idle(&[&[Claim, CommitClaimed], &[Claim]]),
        idle(&[&[Claim], &[Claim], &[Deliver(0)]]),
    ])
    .await;
}

// A correlation key.

#[tokio::test]
async fn one_of_several_signal_or_inserts_starts_the_holder_and_all_signals_arrive() {
    let unheld = |sessions: &[&[Act]]| Scenario::new(Start::Unheld, sessions);
    hold(&[
        unheld(&[&[SignalOrInsert], &[SignalOrInsert]]),
        unheld(&[&[SignalOrInsert], &[Insert]]),
        unheld(&[&[SignalOrInsert], &[Claim]]),
        unheld(&[&[SignalOrInsert], &[Claim, CommitClaimed]]).briefly(),
        unheld(&[&[SignalOrInsert, SignalOrInsert], &[Insert]]),
        unheld(&[&[SignalOrInsert], &[SignalOrInsert], &[Insert]]).at_meetings(),
        unheld(&[&[SignalOrInsert], &[SignalOrInsert], &[Claim]]).at_meetings(),
    ])
    .await;
}

#[tokio::test]
async fn a_signal_or_insert_can_meet_any_verb_on_the_holder_of_its_key() {
    let others = [
        commit(0, Park),
        commit(0, Done),
        commit(0, Next),
        commit(0, Keep),
        commit(0, FanOut),
        Release(0),
        Deliver(0),
        terminate([0]),
        Claim,
        Collect,
        Reap(CRASHES_MAX),
        Reap(0),
        Insert,
        SignalOrInsert,
    ];
    let executing = beside(Start::HolderExecuting, &SignalOrInsert, &others).into_iter();
    let mut scenarios: Vec<Scenario> = executing.map(Scenario::briefly).collect();
    let others = [
        Deliver(0),
        Fire,
        terminate([0]),
        Claim,
        Insert,
        SignalOrInsert,
    ];
    scenarios.extend(beside(Start::HolderParked, &SignalOrInsert, &others));
    let others = [commit(0, Done), commit(0, Park), terminate([0]), Insert];
    let for_ever = beside(Start::HolderForEver, &SignalOrInsert, &others).into_iter();
    scenarios.extend(for_ever.map(Scenario::briefly));
    hold(&scenarios).await;
}

#[tokio::test]
async fn one_of_two_requests_gets_the_key_of_an_ending_holder() {
    let holder = |sessions: &[&[Act]]| {
        let scenario = Scenario::new(Start::HolderExecuting, sessions);
        scenario.at_locks().where_the_server_chooses()
    };
    let end = [commit(0, Done)];
    hold(&[
        holder(&[&end, &[SignalOrInsert], &[SignalOrInsert]]),
        holder(&[&end, &[SignalOrInsert], &[Insert]]),
        holder(&[&end, &[SignalOrInsert], &[Claim]]),
        holder(&[&[commit(0, Park)], &[SignalOrInsert], &[SignalOrInsert]]),
        holder(&[&[terminate([0])], &[SignalOrInsert], &[commit(0, Park)]]),
    ])
    .await;
}

// Verbs that must lock in opposite orders. The server aborts one of them, and the store retries
// it.

/// The operator's batch locks its rows by id, so the parent first. The child locks itself, then
/// its parent.
#[tokio::test]
async fn terminating_a_family_while_a_child_ends_survives_the_deadlock() {
    survive(Scenario::new(
        Start::Family,
        &[&[commit(2, Done)], &[terminate([0, 2])]],
    ))
    .await;
}

/// Each transaction has locked its own row and wants to let the other row through.
#[tokio::test]
async fn two_operators_who_terminate_neighbours_of_a_line_survive_the_deadlock() {
    let line = [&[terminate([1])][..], &[terminate([2])]];
    survive(Scenario::new(Start::LineSetAside, &line).briefly()).await;
}

// Defects that must be caught.

#[tokio::test]
async fn a_park_that_does_not_lock_first_is_caught() {
    let park = Scenario::new(Start::Executing, &[&[commit(0, Park)], &[Deliver(0)]]);
    catch("park-does-not-lock", park, &[LOST_WAKE_UP]).await;
}

#[tokio::test]
async fn a_park_that_locks_and_reads_in_one_statement_is_caught() {
    let park = Scenario::new(Start::Executing, &[&[commit(0, Park)], &[Deliver(0)]]);
    catch("park-locks-where-it-looks", park, &[LOST_WAKE_UP]).await;
}

#[tokio::test]
async fn a_delivery_that_does_not_lock_first_is_caught() {
    let park = Scenario::new(Start::Executing, &[&[commit(0, Park)], &[Deliver(0)]]);
    catch("delivery-does-not-lock", park, &[LOST_WAKE_UP]).await;
}

#[tokio::test]
async fn a_delivery_that_does_not_wait_is_caught() {
    let park = Scenario::new(Start::Executing, &[&[commit(0, Park)], &[Deliver(0)]]);
    catch("delivery-does-not-wait", park, &[LOST_WAKE_UP]).await;
}

#[tokio::test]
async fn a_park_and_a_delivery_that_both_do_not_lock_first_are_caught() {
    let park = Scenario::new(Start::Executing, &[&[commit(0, Park)], &[Deliver(0)]]);
    catch("neither-locks", park, &[LOST_WAKE_UP]).await;
}

#[tokio::test]
async fn a_delivery_that_does_not_note_its_signal_is_caught() {
    let sessions = [&[Deliver(0), commit(0, Keep)][..], &[Fire]];
    let chain = Scenario::new(Start::Executing, &sessions).briefly();
    let mutant = "signal-to-a-running-step-is-not-noted";
    catch(mutant, chain, &["I7: a commit of"]).await;
}

#[tokio::test]
async fn a_delivery_that_claims_and_does_not_lock_first_is_caught() {
    let sessions = [&[commit(0, Park)][..], &[DeliverFor(0)]];
    let park = Scenario::new(Start::Executing, &sessions).briefly();
    catch("delivery-does-not-lock", park, &[LOST_WAKE_UP]).await;
}

#[tokio::test]
async fn a_signal_orphaned_by_a_delivery_that_does_not_lock_first_is_caught() {
    let end = Scenario::new(Start::Executing, &[&[commit(0, Done)], &[Deliver(0)]]);
    catch("delivery-does-not-lock", end, &["I7: signal"]).await;
}

#[tokio::test]
async fn a_signal_or_insert_that_does_not_lock_its_target_first_is_caught() {
    let holder = |act: Act| {
        let sessions = [&[act][..], &[SignalOrInsert]];
        Scenario::new(Start::HolderExecuting, &sessions).briefly()
    };
    let park = holder(commit(0, Park));
    catch("delivery-does-not-lock", park, &[LOST_WAKE_UP]).await;
    let end = holder(commit(0, Done));
    catch("delivery-does-not-lock", end, &["I7: signal"]).await;
}

#[tokio::test]
async fn a_terminate_that_does_not_lock_first_is_caught() {
    let end = Scenario::new(Start::Executing, &[&[commit(0, Done)], &[terminate([0])]]).briefly();
    catch("terminate-does-not-lock", end, &["I3: untrue answer"]).await;
}

#[tokio::test]
async fn a_timeout_that_does_not_lock_first_is_caught() {
    let woken = Scenario::new(Start::Parked, &[&[Fire], &[Deliver(0), Claim]]).briefly();
    catch("timeout-does-not-lock", woken, &["I3: "]).await;
}

#[tokio::test]
async fn an_outcome_without_the_fence_is_caught() {
    let one = Scenario::new(
        Start::Executing,
        &[&[commit(0, Done)], &[Reap(CRASHES_MAX)]],
    )
    .briefly();
    let untrue = ["I3: untrue answer"];
    catch("outcome-without-fence", one, &untrue).await;
    let zombie = Scenario::new(
        Start::FamilyWithZombie,
        &[&[commit(3, Done)], &[commit(2, Done)]],
    );
    let twice = ["ended twice", "was released while child"];
    catch("outcome-without-fence", zombie, &twice).await;
}

#[tokio::test]
async fn a_join_that_counts_an_end_of_another_transaction_is_caught() {
    let same = Scenario::new(Start::Family, &[&[commit(1, Done)], &[commit(1, Done)]]);
    catch(
        "join-counts-anothers-end",
        same,
        &["was released while child"],
    )
    .await;
}

#[tokio::test]
async fn a_join_that_counts_several_siblings_as_one_is_caught() {
    let siblings = Scenario::new(Start::Family, &[&[both([1, 2])], &[Collect]]);
    let hangs = ["children pending", "does not come to rest"];
    catch("siblings-count-once", siblings, &hangs).await;
}

#[tokio::test]
async fn a_partition_key_hand_over_that_skips_locked_rows_is_caught() {
    let line = Scenario::new(Start::LineSetAside, &[&[commit(0, Done)], &[Deliver(1)]]).briefly();
    catch("hand-over-does-not-wait", line, &[LEFT_ASIDE]).await;
}

#[tokio::test]
async fn a_claim_that_sets_rows_aside_behind_a_leaving_instance_is_caught() {
    let line = Scenario::new(Start::Line, &[&[commit(0, Done)], &[Claim]]).briefly();
    catch("sets-aside-without-locking", line, &[LEFT_ASIDE]).await;
}

#[tokio::test]
async fn a_claim_that_overtakes_an_older_locked_row_of_its_key_is_caught() {
    let line = Scenario::new(Start::LineIdle, &[&[Deliver(0)], &[Claim]]).briefly();
    catch("later-row-overtakes-a-locked-one", line, &["I8: "]).await;
}

const LOST_WAKE_UP: &str = "waits for signal go, which is in its inbox";
const LEFT_ASIDE: &str = "is blocked, and nobody before it will let it through";
