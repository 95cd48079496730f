//! The setup of an engine: what `start` refuses, and which queues a worker serves. Every error
//! says how to fix the setup.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
#![allow(dead_code, reason = "refused machines never run")]

use crate::support::{LONG, insert, on_both_stores};
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{ErrorKind, Inspect, Store};
use outlast::{Durable, Error, Job, JobError, Roles, SetupError, Sqlite, Status, Workflow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Barrier, Semaphore};

on_both_stores!(
    the_queues_of_registered_definitions_are_served_without_being_named,
    a_named_queue_changes_only_its_own_slots,
    only_named_queues_leaves_the_others_to_other_workers,
    a_refused_engine_registers_no_worker,
);

fn builder() -> EngineBuilder {
    Engine::sqlite_in_memory().unwrap()
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
                done(())
            }
        }
    };
}

#[steps]
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

/// A value that a job and a workflow take.
struct Postbox;

#[job]
async fn remind(name: String, _postbox: Data<Postbox>) -> std::io::Result<String> {
    Ok(format!("to {name}"))
}

#[workflow]
async fn renew(_flow: Flow, _postbox: Data<Postbox>) -> FlowResult<()> {
    Ok(())
}

#[job(name = "fine")]
async fn fine_job() -> std::io::Result<()> {
    Ok(())
}

#[workflow(name = "fine")]
async fn fine_workflow(_flow: Flow) -> FlowResult<()> {
    Ok(())
}

/// The macros refuse an empty name, so these are written by hand.
struct NamelessJob;

impl Job for NamelessJob {
    const NAME: &'static str = "";
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), _cx: &Context) -> Result<(), JobError> {
        Ok(())
    }
}

struct QueuelessJob;

impl Job for QueuelessJob {
    const NAME: &'static str = "queueless_job";
    const QUEUE: &'static str = "";
    type Args = ();
    type Output = ();

    async fn perform(&self, (): (), _cx: &Context) -> Result<(), JobError> {
        Ok(())
    }
}

#[workflow(name = "shop/order")]
async fn slashed_workflow(_flow: Flow) -> FlowResult<()> {
    Ok(())
}

#[workflow(queue = "a\nb")]
async fn control_queue(_flow: Flow) -> FlowResult<()> {
    Ok(())
}

const ZERO: i32 = 0;

#[workflow(version = ZERO)]
async fn version_zero_workflow(_flow: Flow) -> FlowResult<()> {
    Ok(())
}

struct UnnamedWorkflow;

impl Durable for UnnamedWorkflow {
    const NAME: &'static str = "";
    type Input = ();
    type Output = ();
}

impl Workflow for UnnamedWorkflow {
    async fn run(&self, _flow: Flow, (): ()) -> FlowResult<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_state_that_is_not_adjacently_tagged_is_refused_with_the_line_to_write() {
    let refusals = [
        refusal(builder().register(Externally)).await,
        refusal(builder().register(Internally)).await,
        refusal(builder().register(Untaggedly)).await,
        refusal(builder().register(Otherwise)).await,
        refusal(builder().register(Plainly)).await,
        refusal(builder().register(Emptily)).await,
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
    let external = refusal(builder().register(Externally)).await;
    assert!(
        external.contains("`External`, an enum without tags"),
        "{external}"
    );
    let internal = refusal(builder().register(Internally)).await;
    assert!(
        internal.contains("tagged without a separate content"),
        "{internal}"
    );
    let untagged = refusal(builder().register(Untaggedly)).await;
    assert!(untagged.contains("untagged"), "{untagged}");
    let other = refusal(builder().register(Otherwise)).await;
    assert!(other.contains(r#""type" and "value""#), "{other}");
    let plain = refusal(builder().register(Plainly)).await;
    assert!(plain.contains("`NoEnum`, a plain struct"), "{plain}");
    let empty = refusal(builder().register(Emptily)).await;
    assert!(empty.contains("no steps"), "{empty}");
}

#[tokio::test]
async fn two_machines_of_one_name_and_version_are_refused() {
    let builder = builder().register(Fine).register(FineToo);
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, SetupError::MachineTwice(_)), "{error:?}");
    let message = error.to_string();
    assert!(
        message.starts_with("fine/1 is registered twice"),
        "{message}"
    );
    assert!(message.contains("the next version"), "{message}");
}

#[tokio::test]
async fn a_definition_that_is_registered_twice_is_refused_with_its_name_and_the_change() {
    let twice = [
        (builder().register(Fine).register(Fine), "fine/1"),
        (builder().register(remind).register(remind), "remind/1"),
        (builder().register(renew).register(renew), "renew/1"),
    ];
    for (builder, definition) in twice {
        let error = builder.start().await.unwrap_err();
        let SetupError::MachineTwice(found) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(found.to_string(), definition);
        assert_eq!(
            error.to_string(),
            format!(
                "{definition} is registered twice; give one of them another name, \
                 or the next version if it replaces the other"
            )
        );
    }
}

#[tokio::test]
async fn machines_jobs_and_workflows_share_one_set_of_names() {
    let shared = [
        builder().register(Fine).register(fine_job),
        builder().register(fine_job).register(fine_workflow),
        builder().register(fine_workflow).register(Fine),
    ];
    for builder in shared {
        let error = builder.start().await.unwrap_err();
        assert!(matches!(error, SetupError::MachineTwice(_)), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("fine/1 is registered twice"), "{message}");
        assert!(message.contains("another name"), "{message}");
    }
}

#[tokio::test]
async fn a_missing_value_is_refused_with_its_type_and_the_line_to_write() {
    for builder in [builder().register(remind), builder().register(renew)] {
        let error = builder.start().await.unwrap_err();
        let SetupError::MissingData {
            definition,
            missing,
        } = &error
        else {
            panic!("{error:?}");
        };
        let type_name = std::any::type_name::<Postbox>();
        assert_eq!(missing.type_name, type_name);
        assert!(type_name.ends_with("::Postbox"), "{type_name}");
        assert_eq!(
            error.to_string(),
            format!(
                "{definition} takes a value of type {type_name}, which is not provided; \
                 call .provide(..) with one"
            )
        );
        assert!(["remind/1", "renew/1"].contains(&definition.to_string().as_str()));
    }
}

#[tokio::test]
async fn a_value_of_another_type_does_not_replace_a_missing_one() {
    let builder = builder().register(remind).provide(Arc::new(Postbox));
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, SetupError::MissingData { .. }), "{error:?}");
}

