//! Searches: by error, attempts, deadline and end, and pages with few matches.

use super::lists::list;
use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{Count, Deadline, Filter, InstanceId, ListRequest, Outcome, Status, limits};

pub async fn a_search_finds_an_error_by_any_part_of_its_text(subject: &Subject) {
    let worker = subject.worker().await;
    let texts = [
        "card 100% declined",
        "card 100x declined",
        "no_paper",
        "Declined",
    ];
    let mut ids = Vec::new();
    for text in texts {
        ids.push(subject.insert(task()).await);
        let claim = subject.claim_one(worker).await;
        let reason = text.to_owned();
        subject.commit(&claim, Outcome::fail(reason)).await;
    }
    let healthy = subject.insert(task()).await;
    let found = async |part: &str| {
        let filter = Filter {
            error: Some(part.into()),
            ..Filter::default()
        };
        let ids = list(subject, filter.clone()).await;
        let count = subject.store.count(filter).await.unwrap();
        assert_eq!(count, Count::Exactly(ids.len() as u64), "{part}");
        assert!(!ids.contains(&healthy));
        ids
    };
    assert_eq!(found("declined").await, [ids[1], ids[0]]);
    assert_eq!(
        found("100% d").await,
        [ids[0]],
        "the search is for text, not for a pattern"
    );
    assert_eq!(found("no_p").await, [ids[2]]);
    assert_eq!(found("%").await, [ids[0]]);
    assert_eq!(found("D").await, [ids[3]], "the search is case-sensitive");
    assert_eq!(found("out of paper").await, [] as [InstanceId; 0]);
}

pub async fn a_search_by_attempts_finds_that_number_and_more(subject: &Subject) {
    let worker = subject.worker().await;
    let calm = subject.insert(later(task(), seconds(1))).await;
    let tried = subject.insert(task()).await;
    for _ in 0..3 {
        let claim = subject.claim_the(worker, tried).await;
        subject.commit(&claim, again(seconds(0))).await;
    }
    let from = async |attempts| {
        let filter = Filter {
            attempts_from: Some(attempts),
            ..Filter::default()
        };
        let ids = list(subject, filter.clone()).await;
        let count = subject.store.count(filter).await.unwrap();
        assert_eq!(count, Count::Exactly(ids.len() as u64));
        ids
    };
    assert_eq!(from(0).await, [tried, calm]);
    assert_eq!(from(3).await, [tried]);
    assert_eq!(from(4).await, [] as [InstanceId; 0]);
}

pub async fn a_search_finds_waits_by_their_deadline(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(4)).await;
    let claims = subject.claim(worker, 4).await;
    let [endless, short, long, busy] = &claims[..] else {
        panic!("four are claimed");
    };
    let start = subject.now();
    subject.commit(endless, wait_for(&["a"])).await;
    subject
        .commit(short, wait_at_most(&["a"], seconds(5)))
        .await;
    subject
        .commit(long, wait_at_most(&["a"], seconds(50)))
        .await;
    let of = async |deadline, statuses: &[Status]| {
        let filter = Filter {
            deadline: Some(deadline),
            statuses: statuses.to_vec(),
            ..Filter::default()
        };
        let ids = list(subject, filter.clone()).await;
        let count = subject.store.count(filter).await.unwrap();
        assert_eq!(count, Count::Exactly(ids.len() as u64));
        ids
    };
    assert_eq!(of(Deadline::None, &[]).await, [endless.id]);
    let before = |seconds_on| Deadline::Before(start + seconds(seconds_on));
    assert_eq!(
        of(before(5), &[]).await,
        [] as [InstanceId; 0],
        "before the time, not at it"
    );
    assert_eq!(of(before(6), &[]).await, [short.id]);
    assert_eq!(of(before(60), &[]).await, [long.id, short.id]);
    assert_eq!(of(before(60), &[Status::Done]).await, [] as [InstanceId; 0]);
    let executing = Filter {
        statuses: vec![Status::Executing],
        ..Filter::default()
    };
    assert_eq!(list(subject, executing).await, [busy.id]);
}

pub async fn a_search_finds_ended_instances_by_the_time_of_their_end(subject: &Subject) {
    let worker = subject.worker().await;
    subject.insert_all(tasks(5)).await;
    let claims = subject.claim(worker, 5).await;
    let [first, second, third, parked, _busy] = &claims[..] else {
        panic!("five are claimed");
    };
    let start = subject.now();
    subject.commit(first, done()).await;
    subject.commit(parked, wait_for(&["a"])).await;
    subject.pass(seconds(10));
    let reason = "out of paper".to_owned();
    subject.commit(second, Outcome::fail(reason)).await;
    subject.pass(seconds(10));
    let reason = "not wanted".to_owned();
    subject.commit(third, Outcome::Cancel { reason }).await;
    let at = |seconds_on: u64| Some(start + seconds(seconds_on));
    let ended = async |ended_from, ended_until, statuses: &[Status]| {
        let filter = Filter {
            ended_from,
            ended_until,
            statuses: statuses.to_vec(),
            ..Filter::default()
        };
        let ids = list(subject, filter.clone()).await;
        let count = subject.store.count(filter).await.unwrap();
        assert_eq!(count, Count::Exactly(ids.len() as u64));
        ids
    };
    let (first, second, third) = (first.id, second.id, third.id);
    let all = [third, second, first];
    assert_eq!(ended(at(0), None, &[]).await, all);
    assert_eq!(ended(None, at(60), &[]).await, all, "only ended instances");
    assert_eq!(
        ended(at(10), None, &[]).await,
        [third, second],
        "at the time or after it"
    );
    assert_eq!(
        ended(None, at(10), &[]).await,
        [first],
        "before the time, not at it"
    );
    assert_eq!(ended(at(10), at(20), &[]).await, [second]);
    assert_eq!(ended(at(20), at(10), &[]).await, [] as [InstanceId; 0]);
    assert_eq!(ended(at(0), None, &[Status::Failed]).await, [second]);
    let alive = [Status::Executing];
    assert_eq!(ended(at(0), None, &alive).await, [] as [InstanceId; 0]);
}

