//! Queries: the committed history is replayed where the code is, and a handler of the code answers.

use crate::support::*;
use futures_util::FutureExt;
use outlast::client::RequestError;
use outlast::engine::Roles;
use outlast::machine::Request;
use outlast::prelude::*;
use outlast::store::{Inspect, Store, limits};
use outlast::testing::{Harness, Point};
use outlast::workflow::{BLOCKED, ChildCancelAnswer, ChildSignalAnswer, OneOf2};
use outlast::{Durable, Engine, Handle, InstanceId, LookupError, Workflow};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

on_both_stores!(
    a_query_sees_the_state_of_each_park,
    a_query_changes_nothing,
    a_query_runs_no_step_and_sends_nothing_however_often_it_is_asked,
    children_are_visible_once_their_start_is_committed,
    a_handler_cannot_send_to_a_child,
    a_handler_cannot_change_its_workflow,
    an_ended_run_answers_with_its_last_state,
    a_run_that_panicked_answers_with_its_last_state,
    a_blocked_workflow_answers_where_the_code_fits,
    code_that_ends_otherwise_than_its_history_does_not_answer,
    a_run_that_no_worker_has_begun_answers,
    a_query_asks_the_newest_run,
    an_unknown_query_names_the_known_ones,
    the_last_handler_of_a_query_answers,
    a_handler_that_panics_or_fails_is_an_error_of_the_query,
    a_query_of_another_form_is_told_apart,
    a_query_needs_the_code_of_its_version,
    a_machine_answers_no_query,
    a_handler_is_not_registered_inside_a_step,
    a_query_takes_the_provided_values,
    a_handler_that_owns_its_flow_is_freed,
);

#[cfg(feature = "encryption")]
mod encoded {
    use super::*;
    use outlast::codec::Keyring;

    on_both_stores!(a_query_reads_an_encoded_history);

    async fn a_query_reads_an_encoded_history(ground: Ground) {
        let keys = || Keyring::new("key-1", &[1; 32]).unwrap();
        let worker = ground.worker().register(visits(&Log::default()));
        let mut harness = worker.codec(keys()).build().await.unwrap();
        let id = begin_and_run(&mut harness, "hall").await;
        go(&harness, id.get(), 1).await;
        harness.run().await;
        assert_eq!(visited(&harness, id).await, ["hall", "room 1"]);
        // Without the codec, no value is taken for another one.
        let plain = ground.runs(visits(&Log::default())).await;
        let refused = ask(&plain, id, Visited).await.unwrap_err();
        assert!(matches!(refused, RequestError::Blocked { .. }), "{refused}");
    }
}

mod in_real_time {
    use super::*;

    on_both_stores_in_real_time!(
        a_query_is_answered_while_the_workflow_runs_elsewhere,
        a_query_needs_an_engine_that_lives,
    );

    async fn a_query_is_answered_while_the_workflow_runs_elsewhere<S>(store: S)
    where
        S: Store + Inspect + Clone,
    {
        let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runs = Arc::new(AtomicUsize::new(0));
        let code = {
            let (begun, release, runs) = (begun.clone(), release.clone(), runs.clone());
            script(move |flow, _| {
                let (begun, release, runs) = (begun.clone(), release.clone(), runs.clone());
                async move {
                    let places = places(&flow)?;
                    number(&flow, "first", 1).await?;
                    note(&places, "first");
                    let held = flow.step("held", async move || {
                        runs.fetch_add(1, Ordering::SeqCst);
                        begun.notify_one();
                        release.notified().await;
                        Ok::<_, String>(1)
                    });
                    held.await?;
                    note(&places, "held");
                    Ok(())
                }
            })
        };
        let worker = Engine::builder(store.clone()).register(code.clone());
        let worker = worker.start().await.unwrap();
        let started = worker.start(Script::with(json!(null))).await.unwrap();
        begun.notified().await;
        // A web node has the code and runs nothing.
        let web = Engine::builder(store).register(code).roles(Roles::WEB);
        let web = web.start().await.unwrap();
        assert_eq!(visited(&web, started.id()).await, ["first"]);
        assert_eq!(visited(&worker, started.id()).await, ["first"]);
        release.notify_one();
        started.output().await.unwrap();
        assert_eq!(visited(&web, started.id()).await, ["first", "held"]);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        web.shutdown().await.unwrap();
        worker.shutdown().await.unwrap();
    }

