//! Codecs: which values are encoded, which clients read them, and how changed values are refused.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support;
use crate::support::raw::{Raw, on_both_databases};
use crate::support::through::Through;
use crate::support::{LONG, eventually, url};
use outlast::codec::{Codec, CodecError, Encoded, Keyring, Kind, Place};
use outlast::engine::EngineBuilder;
use outlast::machine::fail_with;
use outlast::prelude::*;
use outlast::store::{
    Count, Error, ErrorKind, Filter, Inspect, Instance, Json, ListRequest, ManualClock,
    NewInstance, NewSignal, RetryAnswer, Store, Target, limits,
};
use outlast::testing::Harness;
use outlast::transaction::Schema;
use outlast::{
    Client, Durable, Fails, Failure, History, Id, InstanceId, Job, JobError, New, Note, Outcome,
    Status, StepError, WaitError, Workflow,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both_databases!(
    the_database_holds_no_encoded_value_in_plain,
    the_machine_and_clients_with_the_key_read_plain_values,
    the_arguments_and_errors_of_a_job_are_encoded,
    the_value_of_an_error_is_encoded_and_read_with_the_key,
    signal_or_insert_encodes_the_signal_and_the_instance,
    prepared_rows_and_signals_are_encoded,
    rows_encoded_with_another_key_or_for_another_place_are_refused,
    a_client_without_the_codec_reads_the_encoded_values,
    a_client_with_another_key_gets_an_error_that_names_the_missing_key,
    each_client_of_a_process_reads_with_its_own_codec,
    keys_can_be_rotated_while_instances_live,
    an_engine_without_the_key_leaves_the_instance_to_one_that_has_it,
    an_engine_without_a_codec_leaves_encoded_instances_alone,
    an_engine_without_a_codec_leaves_the_target_of_an_encoded_signal_alone,
    an_engine_without_a_codec_leaves_the_parent_of_an_encoded_child_alone,
    an_engine_without_the_key_of_a_signal_leaves_its_target_alone,
    an_engine_without_the_key_of_a_child_leaves_its_parent_alone,
    a_changed_state_fails_only_its_instance_which_can_be_restored_and_retried,
    a_state_moved_to_another_instance_step_machine_or_kind_is_refused,
    a_changed_signal_is_an_error_when_it_is_read,
    a_changed_result_of_a_child_is_an_error_when_it_is_read,
    a_changed_error_text_is_replaced_by_a_note,
    a_page_with_a_changed_instance_lists_the_others,
    plain_values_from_before_the_codec_are_still_read,
    a_codec_that_requires_encoded_values_refuses_plain_ones,
    a_cancel_reason_is_stored_in_plain_and_the_error_of_the_end_is_encoded,
    a_state_of_the_largest_size_fits_when_it_is_encoded,
    a_value_that_is_too_large_encoded_is_refused_with_its_encoded_size,
    a_long_error_is_cut_before_it_is_encoded,
    no_plain_value_is_taken_for_an_encoded_one,
    a_codec_that_panics_delays_its_instances_and_loses_nothing,
    a_recorded_history_is_encoded_and_read_with_the_key,
    events_of_a_history_cannot_be_exchanged_moved_or_renamed,
    inserted_states_cannot_be_exchanged_between_keys,
    states_of_children_cannot_be_exchanged,
    signals_cannot_be_exchanged_between_keys_or_dedup_keys,
    a_state_of_an_earlier_visit_or_another_version_is_refused,
    a_signal_that_is_read_between_two_steps_is_decoded,
);

/// The text that must not be found in the database.
const MARK: &str = "4111-1111-1111";

/// Carries a secret through everything that a machine can do.
struct Vault;

#[steps]
#[derive(Debug)]
enum Secret {
    Carry(String),
    Hold(String),
    Tell(String),
    Stop(String),
    Leak(String),
    Cancel(String),
    Err(String),
    Panic(String),
    TryOnce(String),
    Spread(String),
    SpreadPrepared(String),
    Join(String),
    JoinStrictly,
    /// Starts a child that fails with the text as a value, and reads it.
    Burn(String),
    ReadAshes,
    Grow(usize),
    /// Waits for one signal after another, and counts them.
    Count(u32),
    /// Starts one child for each text.
    Each(Vec<String>),
}

impl Machine for Vault {
    const NAME: &'static str = "vault";
    type State = Secret;
    type Output = String;

    async fn step(&self, state: Secret, cx: &Context) -> StepResult<Self> {
        match state {
            Secret::Carry(text) => next(Secret::Hold(text)),
            Secret::Hold(text) => wait_for::<Word>().then(Secret::Tell(text)),
            Secret::Tell(text) => match cx.received::<Word>()? {
                Some(Word(word)) => done(format!("{text} {word}")),
                None => done(text),
            },
            Secret::Stop(text) => fail(text),
            Secret::Leak(text) => fail_with(Leaked { text }),
            Secret::Cancel(text) => Ok(Outcome::cancelled(text)),
            Secret::Err(text) => Err(StepError::new(text))?,
            Secret::Panic(text) => std::panic::panic_any(text),
            Secret::TryOnce(text) => retry(HOUR, text),
            Secret::Spread(text) => fan_out([
                Page::with(Leaf::Write(text.clone())),
                Page::with(Leaf::Tear(text.clone())),
                Page::with(Leaf::Write(text.clone())).key("taken"),
                Page::with(Leaf::Write(text.clone())).key("taken"),
            ])
            .then(Secret::Join(text)),
            Secret::SpreadPrepared(text) => {
                let prepared = cx.client().prepare(Page::with(Leaf::Write(text)))?;
                fan_out([prepared]).then(Secret::JoinStrictly)
            }
            Secret::Join(_) => {
                let mut found = Vec::new();
                for child in cx.children::<Page>()? {
                    found.push(match child.into_output() {
                        Ok(output) => output,
                        Err(error) => error.to_string(),
                    });
                }
                found.extend(cx.round().iter().map(|it| it.state.as_str().to_owned()));
                let all = cx.all_children().await?;
                found.extend(all.iter().map(|it| it.state.as_str().to_owned()));
                found.push(format!("{} dropped", cx.dropped().len()));
                done(found.join(" | "))
            }
            Secret::JoinStrictly => {
                let outputs = cx.children::<Page>()?.into_iter();
                let outputs = outputs.map(outlast::machine::ChildOf::into_output);
                done(outputs.collect::<Result<Vec<_>, _>>()?.join(" "))
            }
            Secret::Burn(text) => fan_out([Page::with(Leaf::Burn(text))]).then(Secret::ReadAshes),
            Secret::ReadAshes => {
                let mut pages = cx.children::<Page>()?.into_iter();
                let burnt = pages
                    .next()
                    .map(|page| page.downcast())
                    .transpose()?
                    .flatten();
                done(burnt.map_or_else(|| "nothing".to_owned(), |leaked| leaked.text))
            }
            Secret::Grow(bytes) => next(Secret::Hold("x".repeat(bytes))),
            Secret::Count(so_far) => wait_for::<Word>().then(Secret::Count(so_far + 1)),
            Secret::Each(texts) => {
                let pages = texts.into_iter().map(|text| Page::with(Leaf::Write(text)));
                fan_out(pages.map(|page| page.queue("held"))).then(Secret::JoinStrictly)
            }
        }
    }

    async fn on_failure(&self, _: Secret, failure: Failure, _: &Context) -> StepResult<Self> {
        fail(format_args!("handled: {failure}"))
    }
}

struct Page;

#[steps]
enum Leaf {
    Write(String),
    Tear(String),
    Burn(String),
    Wait(String),
    Written(String),
}

impl Machine for Page {
    const NAME: &'static str = "page";
    type State = Leaf;
    type Output = String;

    async fn step(&self, state: Leaf, _: &Context) -> StepResult<Self> {
        match state {
            Leaf::Write(text) | Leaf::Written(text) => done(format!("wrote {text}")),
            Leaf::Tear(text) => fail(format_args!("tore {text}")),
            Leaf::Burn(text) => fail_with(Leaked { text }),
            Leaf::Wait(text) => wait_for::<Word>().then(Leaf::Written(text)),
        }
    }
}

/// An error whose text does not have the secret that its value has.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("it leaked")]
struct Leaked {
    text: String,
}

impl Fails for Vault {
    type Error = Leaked;
}

impl Fails for Page {
    type Error = Leaked;
}

/// A second machine with the same steps as another.
struct Twin;

impl Machine for Twin {
    const NAME: &'static str = "twin";
    type State = Leaf;
    type Output = String;

    async fn step(&self, state: Leaf, cx: &Context) -> StepResult<Self> {
        let outcome = Page.step(state, cx).await?;
        let _ = outcome;
        done("twin".into())
    }
}

struct Post;

impl Job for Post {
    const NAME: &'static str = "post";
    const MAX_ATTEMPTS: u32 = 2;
    type Args = String;
    type Output = ();

    async fn perform(&self, args: String, _: &Context) -> Result<(), JobError> {
        Err(JobError::retry(format!("cannot post {args}")))
    }

    fn backoff(&self, _: u32) -> Duration {
        Duration::from_millis(1)
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Word(String);

fn keys(id: &str) -> Keyring {
    Keyring::new(id, &key(id)).unwrap()
}

/// A key by its id.
fn key(id: &str) -> [u8; 32] {
    let mut key = [7; 32];
    key[..id.len()].copy_from_slice(id.as_bytes());
    key
}

async fn engine(store: impl Store + Inspect, codec: impl Codec) -> Engine {
    builder(store).codec(codec).start().await.unwrap()
}

fn builder(store: impl Store + Inspect) -> EngineBuilder {
    Engine::builder(store)
        .register(Vault)
        .register(Page)
        .register(Twin)
        .register(Post)
        .queue("default", 10)
}

fn secret(step: fn(String) -> Secret) -> New<Vault> {
    Vault::with(step(MARK.into()))
}

/// Starts an instance. The tests say for each use of its id which client uses it.
async fn insert<D: Durable>(client: &Client, new: New<D>) -> Id<D> {
    support::insert(client, new).await.id()
}

/// Waits until the instance has ended, and returns its output as this client reads it.
async fn output_of<D: Durable>(client: &Client, id: Id<D>) -> Result<D::Output, WaitError> {
    let handle = client.handle(id).await.unwrap();
    handle.output().timeout(LONG).await
}

async fn get(client: &Client, id: impl Into<InstanceId>) -> Instance {
    client.find(id.into()).await.unwrap().unwrap()
}

async fn park(engine: &Engine) -> Id<Vault> {
    let client = engine.client();
    let id = insert(client, secret(Secret::Hold)).await;
    let parked = client.admin().wait_settled(id, LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    id
}

async fn state(raw: &Raw, id: impl Into<InstanceId>) -> String {
    let id = id.into();
    raw.text(&format!("select state from instances where id = {id}"))
        .await
}

/// Waits until the instance has failed, and returns its error.
async fn reason(client: &Client, id: impl Into<InstanceId>) -> String {
    let ended = client.admin().wait_ended(id.into(), LONG).await;
    match ended {
        Ok(ended) => {
            assert_eq!(ended.status, Status::Failed);
            ended.last_error.unwrap()
        }
        Err(error) => panic!("{error}"),
    }
}

async fn the_database_holds_no_encoded_value_in_plain<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let signalled = insert(client, secret(Secret::Carry).key("told")).await;
    client.admin().wait_settled(signalled, LONG).await.unwrap();
    let targets = [Vault::key("told").into(), Target::from(signalled)];
    for target in targets {
        // With another name, so that the signal stays in the inbox.
        let payload = Json::of(MARK).unwrap();
        let signal = NewSignal::new(target, "aside", payload);
        client.admin().signal_rows(vec![signal]).await.unwrap();
    }
    for step in [
        Secret::Stop,
        Secret::Cancel,
        Secret::Err,
        Secret::Panic,
        Secret::Spread,
    ] {
        let id = insert(client, secret(step)).await;
        client.admin().wait_ended(id, LONG).await.unwrap();
    }
    let retried = insert(client, secret(Secret::TryOnce)).await;
    eventually("the first attempt is over", async || {
        get(client, retried).await.attempt == 1
    })
    .await;
    client
        .start_many((0..3).map(|_| secret(Secret::Tell)))
        .await
        .unwrap();
    let later = secret(Secret::Tell).delay(HOUR);
    insert(client, later).await;

    let parked = raw.everything().await;
    client.signal(signalled, Word(MARK.into())).await.unwrap();
    output_of(client, signalled).await.unwrap();
    engine.shutdown().await.unwrap();
    let ended = raw.everything().await;

    for everything in [parked, ended] {
        assert!(
            !everything.contains(MARK),
            "the database holds the secret in plain"
        );
        // Plain values are found, so the search looks in the right place.
        for readable in ["try_once", "told", "vault", "outlast:encoded"] {
            assert!(everything.contains(readable), "{readable} is not there");
        }
    }
}

async fn the_machine_and_clients_with_the_key_read_plain_values<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let elsewhere = Client::new(Through::new(store)).codec(keys("k1"));
    let spread = insert(engine.client(), secret(Secret::Spread)).await;
    let joined = output_of(engine.client(), spread).await.unwrap();
    assert_eq!(joined.matches(MARK).count(), 9, "{joined}");
    assert!(joined.contains("1 dropped"), "{joined}");
    assert_eq!(output_of(&elsewhere, spread).await.unwrap(), joined);

    for client in [engine.client(), &elsewhere] {
        let stopped = insert(client, secret(Secret::Stop)).await;
        let error = output_of(client, stopped).await.unwrap_err();
        assert!(error.to_string().ends_with(MARK), "{error}");
        for (step, expected) in [
            (Secret::Err as fn(String) -> Secret, "handled: 4111"),
            (Secret::Panic, "handled: the step panicked: 4111"),
        ] {
            let id = insert(client, secret(step)).await;
            let reason = reason(client, id).await;
            assert!(reason.starts_with(expected), "{reason}");
        }
        let carried = insert(client, secret(Secret::Carry)).await;
        let parked = client.admin().wait_settled(carried, LONG).await.unwrap();
        assert_eq!(parked.state.as_str(), format!("{MARK:?}"));
        client.signal(carried, Word(MARK.into())).await.unwrap();
        let output = output_of(client, carried).await.unwrap();
        assert_eq!(output, format!("{MARK} {MARK}"));
        let output = get(client, carried).await.result.unwrap();
        assert_eq!(output.decode::<String>().unwrap().matches(MARK).count(), 2);

        let held = insert(client, secret(Secret::Hold)).await;
        client.admin().wait_settled(held, LONG).await.unwrap();
        let aside = NewSignal::new(held.into(), "aside", Json::of(MARK).unwrap());
        client.admin().signal_rows(vec![aside]).await.unwrap();
        let signals = client.admin().signals(held.get(), None).await.unwrap();
        let payload = signals[0].payload.as_ref().unwrap();
        assert_eq!(payload.as_str(), format!("{MARK:?}"));

        let children = client.admin().children(spread.get()).await.unwrap();
        assert_eq!(children.len(), 3);
        for child in children {
            assert!(child.state.as_str().contains(MARK));
            let result = child.result.map(|it| it.as_str().to_owned());
            assert!(result.or(child.last_error).unwrap().contains(MARK));
        }
        let request = ListRequest {
            limit: 100,
            values: true,
            ..ListRequest::default()
        };
        for instance in client.admin().list(request).await.unwrap().instances {
            assert!(instance.state.as_str().contains(MARK), "{instance:?}");
        }
        let short = Duration::from_millis(1);
        let held = client.handle(held).await.unwrap();
        let waited = held.output().timeout(short).await;
        let WaitError::TimedOut { instance, .. } = waited.unwrap_err() else {
            panic!("the instance waits for a signal");
        };
        assert!(instance.state.as_str().contains(MARK));
    }
    engine.shutdown().await.unwrap();
}

async fn the_arguments_and_errors_of_a_job_are_encoded<S: Store + Inspect + Clone>(
    store: S,
    raw: Raw,
) {
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let job = insert(client, Post::with(MARK.to_owned())).await;
    let gave_up = reason(client, job).await;
    assert_eq!(
        gave_up,
        format!("gave up after 2 attempts: cannot post {MARK}")
    );
    engine.shutdown().await.unwrap();
    assert!(!raw.everything().await.contains(MARK));
}

async fn the_value_of_an_error_is_encoded_and_read_with_the_key<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let leaked = insert(client, secret(Secret::Leak)).await;
    let elsewhere = Client::new(Through::new(store.clone())).codec(keys("k1"));
    for reader in [client, &elsewhere] {
        let error = output_of(reader, leaked).await.unwrap_err();
        assert!(error.to_string().ends_with("it leaked"), "{error}");
        assert_eq!(error.downcast::<Vault>().unwrap().text, MARK);
    }
    // A parent reads it of its child.
    let burnt = insert(client, secret(Secret::Burn)).await;
    assert_eq!(output_of(client, burnt).await.unwrap(), MARK);

    // Without the codec the value is there, and cannot be read.
    let outsider = Client::new(store.clone());
    let error = output_of(&outsider, leaked).await.unwrap_err();
    let unread = error.downcast::<Vault>().unwrap_err();
    assert!(matches!(unread, WaitError::ErrorValue { .. }), "{unread}");
    assert!(
        unread
            .to_string()
            .ends_with("it is encoded, and this client has no codec"),
        "{unread}"
    );
    let stranger = Client::new(store).codec(keys("k2"));
    let error = output_of(&stranger, leaked).await.unwrap_err();
    assert!(error.to_string().contains("key \"k1\""), "{error}");
    engine.shutdown().await.unwrap();
    assert!(!raw.everything().await.contains(MARK));
}

async fn signal_or_insert_encodes_the_signal_and_the_instance<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let word = || Word(MARK.into());
    let new = || secret(Secret::Hold).key("one").delay(LONG);
    let started = client.signal_or_start(new(), word()).await.unwrap();
    assert!(started.is_new());
    let id = started.id();
    let again = client.signal_or_start(new(), word()).await.unwrap();
    assert_eq!((again.id(), again.is_new()), (id, false));
    assert!(!raw.everything().await.contains(MARK));
    let signals = client.admin().signals(id.get(), None).await.unwrap();
    assert_eq!(signals.len(), 2);
    for signal in signals {
        assert!(signal.payload.unwrap().as_str().contains(MARK));
    }

    let parked = park(&engine).await;
    raw.execute("update instances set correlation_key = null, correlation_guard = null, correlation_scope = null where correlation_key is not null").await;
    let new = secret(Secret::Hold).key("two");
    let two = client.signal_or_start(new, word()).await.unwrap();
    let output = output_of(client, two.id()).await.unwrap();
    assert_eq!(output, format!("{MARK} {MARK}"));
    assert_eq!(get(client, parked).await.status, Status::AwaitingSignal);
    engine.shutdown().await.unwrap();
}

