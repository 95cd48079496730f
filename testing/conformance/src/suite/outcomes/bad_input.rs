//! Input that can never be stored is refused with a reason (docs/protocol.md, defect 12).
//!
//! A refused call writes nothing.

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, ClaimRequest, CollectRequest, Count, Error, ErrorKind, Filter, Join, Json, ListRequest,
    MachineVersion, NewInstance, NewSignal, NewWorker, Note, Outcome, Result, Status,
    StepCountRequest, Target, limits,
};
use std::collections::BTreeSet;

pub(in crate::suite) fn assert_invalid<T: std::fmt::Debug>(answer: Result<T>) -> String {
    let error = answer.expect_err("it was not refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    error.to_string()
}

async fn assert_empty(subject: &Subject) {
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(0));
}

pub(in crate::suite) fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

pub async fn a_row_that_cannot_be_stored_is_refused(subject: &Subject) {
    let name = long(limits::NAME_BYTES_MAX + 1);
    let key = long(limits::KEY_BYTES_MAX + 1);
    let row = |machine: &str, step: &str| NewInstance::new(machine, step, json("{}"));
    let bad = [
        row("", "start"),
        row("a\u{0}b", "start"),
        row("a/b", "start"),
        row(&name, "start"),
        row("task", ""),
        row("task", "a\u{0}"),
        row("task", &name),
        task().version(0),
        task().queue(""),
        task().queue("a\u{0}"),
        task().queue(name),
        task().partition_key(""),
        task().partition_key(key.clone()),
        task().partition_key(vec![0; limits::KEY_BYTES_MAX + 1]),
        task().correlation_key(""),
        task().correlation_key(key.clone()),
        task().correlation_key(vec![0; limits::KEY_BYTES_MAX + 1]),
        task().trace("\u{0}"),
        task().trace(""),
        task().trace(key),
        later(task(), limits::DELAY_MAX + seconds(1)),
        task().start(outlast_core::Start::At(outlast_core::Timestamp(i64::MAX))),
        task().start(outlast_core::Start::At(outlast_core::Timestamp(-1))),
        row("a\u{202e}b", "start"),
        row("task", "a\u{200b}"),
        task().queue("a\u{2028}"),
    ];
    // Texts in which no key is stored.
    let keyed = ["\u{0}", "a\nb", "\u{1}00FF", "\u{1}3432"].map(|text| {
        let partition = NewInstance {
            partition_key: Some(text.into()),
            ..task()
        };
        let mut correlation = task().correlation_key("k");
        if let Some(it) = &mut correlation.correlation {
            it.key = text.into();
        }
        [partition, correlation]
    });
    for row in bad.into_iter().chain(keyed.into_iter().flatten()) {
        assert_invalid(subject.store.insert(vec![row], None).await);
    }
    assert_empty(subject).await;
}

/// The whole batch of a caller is refused, and the error names the row.
pub async fn an_insert_with_one_bad_row_is_refused_whole(subject: &Subject) {
    let mut rows = tasks(4);
    rows[2].queue = "a\u{0}".into();
    let message = assert_invalid(subject.store.insert(rows, None).await);
    assert!(message.contains("row 2"), "{message}");
    assert_empty(subject).await;
}

pub async fn a_delivery_with_one_bad_signal_is_refused_whole(subject: &Subject) {
    let (_, id) = subject.parked(&["a"]).await;
    let key = long(limits::KEY_BYTES_MAX + 1);
    let to_key = |machine: &str, key: &str| {
        let (machine, key) = (machine.into(), key.into());
        NewSignal::new(Target::Key { machine, key }, "a", json("1"))
    };
    let bad = [
        signal(id, ""),
        signal(id, "a\u{0}"),
        signal(id, &long(limits::NAME_BYTES_MAX + 1)),
        signal(id, "a").dedup_key(""),
        NewSignal {
            dedup_key: Some("\u{0}".into()),
            ..signal(id, "a")
        },
        signal(id, "a").dedup_key(key.clone()),
        signal(id, "a").dedup_key(vec![0; limits::KEY_BYTES_MAX + 1]),
        signal(id, "a\u{200b}"),
        to_key("task", &key),
        to_key("ta/sk", "k"),
        to_key("task", "\u{0}"),
    ];
    for bad in bad {
        let batch = vec![signal(id, "a"), bad];
        let message = assert_invalid(subject.store.deliver(batch, None).await);
        assert!(message.contains("signal 1"), "{message}");
    }
    assert_eq!(subject.status(id).await, Status::AwaitingSignal);
    assert_eq!(subject.signals(id).await, []);
}

