//! With a codec the database never sees what a history carries.

use crate::support::*;
use outlast::EventKind;
use outlast::codec::Keyring;
use outlast::prelude::*;
use outlast::testing::{Harness, Point};
use outlast::workflow::Running;

on_both_stores!(
    nothing_that_a_history_carries_can_be_found_in_the_database,
    a_history_without_a_codec_can_be_found_in_the_database,
    replay_works_with_a_codec,
    who_has_another_key_does_not_run_it,
);

/// What must not be found.
const MARK: &str = "4111-1111-1111";

#[derive(Serialize, Deserialize)]
struct Told(String);

impl Signal for Told {
    const NAME: &'static str = "told";
}

/// A job that gives back what it is given.
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

/// Carries its input through everything that a history records.
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
        let Told(told) = flow.signal::<Told>().await?;
        flow.sleep(SECOND).await?;
        if flow.run() == 1 {
            return flow.continue_as_new(&mark);
        }
        Ok((step, activity, group, told))
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
    // Who is asked for it reads it.
    let events = history(&harness, id, 1).await;
    assert_eq!(count(&events, EventKind::StepCompleted), 1);
    let step = the(&events, EventKind::StepCompleted);
    assert_eq!(data(step), json!({"result": MARK}));
    let consumed = the(&events, EventKind::SignalConsumed);
    assert_eq!(data(consumed)["payload"], MARK);
    output(&get(&harness, id).await)
}

async fn encoded(ground: &Ground) -> Harness {
    let worker = ground.bare().codec(keys(1)).workflow(carries());
    worker.machine(Echo).build().await.unwrap()
}

async fn nothing_that_a_history_carries_can_be_found_in_the_database(ground: Ground) {
    let harness = encoded(&ground).await;
    carried(harness).await;
    assert!(!ground.everything().await.contains(MARK));
}

/// So that the test above can fail.
async fn a_history_without_a_codec_can_be_found_in_the_database(ground: Ground) {
    let worker = ground.bare().workflow(carries()).machine(Echo);
    carried(worker.build().await.unwrap()).await;
    assert!(ground.everything().await.contains(MARK));
}

async fn replay_works_with_a_codec(ground: Ground) {
    let harness = encoded(&ground).await;
    let seen = carried(harness).await;
    assert_eq!(seen, json!([MARK, MARK, [MARK], MARK]));
}

async fn who_has_another_key_does_not_run_it(ground: Ground) {
    let mut first = encoded(&ground).await;
    let id = ran(&mut first, MARK).await;
    first.signal(id, Told(MARK.into())).await.unwrap();
    let other = ground.bare().codec(keys(2)).workflow(carries());
    let mut other = other.machine(Echo).build().await.unwrap();
    other.run().await;
    let before = first.get(id).await.unwrap().unwrap();
    assert_eq!(
        before.status,
        Status::Runnable,
        "it is left for who has the key"
    );
    first.signal(id, Told(MARK.into())).await.unwrap();
    first.run_all().await;
    output(&get(&first, id).await);
}
