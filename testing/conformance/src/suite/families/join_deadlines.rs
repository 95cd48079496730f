//! Joins with a deadline (I10).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Deadline, Filter, Join, Joined, ListRequest, Status};
use std::time::Duration;

fn within(deadline: Duration) -> Join {
    Join {
        deadline: Some(deadline),
        ..Join::default()
    }
}

/// I10.
pub async fn a_join_deadline_wakes_the_parent_with_unfinished_children(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(2), within(seconds(10))).await;
    let deadline = subject.now() + seconds(10);
    assert_eq!(subject.get(parent).await.await_deadline, Some(deadline));
    subject.commit(&claims[1], done()).await;
    subject.pass(seconds(10) - Duration::from_micros(1));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.woken_instances, []);
    assert_eq!(fired.next_due_in, Some(Duration::from_micros(1)));
    subject.pass(Duration::from_micros(1));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.woken_instances, [parent]);
    assert!(fired.woken.contains(QUEUE) && !fired.cascades);
    let row = subject.get(parent).await;
    assert_eq!((row.status, row.await_deadline), (Status::Runnable, None));
    assert_eq!((row.attempt, counts(&row)), (0, (1, 0)));
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, parent).await;
    assert_eq!(claim.joined, Some(Joined::Deadline));
    let statuses = claim.children.iter().map(|child| child.status);
    assert_eq!(
        statuses.collect::<Vec<_>>(),
        [Status::Executing, Status::Done]
    );
}

pub async fn a_decided_join_has_no_deadline(subject: &Subject) {
    let (_, parent, claims) = subject.joining(tasks(1), within(seconds(10))).await;
    subject.commit(&claims[0], done()).await;
    let row = subject.get(parent).await;
    assert_eq!(
        (row.await_deadline, joined(&row)),
        (None, Some(Joined::All))
    );
    subject.pass(seconds(10));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired, outlast_core::Fired::default());
    subject.assert_unchanged(&row).await;
}

pub async fn waits_and_joins_fire_in_the_order_of_their_deadlines(subject: &Subject) {
    let (worker, parent, _) = subject.joining(tasks(1), within(seconds(20))).await;
    let id = subject.insert(task()).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, wait_at_most(&[], seconds(10))).await;
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.next_due_in, Some(seconds(10)));
    subject.pass(seconds(30));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.woken_instances, [id, parent]);
}

/// A filter for overdue waits finds waits for signals only.
pub async fn a_filter_by_deadline_does_not_find_joins(subject: &Subject) {
    let (_, parent, _) = subject.joining(tasks(1), within(seconds(1))).await;
    subject.pass(seconds(5));
    assert_eq!(subject.status(parent).await, Status::AwaitingChildren);
    for deadline in [Deadline::None, Deadline::Before(subject.now())] {
        let request = ListRequest {
            filter: Filter {
                deadline: Some(deadline),
                ..Filter::default()
            },
            before: None,
            limit: 10,
            values: false,
        };
        assert_eq!(subject.store.list(request).await.unwrap().instances, []);
    }
}