pub async fn an_outcome_that_cannot_be_stored_is_rejected(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let row = subject.get(claim.id).await;
    let name = long(limits::NAME_BYTES_MAX + 1);
    let names: Vec<&str> = vec!["x"; limits::AWAITED_NAMES_MAX + 1];
    let too_long = limits::DELAY_MAX + seconds(1);
    let fan_out_to = |step: &str| Outcome::FanOut {
        children: tasks(1),
        join: Join::default(),
        step: step.into(),
        state: json("{}"),
    };
    let bad = [
        requeue(""),
        keep("a\u{0}"),
        requeue(&name),
        again(too_long),
        wait_for(&[]),
        wait_for(&["a", ""]),
        wait_for(&["a\u{0}"]),
        wait_for(&[&name]),
        wait_for(&names),
        wait_at_most(&["a"], too_long),
        fan_out_to("\u{0}"),
        fan_out(vec![task(), task().correlation_key("")]),
    ];
    for outcome in bad {
        let answer = subject.try_commit(&claim, outcome.clone()).await;
        assert!(matches!(answer, Answer::Rejected(_)), "{outcome:?}");
    }
    subject.assert_unchanged(&row).await;
    let count = subject.store.count(Default::default()).await.unwrap();
    assert_eq!(count, Count::Exactly(1), "no child of a rejected fan-out");
    subject.commit(&claim, done()).await;
}

/// A wait without names is a sleep, and a sleep without an end would never wake.
pub async fn an_endless_sleep_is_rejected_with_a_reason(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    match subject.try_commit(&claim, wait_for(&[])).await {
        Answer::Rejected(invalid) => assert!(invalid.to_string().contains("timeout")),
        answer @ (Answer::Committed { .. } | Answer::Cancel(_) | Answer::Lost) => {
            panic!("{answer:?}")
        }
    }
}

/// Rejected comes before lost: the outcome can never be written, with or without its claim.
pub async fn a_stale_outcome_that_cannot_be_stored_changes_nothing(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.release(&claim, seconds(0)).await;
    let row = subject.get(claim.id).await;
    let answer = subject.try_commit(&claim, requeue("\u{0}")).await;
    assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    subject.assert_unchanged(&row).await;
}

/// An error text is cleaned, never refused.
///
/// Refusing the report of a failure would hide the failure.
pub async fn error_texts_are_cleaned(subject: &Subject) {
    let nasty = format!("nul \u{0} bell \u{7} line\nend {}", "é".repeat(10_000));
    let clean = limits::clean_error(&nasty);
    assert!(clean.len() <= limits::ERROR_BYTES_MAX);
    let reason = nasty.clone();
    for outcome in [
        Outcome::fail(reason.clone()),
        Outcome::Cancel { reason },
        Outcome::Retry {
            state: json("{}"),
            delay: seconds(9),
            error: Some(nasty.clone()),
        },
    ] {
        let (_, claim) = subject.running(task()).await;
        subject.commit(&claim, outcome).await;
        let row = subject.get(claim.id).await;
        assert_eq!(row.last_error.as_ref(), Some(&clean));
    }
    let id = subject.insert(task()).await;
    let note = Note::by("ada").because(nasty);
    subject
        .store
        .terminate(vec![id], Extent::One, note.clone())
        .await
        .unwrap();
    let row = subject.get(id).await;
    assert_eq!(row.last_error, Some(note.termination()));
    let record = &subject.store.operations(Some(id)).await.unwrap()[0];
    assert_eq!(record.reason, Some(clean));
}

pub async fn an_operator_without_a_proper_name_is_refused(subject: &Subject) {
    let id = subject.insert(task()).await;
    let before = subject.get(id).await;
    for by in ["", "a\u{0}", "a\u{202e}", &long(limits::NAME_BYTES_MAX + 1)] {
        let note = || Note::by(by);
        assert_invalid(subject.store.terminate(vec![id], Extent::One, note()).await);
        assert_invalid(subject.store.retry(vec![id], note()).await);
        assert_invalid(subject.store.delete(vec![id], note()).await);
        assert_invalid(subject.store.pause(QUEUE, note()).await);
        assert_invalid(subject.store.resume(QUEUE, note()).await);
    }
    assert_invalid(subject.store.pause("", note()).await);
    assert_invalid(subject.store.resume("a\u{0}", note()).await);
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.store.operations(None).await.unwrap(), []);
}

