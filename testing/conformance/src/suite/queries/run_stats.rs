//! Run statistics: counts of the steps that engines have run, by the minute.

use crate::Subject;
use crate::suite::outcomes::bad_input::{assert_invalid, long};
use crate::vocabulary::*;
use outlast_core::{DELAY_BINS, Delays, RunStats, Runs, Timestamp, WriteCheck, limits, minute_of};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn runs(minute: Timestamp, step: &str, count: u64) -> Runs {
    Runs {
        minute,
        machine: "task".into(),
        version: 1,
        step: step.into(),
        outcome: "next".into(),
        next: "joined".into(),
        count,
        micros: count * 1_000,
    }
}

fn delays(minute: Timestamp, bin: u8, count: u64) -> Delays {
    Delays {
        minute,
        queue: QUEUE.into(),
        bin,
        count,
    }
}

async fn record(subject: &Subject, runs: Vec<Runs>, delays: Vec<Delays>) {
    let stats = RunStats { runs, delays };
    subject.store.add_run_stats(stats).await.unwrap();
}

async fn since(subject: &Subject, moment: Timestamp) -> RunStats {
    subject.store.run_stats(moment).await.unwrap()
}

pub async fn counts_come_back_as_they_were_recorded(subject: &Subject) {
    let minute = minute_of(subject.now());
    let end = Runs {
        outcome: "done".into(),
        next: String::new(),
        ..runs(minute, "start", 3)
    };
    let given = RunStats {
        runs: vec![end, runs(minute, "start", 2)],
        delays: vec![delays(minute, 0, 4), delays(minute, 23, 1)],
    };
    subject.store.add_run_stats(given.clone()).await.unwrap();
    assert_eq!(since(subject, minute).await, given);
    let none = subject.store.add_run_stats(RunStats::default()).await;
    assert!(none.is_ok(), "empty run stats are accepted");
    assert_eq!(since(subject, minute).await, given);
}

pub async fn counts_of_one_key_are_added_up(subject: &Subject) {
    let minute = minute_of(subject.now());
    for count in [1, 2] {
        let twice = vec![runs(minute, "start", count), runs(minute, "start", count)];
        let waited = vec![delays(minute, 5, count), delays(minute, 5, 10)];
        record(subject, twice, waited).await;
    }
    let added = RunStats {
        runs: vec![runs(minute, "start", 6)],
        delays: vec![delays(minute, 5, 23)],
    };
    assert_eq!(since(subject, minute).await, added);
}

pub async fn counts_that_differ_in_any_part_of_their_key_stay_separate(subject: &Subject) {
    let minute = minute_of(subject.now());
    let one = runs(minute, "start", 1);
    let others = vec![
        Runs {
            minute: minute + MINUTE,
            ..one.clone()
        },
        Runs {
            machine: "other".into(),
            ..one.clone()
        },
        Runs {
            version: 2,
            ..one.clone()
        },
        Runs {
            step: "next".into(),
            ..one.clone()
        },
        Runs {
            outcome: "retry".into(),
            ..one.clone()
        },
        Runs {
            next: "start".into(),
            ..one.clone()
        },
        one,
    ];
    let waited = vec![
        delays(minute, 0, 1),
        delays(minute, 1, 1),
        delays(minute + MINUTE, 0, 1),
        Delays {
            queue: "mail".into(),
            ..delays(minute, 0, 1)
        },
    ];
    record(subject, others.clone(), waited.clone()).await;
    let stored = since(subject, minute).await;
    assert_eq!((stored.runs.len(), stored.delays.len()), (7, 4));
    assert!(stored.runs.is_sorted_by(|a, b| a.key() < b.key()));
    assert!(stored.delays.is_sorted_by(|a, b| a.key() < b.key()));
    assert!(others.iter().all(|it| stored.runs.contains(it)));
    assert!(waited.iter().all(|it| stored.delays.contains(it)));
}

pub async fn run_stats_are_read_from_a_minute_on(subject: &Subject) {
    let first = minute_of(subject.now());
    let minutes = [first, first + MINUTE, first + 2 * MINUTE];
    for minute in minutes {
        let waited = vec![delays(minute, 0, 1)];
        record(subject, vec![runs(minute, "start", 1)], waited).await;
    }
    let within = first + MINUTE + seconds(59);
    let found = since(subject, within).await;
    let found: Vec<_> = found.runs.iter().map(|it| it.minute).collect();
    assert_eq!(found, minutes[1..], "the whole minute is returned");
    assert_eq!(since(subject, first).await.delays.len(), 3);
    let later = since(subject, first + 3 * MINUTE).await;
    assert_eq!(later, RunStats::default());
}

pub async fn counts_older_than_a_day_are_removed_by_the_next_write(subject: &Subject) {
    let first = minute_of(subject.now());
    record(
        subject,
        vec![runs(first, "start", 1)],
        vec![delays(first, 0, 1)],
    )
    .await;
    subject.pass(limits::RUN_STATS_KEPT);
    subject.clock.advance(MINUTE);
    let stored = since(subject, first).await;
    assert_eq!(stored.runs.len(), 1, "old counts stay until the next write");
    let now = minute_of(subject.now());
    record(subject, vec![runs(now, "start", 1)], Vec::new()).await;
    let left = since(subject, first).await;
    assert_eq!(left.runs, [runs(now, "start", 1)]);
    assert_eq!(left.delays, []);
}