pub async fn a_search_for_ended_instances_does_not_find_a_retried_one(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let reason = "out of paper".to_owned();
    subject.commit(&claim, Outcome::fail(reason)).await;
    let ended = Filter {
        ended_from: Some(subject.now()),
        ..Filter::default()
    };
    assert_eq!(list(subject, ended.clone()).await, [claim.id]);
    subject.store.retry(vec![claim.id], note()).await.unwrap();
    assert_eq!(list(subject, ended).await, [] as [InstanceId; 0]);
}

/// More rows than one page may read, of which two match: the newest and the oldest.
pub async fn a_page_with_few_matches_ends_at_its_bound_and_says_where_to_go_on(subject: &Subject) {
    let rare = || task().queue("rare");
    let oldest = subject.insert(rare()).await;
    subject.insert_all(tasks(limits::SCAN_MAX)).await;
    let newest = subject.insert(rare()).await;
    let mut request = ListRequest {
        filter: Filter {
            queue: Some("rare".into()),
            ..Filter::default()
        },
        before: None,
        limit: 10,
        values: false,
    };
    let mut pages = Vec::new();
    loop {
        let page = subject.store.list(request.clone()).await.unwrap();
        pages.push(page.instances.iter().map(|row| row.id).collect::<Vec<_>>());
        request.before = page.next;
        if page.next.is_none() {
            break;
        }
        assert!(pages.len() < 10, "the pages come to an end");
    }
    assert_eq!(pages.concat(), [newest, oldest]);
    assert_eq!(pages[0], [newest], "the page ends before the oldest row");
    let all = ListRequest {
        limit: 10,
        ..ListRequest::default()
    };
    let page = subject.store.list(all).await.unwrap();
    assert_eq!(
        page.next,
        Some(page.instances[9].id),
        "a full page ends at its last row"
    );
}

/// The index of a filter finds rows that are far behind all others.
pub async fn searches_find_children_deadlines_and_ends_behind_many_other_rows(subject: &Subject) {
    let (worker, parent) = subject.running(task()).await;
    subject.commit(&parent, fan_out(tasks(3))).await;
    let children = subject.claim(worker, 3).await;
    subject.commit(&children[2], done()).await;
    subject
        .commit(&children[0], wait_at_most(&["a"], seconds(5)))
        .await;
    subject.insert_all(tasks(limits::SCAN_MAX)).await;
    let filters = [
        (
            Filter {
                parent: Some(parent.id),
                ..Filter::default()
            },
            vec![children[2].id, children[1].id, children[0].id],
        ),
        (
            Filter {
                ended_from: Some(subject.now()),
                ..Filter::default()
            },
            vec![children[2].id],
        ),
        (
            Filter {
                deadline: Some(Deadline::Before(subject.now() + seconds(60))),
                ..Filter::default()
            },
            vec![children[0].id],
        ),
        (
            Filter {
                statuses: vec![Status::Executing],
                ..Filter::default()
            },
            vec![children[1].id],
        ),
    ];
    for (filter, expected) in filters {
        let mut request = ListRequest {
            filter,
            before: None,
            limit: 1,
            values: false,
        };
        let mut found = Vec::new();
        for _ in 0..10 {
            let page = subject.store.list(request.clone()).await.unwrap();
            assert!(page.instances.len() <= 1);
            found.extend(page.instances.iter().map(|row| row.id));
            request.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(request.before, None, "the pages come to an end");
        assert_eq!(found, expected, "{:?}", request.filter);
    }
}

/// More rows than an index may return for one page: they are read by id instead.
pub async fn more_children_than_a_page_may_read_are_listed_to_the_end(subject: &Subject) {
    let (_, parent) = subject.running(task()).await;
    let many = limits::SCAN_MAX + 1;
    subject.commit(&parent, fan_out(tasks(many))).await;
    let mut request = ListRequest {
        filter: Filter {
            parent: Some(parent.id),
            ..Filter::default()
        },
        before: None,
        limit: limits::PAGE_MAX,
        values: false,
    };
    let mut listed = 0;
    loop {
        let page = subject.store.list(request.clone()).await.unwrap();
        listed += page.instances.len();
        let next = page.next;
        assert!(next.is_none() || next < request.before || request.before.is_none());
        request.before = next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(listed, many);
}