    async fn a_query_needs_an_engine_that_lives<S: Store + Inspect + Clone>(store: S) {
        let engine = Engine::builder(store).register(visits(&Log::default()));
        let engine = engine.roles(Roles::WEB).start().await.unwrap();
        let started = engine.start(Script::with(json!("hall"))).await.unwrap();
        assert_eq!(started.query(Visited).await.unwrap(), ["hall"]);
        engine.shutdown().await.unwrap();
        drop(engine);
        let refused = started.query(Visited).await.unwrap_err();
        assert!(matches!(refused, RequestError::NoCode { .. }), "{refused}");
    }
}

/// Asks which places the workflow has visited.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = Vec<String>)]
struct Visited;

/// Asks for id and run of each child.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = Vec<(Option<InstanceId>, Option<i32>)>)]
struct Children;

/// Asks for texts.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = Vec<String>)]
struct Texts;

/// Asks for a number.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
struct Number {
    plus: u64,
}

type Places = Arc<Mutex<Vec<String>>>;

/// Registers the handler of [`Visited`].
fn places(flow: &Flow) -> FlowResult<Places> {
    let places = Places::default();
    let seen = places.clone();
    flow.on_query(move |_: Visited| Ok(seen.lock().unwrap().clone()))?;
    Ok(places)
}

fn note(places: &Places, place: impl Into<String>) {
    places.lock().unwrap().push(place.into());
}

/// A workflow that visits a room with each [`Go`], until [`Halt`].
fn visits(log: &Log) -> Script {
    let log = log.clone();
    script(move |flow, input: Value| {
        let log = log.clone();
        async move {
            let places = places(&flow)?;
            note(&places, input.as_str().unwrap_or("nowhere"));
            loop {
                let next = flow.select((flow.signal::<Go>(), flow.signal::<Halt>()));
                let OneOf2::First(Go(room)) = next.await? else {
                    return Ok(places.lock().unwrap().len());
                };
                log.step(&flow, "walk", room).await?;
                note(&places, format!("room {room}"));
            }
        }
    })
}

async fn handle(on: &impl HasClient, id: Scripted) -> Handle<Script> {
    on.client().handle(id).await.unwrap()
}

async fn ask<Q: Request>(
    on: &impl HasClient,
    id: Scripted,
    query: Q,
) -> Result<Q::Reply, RequestError> {
    handle(on, id).await.query(query).await
}

async fn visited(on: &impl HasClient, id: Scripted) -> Vec<String> {
    ask(on, id, Visited).await.unwrap()
}

async fn a_query_sees_the_state_of_each_park(ground: Ground) {
    let mut harness = ground.runs(visits(&Log::default())).await;
    let id = begin_and_run(&mut harness, "hall").await;
    let mut expected = vec!["hall".to_owned()];
    for room in 1..5 {
        assert_eq!(visited(&harness, id).await, expected);
        go(&harness, id.get(), room).await;
        // The signal has come, and no commit has consumed it.
        assert_eq!(visited(&harness, id).await, expected);
        harness.run().await;
        expected.push(format!("room {room}"));
    }
    harness.crash::<Script>("run", Point::BeforeCommit);
    go(&harness, id.get(), 5).await;
    harness.run().await;
    expected.push("room 5".into());
    assert_eq!(visited(&harness, id).await, expected);
}

async fn a_query_changes_nothing(ground: Ground) {
    let mut harness = ground.runs(visits(&Log::default())).await;
    let id = begin_and_run(&mut harness, "hall").await;
    for _ in 0..2 {
        let before = (get(&harness, id).await, history_words(&harness, id).await);
        let everything = ground.everything().await;
        for _ in 0..3 {
            visited(&harness, id).await;
            ask(&harness, id, Texts).await.unwrap_err();
        }
        assert!(
            everything == ground.everything().await,
            "nothing is written"
        );
        let after = (get(&harness, id).await, history_words(&harness, id).await);
        assert_eq!(before.0.revision, after.0.revision);
        assert_eq!(before.0.events, after.0.events);
        assert_eq!(before.0.updated_at, after.0.updated_at);
        assert_eq!(before.1, after.1);
        go(&harness, id.get(), 1).await;
    }
}