async fn prepared_rows_and_signals_are_encoded<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let row = client.prepare(secret(Secret::Hold).key("mine")).unwrap();
    assert!(row.state.as_encoded().is_some());
    let word = Word(MARK.into());
    let signal = client.prepare_signal(Vault::key("mine"), word).unwrap();
    assert!(signal.payload.as_encoded().is_some());
    let id = in_a_transaction(&raw, row, signal).await;
    assert!(!raw.everything().await.contains(MARK));
    client.wake("default");
    let output = output_of(client, Id::<Vault>::of(id)).await.unwrap();
    assert_eq!(output, format!("{MARK} {MARK}"));

    // Prepared rows and signals can also be inserted as usual. They are not encoded twice.
    let rows = vec![client.prepare(secret(Secret::Tell)).unwrap()];
    let id = client.admin().insert_rows(rows).await.unwrap()[0]
        .new_id()
        .unwrap();
    let output = output_of(client, Id::<Vault>::of(id)).await.unwrap();
    assert_eq!(output, MARK);
    let spread = insert(client, secret(Secret::SpreadPrepared)).await;
    let joined = output_of(client, spread).await.unwrap();
    assert_eq!(joined, format!("wrote {MARK}"));
    let parked = park(&engine).await;
    let signal = client.prepare_signal(parked, Word(MARK.into())).unwrap();
    client.admin().signal_rows(vec![signal]).await.unwrap();
    let output = output_of(client, parked).await.unwrap();
    assert_eq!(output, format!("{MARK} {MARK}"));
    engine.shutdown().await.unwrap();
}

