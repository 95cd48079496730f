//! Updates of machines: signals that want a reply, and the replies that a step gives.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, insert, on_both_stores, running};
use outlast::client::RequestError;
use outlast::machine::Request;
use outlast::prelude::*;
use outlast::store::{Inspect, Store, UpdateState};
use outlast::{Client, Failure, Handle, Outcome, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

on_both_stores!(
    a_step_replies_with_its_outcome,
    a_step_answers_every_update_that_waits,
    the_same_id_gets_the_same_reply_and_changes_nothing,
    a_step_rejects_an_update,
    a_payload_that_does_not_fit_is_rejected_and_skipped,
    an_update_that_the_step_does_not_await_stays_for_a_later_one,
    a_step_that_was_woken_and_goes_on_without_a_reply_has_failed_to_answer,
    a_retry_gives_no_reply_and_sees_the_update_again,
    a_failed_step_gives_no_reply,
    an_update_without_an_answer_ends_with_its_instance,
    a_reply_with_the_last_outcome_is_stored,
    a_caller_on_another_node_gets_the_reply,
    an_update_by_key_reaches_the_holder,
    a_caller_that_waits_too_long_can_wait_on,
);

#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = u64)]
struct SetPrice {
    to: u64,
}

#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = String)]
struct Close;

#[derive(Signal, Serialize, Deserialize)]
struct Begin;

/// A sale whose price can be changed until it is closed.
#[derive(Clone, Default)]
struct Sale {
    steps: Arc<AtomicU32>,
}

#[steps]
#[derive(Clone)]
enum Step {
    /// Waits for `Begin`, and then opens.
    Wait {
        price: u64,
    },
    Open {
        price: u64,
    },
    Opened {
        price: u64,
    },
    Over {
        price: u64,
    },
}

impl Machine for Sale {
    const NAME: &'static str = "sale";
    type State = Step;
    type Output = u64;

    async fn step(&self, step: Step, cx: &Context) -> StepResult<Self> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        match step {
            Step::Wait { price } => wait_for::<Begin>().then(Step::Open { price }),
            Step::Open { price } => wait_for::<(SetPrice, Close)>().then(Step::Opened { price }),
            Step::Opened { mut price } => {
                while let Some(change) = cx.update::<SetPrice>() {
                    match change.to {
                        0 => drop(change.reject("nothing is free")),
                        13 => return next(Step::Open { price }),
                        14 if cx.attempt() == 0 => {
                            change.reply(1)?;
                            return retry(Duration::from_millis(10), "busy");
                        }
                        15 if cx.attempt() == 0 => {
                            change.reply(1)?;
                            return Err("the bank does not answer".into());
                        }
                        to => {
                            change.reply(price)?;
                            price = to;
                        }
                    }
                }
                match cx.update::<Close>() {
                    Some(close) => {
                        close.reply(format!("sold for {price}"))?;
                        next(Step::Over { price })
                    }
                    None => next(Step::Open { price }),
                }
            }
            Step::Over { price } => match cx.update::<Close>() {
                Some(close) => {
                    close.reply("it is over".into())?;
                    done(price)
                }
                None => done(price),
            },
        }
    }

    async fn on_failure(
        &self,
        _: Step,
        _: Failure,
        _: &Context,
    ) -> Result<Outcome<Self>, outlast::StepError> {
        Ok(Outcome::retry(Duration::from_millis(10), "failed"))
    }
}

async fn open(client: &Client, price: u64) -> Handle<Sale> {
    let sale = insert(client, Sale::with(Step::Open { price })).await;
    sale.settled().timeout(LONG).await.unwrap();
    sale
}

async fn set(sale: &Handle<Sale>, to: u64) -> Result<u64, RequestError> {
    sale.update(SetPrice { to }).timeout(LONG).await
}

async fn close(sale: &Handle<Sale>) -> String {
    sale.update(Close).timeout(LONG).await.unwrap()
}

async fn a_step_replies_with_its_outcome<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    assert_eq!(set(&sale, 6).await.unwrap(), 5);
    assert_eq!(set(&sale, 7).await.unwrap(), 6);
    assert_eq!(close(&sale).await, "sold for 7");
    assert_eq!(sale.output().timeout(LONG).await.unwrap(), 7);
    engine.shutdown().await.unwrap();
}

async fn a_step_answers_every_update_that_waits<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let sale = insert(&client, Sale::with(Step::Open { price: 1 })).await;
    for to in 2..=4 {
        let sent = sale.update(SetPrice { to }).id(format!("u-{to}"));
        let sent = sent.timeout(Duration::ZERO).await.unwrap_err();
        assert!(matches!(sent, RequestError::TimedOut { .. }), "{sent}");
    }
    let machine = Sale::default();
    let engine = running(store, machine.clone()).await;
    let mut replies = Vec::new();
    for to in 2..=4 {
        let again = sale.update(SetPrice { to }).id(format!("u-{to}"));
        replies.push(again.timeout(LONG).await.unwrap());
    }
    assert_eq!(replies, [1, 2, 3]);
    engine.shutdown().await.unwrap();
}

async fn the_same_id_gets_the_same_reply_and_changes_nothing<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    for to in [6, 7, 8] {
        let update = sale.update(SetPrice { to }).id("u-1").timeout(LONG);
        assert_eq!(update.await.unwrap(), 5);
    }
    assert_eq!(close(&sale).await, "sold for 6");
    engine.shutdown().await.unwrap();
}

async fn a_step_rejects_an_update<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    let rejected = set(&sale, 0).await.unwrap_err();
    assert_eq!(
        rejected.to_string(),
        "set_price was rejected: nothing is free"
    );
    assert_eq!(set(&sale, 6).await.unwrap(), 5);
    engine.shutdown().await.unwrap();
}