pub async fn an_invalid_worker_is_refused(subject: &Subject) {
    let fine = NewWorker {
        name: "w".into(),
        host: "h".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: vec![],
        lease: LEASE,
    };
    let bad = [
        NewWorker {
            name: "".into(),
            ..fine.clone()
        },
        NewWorker {
            host: "\u{0}".into(),
            ..fine.clone()
        },
        NewWorker {
            name: "a\u{202e}b".into(),
            ..fine.clone()
        },
        NewWorker {
            queues: vec!["a".into(); limits::QUEUES_MAX + 1],
            ..fine.clone()
        },
        NewWorker {
            version: long(300),
            ..fine.clone()
        },
        NewWorker {
            queues: vec!["a\u{0}".into()],
            ..fine.clone()
        },
        NewWorker {
            lease: seconds(0),
            ..fine.clone()
        },
        NewWorker {
            lease: limits::LEASE_MAX + seconds(1),
            ..fine.clone()
        },
    ];
    for worker in bad {
        assert_invalid(subject.store.register(worker).await);
    }
    let worker = subject.store.register(fine).await.unwrap();
    assert_invalid(subject.store.heartbeat(worker, seconds(0)).await);
    assert_eq!(subject.store.workers().await.unwrap().len(), 1);
}

pub async fn batches_beyond_their_bound_are_refused(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let row = subject.get(claim.id).await;
    let many = limits::BATCH_MAX + 1;
    let rows = vec![task(); many];
    assert_invalid(subject.store.insert(rows, None).await);
    let signals = vec![signal(claim.id, "a"); many];
    assert_invalid(subject.store.deliver(signals, None).await);
    let commits = vec![commit_of(&claim, done()); many];
    assert_invalid(subject.store.commit(commits.into()).await);
    subject.assert_unchanged(&row).await;
    assert_eq!(subject.signals(claim.id).await, []);
}

pub async fn requests_beyond_their_bounds_are_refused(subject: &Subject) {
    let worker = subject.worker().await;
    let claim = |queue: &str, max| ClaimRequest {
        worker,
        queue: queue.into(),
        machines: machines(),
        max,
    };
    let too_many = claim(QUEUE, limits::CLAIM_MAX + 1);
    assert_invalid(subject.store.claim(too_many).await);
    assert_invalid(subject.store.claim(claim("a\u{0}", 1)).await);
    let page = ListRequest {
        limit: limits::PAGE_MAX + 1,
        ..ListRequest::default()
    };
    assert_invalid(subject.store.list(page).await);
    assert_invalid(subject.store.fire(limits::BATCH_MAX + 1).await);
    let collect = CollectRequest {
        retention: limits::DELAY_MAX + seconds(1),
        max: 1,
    };
    assert_invalid(subject.store.collect(collect).await);
    let step_count = StepCountRequest {
        after: None,
        limit: limits::STEP_COUNT_MAX + 1,
    };
    assert_invalid(subject.store.count_by_step(step_count).await);
}

/// An error value is checked before there is an outcome.
pub async fn an_error_value_has_the_limits_of_a_result(subject: &Subject) {
    let text = |bytes: usize| format!("\"{}\"", long(bytes - 2));
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let (bytes, depth) = (limits::JSON_BYTES_MAX, limits::JSON_DEPTH_MAX);
    for bad in [text(bytes + 1), nested(depth + 1), r#""\u0000""#.into()] {
        assert!(Json::parse(bad).is_err());
    }
    for fine in [text(bytes), nested(depth)] {
        let (_, claim) = subject.running(task()).await;
        subject.commit(&claim, fail_with(&fine)).await;
        assert_eq!(subject.get(claim.id).await.result, Some(json(&fine)));
    }
}

pub async fn the_largest_allowed_values_are_stored(subject: &Subject) {
    let name = "ü".repeat(limits::NAME_BYTES_MAX / 2);
    let key = "ü".repeat(limits::KEY_BYTES_MAX / 2);
    let text = format!("\"{}\"", long(limits::JSON_BYTES_MAX - 2));
    let depth = limits::JSON_DEPTH_MAX;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let row = NewInstance::new("task", name.clone(), json(&text))
        .partition_key(key.clone())
        .correlation_key(key.clone())
        .trace(key.clone());
    let (_, claim) = subject.running(row).await;
    assert_eq!(claim.trace.as_ref(), Some(&key));
    assert_eq!(claim.state.as_str(), text);
    assert_eq!(claim.step, name);
    let deep_signal = NewSignal::new(Target::Id(claim.id), name.clone(), json(&deep));
    subject.arrives(deep_signal.dedup_key(key.clone())).await;
    let names: Vec<String> = (0..limits::AWAITED_NAMES_MAX)
        .map(|n| n.to_string())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let status = subject.commit(&claim, wait_for(&names)).await;
    assert_eq!(status, Status::AwaitingSignal);
    let row = subject.get(claim.id).await;
    assert_eq!(row.correlation_key, Some(key));
    assert_eq!(row.awaits.unwrap().len(), names.len());
    assert_eq!(
        subject.signals(claim.id).await[0].payload,
        Some(json(&deep))
    );
}

