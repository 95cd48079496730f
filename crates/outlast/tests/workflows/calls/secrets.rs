//! With a codec, the database has no payload of a history in plain text.

use crate::support::*;
use outlast::codec::Keyring;
use outlast::prelude::*;
use outlast::store::{EventKind, limits};
use outlast::testing::{Harness, Point};
use outlast::{JobError, Status};

on_both_stores!(
    with_a_codec_no_payload_of_a_history_is_readable_in_the_database,
    without_a_codec_payloads_of_a_history_are_readable_in_the_database,
    replay_works_with_a_codec,
    with_a_codec_the_value_of_a_failure_is_stored_encoded_and_read_back,
    a_worker_with_another_key_does_not_run_the_workflow,
    with_a_codec_an_update_and_its_reply_are_stored_encoded_and_read_back,
);

/// The payload that must not be found in the database.
const MARK: &str = "4111-1111-1111";

#[derive(Signal, Serialize, Deserialize)]
struct Told(String);

#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = String)]
struct Ask(String);

/// A job that returns its argument.
#[job]
async fn echo(what: String) -> Result<String, JobError> {
    match what.starts_with("fail") {
        true => Err(JobError::fatal(what)),
        false => Ok(what),
    }
}

/// A workflow that passes its input through everything that a history records.
fn carries() -> Script {
    script(|flow, input: Value| async move {
        let mark = input.as_str().unwrap().to_owned();
        let given = mark.clone();
        let step = flow
            .step("step", async move || Ok::<_, String>(given))
            .await?;
        let given = mark.clone();
        flow.step("fails", async move || Err::<(), _>(given))
            .await
            .unwrap_err();
        let activity = flow.run(echo::with(mark.clone())).await?;
        let failed = flow.run(echo::with(format!("fail {mark}"))).await;
        failed.unwrap_err();
        let group = flow.all(vec![flow.run(echo::with(mark.clone()))]).await?;
        let Told(received) = flow.signal::<Told>().await?;
        flow.publish("mark", &mark)?;
        // As large as it may be before it is encoded.
        let whole = limits::VIEW_BYTES_MAX - 2;
        flow.publish("whole", &"x".repeat(whole))?;
        flow.sleep(SECOND).await?;
        if flow.run_number() == 1 {
            return flow.continue_as_new(&mark);
        }
        Ok((step, activity, group, received))
    })
}

fn keys(byte: u8) -> Keyring {
    Keyring::new(format!("key-{byte}"), &[byte; 32]).unwrap()
}

async fn carried(mut harness: Harness) -> Value {
    let id = begin(&harness, MARK).await;
    for _ in 0..2 {
        harness
            .client()
            .signal(id, Told(MARK.into()))
            .await
            .unwrap();
    }
    harness.crash::<Script>("run", Point::BeforeCommit);
    harness.run_all().await;
    // The client reads the plain text.
    let events = history(&harness, id, 1).await;
    assert_eq!(count(&events, EventKind::StepCompleted), 1);
    let step = only_event(&events, EventKind::StepCompleted);
    assert_eq!(data(step), json!({"result": MARK}));
    let consumed = only_event(&events, EventKind::SignalConsumed);
    assert_eq!(data(consumed)["payload"], MARK);
    let view = harness.client().admin().views(id).await.unwrap().remove(0);
    assert_eq!(view.data.decode::<String>().unwrap(), MARK);
    output(&get(&harness, id).await)
}

async fn encoded(ground: &Ground) -> Harness {
    let worker = ground.bare().codec(keys(1)).register(carries());
    worker.register(echo).build().await.unwrap()
}

async fn with_a_codec_no_payload_of_a_history_is_readable_in_the_database(ground: Ground) {
    let harness = encoded(&ground).await;
    carried(harness).await;
    assert!(!ground.everything().await.contains(MARK));
}

/// Shows that the test above can fail.
async fn without_a_codec_payloads_of_a_history_are_readable_in_the_database(ground: Ground) {
    let worker = ground.bare().register(carries()).register(echo);
    carried(worker.build().await.unwrap()).await;
    assert!(ground.everything().await.contains(MARK));
}

async fn replay_works_with_a_codec(ground: Ground) {
    let harness = encoded(&ground).await;
    let seen = carried(harness).await;
    assert_eq!(seen, json!([MARK, MARK, [MARK], MARK]));
}