#[tokio::test]
async fn a_provided_value_is_found_in_any_order() {
    let before = builder().provide(Postbox).register(remind);
    let after = builder().register(remind).register(renew).provide(Postbox);
    for builder in [before, after] {
        let engine = builder.start().await.unwrap();
        let reminded = engine.start(remind::with("Ada".to_owned())).await.unwrap();
        let posted = reminded.output().timeout(LONG).await.unwrap();
        assert_eq!(posted, "to Ada");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_runs_no_steps_is_refused_for_a_missing_value_too() {
    let error = builder().roles(Roles::WEB).register(remind).start().await;
    let error = error.unwrap_err();
    assert!(matches!(error, SetupError::MissingData { .. }), "{error:?}");
}

#[tokio::test]
async fn a_value_that_is_provided_twice_is_refused_with_its_type() {
    let builder = builder().register(remind).provide(Postbox);
    let error = builder.provide(Postbox).start().await.unwrap_err();
    let type_name = std::any::type_name::<Postbox>();
    assert!(
        matches!(error, SetupError::ProvidedTwice { type_name: found } if found == type_name),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        format!(
            "a value of type {type_name} is provided twice; wrap one of them in a type of its own"
        )
    );
}

#[tokio::test]
async fn two_versions_of_one_machine_are_fine() {
    let builder = builder().register(Fine).register(FineNext);
    builder.start().await.unwrap().shutdown().await.unwrap();
}

#[tokio::test]
async fn a_worker_without_queues_is_refused() {
    let builder = builder().register(Fine).only_named_queues();
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, SetupError::NoQueues), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(".only_named_queues()"), "{message}");
    assert!(message.contains(r#".queue("default", 10)"#), "{message}");
    assert!(message.contains("Roles::WEB"), "{message}");
}

#[tokio::test]
async fn a_worker_without_machines_is_refused() {
    for builder in [builder(), builder().queue("default", 1).provide(Postbox)] {
        let error = builder.start().await.unwrap_err();
        assert!(matches!(error, SetupError::NoMachines), "{error:?}");
        let message = error.to_string();
        assert!(message.contains(".register(..)"), "{message}");
        assert!(message.contains("Roles::WEB"), "{message}");
    }
}

#[tokio::test]
async fn a_node_that_runs_no_steps_needs_neither_machines_nor_queues() {
    for roles in [Roles::WEB, Roles::MAINTENANCE] {
        for builder in [builder(), builder().only_named_queues()] {
            let engine = builder.roles(roles).start().await.unwrap();
            engine.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_queue_without_slots_is_refused() {
    let message = refusal(builder().register(Fine).queue("mail", 0)).await;
    let expected = "queue \"mail\" has 0 slots; give it between 1 and 100000";
    assert_eq!(message, expected);
    let too_many = refusal(builder().register(Fine).queue("mail", usize::MAX)).await;
    assert!(
        too_many.contains("give it between 1 and 100000"),
        "{too_many}"
    );
}

#[tokio::test]
async fn names_that_cannot_be_stored_are_refused() {
    let named = [
        (
            refusal(builder().register(NoName)).await,
            "machine is empty",
        ),
        (refusal(builder().register(Slashed)).await, "contains '/'"),
        (refusal(builder().register(NoQueue)).await, "queue is empty"),
        (
            refusal(builder().register(NamelessJob)).await,
            "machine is empty",
        ),
        (
            refusal(builder().register(slashed_workflow)).await,
            "contains '/'",
        ),
        (
            refusal(builder().register(UnnamedWorkflow)).await,
            "machine is empty",
        ),
        (
            refusal(builder().register(QueuelessJob)).await,
            "machine queueless_job/1: queue is empty",
        ),
        (
            refusal(builder().register(control_queue)).await,
            "control character",
        ),
        (
            refusal(builder().register(Namelessly)).await,
            "step is empty",
        ),
        (
            refusal(builder().register(Fine).queue("", 1)).await,
            "queue is empty",
        ),
        (
            refusal(builder().register(Fine).queue("a\nb", 1)).await,
            "control character",
        ),
        (
            refusal(builder().register(Fine).queue("q".repeat(201), 1)).await,
            "at most 200",
        ),
        (
            refusal(builder().register(Fine).name("")).await,
            "worker name is empty",
        ),
    ];
    for (message, expected) in named {
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_version_below_one_is_refused() {
    let message = refusal(builder().register(version_zero_workflow)).await;
    assert_eq!(
        message,
        "machine version_zero_workflow/0: version is 0; versions start at 1"
    );
    let message = refusal(builder().register(VersionZero)).await;
    assert_eq!(
        message,
        "machine machine/0: version is 0; versions start at 1"
    );
}

#[tokio::test]
async fn invalid_durations_are_refused() {
    let engine = || builder().register(Fine);
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
    store.close().await;
    let builder = Engine::builder(store).register(Fine);
    let error = builder.start().await.unwrap_err();
    assert!(matches!(&error, SetupError::Store(error) if error.kind() == ErrorKind::Closed));
}

#[tokio::test]
async fn a_database_in_a_folder_that_does_not_exist_is_refused_with_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = Engine::sqlite(missing.join("shop.db")).err().unwrap();
    let message = error.to_string();
    let expected = format!("the directory {} does not exist", missing.display());
    assert!(message.contains(&expected), "{message}");
    assert!(message.contains("create it first"), "{message}");
    assert!(!missing.exists(), "nothing is created");
}

#[tokio::test]
async fn a_postgresql_url_that_cannot_be_read_is_refused_without_its_password() {
    for url in [
        "shop",
        "postgres://ada:s3cret@localhost:many/shop",
        "http://ada:s3cret@localhost/shop",
        "postgres://ada:s3@cret@localhost/shop",
    ] {
        let error = Engine::postgres(url).await.err().unwrap();
        let Error::Store(store_error) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(store_error.kind(), ErrorKind::Invalid, "{url}");
        let message = error.to_string();
        assert!(message.contains("URL"), "{message}");
        assert!(!message.contains("s3"), "{message}");
    }
}

#[tokio::test]
async fn a_postgresql_server_that_is_not_there_is_an_error_that_asks_for_host_and_port() {
    let url = "postgres://ada:s3cret@127.0.0.1:1/shop";
    let error = Engine::postgres(url).await.err().unwrap();
    let Error::Store(store_error) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(store_error.kind(), ErrorKind::Transient);
    let message = error.to_string();
    let advice = "is PostgreSQL running there, and do host and port in the URL name it?";
    assert!(message.contains(advice), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}

/// Counts the steps that run at the same time. All steps of a group wait for each other.
#[derive(Clone)]
struct Crowd {
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    meeting: Arc<Barrier>,
    here: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
}

impl Crowd {
    fn of(size: usize) -> Crowd {
        Crowd {
            running: Arc::default(),
            most: Arc::default(),
            meeting: Arc::new(Barrier::new(size)),
            here: Arc::new(Semaphore::new(0)),
            go_on: Arc::new(Semaphore::new(0)),
        }
    }
}

#[steps]
enum Visit {
    /// Waits until as many others run.
    Meet,
    /// Counts itself, and waits for the test.
    Count,
}

impl Machine for Crowd {
    const NAME: &'static str = "crowd";
    const QUEUE: &'static str = "square";
    type State = Visit;
    type Output = String;

    async fn step(&self, visit: Visit, cx: &Context) -> StepResult<Self> {
        match visit {
            Visit::Meet => {
                self.meeting.wait().await;
            }
            Visit::Count => {
                let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(running, Ordering::SeqCst);
                self.here.add_permits(1);
                self.go_on.acquire().await?.forget();
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
        }
        done(cx.queue().to_owned())
    }
}

#[job(queue = "mail")]
async fn write_mail(cx: &Context) -> std::io::Result<String> {
    Ok(cx.queue().to_owned())
}

#[workflow(queue = "office")]
async fn file_letter(_flow: Flow) -> FlowResult<String> {
    Ok("filed".to_owned())
}

/// Returns the queues that the only worker serves.
async fn served(engine: &Engine) -> Vec<String> {
    let workers = engine.client().admin().workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    workers[0].queues.clone()
}

async fn the_queues_of_registered_definitions_are_served_without_being_named<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let builder = Engine::builder(store).register(Crowd::of(3));
    let builder = builder.register(write_mail).register(file_letter);
    let engine = builder.start().await.unwrap();
    let queues = served(&engine).await;
    assert_eq!(queues, ["default", "mail", "office", "square"]);
    // Each waits for the two others, so all three queues are served.
    let mut crowd = Vec::new();
    for queue in ["square", "default", "mail"] {
        crowd.push(insert(engine.client(), Crowd::with(Visit::Meet).queue(queue)).await);
    }
    for (member, queue) in crowd.iter().zip(["square", "default", "mail"]) {
        assert_eq!(member.output().timeout(LONG).await.unwrap(), queue);
    }
    let mail = insert(engine.client(), write_mail::with()).await;
    assert_eq!(mail.output().timeout(LONG).await.unwrap(), "mail");
    let letter = insert(engine.client(), file_letter::with()).await;
    assert_eq!(letter.output().timeout(LONG).await.unwrap(), "filed");
    engine.shutdown().await.unwrap();
}

async fn a_named_queue_changes_only_its_own_slots<S: Store + Inspect + Clone>(store: S) {
    const TOGETHER: usize = 12;
    let crowd = Crowd::of(TOGETHER);
    let builder = Engine::builder(store).register(crowd.clone());
    let builder = builder.queue("mail", 5).queue("mail", 1);
    let engine = builder.start().await.unwrap();
    assert_eq!(served(&engine).await, ["default", "mail", "square"]);
    // No step goes on before all of them run, so each queue has at least as many slots.
    for queue in ["default", "square"] {
        let visits = (0..TOGETHER).map(|_| Crowd::with(Visit::Meet).queue(queue));
        for visit in engine.client().start_many(visits).await.unwrap() {
            assert_eq!(visit.output().timeout(LONG).await.unwrap(), queue);
        }
    }
    let visits = (0..3).map(|_| Crowd::with(Visit::Count).queue("mail"));
    let visits = engine.client().start_many(visits).await.unwrap();
    for _ in &visits {
        crowd.here.acquire().await.unwrap().forget();
        crowd.go_on.add_permits(1);
    }
    for visit in visits {
        visit.output().timeout(LONG).await.unwrap();
    }
    assert_eq!(
        crowd.most.load(Ordering::SeqCst),
        1,
        "the last number counts"
    );
    engine.shutdown().await.unwrap();
}

async fn only_named_queues_leaves_the_others_to_other_workers<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let builder = Engine::builder(store.clone()).register(Crowd::of(1));
    let builder = builder.only_named_queues().queue("mail", 1);
    let engine = builder.start().await.unwrap();
    assert_eq!(served(&engine).await, ["mail"]);
    let mut others = Vec::new();
    for queue in ["default", "square"] {
        let visit = Crowd::with(Visit::Meet).queue(queue).priority(-1);
        others.push(insert(engine.client(), visit).await);
    }
    let mail = insert(engine.client(), Crowd::with(Visit::Meet).queue("mail")).await;
    assert_eq!(mail.output().timeout(LONG).await.unwrap(), "mail");
    for other in &others {
        let untouched = other.instance().await.unwrap();
        assert_eq!(
            (untouched.status, untouched.revision.0),
            (Status::Runnable, 0)
        );
    }
    // A worker without that line serves them.
    let builder = Engine::builder(store).register(Crowd::of(1));
    let other_worker = builder.start().await.unwrap();
    for (other, queue) in others.iter().zip(["default", "square"]) {
        assert_eq!(other.output().timeout(LONG).await.unwrap(), queue);
    }
    other_worker.shutdown().await.unwrap();
    engine.shutdown().await.unwrap();
}

async fn a_refused_engine_registers_no_worker<S: Store + Inspect + Clone>(store: S) {
    let builders = [
        Engine::builder(store.clone()).register(remind),
        Engine::builder(store.clone()).register(Fine).register(Fine),
        Engine::builder(store.clone())
            .register(Fine)
            .queue("mail", 0),
        Engine::builder(store.clone()).register(NoQueue),
    ];
    for builder in builders {
        builder.start().await.unwrap_err();
    }
    assert_eq!(store.workers().await.unwrap(), []);
}