async fn a_query_runs_no_step_and_sends_nothing_however_often_it_is_asked(ground: Ground) {
    let log = Log::default();
    let code = {
        let log = log.clone();
        script(move |flow, _| {
            let log = log.clone();
            async move {
                let places = places(&flow)?;
                let kid = flow.spawn(Kid::with(Say::Wait)).await?;
                log.step(&flow, "step", 1).await?;
                note(&places, "step");
                let told = kid.child().signal(Go(7)).await?;
                assert_eq!(told, ChildSignalAnswer::Delivered);
                note(&places, "told");
                let end = kid.join().await?;
                note(&places, format!("kid {end}"));
                flow.signal::<Halt>().await?;
                Ok(())
            }
        })
    };
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    for _ in 0..20 {
        assert!(visited(&harness, id).await.is_empty());
    }
    assert!(children(&harness, id).await.is_empty());
    assert_eq!(log.times("step"), 0);
    harness.run().await;
    for _ in 0..20 {
        assert_eq!(visited(&harness, id).await, ["step", "told", "kid 7"]);
    }
    assert_eq!(log.times("step"), 1);
    let kid = children(&harness, id).await[0].id;
    let signals = harness.client().admin().signals(kid, None).await.unwrap();
    assert_eq!(signals.len(), 1);
    assert_eq!(children(&harness, id).await.len(), 1);
}

/// Registers the handler of [`Children`].
fn shows_children(flow: &Flow) -> FlowResult<()> {
    let inner = flow.clone();
    flow.on_query(move |_: Children| {
        let children = inner.children();
        Ok(children.iter().map(|it| (it.id(), it.run())).collect())
    })
}

