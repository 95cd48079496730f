//! Failures with a value: which errors are stored as one, and how callers read it back by type.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::Through;
use crate::support::{LONG, insert, on_both_stores, running};
use outlast::machine::{ChildOf, fail_with};
use outlast::prelude::*;
use outlast::store::limits::JSON_BYTES_MAX;
use outlast::store::{Inspect, RetryAnswer, Store};
use outlast::{
    Client, Durable, Fails, Handle, Job, JobError, New, Note, Status, StepError, WaitError,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

on_both_stores!(
    a_job_fails_with_its_error_as_a_value_after_its_last_attempt,
    a_job_that_is_tried_again_after_its_error_and_succeeds_has_no_error,
    an_attempt_that_panics_last_leaves_no_value_of_an_earlier_attempt,
    a_fatal_error_of_a_job_is_a_value_when_it_is_typed,
    an_error_that_names_its_delay_is_a_value_after_the_last_attempt,
    a_job_that_fails_with_a_text_has_no_value,
    an_error_that_is_not_typed_has_no_value,
    an_error_of_another_type_than_the_declared_one_has_no_value,
    a_cancelled_job_has_no_value,
    a_machine_fails_with_its_error_as_a_value,
    a_machine_that_fails_with_a_text_has_no_value,
    a_failure_is_not_read_as_the_error_of_another_machine,
    clients_on_other_nodes_read_the_value,
    a_parent_reads_the_errors_of_its_children_by_type,
    the_value_of_a_failed_child_is_not_its_output,
    a_value_that_the_error_type_does_not_read_is_an_error_of_the_wait,
    a_value_that_the_error_type_does_not_read_is_an_error_that_names_child_and_machine,
    a_value_that_is_too_large_fails_the_instance_with_its_text_and_says_so,
    a_value_with_a_nul_fails_the_job_with_its_text_and_says_so,
    a_value_that_does_not_serialise_fails_the_job_with_its_text_and_says_so,
    an_operators_retry_removes_the_value,
    a_failure_with_a_text_after_a_retry_has_no_value_of_the_failure_before,
);

/// The error of every job and machine here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
enum PostError {
    /// Its value is a JSON string, which the outputs here could read too.
    #[error("the letter is lost")]
    Lost,
    #[error("{0} is no address")]
    NoAddress(String),
    #[error("the letter is too heavy")]
    Heavy(String),
    #[error("the letter has pairs")]
    Pairs(BTreeMap<Pair, u8>),
}

/// JSON has no such keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Pair(u8, u8);

fn nowhere() -> PostError {
    PostError::NoAddress("Nowhere 7".to_owned())
}

#[derive(Clone, Serialize, Deserialize)]
enum Letter {
    Deliver,
    Refuse(PostError),
    RefuseOnce(PostError),
    RefuseThenDrop(PostError),
    BeHeavy,
    HaveNul,
    HavePairs,
}

#[job(attempts = 2)]
async fn post(letter: Letter, cx: &Context) -> Result<String, PostError> {
    let is_first = cx.attempt() == 0;
    match letter {
        Letter::Refuse(error) => Err(error),
        Letter::RefuseOnce(error) | Letter::RefuseThenDrop(error) if is_first => Err(error),
        Letter::RefuseThenDrop(_) => panic!("dropped the letter"),
        Letter::BeHeavy => Err(PostError::Heavy("x".repeat(JSON_BYTES_MAX))),
        Letter::HaveNul => Err(PostError::NoAddress("\0".to_owned())),
        Letter::HavePairs => Err(PostError::Pairs([(Pair(1, 2), 3)].into())),
        Letter::Deliver | Letter::RefuseOnce(_) => Ok("delivered".to_owned()),
    }
}

/// Describes a letter that is tried again at once.
fn letter(letter: Letter) -> New<post> {
    post::with(letter).backoff(Duration::ZERO, 1.0, Duration::ZERO)
}

/// A job whose errors say themselves what is to be done.
struct Courier;

#[derive(Serialize, Deserialize)]
enum Ride {
    Fatal(PostError),
    Postponed(PostError),
    Untyped(PostError),
    Text(String),
    OtherType,
    Cancelled(PostError),
}

impl Job for Courier {
    const NAME: &'static str = "courier";
    const MAX_ATTEMPTS: u32 = 2;
    type Args = Ride;
    type Output = String;

    async fn perform(&self, ride: Ride, _cx: &Context) -> Result<String, JobError> {
        Err(match ride {
            Ride::Fatal(error) => JobError::fatal(error).typed::<Courier>(),
            Ride::Postponed(error) => {
                JobError::retry_after(Duration::ZERO, error).typed::<Courier>()
            }
            Ride::Untyped(error) => JobError::fatal(error),
            Ride::Text(text) => JobError::fatal(text).typed::<Courier>(),
            Ride::OtherType => {
                JobError::fatal(std::io::Error::other("a flat tyre")).typed::<Courier>()
            }
            Ride::Cancelled(error) => JobError::cancel(error).typed::<Courier>(),
        })
    }
}

impl Fails for Courier {
    type Error = PostError;
}

/// A machine that fails in the way that its state says.
#[derive(Clone, Default)]
struct Clerk {
    runs: Arc<AtomicU32>,
}

#[steps]
enum Form {
    Refuse(PostError),
    RefuseHeavy,
    Reject(String),
    RefuseThenAccept(PostError),
    RefuseThenReject(PostError),
}

impl Machine for Clerk {
    const NAME: &'static str = "clerk";
    type State = Form;
    type Output = String;

    async fn step(&self, form: Form, _cx: &Context) -> StepResult<Self> {
        let is_first = self.runs.fetch_add(1, Ordering::SeqCst) == 0;
        match form {
            Form::Refuse(error) => fail_with(error),
            Form::RefuseHeavy => fail_with(PostError::Heavy("x".repeat(JSON_BYTES_MAX))),
            Form::Reject(reason) => fail(reason),
            Form::RefuseThenAccept(error) | Form::RefuseThenReject(error) if is_first => {
                fail_with(error)
            }
            Form::RefuseThenAccept(_) => done("accepted".to_owned()),
            Form::RefuseThenReject(_) => fail("out of hours"),
        }
    }
}

impl Fails for Clerk {
    type Error = PostError;
}

/// A later build of [`post`], which does not read the errors of the build before.
struct LaterPost;

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("code {code}")]
struct Coded {
    code: u32,
}

