//! The policy of a join for the children that remain when it is decided.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{ClosePolicy, Join, NewInstance, Status, Until};

/// Makes children whose close policy is terminate. The policy of their join is separate.
fn terminated_with_parent(n: usize) -> Vec<NewInstance> {
    let terminate = |row: NewInstance| row.on_parent_close(ClosePolicy::Terminate);
    tasks(n).into_iter().map(terminate).collect()
}

pub async fn a_decided_join_applies_its_policy_to_the_remaining_children(subject: &Subject) {
    for rest in ClosePolicy::ALL {
        let join = Join {
            rest,
            ..until(Until::FailFast)
        };
        let (worker, parent, claims) = subject.joining(terminated_with_parent(3), join).await;
        let ids = ids_of(&claims);
        let committed = subject
            .commit_all(vec![commit_of(&claims[1], stop())])
            .await;
        assert_eq!(committed.cascades, rest != ClosePolicy::Abandon);
        let cascaded = subject.cascade(10).await;
        let (requested, ended) = match rest {
            ClosePolicy::Abandon => (vec![], vec![]),
            ClosePolicy::RequestCancel => (vec![ids[0], ids[2]], vec![]),
            ClosePolicy::Terminate => (vec![], vec![ids[0], ids[2]]),
        };
        assert_eq!((cascaded.requested, cascaded.ended), (requested, ended));
        let why = format!("by parent: the join of parent {parent} was decided: failure");
        let row = subject.get(ids[0]).await;
        match rest {
            ClosePolicy::Abandon => assert_eq!((row.cancel, row.last_error), (None, None)),
            ClosePolicy::RequestCancel => {
                let reason = row.cancel.map(|cancel| cancel.reason);
                assert_eq!(reason, Some(format!("cancelled {why}")));
            }
            ClosePolicy::Terminate => {
                assert_eq!(row.last_error, Some(format!("terminated {why}")));
            }
        }
        let row = subject.get(parent).await;
        assert_eq!(counts(&row), (2, 1), "the parent was woken before");
        let claim = subject.claim_the(worker, parent).await;
        subject.commit(&claim, done()).await;
        subject.cascade_all().await;
        let ended = subject.store.terminate(ids, Extent::One, note());
        ended.await.unwrap();
    }
}

pub async fn the_policy_of_a_join_applies_to_its_own_round_only(subject: &Subject) {
    let (worker, parent) = subject.running(task().priority(-1)).await;
    let too_many = until(Until::Quorum(2));
    subject
        .commit(&parent, fan_out_with(tasks(1), too_many))
        .await;
    let parent = subject.claim_the(worker, parent.id).await;
    let older = subject.claim(worker, 9).await;
    let join = Join {
        rest: ClosePolicy::Terminate,
        deadline: Some(seconds(5)),
        ..Join::default()
    };
    subject.commit(&parent, fan_out_with(tasks(2), join)).await;
    let ids = subject.claim_ids(worker, 9).await;
    subject.pass(seconds(5));
    let fired = subject.store.fire(10).await.unwrap();
    assert_eq!(fired.woken_instances, [parent.id]);
    assert!(fired.cascades);
    assert_eq!(subject.cascade(10).await.ended, ids);
    assert_eq!(subject.status(older[0].id).await, Status::Executing);
    let error = subject.get(ids[0]).await.last_error.unwrap();
    assert!(error.ends_with("was decided: deadline"), "{error}");
}

pub async fn a_join_decided_at_its_start_applies_its_policy_to_all_children(subject: &Subject) {
    let (_, parent) = subject.running(task()).await;
    let join = Join {
        rest: ClosePolicy::Terminate,
        ..until(Until::Quorum(3))
    };
    let outcome = fan_out_with(tasks(2), join);
    let committed = subject.commit_all(vec![commit_of(&parent, outcome)]).await;
    assert!(committed.cascades);
    subject.cascade_all().await;
    let statuses = subject.child_statuses(parent.id, 1).await;
    assert_eq!(statuses, [Status::Cancelled; 2]);
}
