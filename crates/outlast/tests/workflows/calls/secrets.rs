//! With a codec, the database has no payload of a history in plain text.

use crate::support::*;
use outlast::EventKind;
use outlast::codec::Keyring;
use outlast::prelude::*;
use outlast::testing::{Harness, Point};
use outlast::workflow::Running;

on_both_stores!(
    with_a_codec_no_payload_of_a_history_is_readable_in_the_database,
    without_a_codec_payloads_of_a_history_are_readable_in_the_database,
    replay_works_with_a_codec,
    a_worker_with_another_key_does_not_run_the_workflow,
);

/// The payload that must not be found in the database.
const MARK: &str = "4111-1111-1111";

#[derive(Serialize, Deserialize)]
struct Told(String);

impl Signal for Told {
    const NAME: &'static str = "told";
}

/// A job that returns its argument.
struct Echo;

impl Job for Echo {
    const NAME: &'static str = "echo";
    type Args = String;
    type Output = String;

    async fn perform(&self, what: String, _: &Context) -> Result<String, JobError> {
        match what.starts_with("fail") {
            true => Err(JobError::fatal(what)),
            false => Ok(what),
        }
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
        let activity = flow.activity(Echo, mark.clone()).await?;
        let failed = flow.activity(Echo, format!("fail {mark}")).await;
        failed.unwrap_err();
        let group = flow.all(vec![flow.activity(Echo, mark.clone())]).await?;
        let Told(received) = flow.signal::<Told>().await?;
        flow.sleep(SECOND).await?;
        if flow.run() == 1 {
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
        harness.signal(id, Told(MARK.into())).await.unwrap();
    }
    harness.crash::<Running<Script>>("run", Point::BeforeCommit);
    harness.run_all().await;
    // The client reads the plain text.
    let events = history(&harness, id, 1).await;
    assert_eq!(count(&events, EventKind::StepCompleted), 1);
    let step = only_event(&events, EventKind::StepCompleted);
    assert_eq!(data(step), json!({"result": MARK}));
    let consumed = only_event(&events, EventKind::SignalConsumed);
    assert_eq!(data(consumed)["payload"], MARK);
    output(&get(&harness, id).await)
}

async fn encoded(ground: &Ground) -> Harness {
    let worker = ground.bare().codec(keys(1)).workflow(carries());
    worker.machine(Echo).build().await.unwrap()
}

async fn with_a_codec_no_payload_of_a_history_is_readable_in_the_database(ground: Ground) {
    let harness = encoded(&ground).await;
    carried(harness).await;
    assert!(!ground.everything().await.contains(MARK));
}

/// Shows that the test above can fail.
async fn without_a_codec_payloads_of_a_history_are_readable_in_the_database(ground: Ground) {
    let worker = ground.bare().workflow(carries()).machine(Echo);
    carried(worker.build().await.unwrap()).await;
    assert!(ground.everything().await.contains(MARK));
}

async fn replay_works_with_a_codec(ground: Ground) {
    let harness = encoded(&ground).await;
    let seen = carried(harness).await;
    assert_eq!(seen, json!([MARK, MARK, [MARK], MARK]));
}

async fn a_worker_with_another_key_does_not_run_the_workflow(ground: Ground) {
    let mut first = encoded(&ground).await;
    let id = begin_and_run(&mut first, MARK).await;
    first.signal(id, Told(MARK.into())).await.unwrap();
    let other = ground.bare().codec(keys(2)).workflow(carries());
    let mut other = other.machine(Echo).build().await.unwrap();
    other.run().await;
    let before = first.get(id).await.unwrap().unwrap();
    assert_eq!(
        before.status,
        Status::Runnable,
        "the workflow is left for a worker with the key"
    );
    first.signal(id, Told(MARK.into())).await.unwrap();
    first.run_all().await;
    output(&get(&first, id).await);
}