impl Job for LaterPost {
    const NAME: &'static str = "post";
    type Args = Letter;
    type Output = String;

    async fn perform(&self, _: Letter, _cx: &Context) -> Result<String, JobError> {
        Err(JobError::fatal(Coded { code: 7 }).typed::<LaterPost>())
    }
}

impl Fails for LaterPost {
    type Error = Coded;
}

/// Sends letters, and reports what it sees of them.
struct Office;

#[steps]
enum Desk {
    Send(Vec<Letter>),
    SendToLaterBuild(Vec<Letter>),
    Sort,
    SortInLaterBuild,
}

impl Machine for Office {
    const NAME: &'static str = "office";
    type State = Desk;
    type Output = Value;

    async fn step(&self, desk: Desk, cx: &Context) -> StepResult<Self> {
        let letters = |letters: Vec<Letter>| fan_out(letters.into_iter().map(letter));
        match desk {
            Desk::Send(sent) => letters(sent).then(Desk::Sort),
            Desk::SendToLaterBuild(sent) => letters(sent).then(Desk::SortInLaterBuild),
            Desk::Sort => done(cx.children::<post>()?.into_iter().map(seen).collect()),
            Desk::SortInLaterBuild => {
                let sorted = cx.children::<LaterPost>()?.into_iter();
                done(sorted.map(seen).collect())
            }
        }
    }
}

/// The status, the error, the value, the output, and the insistence on an output.
fn seen<D>(child: ChildOf<D>) -> Value
where
    D: Durable<Output = String> + Fails,
    D::Error: Serialize + DeserializeOwned,
{
    let told = |error: StepError| error.to_string();
    let value = child.downcast().map_err(told);
    let (status, error, output) = (child.status, child.error.clone(), child.output.clone());
    json!([
        status,
        error,
        value,
        output,
        child.into_output().map_err(told)
    ])
}