async fn in_a_transaction(raw: &Raw, row: NewInstance, signal: NewSignal) -> InstanceId {
    match raw {
        Raw::Sqlite(_) => {
            let mut connection = raw.sqlite();
            let immediate = rusqlite::TransactionBehavior::Immediate;
            let tx = connection.transaction_with_behavior(immediate).unwrap();
            let inserted = outlast_sqlite::transaction::insert(&tx, row).unwrap();
            outlast_sqlite::transaction::signal(&tx, signal).unwrap();
            tx.commit().unwrap();
            inserted.new_id().unwrap()
        }
        Raw::Postgres(_, schema) => {
            use outlast::transaction::tokio_postgres;
            let (mut client, connection) =
                ::tokio_postgres::connect(&url(), ::tokio_postgres::NoTls)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let schema = Schema::new(schema).unwrap();
            let tx = client.transaction().await.unwrap();
            let inserted = tokio_postgres::insert(&tx, &schema, row).await.unwrap();
            tokio_postgres::signal(&tx, &schema, signal).await.unwrap();
            tx.commit().await.unwrap();
            inserted.new_id().unwrap()
        }
    }
}

async fn rows_encoded_with_another_key_or_for_another_place_are_refused<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let ours = Client::new(store.clone()).codec(keys("k1"));
    let theirs = Client::new(store.clone()).codec(keys("k2"));
    let row = theirs.prepare(secret(Secret::Hold)).unwrap();
    let error = ours
        .admin()
        .insert_rows(vec![row.clone()])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_string();
    assert!(
        message.contains("row 0: the state is encoded with key \"k2\""),
        "{message}"
    );

    // A prepared row that was moved to another step is refused.
    let mut moved = ours.prepare(secret(Secret::Hold)).unwrap();
    moved.step = "tell".into();
    let error = ours
        .admin()
        .insert_rows(vec![moved])
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("was changed or moved"), "{error}");
    let mut signal = ours
        .prepare_signal(InstanceId(1), Word(MARK.into()))
        .unwrap();
    signal.target = InstanceId(2).into();
    let error = ours
        .admin()
        .signal_rows(vec![signal])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("signal 0: the payload of signal \"word\""),
        "{error}"
    );
    assert_eq!(
        ours.count(Filter::default()).await.unwrap(),
        Count::Exactly(0)
    );

    // A client without a codec may insert rows that others encoded.
    let courier = Client::new(store);
    assert!(courier.admin().insert_rows(vec![row]).await.is_ok());
}

async fn a_client_without_the_codec_reads_the_encoded_values<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let spread = insert(client, secret(Secret::Spread)).await;
    output_of(client, spread).await.unwrap();
    let stopped = insert(client, secret(Secret::Stop)).await;
    client.admin().wait_ended(stopped, LONG).await.unwrap();
    let parked = park(&engine).await;
    let aside = NewSignal::new(parked.into(), "aside", Json::of(MARK).unwrap());
    client.admin().signal_rows(vec![aside]).await.unwrap();

    let outsider = Client::new(store);
    let seen = get(&outsider, spread).await;
    assert!(seen.state.as_encoded().unwrap().starts_with("2:i:k1:"));
    assert!(seen.result.unwrap().as_encoded().is_some());
    for child in outsider.admin().children(spread.get()).await.unwrap() {
        assert!(child.state.as_encoded().unwrap().starts_with("2:c:k1:"));
    }
    let signals = outsider.admin().signals(parked.get(), None).await.unwrap();
    assert!(signals[0].payload.as_ref().unwrap().as_encoded().is_some());
    let ended = output_of(&outsider, stopped).await.unwrap_err();
    let WaitError::Ended { reason: why, .. } = ended else {
        panic!("the instance has ended");
    };
    assert!(why.unwrap().starts_with("outlast:encoded:2:i:k1:"));
    let error = output_of(&outsider, spread).await.unwrap_err().to_string();
    assert!(
        error.contains("is encoded, and this client has no codec"),
        "{error}"
    );
    // A client without the codec may still retry an instance.
    let note = Note::by("test");
    assert_eq!(
        outsider.admin().retry(stopped, note).await.unwrap(),
        RetryAnswer::Retried
    );
    assert!(reason(client, stopped).await.contains(MARK));
    engine.shutdown().await.unwrap();
}

async fn a_client_with_another_key_gets_an_error_that_names_the_missing_key<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let spread = insert(client, secret(Secret::Spread)).await;
    output_of(client, spread).await.unwrap();
    let parked = park(&engine).await;
    let aside = NewSignal::new(parked.into(), "aside", Json::of(MARK).unwrap());
    client.admin().signal_rows(vec![aside]).await.unwrap();

    let stranger = Client::new(store).codec(keys("k2"));
    let page = ListRequest {
        limit: 1,
        values: true,
        ..ListRequest::default()
    };
    let WaitError::Store(waited) = output_of(&stranger, spread).await.unwrap_err() else {
        panic!("the codec returns an error");
    };
    let errors: [(Error, InstanceId); 5] = [
        (stranger.find(spread).await.unwrap_err(), spread.get()),
        (stranger.admin().list(page).await.unwrap_err(), parked.get()),
        (
            stranger
                .admin()
                .signals(parked.get(), None)
                .await
                .unwrap_err(),
            parked.get(),
        ),
        (waited, spread.get()),
        (
            stranger.admin().children(spread.get()).await.unwrap_err(),
            client.admin().children(spread.get()).await.unwrap()[0].id,
        ),
    ];
    for (error, id) in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let error = error.to_string();
        assert!(error.contains("is encoded with key \"k1\""), "{error}");
        assert!(error.contains(&format!("instance {id} ")), "{error}");
    }
    engine.shutdown().await.unwrap();
}

