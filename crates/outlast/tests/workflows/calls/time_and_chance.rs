//! Times and random values are the same whenever a run replays, and differ between runs.

use crate::support::*;
use outlast::store::{Clock, Timestamp};
use outlast::testing::Point;

on_both_stores!(
    now_is_the_time_of_the_store,
    now_advances_with_the_recorded_events,
    now_random_and_uuid_are_the_same_on_replay,
    now_after_a_step_is_the_time_at_which_its_result_was_written,
    random_and_uuid_differ_between_instances_and_runs,
    a_uuid_has_the_format_of_version_4,
    a_uuid_before_the_first_commit_is_the_same_after_a_crash,
);

async fn now_is_the_time_of_the_store(ground: Ground) {
    ground.clock.set(Timestamp(1_234_567_890_000_000));
    let code = script(|flow, _| async move {
        let now = flow.now();
        let since = now.duration_since(std::time::UNIX_EPOCH)?;
        Ok((flow.timestamp(), since.as_micros() as i64))
    });
    let seen = result_of(&ground, code, ()).await;
    let now = ground.clock.now();
    assert_eq!(seen, json!([now, now.0]));
}

async fn now_advances_with_the_recorded_events(ground: Ground) {
    let clock = ground.clock.clone();
    let begun = clock.now();
    let code = script(move |flow, _| {
        let clock = clock.clone();
        async move {
            let mut seen = vec![flow.timestamp()];
            let step = flow.step("takes a second", async move || {
                clock.advance(SECOND);
                Ok::<_, String>(())
            });
            step.await?;
            seen.push(flow.timestamp());
            flow.sleep(2 * SECOND).await?;
            seen.push(flow.timestamp());
            flow.run(Kid::with(Say::Sleep(3_000, 1))).await?;
            seen.push(flow.timestamp());
            flow.signal::<Go>().await?;
            seen.push(flow.timestamp());
            Ok(seen)
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.run_all().await;
    harness.advance(4 * SECOND).await;
    go(&harness, id.get(), 1).await;
    harness.advance(5 * SECOND).await;
    harness.run().await;
    let seen = output(&get(&harness, id).await);
    let seen: Vec<Timestamp> = serde_json::from_value(seen).unwrap();
    let seconds: Vec<_> = seen.iter().map(|it| it.since(begun).as_secs()).collect();
    assert_eq!(
        seconds,
        [0, 1, 3, 6, 10],
        "the time after a signal is that of its arrival"
    );
}

async fn now_after_a_step_is_the_time_at_which_its_result_was_written(ground: Ground) {
    let log = Log::default();
    let (clock, begun, written) = (ground.clock.clone(), ground.clock.now(), log.clone());
    let code = script(move |flow, _| {
        let (clock, log) = (clock.clone(), written.clone());
        async move {
            let takes = async |name: &str| {
                let (clock, log) = (clock.clone(), log.clone());
                let noted = name.to_owned();
                let step = flow.step(name, async move || {
                    log.note(noted);
                    clock.advance(SECOND);
                    Ok::<_, String>(())
                });
                step.await
            };
            takes("one").await?;
            let first = flow.timestamp();
            takes("two").await?;
            let second = flow.timestamp();
            flow.signal::<Go>().await?;
            Ok((first, second))
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    go(&harness, id.get(), 1).await;
    harness.advance(SECOND).await;
    harness.run().await;
    let seen = output(&get(&harness, id).await);
    let seen: Vec<Timestamp> = serde_json::from_value(seen).unwrap();
    assert_eq!(seen, [begun + SECOND, begun + 2 * SECOND]);
    assert_eq!(log.entries(), ["one", "two"], "no step has run again");
    let steps = history(&harness, id, 1).await;
    let steps = steps
        .iter()
        .filter(|event| !event.name.is_empty() && event.call.is_some());
    let at: Vec<Timestamp> = steps.map(|event| event.at).take(2).collect();
    assert_eq!(at, seen);
}

/// A workflow that asks for the time and for random values between all kinds of calls.
fn draws(log: &Log) -> Script {
    let log = log.clone();
    script(move |flow, _| {
        let log = log.clone();
        async move {
            let mut seen = Vec::new();
            let mut draw = |at: &str| {
                let drawn = format!(
                    "{at}: {:?} {} {}",
                    flow.timestamp(),
                    flow.random(),
                    flow.uuid()
                );
                log.note(drawn.clone());
                seen.push(drawn);
            };
            draw("at first");
            number(&flow, "one", 1).await?;
            draw("after a step");
            flow.run(double::with(1)).await?;
            draw("after an activity");
            flow.sleep(SECOND).await?;
            draw("after a timer");
            flow.signal::<Go>().timeout(SECOND).await?;
            draw("after a timeout");
            flow.spawn(Kid::with(Say::Give(1))).await?;
            flow.version("change", 0, 1);
            draw("after a start");
            number(&flow, "two", 2).await?;
            draw("after all");
            Ok(seen)
        }
    })
}

async fn now_random_and_uuid_are_the_same_on_replay(ground: Ground) {
    for point in [Point::BeforeStep, Point::BeforeCommit, Point::AfterCommit] {
        for nth in 1..=6 {
            let log = Log::default();
            let mut harness = ground.runs(draws(&log)).await;
            let id = begin(&harness, ()).await;
            harness.crash_at::<Script>("run", point, nth);
            let report = harness.run_all().await;
            assert_eq!(report.crashes, 1, "{point:?} {nth}");
            let seen = output(&get(&harness, id).await);
            let seen: Vec<String> = serde_json::from_value(seen).unwrap();
            // Every value that any attempt drew is in the final result.
            for drawn in log.entries() {
                assert!(seen.contains(&drawn), "{drawn} is not in {seen:#?}");
            }
            assert_eq!(seen.len(), 7);
        }
    }
}

async fn random_and_uuid_differ_between_instances_and_runs(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let mut seen: Vec<String> = serde_json::from_value(input)?;
        seen.push(flow.random().to_string());
        seen.push(flow.random().to_string());
        seen.push(flow.uuid());
        seen.push(flow.uuid());
        match flow.run_number() {
            2 => Ok(seen),
            _ => flow.continue_as_new(seen),
        }
    });
    let mut harness = ground.runs(code).await;
    let mut all = std::collections::HashSet::new();
    for _ in 0..10 {
        let id = begin_and_run(&mut harness, Vec::<String>::new()).await;
        let seen = output(&get(&harness, id).await);
        let seen: Vec<String> = serde_json::from_value(seen).unwrap();
        assert_eq!(seen.len(), 8);
        all.extend(seen);
    }
    assert_eq!(all.len(), 80);
}

async fn a_uuid_has_the_format_of_version_4(ground: Ground) {
    let code =
        script(|flow, _| async move { Ok((0..100).map(|_| flow.uuid()).collect::<Vec<_>>()) });
    let seen = result_of(&ground, code, ()).await;
    for uuid in seen.as_array().unwrap() {
        let parts: Vec<_> = uuid.as_str().unwrap().split('-').collect();
        let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert!(parts.concat().chars().all(|it| it.is_ascii_hexdigit()));
        assert!(parts[2].starts_with('4'), "{uuid}");
        assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
    }
}

async fn a_uuid_before_the_first_commit_is_the_same_after_a_crash(ground: Ground) {
    let log = Log::default();
    let written = log.clone();
    let code = script(move |flow, _| {
        let log = written.clone();
        async move {
            let key = flow.uuid();
            let pay = flow.step("pay", async move || {
                log.note(key);
                Ok::<_, String>(())
            });
            pay.await
        }
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    harness.crash::<Script>("run", Point::BeforeCommit);
    harness.run().await;
    harness.expect(id).await.is_done();
    let keys = log.entries();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}
