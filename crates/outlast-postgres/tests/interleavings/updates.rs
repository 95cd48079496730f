//! All interleavings of two and three verbs on an instance that was sent an update.
//!
//! Besides the checks of tests/interleavings.rs, the tests check that an update has a reply if and
//! only if a commit that was written has replied to it (I7).

use crate::interleavings::act::Act::{
    Ask, Claim, CommitClaimed, Deliver, DeliverFor, Fire, Reap, Release, Reply, Retry, TimeOut,
};
use crate::interleavings::act::Decision::{Done, Fail, Keep, Next, Park};
use crate::interleavings::play::{beside, cancel, catch, commit, hold, pairs, terminate};
use crate::interleavings::scheduler::Scenario;
use crate::interleavings::stage::Start;
use std::slice::from_ref;

fn briefly(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    scenarios.into_iter().map(Scenario::briefly).collect()
}

#[tokio::test]
async fn an_outcome_with_a_reply_can_meet_any_other_verb() {
    let others = [
        Ask(0),
        Deliver(0),
        commit(0, Park),
        Reply(0, Keep),
        Release(0),
        Fire,
        TimeOut(1),
        Claim,
        cancel([0]),
        terminate([0]),
        Reap(3),
        Reap(0),
    ];
    let mut scenarios = Vec::new();
    for decision in [Park, Keep, Next, Done, Fail] {
        scenarios.extend(beside(Start::Asked, &Reply(0, decision), &others));
    }
    hold(&briefly(scenarios)).await;
}

/// The answered update is not a reason to run. A signal that comes meanwhile is.
#[tokio::test]
async fn three_verbs_can_meet_while_an_instance_replies_and_parks() {
    let asked = |sessions| Scenario::new(Start::Asked, sessions).briefly();
    hold(&[
        asked(&[&[Reply(0, Park)], &[Deliver(0)], &[Fire]]).at_meetings(),
        asked(&[&[Reply(0, Park)], &[Deliver(0)], &[Ask(0)]]).at_meetings(),
        asked(&[&[Reply(0, Park)], &[Deliver(0)], &[terminate([0])]]).at_meetings(),
        asked(&[&[Reply(0, Park)], &[Ask(0)], &[TimeOut(1)]]).at_meetings(),
    ])
    .await;
}

#[tokio::test]
async fn an_update_that_is_sent_twice_arrives_once_in_any_order() {
    let others = [
        Ask(0),
        Deliver(0),
        DeliverFor(0),
        Fire,
        terminate([0]),
        TimeOut(1),
        Claim,
    ];
    let mut scenarios = beside(Start::Parked, &Ask(0), &others);
    scenarios.extend(pairs(Start::Asked, &[Ask(0), commit(0, Done)]));
    scenarios.push(Scenario::new(
        Start::Parked,
        &[&[Ask(0), Ask(0)], &[Ask(0)]],
    ));
    hold(&briefly(scenarios)).await;
}

/// Whether the reply or the end comes first, the retry knows what was left unanswered.
#[tokio::test]
async fn an_operators_retry_can_meet_a_reply_in_any_order() {
    let ends = [terminate([0]), TimeOut(1)];
    let others = [
        Reply(0, Park),
        Reply(0, Keep),
        Reply(0, Fail),
        Ask(0),
        Deliver(0),
    ];
    let mut scenarios = Vec::new();
    for end in &ends {
        let ending = [end.clone(), Retry(0)];
        for other in &others {
            scenarios.push(Scenario::new(Start::Asked, &[&ending, from_ref(other)]));
        }
        for other in [Ask(0), Deliver(0), Claim] {
            scenarios.push(Scenario::new(Start::Parked, &[&ending, &[other]]));
        }
    }
    let failing = [Reply(0, Fail), Retry(0), Claim, CommitClaimed];
    scenarios.push(Scenario::new(Start::Asked, &[&failing, &[Ask(0)]]));
    hold(&briefly(scenarios)).await;
}

/// The statement that writes the row would find the claim lost, and the reply would stand.
#[tokio::test]
async fn a_reply_that_is_written_without_its_outcome_is_caught() {
    let sessions = [&[Reply(0, Keep)][..], &[terminate([0])]];
    let reply = Scenario::new(Start::Asked, &sessions).briefly();
    catch("park-does-not-lock", reply, &["I7: update"]).await;
}

#[tokio::test]
async fn a_retry_that_forgets_the_updates_of_the_former_life_is_caught() {
    let sessions = [&[terminate([0]), Retry(0)][..], &[Ask(0)]];
    let retry = Scenario::new(Start::Asked, &sessions).briefly();
    catch("retry-leaves-updates-open", retry, &["I7: update"]).await;
}