/// Values on the fast path and ends that are published in memory are encoded as in the database.
async fn each_client_of_a_process_reads_with_its_own_codec<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let store = Through::new(store);
    let engine = engine(store.clone(), keys("k1").and("k2", &key("k2")).unwrap()).await;
    store.first_claims(1).await;
    let other = Client::new(store.clone()).codec(keys("k2").and("k1", &key("k1")).unwrap());
    let without = Client::new(store);

    // The other client's row takes the engine's fast path, and its end is published.
    let id = insert(&other, secret(Secret::Carry)).await;
    other.admin().wait_settled(id, LONG).await.unwrap();
    other.signal(id, Word(MARK.into())).await.unwrap();
    assert_eq!(
        output_of(&other, id).await.unwrap(),
        format!("{MARK} {MARK}")
    );

    let id = insert(&other, secret(Secret::Stop)).await;
    let ended = [output_of(&without, id).await, output_of(&other, id).await];
    let [unread, read] = ended.map(|ended| ended.unwrap_err().to_string());
    assert!(unread.contains("outlast:encoded:2:i:k1:"), "{unread}");
    assert!(read.ends_with(MARK), "{read}");

    // A plain row of the client without a codec runs, and its result is encoded.
    let id = insert(&without, Vault::with(Secret::Tell("plain".into()))).await;
    let error = output_of(&without, id).await.unwrap_err().to_string();
    assert!(error.contains("this client has no codec"), "{error}");
    assert_eq!(output_of(&other, id).await.unwrap(), "plain");
    engine.shutdown().await.unwrap();
    assert!(!raw.everything().await.contains(MARK));
}

async fn keys_can_be_rotated_while_instances_live<S: Store + Inspect + Clone>(store: S, raw: Raw) {
    let old = engine(store.clone(), keys("old")).await;
    let parked = park(&old).await;
    old.shutdown().await.unwrap();
    assert!(state(&raw, parked).await.contains("2:i:old:"));

    // First every node gets the new key for reading. Then one node writes with it.
    let both = engine(store.clone(), keys("old").and("new", &key("new")).unwrap()).await;
    let client = both.client();
    let new = Client::new(store.clone()).codec(keys("new").and("old", &key("old")).unwrap());
    new.signal(parked, Word(MARK.into())).await.unwrap();
    let output = output_of(client, parked).await.unwrap();
    assert_eq!(output, format!("{MARK} {MARK}"));
    let second = insert(&new, secret(Secret::Hold)).await;
    client.admin().wait_settled(second, LONG).await.unwrap();
    both.shutdown().await.unwrap();

    let new = engine(store, keys("new").and("old", &key("old")).unwrap()).await;
    new.client()
        .signal(second, Word(MARK.into()))
        .await
        .unwrap();
    assert_eq!(
        output_of(new.client(), second).await.unwrap(),
        format!("{MARK} {MARK}")
    );
    let result = format!("select result from instances where id = {second}");
    assert!(raw.text(&result).await.contains("2:i:new:"));
    new.shutdown().await.unwrap();
}

/// Checks that the instance is claimed and given back with growing pauses, and without an attempt.
async fn is_left_alone(client: &Client, id: impl Into<InstanceId>) {
    let id = id.into();
    let mut seen = get(client, id).await.revision.0;
    let mut pauses = Vec::new();
    for _ in 0..2 {
        let mut given_back = None;
        eventually("the claim is given back", async || {
            let it = get(client, id).await;
            let is_back = it.revision.0 >= seen + 2 && it.status == Status::Runnable;
            given_back = is_back.then_some(it);
            is_back
        })
        .await;
        let it = given_back.unwrap();
        assert_eq!((it.attempt, it.crashes), (0, 0));
        assert_eq!(it.last_error, None);
        pauses.push(it.eligible_at.since(it.updated_at));
        seen = it.revision.0;
    }
    assert!(pauses[0] >= Duration::from_secs(1), "{pauses:?}");
    assert!(pauses[1] > pauses[0], "{pauses:?}");
}

async fn an_engine_without_the_key_leaves_the_instance_to_one_that_has_it<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let behind = engine(Through::new(store.clone()), keys("old")).await;
    let client = Client::new(store.clone()).codec(keys("new").and("old", &key("old")).unwrap());
    let id = insert(&client, secret(Secret::Tell)).await;
    // Other instances run meanwhile.
    let neighbour = async {
        let id = insert(behind.client(), secret(Secret::Tell)).await;
        assert_eq!(output_of(behind.client(), id).await.unwrap(), MARK);
    };
    tokio::join!(is_left_alone(&client, id), neighbour);
    behind.shutdown().await.unwrap();

    let ahead = engine(store, keys("old").and("new", &key("new")).unwrap()).await;
    assert_eq!(output_of(ahead.client(), id).await.unwrap(), MARK);
    ahead.shutdown().await.unwrap();
}

async fn an_engine_without_a_codec_leaves_encoded_instances_alone<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let without = builder(Through::new(store.clone())).start().await.unwrap();
    let client = Client::new(store.clone()).codec(keys("k1"));
    let id = insert(&client, secret(Secret::Tell)).await;
    is_left_alone(&client, id).await;
    without.shutdown().await.unwrap();
    let with = engine(store, keys("k1")).await;
    assert_eq!(output_of(with.client(), id).await.unwrap(), MARK);
    with.shutdown().await.unwrap();
}

async fn an_engine_without_a_codec_leaves_the_target_of_an_encoded_signal_alone<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let without = builder(store.clone()).start().await.unwrap();
    let parked = park(&without).await;
    let client = Client::new(store.clone()).codec(keys("k1"));
    client.signal(parked, Word(MARK.into())).await.unwrap();
    is_left_alone(&client, parked).await;
    without.shutdown().await.unwrap();
    let with = engine(store, keys("k1")).await;
    let output = output_of(with.client(), parked).await.unwrap();
    assert_eq!(output, format!("{MARK} {MARK}"));
    with.shutdown().await.unwrap();
}

async fn an_engine_without_a_codec_leaves_the_parent_of_an_encoded_child_alone<S>(
    store: S,
    raw: Raw,
) where
    S: Store + Inspect + Clone,
{
    let (parent, _) = joining(&store, &raw, None, Some(keys("k1"))).await;
    let without = builder(Through::new(store.clone())).start().await.unwrap();
    release(&raw, parent).await;
    let client = Client::new(store.clone()).codec(keys("k1"));
    is_left_alone(&client, parent).await;
    without.shutdown().await.unwrap();
    let with = engine(store, keys("k1")).await;
    let output = output_of(with.client(), parent).await.unwrap();
    assert_eq!(output, format!("wrote {MARK}"));
    with.shutdown().await.unwrap();
}

async fn an_engine_without_the_key_of_a_signal_leaves_its_target_alone<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let behind = engine(store.clone(), keys("old")).await;
    let parked = park(&behind).await;
    let client = Client::new(store.clone()).codec(keys("new").and("old", &key("old")).unwrap());
    client.signal(parked, Word(MARK.into())).await.unwrap();
    is_left_alone(&client, parked).await;
    behind.shutdown().await.unwrap();
    let ahead = engine(store, keys("old").and("new", &key("new")).unwrap()).await;
    let output = output_of(ahead.client(), parked).await.unwrap();
    assert_eq!(output, format!("{MARK} {MARK}"));
    ahead.shutdown().await.unwrap();
}

async fn an_engine_without_the_key_of_a_child_leaves_its_parent_alone<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let both = || keys("new").and("old", &key("old")).unwrap();
    let (parent, _) = joining(&store, &raw, Some(keys("old")), Some(both())).await;
    let behind = engine(Through::new(store.clone()), keys("old")).await;
    release(&raw, parent).await;
    let client = Client::new(store.clone()).codec(both());
    is_left_alone(&client, parent).await;
    behind.shutdown().await.unwrap();
    let ahead = engine(store, both()).await;
    assert_eq!(
        output_of(ahead.client(), parent).await.unwrap(),
        format!("wrote {MARK}")
    );
    ahead.shutdown().await.unwrap();
}

/// The vault in a build that only starts the child. The child waits for a signal.
struct Parent;

impl Machine for Parent {
    const NAME: &'static str = "vault";
    type State = Secret;
    type Output = String;

    async fn step(&self, state: Secret, _: &Context) -> StepResult<Self> {
        let Secret::Spread(text) = state else {
            return fail("it is joined elsewhere");
        };
        fan_out([Page::with(Leaf::Wait(text))]).then(Secret::JoinStrictly)
    }
}

