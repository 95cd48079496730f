//! Each kind of join, while it waits and after it has joined.

use super::*;
use outlast::store::{Json, NewInstance};
use outlast::{Client, InstanceId, Sqlite};
use std::time::Duration;

const NOW: Timestamp = Timestamp(1_767_279_600_000_000);

/// Returns a parent whose fan-out of five children has these counts.
async fn parent(until: Until, pending: i32, failed: i32) -> Instance {
    let client = Client::new(Sqlite::in_memory().unwrap());
    let row = NewInstance::new("order", "ship", Json::null());
    let inserted = client.admin().insert_rows(vec![row]).await.unwrap();
    let id = inserted[0].new_id().unwrap();
    let mut parent = client.find(id).await.unwrap().unwrap();
    parent.status = Status::AwaitingChildren;
    parent.children_pending = pending;
    parent.barrier = Some(Barrier {
        until,
        window: None,
        rest: ClosePolicy::Abandon,
        started: 5,
        failed,
        first_failure: None,
        joined: None,
    });
    parent
}

fn request(answered: bool) -> CancelRequest {
    CancelRequest {
        reason: "cancelled by ada".to_owned(),
        requested_at: NOW,
        answered,
    }
}

fn decided(mut parent: Instance, joined: Joined, rest: ClosePolicy) -> String {
    parent.status = Status::Runnable;
    let barrier = parent.barrier.as_mut().unwrap();
    (barrier.joined, barrier.rest) = (Some(joined), rest);
    barrier.first_failure = (barrier.failed > 0).then_some(InstanceId(31));
    meter(&parent, NOW).unwrap()
}

#[tokio::test]
async fn the_meter_of_a_waiting_parent_shows_its_join_and_progress() {
    let shown = |parent: Instance| meter(&parent, NOW).unwrap();
    assert_eq!(
        shown(parent(Until::All, 2, 1).await),
        "waits for all: 3 of 5 finished, 1 failed"
    );
    assert_eq!(
        shown(parent(Until::FailFast, 2, 0).await),
        "waits for all or the first failure: 3 of 5 finished"
    );
    assert_eq!(
        shown(parent(Until::Quorum(3), 2, 1).await),
        "waits for any 3 done: 2 of 5 done, 1 failed"
    );
    assert_eq!(
        shown(parent(Until::Quorum(1), 5, 0).await),
        "waits for any 1 done: 0 of 5 done"
    );
    let mut none = parent(Until::All, 0, 0).await;
    none.barrier = None;
    assert_eq!(meter(&none, NOW), None);
}

#[tokio::test]
async fn the_meter_shows_the_window_the_deadline_and_what_becomes_of_the_rest() {
    let mut bounded = parent(Until::All, 2, 0).await;
    bounded.await_deadline = Some(NOW + Duration::from_secs(12));
    let barrier = bounded.barrier.as_mut().unwrap();
    (barrier.window, barrier.rest) = (Some(4), ClosePolicy::Terminate);
    assert_eq!(
        meter(&bounded, NOW).unwrap(),
        "waits for all: 3 of 5 finished; window of 4; until 15:00:12 UTC (in 12 s); then terminates the rest"
    );
}

#[tokio::test]
async fn the_meter_of_a_joined_parent_shows_why_it_joined() {
    let goes_on = ClosePolicy::Abandon;
    assert_eq!(
        decided(parent(Until::All, 0, 1).await, Joined::All, goes_on),
        "joined: 5 of 5 finished, 1 failed"
    );
    assert_eq!(
        decided(
            parent(Until::FailFast, 3, 1).await,
            Joined::Failure,
            goes_on
        ),
        "joined by the failure of 31: 2 of 5 finished, 1 failed; the rest continues"
    );
    assert_eq!(
        decided(
            parent(Until::Quorum(2), 3, 0).await,
            Joined::Quorum,
            ClosePolicy::RequestCancel
        ),
        "joined by the quorum: 2 of 5 done; the rest is cancelled"
    );
    assert_eq!(
        decided(
            parent(Until::Quorum(4), 3, 2).await,
            Joined::Impossible,
            ClosePolicy::Terminate
        ),
        "joined without the quorum: 0 of 5 done, 2 failed; the rest is terminated"
    );
    assert_eq!(
        decided(parent(Until::All, 3, 0).await, Joined::Deadline, goes_on),
        "joined by the deadline: 2 of 5 finished; the rest continues"
    );
    let mut ended = parent(Until::All, 3, 0).await;
    ended.status = Status::Cancelled;
    assert_eq!(
        meter(&ended, NOW).unwrap(),
        "not joined, ended first: 2 of 5 finished"
    );
    ended.cancel = Some(request(true));
    assert_eq!(
        meter(&ended, NOW).unwrap(),
        "not joined, cancelled first: 2 of 5 finished"
    );
}

#[test]
fn a_cancel_shows_its_age_and_whether_it_is_answered() {
    let later = NOW + Duration::from_secs(3);
    assert_eq!(
        cancel(&request(false), later),
        "requested 3 s ago, not answered yet: cancelled by ada"
    );
    assert!(cancel(&request(true), later).contains("ago, answered:"));
}