async fn sorting(store: impl Store + Inspect) -> Engine {
    let builder = Engine::builder(store).register(Office).register(post);
    builder.start().await.unwrap()
}

/// Waits until the instance has ended with an error.
async fn error_of<D: Durable>(handle: &Handle<D>) -> WaitError
where
    D::Output: std::fmt::Debug,
{
    handle.output().timeout(LONG).await.unwrap_err()
}

/// Asserts that it failed with this reason and this value, twice: from memory and from the store.
async fn has_failed<D>(handle: &Handle<D>, expected: &str, error: PostError)
where
    D: Fails<Error = PostError>,
    D::Output: std::fmt::Debug,
{
    for _ in 0..2 {
        let ended = error_of(handle).await;
        let WaitError::Ended { status, reason, .. } = &ended else {
            panic!("{ended}");
        };
        assert_eq!(
            (*status, reason.as_deref()),
            (Status::Failed, Some(expected))
        );
        assert_eq!(ended.downcast::<D>().unwrap(), error);
    }
}

/// Asserts that it has ended with this status, and that `downcast` returns the error unchanged.
async fn has_no_value<D>(handle: &Handle<D>, expected: Status) -> String
where
    D: Fails<Error = PostError>,
    D::Output: std::fmt::Debug,
{
    let ended = error_of(handle).await;
    let text = ended.to_string();
    let ended = ended.downcast::<D>().unwrap_err();
    assert_eq!(ended.to_string(), text);
    let WaitError::Ended {
        id,
        status,
        reason,
        value,
    } = ended
    else {
        panic!("{ended}");
    };
    assert_eq!((id, status, value), (handle.id().get(), expected, None));
    reason.unwrap()
}

async fn a_job_fails_with_its_error_as_a_value_after_its_last_attempt<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, post).await;
    let refused = insert(engine.client(), letter(Letter::Refuse(nowhere()))).await;
    let reason = "gave up after 2 attempts: Nowhere 7 is no address";
    has_failed(&refused, reason, nowhere()).await;
    let stored = refused.instance().await.unwrap();
    assert_eq!((stored.status, stored.attempt), (Status::Failed, 1));
}

async fn a_job_that_is_tried_again_after_its_error_and_succeeds_has_no_error<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, post).await;
    let sent = insert(engine.client(), letter(Letter::RefuseOnce(nowhere()))).await;
    assert_eq!(sent.output().timeout(LONG).await.unwrap(), "delivered");
    assert_eq!(sent.instance().await.unwrap().last_error, None);
}

async fn an_attempt_that_panics_last_leaves_no_value_of_an_earlier_attempt<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, post).await;
    let sent = insert(engine.client(), letter(Letter::RefuseThenDrop(nowhere()))).await;
    let reason = has_no_value(&sent, Status::Failed).await;
    let expected = "gave up after 2 attempts: the step panicked: dropped the letter";
    assert_eq!(reason, expected);
}

async fn a_fatal_error_of_a_job_is_a_value_when_it_is_typed<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Courier).await;
    let ride = insert(engine.client(), Courier::with(Ride::Fatal(nowhere()))).await;
    has_failed(&ride, "Nowhere 7 is no address", nowhere()).await;
    assert_eq!(ride.instance().await.unwrap().attempt, 0);
}

async fn an_error_that_names_its_delay_is_a_value_after_the_last_attempt<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Courier).await;
    let ride = insert(engine.client(), Courier::with(Ride::Postponed(nowhere()))).await;
    let reason = "gave up after 2 attempts: Nowhere 7 is no address";
    has_failed(&ride, reason, nowhere()).await;
}

/// Runs a ride that ends without a value, and returns its reason.
async fn ride_without_value(store: impl Store + Inspect, ride: Ride, ends: Status) -> String {
    let engine = running(store, Courier).await;
    let ride = insert(engine.client(), Courier::with(ride)).await;
    has_no_value(&ride, ends).await
}

async fn a_job_that_fails_with_a_text_has_no_value<S: Store + Inspect + Clone>(store: S) {
    let ride = Ride::Text("no petrol".to_owned());
    let reason = ride_without_value(store, ride, Status::Failed).await;
    assert_eq!(reason, "no petrol");
}

