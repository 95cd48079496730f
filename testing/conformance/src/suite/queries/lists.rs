//! Queries: lists, counts, single rows. They change nothing.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Count, EventKind, Filter, HistoryRequest, InstanceId, ListRequest, NewInstance, NewSignal,
    QueueSummary, Scope, Status, limits,
};

pub(in crate::suite) async fn list(subject: &Subject, filter: Filter) -> Vec<InstanceId> {
    let request = ListRequest {
        filter,
        before: None,
        limit: 100,
        values: false,
    };
    let page = subject.store.list(request).await.unwrap();
    assert_eq!(page.next, None);
    page.instances.iter().map(|row| row.id).collect()
}

pub async fn a_new_row_is_stored_as_it_was_inserted(subject: &Subject) {
    let scope = Scope::of([Status::Runnable, Status::Failed]).unwrap();
    let row = NewInstance::new("task", "start", json(r#"{"n":1}"#))
        .version(3)
        .queue("mail")
        .priority(-7)
        .partition_key("p")
        .correlation("c", scope);
    let id = subject.insert(later(row, seconds(5))).await;
    let row = subject.get(id).await;
    let now = subject.now();
    assert_eq!((row.machine.as_str(), row.version), ("task", 3));
    assert_eq!(
        (row.step.as_str(), row.state.as_str()),
        ("start", r#"{"n":1}"#)
    );
    assert_eq!((row.status, row.revision.0), (Status::Runnable, 0));
    assert_eq!((&row.result, &row.last_error), (&None, &None));
    assert_eq!((row.queue.as_str(), row.priority), ("mail", -7));
    assert_eq!(row.eligible_at, now + seconds(5));
    assert_eq!((row.attempt, row.crashes), (0, 0));
    assert_eq!(row.partition_key.as_deref(), Some("p"));
    assert_eq!((row.locked_by, &row.awaits), (None, &None));
    assert_eq!((row.await_deadline, row.parent), (None, None));
    assert_eq!((row.round, row.children_pending), (0, 0));
    assert_eq!(row.dropped, []);
    assert_eq!(row.correlation_key.as_deref(), Some("c"));
    assert_eq!((row.correlation_scope, row.holds_key), (Some(scope), true));
    assert_eq!((row.inserted_at, row.updated_at), (now, now));
    assert_eq!(row.finished_at, None);
}

pub async fn queries_for_missing_rows_find_nothing(subject: &Subject) {
    let missing = InstanceId(987_654_321);
    assert_eq!(subject.store.get(missing).await.unwrap(), None);
    assert_eq!(subject.store.find("task", "k").await.unwrap(), None);
    assert_eq!(subject.signals(missing).await, []);
    let children = subject.store.children(missing, None, None).await;
    assert_eq!(children.unwrap(), []);
    assert_eq!(subject.store.operations(Some(missing)).await.unwrap(), []);
}

pub async fn a_page_has_states_only_on_request(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.commit(&claim, done()).await;
    let row = subject.get(claim.id).await;
    let mut request = ListRequest::default();
    let page = subject.store.list(request.clone()).await.unwrap();
    let without = outlast_core::Instance {
        state: outlast_core::Json::null(),
        result: None,
        dropped: Vec::new(),
        ..row.clone()
    };
    assert_eq!(page.instances, [without]);
    request.values = true;
    let page = subject.store.list(request).await.unwrap();
    assert_eq!(page.instances, [row]);
}

/// Makes a JSON text of this many bytes.
fn large(bytes: usize) -> outlast_core::Json {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

pub async fn a_page_ends_at_its_bound_of_bytes(subject: &Subject) {
    const QUARTER: usize = limits::PAGE_BYTES_MAX / 4 - 10_000;
    let (worker, parent) = subject.running(task()).await;
    let child = || NewInstance::new("task", "start", large(QUARTER));
    let children = vec![child(), child(), child(), child(), child(), child()];
    subject.commit(&parent, fan_out(children)).await;
    let mut request = ListRequest {
        values: true,
        ..ListRequest::default()
    };
    let first = subject.store.list(request.clone()).await.unwrap();
    assert_eq!(
        first.instances.len(),
        4,
        "a page ends at its bound of bytes"
    );
    request.before = first.next;
    let second = subject.store.list(request.clone()).await.unwrap();
    assert_eq!((second.instances.len(), second.next), (3, None));
    request.filter.parent = Some(parent.id);
    request.before = None;
    let found = subject.store.list(request.clone()).await.unwrap();
    assert_eq!((found.instances.len(), found.next), (4, first.next));
    request.values = false;
    let light = subject.store.list(request).await.unwrap();
    assert_eq!((light.instances.len(), light.next), (6, None));

    let first = subject.store.children(parent.id, None, None).await.unwrap();
    assert_eq!((first.len(), first.more), (4, true));
    let last = first.last().map(|child| child.id);
    let second = subject.store.children(parent.id, None, last).await.unwrap();
    assert_eq!((second.len(), second.more), (2, false));

    let claim = subject.claim(worker, 1).await.remove(0);
    for _ in 0..6 {
        let sent = NewSignal::new(outlast_core::Target::Id(claim.id), "a", large(QUARTER));
        subject.arrives(sent).await;
    }
    let first = subject.store.signals(claim.id, None).await.unwrap();
    assert_eq!((first.len(), first.more), (4, true));
    let last = first.last().map(|signal| signal.id);
    let second = subject.store.signals(claim.id, last).await.unwrap();
    assert_eq!((second.len(), second.more), (2, false));
    let none = subject
        .store
        .signals(claim.id, second.last().map(|it| it.id));
    assert!(none.await.unwrap().is_empty());
    pages_of_events(subject, &claim).await;
}

async fn pages_of_events(subject: &Subject, claim: &outlast_core::Claim) {
    const MIB: usize = 1024 * 1024;
    let of_size = |bytes: usize| {
        let mut event = event(EventKind::StepCompleted, "s");
        event.data = large(bytes);
        event
    };
    let sizes = [MIB, MIB, MIB, 10, 10, 10, MIB, MIB, MIB];
    let events = sizes.into_iter().map(of_size).collect();
    subject.commit_events(claim, flow_on(), events).await;
    let page = async |after, max| {
        let request = HistoryRequest {
            id: claim.id,
            run: 1,
            after,
            max,
        };
        let page = subject.store.history(request).await.unwrap();
        let seqs: Vec<i32> = page.iter().map(|event| event.seq).collect();
        (seqs, page.more)
    };
    assert_eq!(page(0, 100).await, (vec![1, 2, 3, 4, 5, 6], true));
    assert_eq!(page(6, 100).await, (vec![7, 8, 9], false));
    assert_eq!(page(6, 2).await, (vec![7, 8], true));
    assert_eq!(page(9, 2).await, (vec![], false));
}

/// An order must be found by its number after it has shipped.
pub async fn a_key_finds_its_holder_or_its_latest_former_holder(subject: &Subject) {
    let find = async || subject.store.find("task", "k").await.unwrap();
    for outcome in [done(), stop(), cancel()] {
        let (_, claim) = subject.running(task().correlation_key("k")).await;
        assert_eq!(find().await, Some(subject.get(claim.id).await));
        subject.commit(&claim, outcome).await;
        assert_eq!(find().await, Some(subject.get(claim.id).await));
    }
    let latest = find().await.unwrap().id;
    let next = subject.insert(task().correlation_key("k")).await;
    assert_eq!(find().await, Some(subject.get(next).await));
    assert_eq!(subject.store.find("other", "k").await.unwrap(), None);
    assert_eq!(subject.store.find("task", "K").await.unwrap(), None);

    subject
        .store
        .terminate(vec![next], Extent::One, note())
        .await
        .unwrap();
    subject.store.retry(vec![latest], note()).await.unwrap();
    assert_eq!(
        find().await.map(|row| row.id),
        Some(next),
        "a retried instance holds no key"
    );
    subject.store.delete(vec![next], note()).await.unwrap();
    assert_eq!(find().await.map(|row| row.id), Some(latest));
}

pub async fn a_key_released_by_a_live_instance_finds_that_instance(subject: &Subject) {
    let until_claimed = Scope::of([Status::Runnable]).unwrap();
    let row = task().correlation("k", until_claimed);
    let (_, claim) = subject.running(row).await;
    let found = subject.store.find("task", "k").await.unwrap();
    assert_eq!(found, Some(subject.get(claim.id).await));
}

pub async fn lists_go_newest_first_page_by_page(subject: &Subject) {
    let mut ids = subject.insert_all(tasks(7)).await;
    ids.reverse();
    let mut request = ListRequest {
        filter: Filter::default(),
        before: None,
        limit: 3,
        values: false,
    };
    let mut seen = Vec::new();
    for expected in [3, 3, 1] {
        let page = subject.store.list(request.clone()).await.unwrap();
        assert_eq!(page.instances.len(), expected);
        seen.extend(page.instances.iter().map(|row| row.id));
        request.before = page.next;
    }
    assert_eq!(request.before, None, "the last page has no next page");
    assert_eq!(seen, ids);
}

pub async fn a_last_page_that_is_exactly_full_has_no_next_page(subject: &Subject) {
    subject.insert_all(tasks(3)).await;
    let request = ListRequest {
        filter: Filter::default(),
        before: None,
        limit: 3,
        values: false,
    };
    let page = subject.store.list(request).await.unwrap();
    assert_eq!((page.instances.len(), page.next), (3, None));
}

pub async fn a_listed_row_equals_the_stored_row(subject: &Subject) {
    let (_, id) = subject.parked(&["a", "b"]).await;
    let request = ListRequest {
        filter: Filter::default(),
        before: None,
        limit: 1,
        values: true,
    };
    let page = subject.store.list(request).await.unwrap();
    assert_eq!(page.instances, [subject.get(id).await]);
}

pub async fn every_filter_filters(subject: &Subject) {
    let plain = subject.insert(task()).await;
    subject.pass(seconds(10));
    let odd = NewInstance::new("other", "weigh", json("{}"))
        .version(2)
        .queue("mail")
        .partition_key("p")
        .correlation_key("c");
    let odd = subject.insert(odd).await;
    let now = subject.now();
    let filters = [
        Filter {
            machine: Some("other".into()),
            ..Filter::default()
        },
        Filter {
            version: Some(2),
            ..Filter::default()
        },
        Filter {
            step: Some("weigh".into()),
            ..Filter::default()
        },
        Filter {
            queue: Some("mail".into()),
            ..Filter::default()
        },
        Filter {
            correlation_key: Some("c".into()),
            ..Filter::default()
        },
        Filter {
            partition_key: Some("p".into()),
            ..Filter::default()
        },
        Filter {
            inserted_from: Some(now),
            ..Filter::default()
        },
    ];
    for filter in filters {
        let count = subject.store.count(filter.clone()).await.unwrap();
        assert_eq!(count, Count::Exactly(1), "{filter:?}");
        assert_eq!(list(subject, filter.clone()).await, [odd], "{filter:?}");
    }
    let until = Filter {
        inserted_until: Some(now),
        ..Filter::default()
    };
    assert_eq!(list(subject, until).await, [plain]);
    let both = Filter {
        machine: Some("other".into()),
        queue: Some("default".into()),
        ..Filter::default()
    };
    assert_eq!(list(subject, both).await, [], "filters narrow each other");
}

pub async fn lists_filter_by_status_and_parent(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(3))).await;
    let claims = subject.claim(worker, 2).await;
    subject.commit(&claims[0], done()).await;
    let of = |statuses: &[Status]| Filter {
        statuses: statuses.to_vec(),
        ..Filter::default()
    };
    let waiting = list(subject, of(&[Status::AwaitingChildren])).await;
    assert_eq!(waiting, [parent.id]);
    let either = list(subject, of(&[Status::Done, Status::Executing])).await;
    assert_eq!(either, [claims[1].id, claims[0].id]);
    assert_eq!(list(subject, of(&[])).await.len(), 4);
    let children = Filter {
        parent: Some(parent.id),
        ..of(&[Status::Runnable])
    };
    assert_eq!(
        subject.store.count(children).await.unwrap(),
        Count::Exactly(1)
    );
}

pub async fn a_list_finds_an_instance_by_its_released_key(subject: &Subject) {
    let (_, claim) = subject.running(task().correlation_key("k")).await;
    subject.commit(&claim, done()).await;
    let filter = Filter {
        correlation_key: Some("k".into()),
        ..Filter::default()
    };
    assert_eq!(list(subject, filter).await, [claim.id]);
}

pub async fn signals_are_listed_oldest_first_with_their_tombstones(subject: &Subject) {
    let (worker, id) = subject.parked(&["a"]).await;
    let (first, _) = subject.arrives(signal(id, "a").dedup_key("k")).await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, requeue("b")).await;
    let sent = subject.now();
    subject.pass(seconds(1));
    let (second, _) = subject.arrives(signal(id, "c")).await;
    let rows = subject.signals(id).await;
    assert_eq!([rows[0].id, rows[1].id], [first, second]);
    assert_eq!((rows[0].name.as_str(), &rows[0].payload), ("a", &None));
    assert_eq!(
        (rows[0].inserted_at, rows[0].consumed_at),
        (sent, Some(sent))
    );
    assert_eq!(rows[1].payload, Some(json(r#"{"v":1}"#)));
    assert_eq!((rows[1].target, rows[1].consumed_at), (id, None));
    let after = subject.store.signals(id, Some(first)).await.unwrap();
    assert_eq!(after.rows, rows[1..]);
}

pub async fn children_are_listed_by_round(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(2))).await;
    let first = subject.claim(worker, 2).await;
    subject.finish_all(&first).await;
    let claim = subject.claim_the(worker, parent.id).await;
    subject.commit(&claim, fan_out(tasks(1))).await;
    let children = async |round, after| {
        let children = subject.store.children(parent.id, round, after).await;
        let children = children.unwrap();
        assert!(children.is_sorted_by_key(|child| child.id));
        children.iter().map(|child| child.round).collect::<Vec<_>>()
    };
    assert_eq!(children(None, None).await, [1, 1, 2]);
    assert_eq!(children(Some(1), None).await, [1, 1]);
    assert_eq!(children(Some(2), None).await, [2]);
    assert_eq!(children(Some(3), None).await, [0; 0]);
    assert_eq!(children(None, Some(first[0].id)).await, [1, 2]);
}

pub async fn queues_show_eligible_delayed_and_executing_instances(subject: &Subject) {
    let worker = subject.worker().await;
    let started = subject.now();
    subject.insert_all(tasks(3)).await;
    subject.claim(worker, 1).await;
    subject.pass(seconds(5));
    let keyed = task().queue("keyed").partition_key("p");
    subject.insert_all(vec![keyed; 2]).await;
    subject.insert(later(task(), seconds(60))).await;
    subject.store.pause("still", note()).await.unwrap();

    let count = Count::Exactly;
    let queue = |name: &str, [eligible, delayed, executing]: [u64; 3]| QueueSummary {
        name: name.into(),
        paused: false,
        eligible: count(eligible),
        delayed: count(delayed),
        executing: count(executing),
        oldest_eligible_at: None,
    };
    let expected = [
        QueueSummary {
            oldest_eligible_at: Some(started),
            ..queue("default", [2, 1, 1])
        },
        QueueSummary {
            oldest_eligible_at: Some(subject.now()),
            ..queue("keyed", [2, 0, 0])
        },
        QueueSummary {
            paused: true,
            ..queue("still", [0, 0, 0])
        },
    ];
    assert_eq!(subject.store.queues().await.unwrap(), expected);
}

pub async fn a_queue_with_nothing_to_do_is_not_shown(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(2)).await;
    let claims = subject.claim(worker, 2).await;
    subject.commit(&claims[0], done()).await;
    subject.commit(&claims[1], wait_for(&["x"])).await;
    assert_eq!(subject.store.queues().await.unwrap(), []);
}

pub async fn a_store_returns_the_time_of_its_clock(subject: &Subject) {
    let before = subject.store.now().await.unwrap();
    assert_eq!(before, subject.now());
    subject.pass(seconds(9));
    assert_eq!(subject.store.now().await.unwrap().since(before), seconds(9));
}
