//! Runs scenarios, and has the functions that write them.

use super::act::{Act, Decision};
use super::defects;
use super::scheduler::{Report, Scenario};
use super::stage::{Stage, Start};
use super::world::World;
use std::slice::from_ref;

/// Asserts that every schedule of these scenarios keeps the invariants.
pub(crate) async fn hold(scenarios: &[Scenario]) -> Report {
    let mut world = World::open().await;
    let mut total = Report::default();
    let mut set: Option<(Start, Stage)> = None;
    for scenario in scenarios {
        let stage = match &set {
            Some((start, stage)) if *start == scenario.start => stage.clone(),
            _ => scenario.start.set(&world).await,
        };
        set = Some((scenario.start, stage.clone()));
        let report = scenario.explore(&mut world, &stage).await;
        println!("{scenario}: {report}");
        total.add_report(report);
    }
    world.close().await;
    println!("{} scenarios: {total}", scenarios.len());
    assert!(total.examples.is_empty(), "{}", total.examples.join("\n\n"));
    total
}

/// Asserts that every schedule keeps the invariants, and that at least one is a deadlock.
pub(crate) async fn survive(mut scenario: Scenario) {
    scenario.may_deadlock = true;
    let report = hold(&[scenario]).await;
    assert!(report.deadlocked > 0, "no schedule is a deadlock: {report}");
}

/// Asserts that the scenario keeps the invariants, and that the mutant violates each of these.
pub(crate) async fn catch(mutant: &str, scenario: Scenario, violations: &[&str]) {
    hold(from_ref(&scenario)).await;
    let mut world = World::with_variants(defects::of(mutant)).await;
    let stage = scenario.start.set(&world).await;
    let report = scenario.explore(&mut world, &stage).await;
    world.close().await;
    println!(
        "{scenario}: caught in {} of {} schedules",
        report.violated, report.schedules
    );
    for violation in violations {
        let mut examples = report.examples.iter();
        assert!(
            examples.any(|example| example.contains(violation)),
            "{scenario}: no schedule shows {violation:?}: {report:?}"
        );
    }
}

/// Scenarios of each two acts at the same time, and of each act with itself.
pub(crate) fn pairs(start: Start, acts: &[Act]) -> Vec<Scenario> {
    (0..acts.len())
        .flat_map(|first| beside(start, &acts[first], &acts[first..]))
        .collect()
}

/// Scenarios of one act at the same time as each of the others.
pub(crate) fn beside(start: Start, act: &Act, others: &[Act]) -> Vec<Scenario> {
    let pair = |other: &Act| Scenario::new(start, &[from_ref(act), from_ref(other)]);
    others.iter().map(pair).collect()
}

pub(crate) fn commit(place: usize, decision: Decision) -> Act {
    Act::Commit(vec![(place, decision)])
}

/// A commit in which both end in one batch, in this order.
pub(crate) fn both(places: [usize; 2]) -> Act {
    Act::Commit(places.map(|place| (place, Decision::Done)).to_vec())
}

pub(crate) fn terminate<const N: usize>(places: [usize; N]) -> Act {
    Act::Terminate(places.to_vec())
}

pub(crate) fn cancel<const N: usize>(places: [usize; N]) -> Act {
    Act::Cancel(places.to_vec())
}