async fn an_error_that_is_not_typed_has_no_value<S: Store + Inspect + Clone>(store: S) {
    let ride = Ride::Untyped(nowhere());
    let reason = ride_without_value(store, ride, Status::Failed).await;
    assert_eq!(reason, "Nowhere 7 is no address");
}

async fn an_error_of_another_type_than_the_declared_one_has_no_value<S: Store + Inspect + Clone>(
    store: S,
) {
    let reason = ride_without_value(store, Ride::OtherType, Status::Failed).await;
    assert_eq!(reason, "a flat tyre");
}

async fn a_cancelled_job_has_no_value<S: Store + Inspect + Clone>(store: S) {
    let ride = Ride::Cancelled(nowhere());
    let reason = ride_without_value(store, ride, Status::Cancelled).await;
    assert_eq!(reason, "Nowhere 7 is no address");
}

async fn a_machine_fails_with_its_error_as_a_value<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let form = insert(engine.client(), Clerk::with(Form::Refuse(nowhere()))).await;
    has_failed(&form, "Nowhere 7 is no address", nowhere()).await;
}

async fn a_machine_that_fails_with_a_text_has_no_value<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let form = Form::Reject("no stamp".to_owned());
    let form = insert(engine.client(), Clerk::with(form)).await;
    assert_eq!(has_no_value(&form, Status::Failed).await, "no stamp");
}

async fn a_failure_is_not_read_as_the_error_of_another_machine<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Clerk::default()).await;
    let form = insert(engine.client(), Clerk::with(Form::Refuse(nowhere()))).await;
    let unchanged = error_of(&form).await.downcast::<Courier>().unwrap_err();
    assert!(matches!(unchanged, WaitError::Ended { .. }), "{unchanged}");
    assert_eq!(unchanged.downcast::<Clerk>().unwrap(), nowhere());
}

async fn clients_on_other_nodes_read_the_value<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone(), Clerk::default()).await;
    let form = insert(engine.client(), Clerk::with(Form::Refuse(nowhere()))).await;
    let elsewhere = Client::new(Through::new(store));
    let form = elsewhere.handle::<Clerk>(&form).await.unwrap();
    has_failed(&form, "Nowhere 7 is no address", nowhere()).await;
}

async fn a_parent_reads_the_errors_of_its_children_by_type<S: Store + Inspect + Clone>(store: S) {
    let engine = sorting(store).await;
    let letters = vec![
        Letter::Deliver,
        Letter::Refuse(nowhere()),
        Letter::RefuseThenDrop(nowhere()),
    ];
    let office = insert(engine.client(), Office::with(Desk::Send(letters))).await;
    let sorted = office.output().timeout(LONG).await.unwrap();
    let values: Vec<_> = (0..3).map(|at| &sorted[at][2]).collect();
    // A failure that is only a text has no value, and neither has a child that is done.
    let none = json!({ "Ok": null });
    let expected = [&none, &json!({ "Ok": nowhere() }), &none];
    assert_eq!(values, expected, "{sorted}");
    let statuses: Vec<_> = (0..3).map(|at| &sorted[at][0]).collect();
    assert_eq!(statuses, ["done", "failed", "failed"]);
}

async fn the_value_of_a_failed_child_is_not_its_output<S: Store + Inspect + Clone>(store: S) {
    // The value is a text, as an output is.
    let engine = sorting(store).await;
    let letters = vec![Letter::Refuse(PostError::Lost)];
    let office = insert(engine.client(), Office::with(Desk::Send(letters))).await;
    let sorted = office.output().timeout(LONG).await.unwrap();
    let child = office.children().await.unwrap()[0].id;
    let reason = "gave up after 2 attempts: the letter is lost";
    let insisted = format!("child {child} is failed: {reason}");
    let expected = json!([[
        "failed",
        reason,
        { "Ok": PostError::Lost },
        null,
        { "Err": insisted },
    ]]);
    assert_eq!(sorted, expected);
    // For a client it is no output either.
    let child = engine.handle::<post>(child).await.unwrap();
    has_failed(&child, reason, PostError::Lost).await;
}