/// An update with the name of `SetPrice` and other fields.
#[derive(Signal, Serialize, Deserialize)]
#[signal(name = "set_price", reply = u64)]
struct SetName {
    name: String,
}

async fn a_payload_that_does_not_fit_is_rejected_and_skipped<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    let wrong = SetName { name: "Ada".into() };
    let rejected = sale.update(wrong).timeout(LONG).await.unwrap_err();
    assert!(
        matches!(rejected, RequestError::Rejected { .. }),
        "{rejected}"
    );
    assert_eq!(set(&sale, 6).await.unwrap(), 5);
    engine.shutdown().await.unwrap();
}

async fn pending<R: Request>(sale: &Handle<Sale>, id: &str, request: R) {
    let sent = sale.update(request).id(id).timeout(Duration::ZERO).await;
    assert!(matches!(sent, Err(RequestError::TimedOut { .. })));
}

async fn an_update_that_the_step_does_not_await_stays_for_a_later_one<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Sale::default()).await;
    let sale = insert(engine.client(), Sale::with(Step::Wait { price: 5 })).await;
    sale.settled().timeout(LONG).await.unwrap();
    pending(&sale, "u-1", SetPrice { to: 6 }).await;
    sale.signal(Begin).await.unwrap();
    assert_eq!(
        sale.update(SetPrice { to: 6 })
            .id("u-1")
            .timeout(LONG)
            .await
            .unwrap(),
        5
    );
    engine.shutdown().await.unwrap();
}

async fn a_step_that_was_woken_and_goes_on_without_a_reply_has_failed_to_answer<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    let failed = set(&sale, 13).await.unwrap_err();
    assert!(matches!(failed, RequestError::Failed { .. }), "{failed}");
    assert_eq!(set(&sale, 6).await.unwrap(), 5);
    engine.shutdown().await.unwrap();
}

async fn a_retry_gives_no_reply_and_sees_the_update_again<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    assert_eq!(set(&sale, 14).await.unwrap(), 5);
    assert_eq!(close(&sale).await, "sold for 14");
    engine.shutdown().await.unwrap();
}

async fn a_failed_step_gives_no_reply<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = open(engine.client(), 5).await;
    assert_eq!(set(&sale, 15).await.unwrap(), 5);
    assert_eq!(close(&sale).await, "sold for 15");
    engine.shutdown().await.unwrap();
}

async fn an_update_without_an_answer_ends_with_its_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let sale = insert(engine.client(), Sale::with(Step::Wait { price: 5 })).await;
    sale.settled().timeout(LONG).await.unwrap();
    let waiting = sale.clone();
    let waits = tokio::spawn(async move { waiting.update(SetPrice { to: 6 }).await });
    while engine
        .client()
        .admin()
        .signals(sale.id(), None)
        .await
        .unwrap()
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    sale.terminate(outlast::Note::by("ada")).await.unwrap();
    let ended = waits.await.unwrap().unwrap_err();
    assert!(matches!(ended, RequestError::Ended { .. }), "{ended}");
    engine.shutdown().await.unwrap();
}

async fn a_reply_with_the_last_outcome_is_stored<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let sale = insert(&client, Sale::with(Step::Over { price: 1 })).await;
    pending(&sale, "u-1", Close).await;
    let engine = running(store, Sale::default()).await;
    let reply = sale.update(Close).id("u-1").timeout(LONG).await.unwrap();
    assert_eq!(reply, "it is over");
    assert_eq!(sale.status().await.unwrap(), Status::Done);
    engine.shutdown().await.unwrap();
}

async fn a_caller_on_another_node_gets_the_reply<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store.clone(), Sale::default()).await;
    let id = open(engine.client(), 5).await.id();
    let other = Client::new(store);
    let reply = other
        .update(id, SetPrice { to: 6 })
        .timeout(LONG)
        .await
        .unwrap();
    assert_eq!(reply, 5);
    engine.shutdown().await.unwrap();
}

async fn an_update_by_key_reaches_the_holder<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let client = engine.client();
    let sale = insert(client, Sale::with(Step::Open { price: 5 }).key("car")).await;
    let update = client
        .update(Sale::key("car"), SetPrice { to: 6 })
        .id("u-1");
    assert_eq!(update.timeout(LONG).await.unwrap(), 5);
    close(&sale).await;
    sale.ended().timeout(LONG).await.unwrap();
    // The former holder was sent it.
    let again = client
        .update(Sale::key("car"), SetPrice { to: 6 })
        .id("u-1");
    assert_eq!(again.timeout(LONG).await.unwrap(), 5);
    let new = client
        .update(Sale::key("car"), SetPrice { to: 6 })
        .await
        .unwrap_err();
    assert!(matches!(new, RequestError::Ended { .. }), "{new}");
    engine.shutdown().await.unwrap();
}

async fn a_caller_that_waits_too_long_can_wait_on<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Sale::default()).await;
    let client = engine.client();
    let sale = insert(client, Sale::with(Step::Wait { price: 5 })).await;
    let late = sale
        .update(SetPrice { to: 6 })
        .timeout(Duration::from_millis(1))
        .await;
    let Err(RequestError::TimedOut { id, .. }) = late else {
        panic!("{late:?}");
    };
    let update = client
        .admin()
        .update(sale.id(), &id, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(update.unwrap().state, UpdateState::Pending);
    sale.signal(Begin).await.unwrap();
    let reply = sale
        .update(SetPrice { to: 6 })
        .id(id)
        .timeout(LONG)
        .await
        .unwrap();
    assert_eq!(reply, 5);
    engine.shutdown().await.unwrap();
}