/// A parent that waits for its join in a queue without workers, and its child. The child has ended
/// on an engine with the second codec.
async fn joining<S>(
    store: &S,
    raw: &Raw,
    first: Option<Keyring>,
    second: Option<Keyring>,
) -> (Id<Vault>, InstanceId)
where
    S: Store + Inspect + Clone,
{
    let engine = |codec: Option<Keyring>| {
        let mut builder = Engine::builder(store.clone());
        if let Some(codec) = codec {
            builder = builder.codec(codec);
        }
        builder.register(Parent).register(Page).queue("default", 10)
    };
    let engine_of_parent = engine(first).start().await.unwrap();
    let client = engine_of_parent.client();
    let parent = insert(client, secret(Secret::Spread)).await;
    client.admin().wait_settled(parent, LONG).await.unwrap();
    let child = client.admin().children(parent.get()).await.unwrap()[0].id;
    client.admin().wait_settled(child, LONG).await.unwrap();
    let sql = format!("update instances set queue = 'held' where id = {parent}");
    raw.execute(&sql).await;
    engine_of_parent.shutdown().await.unwrap();
    let engine_of_child = engine(second).start().await.unwrap();
    engine_of_child
        .client()
        .signal(child, Word(String::new()))
        .await
        .unwrap();
    engine_of_child
        .client()
        .admin()
        .wait_ended(child, LONG)
        .await
        .unwrap();
    engine_of_child.shutdown().await.unwrap();
    (parent, child)
}

async fn release(raw: &Raw, parent: Id<Vault>) {
    let sql = format!("update instances set queue = 'default' where id = {parent}");
    raw.execute(&sql).await;
}

async fn a_changed_state_fails_only_its_instance_which_can_be_restored_and_retried<S>(
    store: S,
    raw: Raw,
) where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let (id, neighbour) = (park(&engine).await, park(&engine).await);
    let whole = state(&raw, id).await;
    let changed = flipped(&whole);
    let set = |state: &str| format!("update instances set state = '{state}' where id = {id}");
    raw.execute(&set(&changed)).await;
    for target in [id, neighbour] {
        client.signal(target, Word(MARK.into())).await.unwrap();
    }
    let output = format!("{MARK} {MARK}");
    assert_eq!(output_of(client, neighbour).await.unwrap(), output);

    let error = client
        .admin()
        .wait_ended(id, LONG)
        .await
        .unwrap_err()
        .to_string();
    let expected = format!("the state of instance {id} was changed or moved");
    assert!(error.contains(&expected), "{error}");
    let WaitError::Store(error) = output_of(client, id).await.unwrap_err() else {
        panic!("the codec returns an error");
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);

    raw.execute(&set(&whole)).await;
    let reason = reason(client, id).await;
    assert!(reason.contains(&expected), "{reason}");
    let note = Note::by("test");
    assert_eq!(
        client.admin().retry(id, note).await.unwrap(),
        RetryAnswer::Retried
    );
    // The end removed the signal.
    assert_eq!(output_of(client, id).await.unwrap(), MARK);
    engine.shutdown().await.unwrap();
}

/// Changes one character in the middle.
fn flipped(encoded: &str) -> String {
    let middle = encoded.len() / 2;
    let other = if encoded.as_bytes()[middle] == b'A' {
        "B"
    } else {
        "A"
    };
    format!("{}{other}{}", &encoded[..middle], &encoded[middle + 1..])
}

async fn a_state_moved_to_another_instance_step_machine_or_kind_is_refused<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let of_instance = park(&engine).await;
    let of_step = park(&engine).await;
    let of_result = park(&engine).await;
    let of_signal = park(&engine).await;
    let donor = park(&engine).await;
    let done = insert(client, secret(Secret::Tell)).await;
    output_of(client, done).await.unwrap();
    // An inserted state is not bound to an instance yet, but to a machine and a step.
    let later = |new: New<Page>| new.delay(HOUR);
    let page = insert(client, later(Page::with(Leaf::Write(MARK.into())))).await;
    let torn = insert(client, later(Page::with(Leaf::Tear(MARK.into())))).await;
    let twin = Twin::with(Leaf::Write(MARK.into())).delay(HOUR);
    let twin = insert(client, twin).await;
    let aside = NewSignal::new(of_signal.into(), "aside", Json::of(MARK).unwrap());
    client.admin().signal_rows(vec![aside]).await.unwrap();

    let now = match &raw {
        Raw::Sqlite(_) => "0",
        Raw::Postgres(..) => "now()",
    };
    for sql in [
        format!(
            "update instances set state = (select state from instances where id = {donor}) where id = {of_instance}"
        ),
        format!("update instances set step = 'hold' where id = {of_step}"),
        format!(
            "update instances set state = (select result from instances where id = {done}) where id = {of_result}"
        ),
        format!(
            "update instances set state = (select payload from signals where target_id = {of_signal}) where id = {of_signal}"
        ),
        format!(
            "update instances set state = (select state from instances where id = {page}) where id = {twin}"
        ),
        format!(
            "update instances set state = (select state from instances where id = {page}) where id = {torn}"
        ),
        format!("update instances set eligible_at = {now} where id in ({twin}, {torn}, {page})"),
    ] {
        raw.execute(&sql).await;
    }
    for id in [of_instance, of_step, of_result, of_signal, donor] {
        client.signal(id, Word(MARK.into())).await.unwrap();
    }
    client.wake("default");
    for id in [of_instance, of_step, of_result, of_signal]
        .map(Id::get)
        .into_iter()
        .chain([twin.get(), torn.get()])
    {
        // Their states cannot be decoded, so a client without a codec reads how they ended.
        let outsider = Client::new(store.clone());
        let ended = outsider.admin().wait_ended(id, LONG).await.unwrap();
        assert_eq!(ended.status, Status::Failed, "{id}");
        let error = client
            .admin()
            .wait_ended(id, LONG)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("the state of instance {id} was changed")),
            "{error}"
        );
    }
    // The instances that were not changed end as usual.
    assert_eq!(
        output_of(client, donor).await.unwrap(),
        format!("{MARK} {MARK}")
    );
    assert_eq!(
        output_of(client, page).await.unwrap(),
        format!("wrote {MARK}")
    );
    engine.shutdown().await.unwrap();
}

async fn a_changed_signal_is_an_error_when_it_is_read<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let (forged, moved, unread) = (
        park(&engine).await,
        park(&engine).await,
        park(&engine).await,
    );
    raw.execute("update instances set queue = 'held'").await;
    for id in [forged, moved] {
        client.signal(id, Word(MARK.into())).await.unwrap();
    }
    let aside = NewSignal::new(unread.into(), "aside", Json::of(MARK).unwrap());
    client.admin().signal_rows(vec![aside]).await.unwrap();
    client.signal(unread, Word(MARK.into())).await.unwrap();
    for sql in [
        // The payload of another instance, and of another signal name.
        format!(
            "update signals set payload = (select payload from signals where target_id = {forged}) where target_id = {moved}"
        ),
        format!(
            "update signals set payload = (select payload from signals where target_id = {unread} and name = 'aside') where target_id = {forged}"
        ),
        format!(
            "update signals set payload = (select payload from signals where target_id = {unread} and name = 'word') where target_id = {unread} and name = 'aside'"
        ),
        "update instances set queue = 'default'".to_owned(),
    ] {
        raw.execute(&sql).await;
    }
    client.wake("default");
    for id in [forged, moved] {
        let reason = reason(client, id).await;
        assert!(reason.starts_with("handled: signal"), "{reason}");
        assert!(reason.contains("payload was changed or moved"), "{reason}");
    }
    // A changed signal that is not read does not matter.
    assert_eq!(
        output_of(client, unread).await.unwrap(),
        format!("{MARK} {MARK}")
    );
    engine.shutdown().await.unwrap();
}

async fn a_changed_result_of_a_child_is_an_error_when_it_is_read<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let (parent, child) = joining(&store, &raw, Some(keys("k1")), Some(keys("k1"))).await;
    let (other_parent, other) = joining(&store, &raw, Some(keys("k1")), Some(keys("k1"))).await;
    let sql = format!(
        "update instances set result = (select result from instances where id = {other}) where id = {child}"
    );
    raw.execute(&sql).await;
    release(&raw, parent).await;
    release(&raw, other_parent).await;
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let reason = reason(client, parent).await;
    let expected = format!("handled: output of child {child} (page): result was changed");
    assert!(reason.starts_with(&expected), "{reason}");
    assert_eq!(
        output_of(client, other_parent).await.unwrap(),
        format!("wrote {MARK}")
    );
    engine.shutdown().await.unwrap();
}