async fn a_value_that_the_error_type_does_not_read_is_an_error_of_the_wait<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, post).await;
    let refused = insert(engine.client(), letter(Letter::Refuse(nowhere()))).await;
    let later = engine.handle::<LaterPost>(refused.id().get());
    let ended = error_of(&later.await.unwrap()).await;
    let unread = ended.downcast::<LaterPost>().unwrap_err();
    let WaitError::ErrorValue { id, .. } = &unread else {
        panic!("{unread}");
    };
    assert_eq!(*id, refused.id().get());
    let message = unread.to_string();
    let start = format!("the error value of instance {id} cannot be read");
    assert!(message.starts_with(&start), "{message}");
    assert!(message.contains("missing field `code`"), "{message}");
}

async fn a_value_that_the_error_type_does_not_read_is_an_error_that_names_child_and_machine<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = sorting(store).await;
    let send = Desk::SendToLaterBuild(vec![Letter::Refuse(nowhere())]);
    let office = insert(engine.client(), Office::with(send)).await;
    let sorted = office.output().timeout(LONG).await.unwrap();
    let child = office.children().await.unwrap()[0].id;
    let unread = sorted[0][2]["Err"].as_str().unwrap();
    let expected = format!("error of child {child} (post)");
    assert!(unread.starts_with(&expected), "{unread}");
    assert!(unread.contains("does not decode"), "{unread}");
}

#[track_caller]
fn says_why(reason: &str, text: &str, why: &str) {
    let expected = format!("{text} (its value cannot be stored: ");
    assert!(reason.starts_with(&expected), "{reason}");
    assert!(reason.contains(why) && reason.ends_with(')'), "{reason}");
}

async fn a_value_that_is_too_large_fails_the_instance_with_its_text_and_says_so<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let builder = Engine::builder(store).register(Clerk::default());
    let engine = builder.register(post).start().await.unwrap();
    let form = insert(engine.client(), Clerk::with(Form::RefuseHeavy)).await;
    let reason = has_no_value(&form, Status::Failed).await;
    says_why(&reason, "the letter is too heavy", "at most 1048576");

    let sent = insert(engine.client(), letter(Letter::BeHeavy)).await;
    let reason = has_no_value(&sent, Status::Failed).await;
    let text = "gave up after 2 attempts: the letter is too heavy";
    says_why(&reason, text, "at most 1048576");
}

async fn a_value_with_a_nul_fails_the_job_with_its_text_and_says_so<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, post).await;
    let sent = insert(engine.client(), letter(Letter::HaveNul)).await;
    let reason = has_no_value(&sent, Status::Failed).await;
    let text = "gave up after 2 attempts: \u{fffd} is no address";
    says_why(&reason, text, "\\u0000");
}

async fn a_value_that_does_not_serialise_fails_the_job_with_its_text_and_says_so<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, post).await;
    let sent = insert(engine.client(), letter(Letter::HavePairs)).await;
    let reason = has_no_value(&sent, Status::Failed).await;
    let text = "gave up after 2 attempts: the letter has pairs";
    says_why(&reason, text, "key must be a string");
}

/// Runs a form that fails with a value, and lets an operator retry it.
async fn retried(engine: &Engine, form: Form) -> Handle<Clerk> {
    let form = insert(engine.client(), Clerk::with(form)).await;
    has_failed(&form, "Nowhere 7 is no address", nowhere()).await;
    let admin = engine.client().admin();
    // Nobody runs it before the test has looked at it.
    admin.pause("default", Note::by("chief")).await.unwrap();
    let answer = admin.retry(&form, Note::by("chief")).await.unwrap();
    assert_eq!(answer, RetryAnswer::Retried);
    assert_eq!(form.instance().await.unwrap().result, None);
    admin.resume("default", Note::by("chief")).await.unwrap();
    form
}

async fn an_operators_retry_removes_the_value<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Clerk::default()).await;
    let form = retried(&engine, Form::RefuseThenAccept(nowhere())).await;
    assert_eq!(form.output().timeout(LONG).await.unwrap(), "accepted");
}

async fn a_failure_with_a_text_after_a_retry_has_no_value_of_the_failure_before<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Clerk::default()).await;
    let form = retried(&engine, Form::RefuseThenReject(nowhere())).await;
    assert_eq!(has_no_value(&form, Status::Failed).await, "out of hours");
}