/// Names with a meaning in SQL, in literals, patterns, formats, JSON, shells or terminals.
pub(in crate::suite) const ODD_NAMES: &[&str] = &[
    "'; drop table instances; --",
    "\"quoted\"",
    "a.b.c",
    "back\\slash",
    "$1",
    "$$",
    "%s %",
    "{a,b}",
    "{}",
    "(1,2)",
    "null",
    "NULL",
    "default",
    "select",
    "pg_catalog",
    "*",
    "_",
    " ",
    " leading and trailing ",
    "a,b",
    "a\u{a0}b",
    "héllo wörld",
    "日本語",
    "👩🚀",
    "e\u{301}",
    "-1",
    "9223372036854775808",
    "${HOME} `id` $(id)",
    "<script>",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

/// A name is data in every verb: it is found as it was given, and matches no other name.
pub async fn names_are_data_whatever_they_look_like(subject: &Subject) {
    let store = &subject.store;
    let mut worker = NewWorker {
        name: String::new(),
        host: "host".into(),
        version: "1".into(),
        machines: Vec::new(),
        queues: ODD_NAMES.iter().map(ToString::to_string).collect(),
        lease: LEASE,
    };
    for name in ODD_NAMES {
        worker.name = (*name).into();
        let worker = store.register(worker.clone()).await.unwrap();
        let row = NewInstance::new(*name, *name, json("{}"))
            .queue(*name)
            .partition_key(*name)
            .correlation_key(*name)
            .trace(*name);
        let id = subject.insert(row).await;
        let by = Note::by(*name).because(*name);
        assert!(store.pause(name, by.clone()).await.unwrap(), "{name}");
        assert!(store.resume(name, by).await.unwrap(), "{name}");
        let request = ClaimRequest {
            worker,
            queue: (*name).into(),
            machines: [MachineVersion::new(*name, 1)].into(),
            max: 10,
        };
        let claimed = store.claim(request.clone()).await.unwrap().claims;
        assert_eq!(ids_of(&claimed), [id], "{name}");
        let wait = Outcome::Wait {
            names: vec![(*name).into()],
            step: (*name).into(),
            state: json("{}"),
            timeout: None,
        };
        subject.commit(&claimed[0], wait).await;
        let (machine, key) = ((*name).into(), (*name).into());
        let signal = NewSignal::new(Target::Key { machine, key }, *name, json("1"));
        assert!(subject.arrives(signal.dedup_key(*name)).await.1, "{name}");
        let claimed = store.claim(request).await.unwrap().claims;
        assert_eq!(ids_of(&claimed), [id], "{name}");
        assert_eq!(names_of(claimed[0].awaited()), [*name]);
        assert_eq!(claimed[0].step, *name);
        let filter = Filter {
            machine: Some((*name).into()),
            step: Some((*name).into()),
            queue: Some((*name).into()),
            correlation_key: Some((*name).into()),
            partition_key: Some((*name).into()),
            ..Filter::default()
        };
        assert_eq!(store.count(filter).await.unwrap(), Count::Exactly(1));
        let found = store.find(name, name).await.unwrap();
        assert_eq!(found.map(|it| it.id), Some(id), "{name}");
    }
    let names: BTreeSet<String> = ODD_NAMES.iter().map(ToString::to_string).collect();
    let queues = store.queues().await.unwrap();
    assert_eq!(
        queues
            .into_iter()
            .map(|it| it.name)
            .collect::<BTreeSet<_>>(),
        names
    );
    let workers = store.workers().await.unwrap();
    assert_eq!(
        workers
            .into_iter()
            .map(|it| it.name)
            .collect::<BTreeSet<_>>(),
        names
    );
}

pub async fn requests_for_names_that_cannot_be_stored_are_refused(subject: &Subject) {
    let store = &subject.store;
    subject.insert(task().correlation_key("k")).await;
    for bad in ["", "a\u{0}b", "a\u{1b}b", &long(limits::KEY_BYTES_MAX + 1)] {
        assert_invalid(store.find(bad, "k").await);
        assert_invalid(store.find("task", bad).await);
        assert_invalid(store.pause(bad, note()).await);
        assert_invalid(store.resume(bad, note()).await);
        let set: [fn(&mut Filter) -> &mut Option<String>; 6] = [
            |filter| &mut filter.machine,
            |filter| &mut filter.step,
            |filter| &mut filter.queue,
            |filter| &mut filter.correlation_key,
            |filter| &mut filter.partition_key,
            |filter| &mut filter.error,
        ];
        for field in set {
            let mut filter = Filter::default();
            *field(&mut filter) = Some(bad.into());
            assert_invalid(store.count(filter.clone()).await);
            let page = ListRequest {
                filter,
                limit: 1,
                before: None,
                values: false,
            };
            assert_invalid(store.list(page).await);
        }
    }
}