pub async fn a_read_of_too_many_counts_returns_the_newest(subject: &Subject) {
    let first = minute_of(subject.now());
    let second = first + MINUTE;
    let half = limits::RUN_STATS_MAX / 2 + 1;
    for minute in [first, second] {
        let steps = (0..half).map(|n| runs(minute, &format!("step {n:05}"), 1));
        record(subject, steps.collect(), Vec::new()).await;
    }
    let found = since(subject, first).await.runs;
    assert_eq!(found.len(), limits::RUN_STATS_MAX);
    assert_eq!(
        found[0],
        runs(first, "step 00002", 1),
        "the two oldest are left out"
    );
    let last = format!("step {:05}", half - 1);
    assert_eq!(found.last(), Some(&runs(second, &last, 1)));
}

pub async fn engines_that_record_concurrently_lose_no_counts(subject: &Subject) {
    let minute = minute_of(subject.now());
    let steps = ["a", "b", "c", "d", "e"];
    let rounds = (0..40_u64).map(|n| {
        let mut all: Vec<Runs> = steps.iter().map(|step| runs(minute, step, 1)).collect();
        let mut waited: Vec<Delays> = (0..5).map(|bin| delays(minute, bin, 1)).collect();
        // Half of the calls have the same keys in reverse order.
        if n % 2 == 0 {
            all.reverse();
            waited.reverse();
        }
        record(subject, all, waited)
    });
    futures_util::future::join_all(rounds).await;
    let stored = since(subject, minute).await;
    let expected: Vec<Runs> = steps.iter().map(|step| runs(minute, step, 40)).collect();
    assert_eq!(stored.runs, expected);
    assert!(stored.delays.iter().all(|it| it.count == 40));
}

pub async fn names_in_counts_are_data_whatever_they_look_like(subject: &Subject) {
    let minute = minute_of(subject.now());
    for name in [
        "'; drop table runs; --",
        "{a,b}",
        "\"",
        "null",
        "日本語",
        "a\\b",
        " ",
    ] {
        let odd = Runs {
            machine: name.into(),
            step: name.into(),
            next: name.into(),
            ..runs(minute, "start", 1)
        };
        let queue = Delays {
            queue: name.into(),
            ..delays(minute, 0, 1)
        };
        record(subject, vec![odd.clone()], vec![queue.clone()]).await;
        let stored = since(subject, minute).await;
        assert!(stored.runs.contains(&odd), "{name}");
        assert!(stored.delays.contains(&queue), "{name}");
    }
}

pub async fn counts_that_cannot_be_stored_are_refused_whole(subject: &Subject) {
    let minute = minute_of(subject.now());
    let fine = runs(minute, "start", 1);
    let with = |change: fn(&mut Runs)| {
        let mut bad = fine.clone();
        change(&mut bad);
        bad
    };
    let bad = [
        with(|it| it.minute = it.minute + seconds(1)),
        with(|it| it.minute = Timestamp(i64::MIN)),
        with(|it| it.machine = String::new()),
        with(|it| it.version = 0),
        with(|it| it.step = "a\u{0}".into()),
        with(|it| it.outcome = String::new()),
        with(|it| it.next = long(limits::NAME_BYTES_MAX + 1)),
        with(|it| it.count = u64::MAX),
        with(|it| it.micros = u64::MAX),
    ];
    let stats = |runs, delays| RunStats { runs, delays };
    for bad in bad {
        let runs = vec![fine.clone(), bad];
        assert_invalid(subject.store.add_run_stats(stats(runs, Vec::new())).await);
    }
    let nameless = Delays {
        queue: String::new(),
        ..delays(minute, 0, 1)
    };
    let bad = [
        nameless,
        delays(minute, DELAY_BINS as u8, 1),
        delays(minute, 0, u64::MAX),
    ];
    for bad in bad {
        let refused = stats(vec![fine.clone()], vec![bad]);
        assert_invalid(subject.store.add_run_stats(refused).await);
    }
    let many = vec![fine.clone(); limits::RUN_STATS_MAX + 1];
    assert_invalid(subject.store.add_run_stats(stats(many, Vec::new())).await);
    let stored = subject.store.run_stats(minute).await.unwrap();
    assert_eq!(stored, RunStats::default());
    let never = Timestamp(i64::MAX);
    assert_invalid(subject.store.run_stats(never).await);
}

/// No query returns the rows of a write check, and expired counts do not keep them stored.
pub async fn a_write_check_leaves_no_counts(subject: &Subject) {
    let now = minute_of(subject.store.now().await.unwrap());
    record(subject, Vec::new(), vec![delays(now, 1, 2)]).await;
    for _ in 0..3 {
        let (one, other) = (subject.store.check_writes(), subject.store.check_writes());
        let (one, other) = futures_util::future::join(one, other).await;
        assert_eq!(
            (one.unwrap(), other.unwrap()),
            (WriteCheck::Works, WriteCheck::Works)
        );
    }
    let stats = subject.store.run_stats(Timestamp(0)).await.unwrap();
    assert_eq!(stats.delays, [delays(now, 1, 2)]);
    assert!(stats.runs.is_empty());
}