async fn a_changed_error_text_is_replaced_by_a_note<S: Store + Inspect + Clone>(
    store: S,
    raw: Raw,
) {
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let ids = [(); 2].map(|()| secret(Secret::Stop));
    let mut stopped = Vec::new();
    for new in ids {
        let id = insert(client, new).await;
        assert_eq!(reason(client, id).await, MARK);
        stopped.push(id);
    }
    let [one, other] = stopped[..] else { panic!() };
    let sql = format!(
        "update instances set last_error = (select last_error from instances where id = {one}) where id = {other}"
    );
    raw.execute(&sql).await;
    let replaced = reason(client, other).await;
    assert_eq!(
        replaced,
        "(the error text was changed or moved after it was encoded)"
    );
    assert_eq!(reason(client, one).await, MARK);
    engine.shutdown().await.unwrap();
}

async fn a_page_with_a_changed_instance_lists_the_others<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let (one, other) = (park(&engine).await, park(&engine).await);
    let sql = format!(
        "update instances set state = (select state from instances where id = {one}) where id = {other}"
    );
    raw.execute(&sql).await;
    let request = ListRequest {
        limit: 10,
        values: true,
        ..ListRequest::default()
    };
    let listed = engine
        .client()
        .admin()
        .list(request)
        .await
        .unwrap()
        .instances;
    let states: Vec<_> = listed.iter().map(|it| it.state.as_str()).collect();
    assert_eq!(states[1], format!("{MARK:?}"));
    // The changed state is listed in its encoded form, never as the value of another instance.
    assert!(listed[0].state.as_encoded().is_some());
    assert!(listed[0].state.decode::<String>().is_err());
    engine.shutdown().await.unwrap();
}

async fn plain_values_from_before_the_codec_are_still_read<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let before = builder(store.clone()).start().await.unwrap();
    let parked = park(&before).await;
    let stopped = insert(before.client(), secret(Secret::Stop)).await;
    assert_eq!(reason(before.client(), stopped).await, MARK);
    let held = secret(Secret::Hold).queue("held");
    let held = insert(before.client(), held).await;
    before
        .client()
        .signal(held, Word(MARK.into()))
        .await
        .unwrap();
    before.shutdown().await.unwrap();
    assert!(raw.everything().await.contains(MARK));

    let after = engine(store, keys("k1")).await;
    let client = after.client();
    assert_eq!(reason(client, stopped).await, MARK);
    assert_eq!(
        get(client, parked).await.state.as_str(),
        format!("{MARK:?}")
    );
    raw.execute("update instances set queue = 'default'").await;
    client.wake("default");
    client.signal(parked, Word(MARK.into())).await.unwrap();
    for id in [parked, held] {
        assert_eq!(
            output_of(client, id).await.unwrap(),
            format!("{MARK} {MARK}")
        );
        let result = format!("select result from instances where id = {id}");
        assert!(raw.text(&result).await.contains("outlast:encoded"));
    }
    after.shutdown().await.unwrap();
}

async fn a_codec_that_requires_encoded_values_refuses_plain_ones<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let outsider = Client::new(Through::new(store.clone()));
    let plain = insert(&outsider, secret(Secret::Tell)).await;
    let engine = engine(store.clone(), keys("k1").require_encoded()).await;
    let client = engine.client();
    let ended = outsider.admin().wait_ended(plain, LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed);
    let error = client.find(plain).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let expected = format!(
        "the state of instance {plain} is not encoded, and this codec accepts encoded values only"
    );
    assert!(error.to_string().contains(&expected), "{error}");

    // An encoded instance runs, and a plain signal to it is refused.
    let parked = park(&engine).await;
    outsider.signal(parked, Word(MARK.into())).await.unwrap();
    let reason_of_parked = reason(client, parked).await;
    assert!(
        reason_of_parked.contains("payload is not encoded"),
        "{reason_of_parked}"
    );
    let signalled = park(&engine).await;
    client.signal(signalled, Word(MARK.into())).await.unwrap();
    assert_eq!(
        output_of(client, signalled).await.unwrap(),
        format!("{MARK} {MARK}")
    );
    // Errors that the store writes itself are shown in plain.
    let cancelled = park(&engine).await;
    let note = Note::by("ada").because("wished");
    outsider.admin().terminate(cancelled, note).await.unwrap();
    let error = get(client, cancelled).await.last_error.unwrap();
    assert_eq!(error, "terminated by ada: wished");
    engine.shutdown().await.unwrap();
}

async fn a_cancel_reason_is_stored_in_plain_and_the_error_of_the_end_is_encoded<S>(
    store: S,
    raw: Raw,
) where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let id = park(&engine).await;
    // The caller does not need the key.
    let note = Note::by("ada").because("wished");
    let outsider = Client::new(store);
    outsider.admin().cancel(id, note).await.unwrap();
    let ended = engine.client().admin().wait_ended(id, LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    let expected = "cancelled by ada: wished";
    assert_eq!(ended.last_error.as_deref(), Some(expected));
    assert_eq!(ended.cancel.unwrap().reason, expected);
    let stored = |column| format!("select {column} from instances where id = {id}");
    assert_eq!(raw.text(&stored("cancel_reason")).await, expected);
    let last_error = raw.text(&stored("last_error")).await;
    assert!(!last_error.contains("wished"), "{last_error}");
    engine.shutdown().await.unwrap();
}

async fn a_state_of_the_largest_size_fits_when_it_is_encoded<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    // The two quotes of the JSON string count too.
    let largest = limits::JSON_BYTES_MAX - 2;
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let grown = insert(client, Vault::with(Secret::Grow(largest))).await;
    let parked = client.admin().wait_settled(grown, LONG).await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    assert_eq!(parked.state.as_str().len(), limits::JSON_BYTES_MAX);
    assert!(state(&raw, grown).await.len() > limits::JSON_BYTES_MAX * 4 / 3);
    let inserted = Vault::with(Secret::Hold("x".repeat(largest)));
    let inserted = insert(client, inserted).await;
    client.admin().wait_settled(inserted, LONG).await.unwrap();

    let grown = insert(client, Vault::with(Secret::Grow(largest + 1))).await;
    let reason = reason(client, grown).await;
    assert!(
        reason.contains("has 1048577 bytes; at most 1048576"),
        "{reason}"
    );
    engine.shutdown().await.unwrap();
}

/// A codec that writes every value a hundred times, in plain.
struct Wasteful;

impl Codec for Wasteful {
    fn encode(&self, plain: &[u8], place: &Place<'_>) -> Result<Encoded, CodecError> {
        let times = if place.kind == Kind::Error { 1 } else { 100 };
        Ok(Encoded {
            key: "w".into(),
            bytes: plain.repeat(times),
        })
    }

    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>, CodecError> {
        let times = if place.kind == Kind::Error { 1 } else { 100 };
        let bytes = encoded.bytes.len() / times;
        Ok(encoded.bytes[..bytes].to_vec())
    }
}

async fn a_value_that_is_too_large_encoded_is_refused_with_its_encoded_size<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, Wasteful).await;
    let client = engine.client();
    let grown = insert(client, Vault::with(Secret::Grow(20_000))).await;
    let reason = reason(client, grown).await;
    let expected = "state has 20002 bytes, and 2669";
    assert!(reason.contains(expected), "{reason}");
    assert!(
        reason.contains("when it is encoded; at most 2097152"),
        "{reason}"
    );
    let large = Vault::with(Secret::Hold("x".repeat(20_000)));
    let error = client.start(large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(expected), "{error}");
    let small = insert(client, secret(Secret::Tell)).await;
    assert_eq!(output_of(client, small).await.unwrap(), MARK);
    engine.shutdown().await.unwrap();
}

async fn a_long_error_is_cut_before_it_is_encoded<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let long = "é\u{1}".repeat(limits::ERROR_BYTES_MAX);
    let id = insert(client, Vault::with(Secret::Stop(long))).await;
    let reason = reason(client, id).await;
    assert!(reason.starts_with("é\u{fffd}é\u{fffd}"), "{reason}");
    assert!(reason.ends_with("… (cut)"), "{reason}");
    assert!(
        reason.len() > limits::ERROR_BYTES_MAX / 2,
        "{}",
        reason.len()
    );
    let stored = format!("select last_error from instances where id = {id}");
    let stored = raw.text(&stored).await;
    assert!(stored.len() <= limits::ERROR_BYTES_MAX, "{}", stored.len());
    engine.shutdown().await.unwrap();
}

