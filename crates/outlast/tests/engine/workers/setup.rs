//! Refusals of an engine at its start. Every error says how to fix the setup.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
#![allow(dead_code, reason = "refused machines never run")]

use outlast::prelude::*;
use outlast::{EngineBuilder, SetupError};

fn builder() -> EngineBuilder {
    Engine::builder(Sqlite::in_memory().unwrap())
}

async fn refusal(builder: EngineBuilder) -> String {
    builder.start().await.unwrap_err().to_string()
}

/// Makes a machine of this name with this state.
macro_rules! machine {
    ($machine:ident, $name:expr, $state:ty $(, $item:item)*) => {
        struct $machine;

        impl Machine for $machine {
            const NAME: &'static str = $name;
            $($item)*
            type State = $state;
            type Output = ();

            async fn step(&self, _: $state, _cx: &Context) -> StepResult<Self> {
                Ok(Outcome::done(()))
            }
        }
    };
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Good {
    Start,
}

#[derive(Serialize, Deserialize)]
enum External {
    Start { number: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step")]
enum Internal {
    Start { number: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Start { number: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", content = "value")]
enum OtherTags {
    Start { number: u32 },
}

#[derive(Serialize, Deserialize)]
struct NoEnum {
    number: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state")]
enum NoSteps {}

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state")]
enum UnnamedStep {
    #[serde(rename = "")]
    Start,
}

machine!(Fine, "fine", Good);
machine!(FineToo, "fine", Good);
machine!(FineNext, "fine", Good, const VERSION: i32 = 2;);
machine!(Externally, "machine", External);
machine!(Internally, "machine", Internal);
machine!(Untaggedly, "machine", Untagged);
machine!(Otherwise, "machine", OtherTags);
machine!(Plainly, "machine", NoEnum);
machine!(Emptily, "machine", NoSteps);
machine!(Namelessly, "machine", UnnamedStep);
machine!(NoName, "", Good);
machine!(Slashed, "shop/order", Good);
machine!(VersionZero, "machine", Good, const VERSION: i32 = 0;);
machine!(NoQueue, "machine", Good, const QUEUE: &'static str = "";);

#[tokio::test]
async fn a_state_that_is_not_adjacently_tagged_is_refused_with_the_line_to_write() {
    let refusals = [
        refusal(builder().machine(Externally).queue("default", 1)).await,
        refusal(builder().machine(Internally).queue("default", 1)).await,
        refusal(builder().machine(Untaggedly).queue("default", 1)).await,
        refusal(builder().machine(Otherwise).queue("default", 1)).await,
        refusal(builder().machine(Plainly).queue("default", 1)).await,
        refusal(builder().machine(Emptily).queue("default", 1)).await,
    ];
    for refusal in refusals {
        assert!(
            refusal.starts_with("machine machine/1: its State "),
            "{refusal}"
        );
        let line = r#"#[serde(tag = "step", content = "state")]"#;
        assert!(refusal.contains(line), "{refusal}");
    }
}

#[tokio::test]
async fn the_refusal_of_a_state_names_its_shape() {
    let external = refusal(builder().machine(Externally).queue("default", 1)).await;
    assert!(
        external.contains("`External`, an enum without tags"),
        "{external}"
    );
    let internal = refusal(builder().machine(Internally).queue("default", 1)).await;
    assert!(
        internal.contains("tagged without a separate content"),
        "{internal}"
    );
    let untagged = refusal(builder().machine(Untaggedly).queue("default", 1)).await;
    assert!(untagged.contains("untagged"), "{untagged}");
    let other = refusal(builder().machine(Otherwise).queue("default", 1)).await;
    assert!(other.contains(r#""type" and "value""#), "{other}");
    let plain = refusal(builder().machine(Plainly).queue("default", 1)).await;
    assert!(plain.contains("`NoEnum`, a plain struct"), "{plain}");
    let empty = refusal(builder().machine(Emptily).queue("default", 1)).await;
    assert!(empty.contains("no steps"), "{empty}");
}

#[tokio::test]
async fn two_machines_of_one_name_and_version_are_refused() {
    let builder = builder().machine(Fine).machine(FineToo).queue("default", 1);
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, SetupError::MachineTwice(_)), "{error:?}");
    let message = error.to_string();
    assert!(
        message.starts_with("machine fine/1 is registered twice"),
        "{message}"
    );
    assert!(message.contains("the next VERSION"), "{message}");
}

#[tokio::test]
async fn two_versions_of_one_machine_are_fine() {
    let builder = builder()
        .machine(Fine)
        .machine(FineNext)
        .queue("default", 1);
    builder.start().await.unwrap().shutdown().await;
}

#[tokio::test]
async fn a_worker_without_queues_is_refused() {
    let error = builder().machine(Fine).start().await.unwrap_err();
    assert!(matches!(error, SetupError::NoQueues), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(r#".queue("default", 10)"#), "{message}");
    assert!(message.contains("Roles::WEB"), "{message}");
}

#[tokio::test]
async fn a_worker_without_machines_is_refused() {
    let error = builder().queue("default", 1).start().await.unwrap_err();
    assert!(matches!(error, SetupError::NoMachines), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(".machine(..)"), "{message}");
    assert!(message.contains("Roles::WEB"), "{message}");
}

#[tokio::test]
async fn a_node_that_runs_no_steps_needs_neither_machines_nor_queues() {
    for roles in [Roles::WEB, Roles::MAINTENANCE] {
        builder()
            .roles(roles)
            .start()
            .await
            .unwrap()
            .shutdown()
            .await;
    }
}

#[tokio::test]
async fn a_queue_without_slots_is_refused() {
    let message = refusal(builder().machine(Fine).queue("mail", 0)).await;
    let expected = "queue \"mail\" has 0 slots; give it between 1 and 100000";
    assert_eq!(message, expected);
    let too_many = refusal(builder().machine(Fine).queue("mail", usize::MAX)).await;
    assert!(
        too_many.contains("give it between 1 and 100000"),
        "{too_many}"
    );
}

#[tokio::test]
async fn names_that_cannot_be_stored_are_refused() {
    let named = [
        (
            refusal(builder().machine(NoName).queue("default", 1)).await,
            "machine is empty",
        ),
        (
            refusal(builder().machine(Slashed).queue("default", 1)).await,
            "contains '/'",
        ),
        (
            refusal(builder().machine(NoQueue).queue("default", 1)).await,
            "queue is empty",
        ),
        (
            refusal(builder().machine(Namelessly).queue("default", 1)).await,
            "step is empty",
        ),
        (
            refusal(builder().machine(Fine).queue("", 1)).await,
            "queue is empty",
        ),
        (
            refusal(builder().machine(Fine).queue("a\nb", 1)).await,
            "control character",
        ),
        (
            refusal(builder().machine(Fine).queue("q".repeat(201), 1)).await,
            "at most 200",
        ),
        (
            refusal(builder().machine(Fine).queue("default", 1).name("")).await,
            "worker name is empty",
        ),
    ];
    for (message, expected) in named {
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_version_below_one_is_refused() {
    let message = refusal(builder().machine(VersionZero).queue("default", 1)).await;
    assert_eq!(
        message,
        "machine machine/0: version is 0; versions start at 1"
    );
}

#[tokio::test]
async fn invalid_durations_are_refused() {
    let engine = || builder().machine(Fine).queue("default", 1);
    let lease = refusal(engine().lease(Duration::ZERO)).await;
    assert!(
        lease.contains("lease is 0ns; it must be between"),
        "{lease}"
    );
    let poll = refusal(engine().poll_interval(Duration::ZERO)).await;
    assert!(poll.contains("poll interval is zero"), "{poll}");
    let retention = refusal(engine().retention(Duration::MAX)).await;
    assert!(
        retention.contains("the longest is ten years"),
        "{retention}"
    );
}

#[tokio::test]
async fn a_store_that_is_closed_is_refused() {
    let store = Sqlite::in_memory().unwrap();
    outlast_core::Store::close(&store).await;
    let builder = Engine::builder(store).machine(Fine).queue("default", 1);
    let error = builder.start().await.unwrap_err();
    assert!(
        matches!(&error, SetupError::Store(error) if error.kind() == outlast::ErrorKind::Closed)
    );
}