/// An error whose text is no secret, and whose value is.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("the card was declined")]
struct Declined {
    card: String,
}

#[job(attempts = 1)]
async fn charge(card: String) -> Result<u64, Declined> {
    Err(Declined { card })
}

async fn with_a_codec_the_value_of_a_failure_is_stored_encoded_and_read_back(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let card = input.as_str().unwrap().to_owned();
        let failed = flow.run(charge::with(card)).await.unwrap_err();
        flow.sleep(SECOND).await?;
        let text = failed.to_string();
        Ok((text, failed.downcast::<charge>()?.card))
    });
    for is_encoded in [true, false] {
        let worker = ground.bare().register(code.clone()).register(charge);
        let worker = match is_encoded {
            true => worker.codec(keys(1)),
            false => worker,
        };
        let mut harness = worker.build().await.unwrap();
        let id = begin(&harness, MARK).await;
        harness.crash_at::<Script>("run", Point::BeforeCommit, 2);
        harness.run_all().await;
        let text = "charge failed: gave up after 1 attempt: the card was declined";
        assert_eq!(output(&get(&harness, id).await), json!([text, MARK]));
        // A client without the codec reads what is stored.
        let job = children(&ground.client, id).await.remove(0);
        let value = job.result.unwrap();
        assert_eq!(value.as_encoded().is_some(), is_encoded);
        let events = history(&ground.client, id, 1).await;
        let failed = only_event(&events, EventKind::ActivityFailed);
        assert_eq!(failed.data.as_encoded().is_some(), is_encoded);
        assert_eq!(ground.everything().await.contains(MARK), !is_encoded);
    }
}

async fn a_worker_with_another_key_does_not_run_the_workflow(ground: Ground) {
    let mut first = encoded(&ground).await;
    let id = begin_and_run(&mut first, MARK).await;
    first.client().signal(id, Told(MARK.into())).await.unwrap();
    let other = ground.bare().codec(keys(2)).register(carries());
    let mut other = other.register(echo).build().await.unwrap();
    other.run().await;
    let before = first.client().find(id).await.unwrap().unwrap();
    assert_eq!(
        before.status,
        Status::Runnable,
        "the workflow is left for a worker with the key"
    );
    first.client().signal(id, Told(MARK.into())).await.unwrap();
    first.run_all().await;
    output(&get(&first, id).await);
}

async fn with_a_codec_an_update_and_its_reply_are_stored_encoded_and_read_back(ground: Ground) {
    let code = script(|flow, _| async move {
        flow.on_update(|flow: Flow, Ask(what)| async move {
            match what.starts_with("fail") {
                true => flow.fail(format!("no {what}")),
                false => Ok(format!("yes {what}")),
            }
        })?
        .validate(|Ask(what)| match what.starts_with("reject") {
            true => Err(format!("never {what}")),
            false => Ok(()),
        });
        flow.signal::<Told>().await.map(|_| ())
    });
    let worker = ground.bare().codec(keys(1)).register(code);
    let mut harness = worker.build().await.unwrap();
    let id = begin_and_run(&mut harness, ()).await;
    let client = harness.client().clone();
    let ask = |kind: &str| {
        let what = format!("{kind} {MARK}");
        client
            .update(id, Ask(what))
            .id(kind)
            .timeout(Duration::ZERO)
    };
    for kind in ["take", "fail", "reject"] {
        assert!(ask(kind).await.is_err());
    }
    harness.run().await;
    assert_eq!(ask("take").await.unwrap(), format!("yes take {MARK}"));
    let failed = ask("fail").await.unwrap_err().to_string();
    assert_eq!(failed, format!("ask failed: no fail {MARK}"));
    let rejected = ask("reject").await.unwrap_err().to_string();
    assert_eq!(rejected, format!("ask was rejected: never reject {MARK}"));
    assert!(!ground.everything().await.contains(MARK));
    // The reply to one update is no reply to another.
    let table = "update signals set reply = (select s.reply from signals s where s.dedup_key = 'take') \
                 where dedup_key = 'fail'";
    ground.tamper(table).await;
    let swapped = ask("fail").await.unwrap_err();
    assert!(
        matches!(swapped, outlast::client::RequestError::Store(_)),
        "{swapped}"
    );
}