async fn no_plain_value_is_taken_for_an_encoded_one<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    struct Any;
    #[steps]
    enum Thing {
        Be(serde_json::Value),
        Say(String),
    }
    impl Machine for Any {
        const NAME: &'static str = "any";
        type State = Thing;
        type Output = serde_json::Value;
        async fn step(&self, state: Thing, _: &Context) -> StepResult<Self> {
            match state {
                Thing::Be(value) => done(value),
                Thing::Say(text) => fail(text),
            }
        }
    }
    let build = |store: S| Engine::builder(store).register(Any).queue("default", 10);
    let without = build(store.clone()).start().await.unwrap();
    let forged = serde_json::json!({ "outlast:encoded": "1:-:k1:AAAA" });
    let error = without.start(Any::with(Thing::Be(forged.clone()))).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("kept for encoded values"), "{error}");
    // Inside another value the name is allowed.
    let nested = serde_json::json!([forged]);
    let be = insert(without.client(), Any::with(Thing::Be(nested.clone()))).await;
    assert_eq!(output_of(without.client(), be).await.unwrap(), nested);
    let text = "outlast:encoded:1:i:k1:AAAA";
    let said = insert(without.client(), Any::with(Thing::Say(text.into()))).await;
    assert_eq!(reason(without.client(), said).await, format!(" {text}"));
    without.shutdown().await.unwrap();

    // An engine with a codec still reads values that were written without one.
    let with = build(store).codec(keys("k1")).start().await.unwrap();
    assert_eq!(output_of(with.client(), be).await.unwrap(), nested);
    assert_eq!(reason(with.client(), said).await, format!(" {text}"));
    let said = insert(with.client(), Any::with(Thing::Say(text.into()))).await;
    assert_eq!(reason(with.client(), said).await, text);
    with.shutdown().await.unwrap();
}

/// A codec that panics at every write while it is broken.
#[derive(Clone)]
struct Moody {
    keys: Arc<Keyring>,
    broken: Arc<AtomicBool>,
}

impl Codec for Moody {
    fn encode(&self, plain: &[u8], place: &Place<'_>) -> Result<Encoded, CodecError> {
        assert!(!self.broken.load(Ordering::SeqCst), "the codec is broken");
        self.keys.encode(plain, place)
    }

    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>, CodecError> {
        self.keys.decode(encoded, place)
    }
}

async fn a_codec_that_panics_delays_its_instances_and_loses_nothing<S>(store: S, _: Raw)
where
    S: Store + Inspect + Clone,
{
    let broken = Arc::<AtomicBool>::default();
    let codec = Moody {
        keys: Arc::new(keys("k1")),
        broken: broken.clone(),
    };
    let engine = engine(store.clone(), codec).await;
    let client = Client::new(store).codec(keys("k1"));
    let parked = park(&engine).await;
    broken.store(true, Ordering::SeqCst);
    let error = engine
        .client()
        .start(secret(Secret::Tell))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert!(error.to_string().contains("the codec panicked"), "{error}");
    client.signal(parked, Word(MARK.into())).await.unwrap();
    is_left_alone(&client, parked).await;
    broken.store(false, Ordering::SeqCst);
    assert_eq!(
        output_of(engine.client(), parked).await.unwrap(),
        format!("{MARK} {MARK}")
    );
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_harness_runs_machines_with_a_codec() {
    let clock = ManualClock::default();
    let store = outlast_sqlite::Sqlite::options()
        .clock(clock.clone())
        .in_memory()
        .unwrap();
    let harness = Harness::on(store.clone(), clock).codec(keys("k1"));
    let mut harness = harness.register(Vault).build().await.unwrap();
    let id = insert(harness.client(), secret(Secret::Carry)).await;
    harness.run().await;
    harness.expect(id).await.awaits(["word"]);
    harness
        .client()
        .signal(id, Word(MARK.into()))
        .await
        .unwrap();
    let report = harness.run().await;
    assert_eq!(report.done, 1);
    let output = format!("{MARK} {MARK}");
    harness.expect(id).await.is_done_with(&output);
    let stored = Inspect::get(&store, id.get()).await.unwrap().unwrap();
    assert!(stored.result.unwrap().as_encoded().is_some());
    assert!(stored.state.as_encoded().is_some());
}

/// A machine that records its states.
struct Diary;

#[steps]
enum Entry {
    Write(String),
    Close(String),
}

impl Machine for Diary {
    const NAME: &'static str = "diary";
    const HISTORY: History = History::States;
    type State = Entry;
    type Output = ();

    async fn step(&self, entry: Entry, _: &Context) -> StepResult<Self> {
        match entry {
            Entry::Write(text) => next(Entry::Close(text)),
            Entry::Close(text) => fail(text),
        }
    }
}

async fn a_recorded_history_is_encoded_and_read_with_the_key<S: Store + Inspect + Clone>(
    store: S,
    raw: Raw,
) {
    let engine = Engine::builder(store.clone())
        .register(Diary)
        .queue("default", 10)
        .codec(keys("a"))
        .start()
        .await
        .unwrap();
    let id = insert(engine.client(), Diary::with(Entry::Write(MARK.into()))).await;
    output_of(engine.client(), id).await.unwrap_err();
    engine.shutdown().await.unwrap();
    assert!(!raw.everything().await.contains(MARK));
    let recorded = async |client: &Client| {
        let events = client
            .admin()
            .events_of(id.get(), 1)
            .await
            .unwrap()
            .into_iter();
        let events = events.map(|it| (it.name, it.data.as_str().to_owned()));
        events.collect::<Vec<_>>()
    };
    let written = format!(r#"{{"outcome":"next","to":"close","began":"{MARK}","state":"{MARK}"}}"#);
    let closed = format!(r#"{{"outcome":"fail","error":"{MARK}"}}"#);
    let expected = [("write".to_owned(), written), ("close".to_owned(), closed)];
    let reader = Client::new(store.clone()).codec(keys("a"));
    assert_eq!(recorded(&reader).await, expected);
    // A client without the key reads the names of the steps, and no data.
    let stranger = recorded(&Client::new(store)).await;
    assert_eq!(stranger[0].0, "write");
    assert!(stranger[0].1.starts_with(r#"{"outlast:encoded":"#));
}

/// Pays the payee that its first step returns. Its second step returns another name.
struct Purchase;

impl Durable for Purchase {
    const NAME: &'static str = "purchase";
    type Input = ();
    type Output = String;
}

impl Workflow for Purchase {
    async fn run(&self, flow: Flow, (): ()) -> FlowResult<String> {
        let first_run = flow.run_number() == 1;
        let payee = if first_run { "thief" } else { "shop" };
        let payee = flow
            .step("payee", async move || Ok::<_, String>(payee.to_owned()))
            .await?;
        flow.step("customer", async || Ok::<_, String>("thief".to_owned()))
            .await?;
        if first_run {
            return flow.continue_as_new(());
        }
        let Word(_) = flow.signal::<Word>().await?;
        Ok(format!("payee={payee}"))
    }
}

/// Starts a purchase and waits until it is parked in its second run.
async fn purchase(engine: &Engine) -> Id<Purchase> {
    let id = insert(engine.client(), Purchase::with(())).await;
    eventually("the purchase waits in its second run", async || {
        let it = get(engine.client(), id).await;
        it.status == Status::AwaitingSignal && it.run == 2
    })
    .await;
    id
}

async fn events_of_a_history_cannot_be_exchanged_moved_or_renamed<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let builder = builder(store).register(Purchase);
    let keys = keys("k1").require_encoded();
    let engine = builder.codec(keys).start().await.unwrap();
    let client = engine.client();
    let untouched = purchase(&engine).await;
    // The events of run 2 are: 1 run_started, 2 the payee, 3 the customer, 4 the wait.
    let data_of = |id, run, seq| {
        format!(
            "(select data from events where instance_id = {id} and run = {run} and seq = {seq})"
        )
    };
    let mut attacked = Vec::new();
    for attack in [
        "data of the next event",
        "data of another instance",
        "data of another run",
        "places exchanged",
        "another call",
        "another name",
        "another kind",
        "a wait that is a timer",
    ] {
        let id = purchase(&engine).await;
        let change = |what: String| {
            format!("update events set {what} where instance_id = {id} and run = 2 and seq = 2")
        };
        let sql = match attack {
            "data of the next event" => change(format!("data = {}", data_of(id, 2, 3))),
            "data of another instance" => change(format!("data = {}", data_of(untouched, 2, 2))),
            "data of another run" => change(format!("data = {}", data_of(id, 1, 2))),
            "places exchanged" => {
                let mine = format!("instance_id = {id} and run = 2");
                format!(
                    "update events set seq = 99, call = 2, name = 'customer' where {mine} and seq = 2;
                     update events set seq = 2, call = 1, name = 'payee' where {mine} and seq = 3;
                     update events set seq = 3 where {mine} and seq = 99"
                )
            }
            "another call" => change("call = 2".into()),
            "another name" => change("name = 'customer'".into()),
            "another kind" => change("kind = 'step_failed'".into()),
            _ => format!(
                "update events set kind = 'timer_cancelled' where instance_id = {id} and run = 2 and seq = 4"
            ),
        };
        raw.execute(&sql).await;
        attacked.push((attack, id));
    }
    for (_, id) in &attacked {
        client.signal(*id, Word(MARK.into())).await.unwrap();
    }
    client.signal(untouched, Word(MARK.into())).await.unwrap();
    assert_eq!(output_of(client, untouched).await.unwrap(), "payee=shop");
    for (attack, id) in attacked {
        eventually(attack, async || {
            let it = get(client, id).await;
            assert_ne!(it.status, Status::Done, "{attack}: {:?}", it.result);
            let error = it.last_error.unwrap_or_default();
            error.starts_with("blocked: ") && error.contains("was changed or moved")
        })
        .await;
    }
    engine.shutdown().await.unwrap();
}

/// Checks that the instance has failed because its state was changed.
async fn is_refused(store: &(impl Store + Inspect + Clone), id: InstanceId, why: &str) {
    let outsider = Client::new(store.clone());
    let ended = outsider.admin().wait_ended(id, LONG).await.unwrap();
    assert_eq!(ended.status, Status::Failed, "{why}");
    let error = Client::new(store.clone()).codec(keys("k1")).find(id).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("was changed or moved"), "{why}: {error}");
}

/// Exchanges a value of two rows, each named by a condition.
async fn exchange(raw: &Raw, table: &str, column: &str, [one, other]: [String; 2]) {
    let of = |row: &str| format!("select {column} from {table} where {row}");
    let (first, second) = (raw.text(&of(&one)).await, raw.text(&of(&other)).await);
    for (row, value) in [(one, second), (other, first)] {
        let sql = format!("update {table} set {column} = '{value}' where {row}");
        raw.execute(&sql).await;
    }
}

async fn inserted_states_cannot_be_exchanged_between_keys<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let mut ids = Vec::new();
    for key in ["shop", "thief", "untouched"] {
        let new = Vault::with(Secret::Tell(key.into())).key(key).queue("held");
        ids.push(insert(client, new).await.get());
    }
    let rows = [ids[0], ids[1]].map(|id| format!("id = {id}"));
    exchange(&raw, "instances", "state", rows).await;
    raw.execute("update instances set queue = 'default'").await;
    client.wake("default");
    is_refused(&store, ids[0], "the state of another key").await;
    is_refused(&store, ids[1], "the state of another key").await;
    let untouched = output_of(client, Id::<Vault>::of(ids[2])).await.unwrap();
    assert_eq!(untouched, "untouched");
    engine.shutdown().await.unwrap();
}

async fn states_of_children_cannot_be_exchanged<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let texts = || ["shop", "thief", "untouched"].map(String::from).to_vec();
    let mut children = Vec::new();
    for _ in 0..3 {
        let parent = insert(client, Vault::with(Secret::Each(texts()))).await;
        client.admin().wait_settled(parent, LONG).await.unwrap();
        let mine = client.admin().children(parent.get()).await.unwrap();
        children.push(mine.iter().map(|child| child.id).collect::<Vec<_>>());
    }
    // Two siblings, and two children at the same position of two parents.
    let siblings = [children[0][0], children[0][1]];
    let cousins = [children[1][0], children[2][0]];
    for pair in [siblings, cousins] {
        let rows = pair.map(|id| format!("id = {id}"));
        exchange(&raw, "instances", "state", rows).await;
    }
    raw.execute("update instances set queue = 'default'").await;
    client.wake("default");
    for id in siblings.into_iter().chain(cousins) {
        is_refused(&store, id, "the state of another child").await;
    }
    for id in [children[0][2], children[1][1], children[2][2]] {
        output_of(client, Id::<Page>::of(id)).await.unwrap();
    }
    engine.shutdown().await.unwrap();
}

/// Sends itself a word, and reads it at the next step, which runs ahead.
struct Echo;

#[steps]
enum Shout {
    Call,
    Hear,
}

impl Machine for Echo {
    const NAME: &'static str = "echo";
    type State = Shout;
    type Output = String;

    async fn step(&self, shout: Shout, cx: &Context) -> StepResult<Self> {
        match shout {
            Shout::Call => {
                cx.client().signal(cx.id(), Word(MARK.into())).await?;
                next(Shout::Hear)
            }
            Shout::Hear => {
                let Word(word) = cx.inbox()[0].payload.decode()?;
                done(word)
            }
        }
    }
}

async fn a_signal_that_is_read_between_two_steps_is_decoded<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let builder = Engine::builder(store).codec(keys("k")).register(Echo);
    let engine = builder.queue("default", 1).start().await.unwrap();
    let echo = support::insert(engine.client(), Echo::with(Shout::Call)).await;
    assert_eq!(echo.output().timeout(LONG).await.unwrap(), MARK);
    let ended = echo.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.revision.0, 3, "one claim and two commits");
    assert!(!raw.everything().await.contains(MARK));
    engine.shutdown().await.unwrap();
}