async fn children_are_visible_once_their_start_is_committed(ground: Ground) {
    let code = script(|flow, _| async move {
        shows_children(&flow)?;
        flow.signal::<Go>().await?;
        let kids = [Say::Wait, Say::Wait].map(|say| flow.run(Kid::with(say)));
        flow.all(kids).await?;
        flow.signal::<Halt>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    assert_eq!(ask(&harness, id, Children).await.unwrap(), []);
    harness.run().await;
    assert_eq!(ask(&harness, id, Children).await.unwrap(), []);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    // The children are started, and the workflow has not been woken since.
    let words = history_words(&harness, id).await;
    assert!(!words.iter().any(|it| it.starts_with("child_started")));
    let stored = children(&harness, id).await;
    let stored: Vec<_> = stored.iter().map(|it| (Some(it.id), Some(1))).collect();
    assert_eq!(stored.len(), 2);
    assert_eq!(ask(&harness, id, Children).await.unwrap(), stored);
    for (kid, _) in &stored {
        go(&harness, kid.unwrap(), 1).await;
    }
    harness.run().await;
    assert_eq!(ask(&harness, id, Children).await.unwrap(), stored);
}

async fn a_handler_cannot_send_to_a_child(ground: Ground) {
    let code = script(|flow, _| async move {
        let inner = flow.clone();
        flow.on_query(move |_: Texts| {
            let child = inner.last_child().expect("it is started");
            let now = |answer: Option<FlowResult<String>>| match answer {
                Some(Ok(answer)) => answer,
                Some(Err(error)) => error.to_string(),
                None => "it waits".into(),
            };
            let signal = child.signal(Go(1)).into_future();
            let signal = signal.map(|it| it.map(|it: ChildSignalAnswer| format!("{it:?}")));
            let cancel = child.cancel("a query").into_future();
            let cancel = cancel.map(|it| it.map(|it: ChildCancelAnswer| format!("{it:?}")));
            Ok(vec![now(signal.now_or_never()), now(cancel.now_or_never())])
        })?;
        flow.run(Kid::with(Say::Wait)).await
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let refused = ask(&harness, id, Texts).await.unwrap();
    for refused in refused {
        assert!(
            refused.contains("the handler of a query, which only reads"),
            "{refused}"
        );
    }
    harness.run().await;
    let kid = get(&harness, children(&harness, id).await[0].id).await;
    assert!(kid.cancel.is_none());
    let signals = harness
        .client()
        .admin()
        .signals(kid.id, None)
        .await
        .unwrap();
    assert!(signals.is_empty(), "{signals:?}");
}

async fn a_handler_cannot_change_its_workflow(ground: Ground) {
    let log = Log::default();
    let code = {
        let log = log.clone();
        script(move |flow, _| {
            let log = log.clone();
            async move {
                let (inner, places) = (flow.clone(), places(&flow)?);
                flow.on_query(move |_: Texts| {
                    note(&places, "the handler");
                    let step = log.step(&inner, "step", 1).into_future().now_or_never();
                    let child = inner.run(Kid::with(Say::Wait)).into_future().now_or_never();
                    let published = inner.publish("view", &1);
                    let registered = inner.on_query(|_: Number| Ok(1));
                    Ok(vec![
                        step.unwrap().unwrap_err().to_string(),
                        child.unwrap().unwrap_err().to_string(),
                        published.unwrap_err().to_string(),
                        registered.unwrap_err().to_string(),
                    ])
                })?;
                flow.signal::<Go>().await?;
                Ok(())
            }
        })
    };
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    for refused in ask(&harness, id, Texts).await.unwrap() {
        assert!(refused.contains("which only reads"), "{refused}");
    }
    harness.run().await;
    assert!(log.entries().is_empty() && children(&harness, id).await.is_empty());
    let views = harness.client().admin().views(id).await.unwrap();
    assert!(views.is_empty());
    // What a handler changes in memory is gone with its answer.
    assert!(visited(&harness, id).await.is_empty());
}

async fn an_ended_run_answers_with_its_last_state(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let places = places(&flow)?;
        note(&places, "begun");
        let signal = flow.signal::<Go>().await;
        note(&places, "woken");
        signal?;
        match input.as_str().unwrap() {
            "fails" => flow.fail("broken"),
            _ => Ok(()),
        }
    });
    let mut harness = ground.runs(code).await;
    for input in ["done", "fails", "cancelled", "terminated", "timed out"] {
        let new = Script::with(json!(input)).timeout(MINUTE);
        let started = harness.start(new).await.unwrap();
        let id = started.id();
        harness.run().await;
        match input {
            "cancelled" => drop(started.cancel(ada()).await.unwrap()),
            "terminated" => drop(started.terminate(ada()).await.unwrap()),
            "timed out" => harness.advance(MINUTE).await,
            _ => go(&harness, id.get(), 1).await,
        }
        harness.run().await;
        assert!(started.status().await.unwrap().is_terminal());
        let expected: &[&str] = match input {
            "terminated" | "timed out" => &["begun"],
            _ => &["begun", "woken"],
        };
        assert_eq!(visited(&harness, id).await, expected, "{input}");
        if input == "fails" {
            // Until a worker begins the next run, the history is that of the last one.
            harness.client().admin().retry(id, ada()).await.unwrap();
            assert_eq!(visited(&harness, id).await, expected);
            harness.run().await;
            assert_eq!(visited(&harness, id).await, ["begun"]);
        }
    }
}

async fn a_run_that_panicked_answers_with_its_last_state(ground: Ground) {
    let code = script(|flow, _| async move {
        let places = places(&flow)?;
        number(&flow, "one", 1).await?;
        note(&places, "one");
        if places.lock().is_ok() {
            panic!("a mistake");
        }
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert!(reason(&get(&harness, id).await).contains("a mistake"));
    assert_eq!(visited(&harness, id).await, ["one"]);
}

async fn a_blocked_workflow_answers_where_the_code_fits(ground: Ground) {
    let step = |name: &'static str| {
        script(move |flow, _| async move {
            let places = places(&flow)?;
            number(&flow, name, 1).await?;
            note(&places, name);
            flow.signal::<Go>().await?;
            Ok(())
        })
    };
    let mut fits = ground.runs(step("old")).await;
    let id = begin_and_run(&mut fits, ()).await;
    go(&fits, id.get(), 1).await;
    let mut differs = ground.runs(step("new")).await;
    differs.run().await;
    let error = get(&differs, id).await.last_error.unwrap();
    assert!(error.starts_with(BLOCKED), "{error}");
    assert_eq!(visited(&fits, id).await, ["old"]);
    let refused = ask(&differs, id, Visited).await.unwrap_err();
    let RequestError::Blocked {
        id: blocked,
        expected,
        found,
    } = refused
    else {
        panic!("{refused}");
    };
    assert_eq!(blocked, id.get());
    let history = "step_completed \"old\" of call 1";
    assert!(expected.contains(history), "{expected}");
    assert!(found.contains("call 1: step \"new\""), "{found}");
}

async fn code_that_ends_otherwise_than_its_history_does_not_answer(ground: Ground) {
    let ends = |how: &'static str| {
        script(move |flow, _| async move {
            places(&flow)?;
            number(&flow, "one", 1).await?;
            match how {
                "fails" => flow.fail("broken"),
                "waits" => Ok(flow.signal::<Go>().await?.0),
                "panics" => panic!("a mistake"),
                _ => Ok(1),
            }
        })
    };
    let mut done = ground.runs(ends("done")).await;
    let id = begin_and_run(&mut done, ()).await;
    assert!(visited(&done, id).await.is_empty());
    for how in ["fails", "waits", "panics"] {
        let other = ground.runs(ends(how)).await;
        let refused = ask(&other, id, Visited).await.unwrap_err().to_string();
        assert!(
            refused.contains("the history has event 3: run_completed"),
            "{refused}"
        );
    }
}

async fn a_run_that_no_worker_has_begun_answers(ground: Ground) {
    let code = script(|flow, _| async move {
        let draw = flow.random();
        flow.on_query(move |query: Number| Ok(draw.wrapping_add(query.plus)))?;
        flow.signal::<Go>().await?;
        Ok(draw)
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    let before = get(&harness, id).await;
    let drawn = ask(&harness, id, Number { plus: 0 }).await.unwrap();
    let after = get(&harness, id).await;
    assert_eq!((after.revision, after.events), (before.revision, 0));
    assert!(history(&harness, id, 1).await.is_empty());
    harness.run().await;
    assert_eq!(
        ask(&harness, id, Number { plus: 1 }).await.unwrap(),
        drawn.wrapping_add(1)
    );
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(
        output(&get(&harness, id).await),
        json!(drawn),
        "the run draws the same"
    );
}

async fn a_query_asks_the_newest_run(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let places = places(&flow)?;
        note(&places, format!("run {} with {input}", flow.run_number()));
        flow.signal::<Go>().await?;
        flow.continue_as_new::<_, ()>(2)
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, 1).await;
    assert_eq!(visited(&harness, id).await, ["run 1 with 1"]);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(visited(&harness, id).await, ["run 2 with 2"]);
}

async fn an_unknown_query_names_the_known_ones(ground: Ground) {
    let code = script(|flow, _| async move {
        places(&flow)?;
        shows_children(&flow)?;
        flow.signal::<Go>().await?;
        flow.on_query(|_: Texts| Ok(vec!["late".into()]))?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let refused = ask(&harness, id, Texts).await.unwrap_err();
    let RequestError::NoHandler { request, known, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(request, "texts");
    assert_eq!(known, ["children", "visited"]);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(ask(&harness, id, Texts).await.unwrap(), ["late"]);
    let names = harness.client().admin().queries(id).await.unwrap();
    assert_eq!(names, ["children", "texts", "visited"]);
    let nobody = InstanceId(999_999);
    let refused = harness.client().admin().queries(nobody).await.unwrap_err();
    assert!(matches!(
        refused,
        RequestError::Lookup(LookupError::NotFound { .. })
    ));
}

async fn the_last_handler_of_a_query_answers(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_query(|_: Number| Ok(1))?;
        flow.signal::<Go>().await?;
        flow.on_query(|_: Number| Ok(2))?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    assert_eq!(ask(&harness, id, Number { plus: 0 }).await.unwrap(), 1);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(ask(&harness, id, Number { plus: 0 }).await.unwrap(), 2);
}

async fn a_handler_that_panics_or_fails_is_an_error_of_the_query(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_query(|query: Number| match query.plus {
            0 => panic!("no number"),
            1 => Err("one is too little".into()),
            2 => {
                tokio::spawn(async {});
                Ok(2)
            }
            plus => Ok(plus),
        })?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let wrong = ["panicked: no number", "one is too little", "spawns a task"];
    for (plus, expected) in (0..).zip(wrong) {
        let refused = ask(&harness, id, Number { plus }).await.unwrap_err();
        let RequestError::Failed { request, error } = refused else {
            panic!("{refused}");
        };
        assert_eq!(request, "number");
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(ask(&harness, id, Number { plus: 3 }).await.unwrap(), 3);
    go(&harness, id.get(), 1).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!(null));
}

async fn a_query_of_another_form_is_told_apart(ground: Ground) {
    /// The query `number` as another build has it.
    #[derive(Signal, Serialize, Deserialize)]
    #[signal(name = "number", reply = String)]
    struct Other {
        plus: u64,
    }
    let code = script(|flow, _| async move {
        flow.on_query(|query: Number| Ok(query.plus))?;
        flow.signal::<Go>().await?;
        Ok(())
    });
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let refused = ask(&harness, id, Other { plus: 1 }).await.unwrap_err();
    assert!(
        matches!(refused, RequestError::Undecodable { .. }),
        "{refused}"
    );
    let wrong = outlast::store::Json::of(&"seven").unwrap();
    let refused = harness.client().admin().query(id, "number", &wrong).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, RequestError::Malformed { .. }),
        "{refused}"
    );
}

/// The second version of the workflow of the tests.
struct Second;

impl Durable for Second {
    const NAME: &'static str = "script";
    const VERSION: i32 = 2;
    type Input = Value;
    type Output = Value;
}

impl Workflow for Second {
    async fn run(&self, flow: Flow, input: Value) -> FlowResult<Value> {
        places(&flow)?;
        Ok(input)
    }
}

async fn a_query_needs_the_code_of_its_version(ground: Ground) {
    let mut harness = ground.runs(visits(&Log::default())).await;
    let id = begin_and_run(&mut harness, "hall").await;
    let second = ground.bare().register(Second).build().await.unwrap();
    // A client of its own has no code at all.
    for refused in [
        ask(&second, id, Visited).await.unwrap_err(),
        ask(&ground.client, id, Visited).await.unwrap_err(),
    ] {
        assert!(matches!(refused, RequestError::NoCode { .. }), "{refused}");
        let text = refused.to_string();
        assert!(
            text.contains("script/1 is not here; ask a process"),
            "{text}"
        );
    }
    assert_eq!(visited(&harness, id).await, ["hall"]);
}

async fn a_machine_answers_no_query(ground: Ground) {
    let harness = ground.runs_children().await;
    let machine = harness.start(Turnstile::with(Turn::Wait(1))).await.unwrap();
    let job = harness.start(double::with(1)).await.unwrap();
    for id in [machine.id().get(), job.id().get()] {
        let refused = harness.client().admin().queries(id).await.unwrap_err();
        assert!(
            matches!(refused, RequestError::NotAWorkflow { .. }),
            "{refused}"
        );
    }
}

async fn a_handler_is_not_registered_inside_a_step(ground: Ground) {
    let code = script(|flow, _| async move {
        let inner = flow.clone();
        let step = flow.step("step", async move || {
            let registered = inner.on_query(|_: Number| Ok(1));
            Ok::<_, String>(registered.unwrap_err().to_string())
        });
        let refused = step.await?;
        for number in 0..limits::QUERIES_MAX {
            // The same name again needs no further place.
            flow.on_query(move |_: Number| Ok(number as u64))?;
        }
        Ok(refused)
    });
    let refused = result_of(&ground, code, ()).await;
    assert!(
        refused.as_str().unwrap().contains("inside a step"),
        "{refused}"
    );
}

struct Sender(&'static str);

#[workflow]
async fn letter(flow: Flow, to: String, sender: Data<Sender>) -> FlowResult<()> {
    let line = format!("from {} to {to}", sender.0);
    flow.on_query(move |_: Texts| Ok(vec![line.clone()]))?;
    flow.signal::<Go>().await?;
    Ok(())
}

async fn a_query_takes_the_provided_values(ground: Ground) {
    let worker = ground.bare().register(letter).provide(Sender("Ada"));
    let mut harness: Harness = worker.build().await.unwrap();
    let started = harness.start(letter::with("Grace".into())).await.unwrap();
    assert_eq!(started.query(Texts).await.unwrap(), ["from Ada to Grace"]);
    harness.run().await;
    assert_eq!(started.query(Texts).await.unwrap(), ["from Ada to Grace"]);
}

async fn a_handler_that_owns_its_flow_is_freed(ground: Ground) {
    let owned = Arc::new(());
    let code = {
        let owned = owned.clone();
        script(move |flow, _| {
            let owned = owned.clone();
            async move {
                let inner = flow.clone();
                flow.on_query(move |_: Number| {
                    let _owned = &owned;
                    Ok(inner.children().len() as u64)
                })?;
                flow.signal::<Go>().await?;
                Ok(())
            }
        })
    };
    let mut harness = ground.runs(code).await;
    let id = begin_and_run(&mut harness, ()).await;
    let before = Arc::strong_count(&owned);
    ask(&harness, id, Number { plus: 0 }).await.unwrap();
    ask(&harness, id, Visited).await.unwrap_err();
    harness.client().admin().queries(id).await.unwrap();
    assert_eq!(Arc::strong_count(&owned), before);
    assert_eq!(before, 2, "the one here and the one of the code");
}