async fn signals_cannot_be_exchanged_between_keys_or_dedup_keys<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store, keys("k1")).await;
    let client = engine.client();
    let mut ids = Vec::new();
    for key in ["shop", "thief", "untouched"] {
        let id = insert(client, secret(Secret::Hold).key(key)).await;
        client.admin().wait_settled(id, LONG).await.unwrap();
        ids.push(id);
    }
    let [one, other] = [park(&engine).await, park(&engine).await];
    raw.execute("update instances set queue = 'held'").await;
    for key in ["shop", "thief", "untouched"] {
        let word = Word(format!("for {key}"));
        let dedup = format!("dedup {key}");
        client
            .signal(Vault::key(key), word)
            .dedup(dedup)
            .await
            .unwrap();
    }
    for (id, dedup) in [(one, "a"), (one, "b"), (other, "c")] {
        let word = Word(dedup.into());
        client.signal(id, word).dedup(dedup).await.unwrap();
    }
    let rows = [ids[0], ids[1]].map(|id| format!("target_id = {id}"));
    exchange(&raw, "signals", "payload", rows).await;
    let rows = ["a", "b"].map(|key| format!("dedup_key = '{key}'"));
    exchange(&raw, "signals", "payload", rows).await;
    // A client refuses the same signals as an engine.
    for (id, is_readable) in [
        (ids[0], false),
        (ids[1], false),
        (ids[2], true),
        (one, false),
        (other, true),
    ] {
        for signal in client.admin().signals(id.get(), None).await.unwrap() {
            let payload = signal.payload.unwrap();
            assert_eq!(
                payload.as_encoded().is_none(),
                is_readable,
                "{id}: {payload:?}"
            );
        }
    }
    raw.execute("update instances set queue = 'default'").await;
    client.wake("default");
    for id in [ids[0], ids[1], one] {
        let reason = reason(client, id).await;
        assert!(reason.contains("payload was changed or moved"), "{reason}");
    }
    assert_eq!(
        output_of(client, ids[2]).await.unwrap(),
        format!("{MARK} for untouched")
    );
    assert_eq!(output_of(client, other).await.unwrap(), format!("{MARK} c"));
    engine.shutdown().await.unwrap();
}

async fn a_state_of_an_earlier_visit_or_another_version_is_refused<S>(store: S, raw: Raw)
where
    S: Store + Inspect + Clone,
{
    let engine = engine(store.clone(), keys("k1")).await;
    let client = engine.client();
    let counting = async |from| {
        let id = insert(client, Vault::with(Secret::Count(from))).await;
        client.admin().wait_settled(id, LONG).await.unwrap();
        id
    };
    let counts = async |id: Id<Vault>, expected: &str| {
        eventually("the instance has counted on", async || {
            let it = get(client, id).await;
            it.status == Status::AwaitingSignal && it.state.as_str() == expected
        })
        .await;
    };
    let (back, untouched) = (counting(0).await, counting(0).await);
    let earlier = state(&raw, back).await;
    for id in [back, untouched] {
        client.signal(id, Word(MARK.into())).await.unwrap();
        counts(id, "2").await;
    }
    let sql = format!("update instances set state = '{earlier}' where id = {back}");
    raw.execute(&sql).await;
    let other_version = insert(client, secret(Secret::Tell).queue("held")).await;
    raw.execute(&format!(
        "update instances set machine_version = 2 where id = {other_version}"
    ))
    .await;
    let error = client.find(other_version).await.unwrap_err().to_string();
    assert!(error.contains("was changed or moved"), "{error}");
    for id in [back, untouched] {
        client.signal(id, Word(MARK.into())).await.unwrap();
    }
    counts(untouched, "3").await;
    is_refused(&store, back.get(), "the state of an earlier visit").await;
    engine.shutdown().await.unwrap();
}
