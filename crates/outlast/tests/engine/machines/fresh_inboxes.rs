//! Inboxes of steps that run ahead: each step sees the signals that came before it.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::through::{Break, Through};
use crate::support::{LONG, insert, on_both_stores, running};
use outlast::prelude::*;
use outlast::store::{Inspect, Store};
use outlast::{Client, Handle, Note, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

on_both_stores!(
    a_signal_sent_during_a_step_is_in_the_inbox_of_the_next_step,
    a_step_sees_every_signal_that_the_steps_before_it_sent,
    a_signal_sent_during_any_step_of_a_chain_is_in_the_inbox_of_the_next,
    a_consumed_signal_does_not_come_back_when_the_inbox_is_read_again,
    a_signal_that_a_step_has_seen_still_wakes_the_wait_for_it,
    a_chain_without_signals_never_reads_its_inbox_again,
    a_chain_reads_its_inbox_once_for_each_signal,
    a_step_whose_inbox_cannot_be_read_runs_at_the_next_claim,
    a_step_whose_claim_was_lost_while_its_inbox_was_read_does_not_run,
    on_cancel_sees_a_signal_that_came_before_the_cancel,
);

#[derive(Signal, Serialize, Deserialize)]
struct Memo(u32);

#[derive(Signal, Serialize, Deserialize)]
struct Go;

/// Runs step after step, sends itself notes, and writes down what each step has in its inbox.
#[derive(Clone, Default)]
struct Diary {
    steps: Arc<AtomicU32>,
}

/// The notes that each step has found.
type Pages = Vec<Vec<u32>>;

#[steps]
enum Page {
    /// Sends itself a note at each of these steps, then goes on, until no step is left.
    Write {
        left: u32,
        sends_at: Vec<u32>,
        found: Pages,
    },
    /// Waits for `Go`, and goes on as `Take` with what it has awaited.
    Wait,
    Take,
    Taken {
        before: Vec<String>,
    },
    /// Sends itself `Go`, waits for it when a later step has seen it, and ends.
    SendGo,
    SeeGo,
    GoCame,
    /// Sends itself a note and asks for its own cancel.
    Regret,
    Regretting,
}

impl Machine for Diary {
    const NAME: &'static str = "diary";
    type State = Page;
    type Output = Pages;

    async fn step(&self, page: Page, cx: &Context) -> StepResult<Self> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        match page {
            Page::Write {
                left,
                sends_at,
                mut found,
            } => {
                found.push(notes(cx));
                if sends_at.contains(&left) {
                    cx.client().signal(cx.id(), Memo(left)).await?;
                }
                match left.checked_sub(1) {
                    Some(left) => next(Page::Write {
                        left,
                        sends_at,
                        found,
                    }),
                    None => done(found),
                }
            }
            Page::Wait => wait_for::<Go>().then(Page::Take),
            Page::Take => {
                cx.client().signal(cx.id(), Memo(7)).await?;
                next(Page::Taken { before: names(cx) })
            }
            Page::Taken { before } => {
                assert_eq!(before, ["memo", "go"]);
                assert_eq!(names(cx), ["memo", "memo"], "what is not consumed");
                assert_eq!(cx.awaited().count(), 0);
                done(vec![notes(cx)])
            }
            Page::SendGo => {
                cx.client().signal(cx.id(), Go).await?;
                next(Page::SeeGo)
            }
            Page::SeeGo => {
                assert_eq!(names(cx), ["go"]);
                wait_for::<Go>().then(Page::GoCame)
            }
            Page::GoCame => {
                assert!(cx.received::<Go>()?.is_some());
                done(vec![])
            }
            Page::Regret => {
                cx.client().signal(cx.id(), Memo(7)).await?;
                cx.client()
                    .admin()
                    .cancel(cx.id(), Note::by("itself"))
                    .await?;
                next(Page::Regretting)
            }
            Page::Regretting => done(vec![]),
        }
    }

    async fn on_cancel(&self, _: Page, cx: &Context) -> StepResult<Self> {
        done(vec![notes(cx)])
    }
}

fn names(cx: &Context) -> Vec<String> {
    let inbox = cx.inbox().iter();
    inbox.map(|message| message.name.clone()).collect()
}

fn notes(cx: &Context) -> Vec<u32> {
    let notes = cx.inbox().iter().filter(|it| it.name == "memo");
    notes.map(|it| it.payload.decode().unwrap()).collect()
}

fn chain(steps: u32, sends_at: &[u32]) -> Page {
    Page::Write {
        left: steps - 1,
        sends_at: sends_at.to_vec(),
        found: vec![],
    }
}

async fn write(client: &Client, page: Page) -> Handle<Diary> {
    insert(client, Diary::with(page)).await
}

/// Returns what each step has found, and how often the instance was claimed.
async fn pages(diary: &Handle<Diary>) -> (Pages, i64) {
    let ended = diary.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Done, "{:?}", ended.last_error);
    let pages: Pages = ended.result.as_ref().unwrap().decode().unwrap();
    // The revision counts claims and commits.
    let claims = ended.revision.0 - pages.len() as i64;
    (pages, claims)
}

async fn a_signal_sent_during_a_step_is_in_the_inbox_of_the_next_step<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Diary::default()).await;
    let diary = write(engine.client(), chain(4, &[3])).await;
    let (pages, claims) = pages(&diary).await;
    assert_eq!(pages, [vec![], vec![3], vec![3], vec![3]]);
    assert_eq!(claims, 1, "all steps run on one claim");
    engine.shutdown().await.unwrap();
}

async fn a_step_sees_every_signal_that_the_steps_before_it_sent<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Diary::default()).await;
    let diary = write(engine.client(), chain(4, &[3, 2, 1])).await;
    let (pages, claims) = pages(&diary).await;
    assert_eq!(pages, [vec![], vec![3], vec![3, 2], vec![3, 2, 1]]);
    assert_eq!(claims, 1);
    engine.shutdown().await.unwrap();
}

/// The signals come from another process.
async fn a_signal_sent_during_any_step_of_a_chain_is_in_the_inbox_of_the_next<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let outside = Client::new(Through::new(store.clone()));
    let sent = Arc::new(AtomicU32::new(0));
    let courier = Courier {
        outside,
        sent: sent.clone(),
    };
    let engine = running(store, courier).await;
    let handle = insert(engine.client(), Courier::with(Delivery::Number(0))).await;
    let ended = handle.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Done, "{:?}", ended.last_error);
    assert_eq!(ended.revision.0, 1 + 51, "one claim and 51 commits");
    assert_eq!(sent.load(Ordering::SeqCst), 50);
    engine.shutdown().await.unwrap();
}

/// A machine to which each of its steps sends a signal from outside.
struct Courier {
    outside: Client,
    sent: Arc<AtomicU32>,
}

#[steps]
enum Delivery {
    Number(u32),
}

impl Machine for Courier {
    const NAME: &'static str = "courier";
    type State = Delivery;
    type Output = ();

    async fn step(&self, delivery: Delivery, cx: &Context) -> StepResult<Self> {
        let Delivery::Number(nth) = delivery;
        assert_eq!(cx.inbox().len() as u32, nth, "at step {nth}");
        if nth == 50 {
            return done(());
        }
        self.outside.signal(cx.id(), Memo(nth)).await?;
        self.sent.fetch_add(1, Ordering::SeqCst);
        next(Delivery::Number(nth + 1))
    }
}

async fn a_consumed_signal_does_not_come_back_when_the_inbox_is_read_again<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Diary::default()).await;
    let client = engine.client();
    let diary = write(client, Page::Wait).await;
    client.signal(&diary, Memo(1)).await.unwrap();
    client.signal(&diary, Go).await.unwrap();
    let found = diary.output().timeout(LONG).await.unwrap();
    assert_eq!(found, [[1, 7]]);
    engine.shutdown().await.unwrap();
}

/// A step that runs ahead consumes nothing, so the wait finds the signal that it has seen.
async fn a_signal_that_a_step_has_seen_still_wakes_the_wait_for_it<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Diary::default()).await;
    let diary = write(engine.client(), Page::SendGo).await;
    diary.output().timeout(LONG).await.unwrap();
    engine.shutdown().await.unwrap();
}

/// A store that counts how often an inbox is read.
fn counting<S: Store + Inspect>(store: S) -> (Through<S>, Arc<AtomicU32>) {
    let reads = Arc::new(AtomicU32::new(0));
    let counted = reads.clone();
    let store = Through::new(store).breaking(move |verb| {
        if verb == "inbox" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        None
    });
    (store, reads)
}

async fn a_chain_without_signals_never_reads_its_inbox_again<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let (store, reads) = counting(store);
    let client = Client::new(store.clone());
    let diary = write(&client, chain(20, &[])).await;
    // It is in the inbox of the claim.
    client.signal(&diary, Memo(99)).await.unwrap();
    let engine = running(store, Diary::default()).await;
    let (pages, claims) = pages(&diary).await;
    assert_eq!(pages, vec![vec![99]; 20]);
    assert_eq!((claims, reads.load(Ordering::SeqCst)), (1, 0));
    engine.shutdown().await.unwrap();
}

async fn a_chain_reads_its_inbox_once_for_each_signal<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let (store, reads) = counting(store);
    let engine = running(store, Diary::default()).await;
    let diary = write(engine.client(), chain(20, &[15, 5])).await;
    let (pages, claims) = pages(&diary).await;
    assert_eq!(pages.last().unwrap(), &[15, 5]);
    assert_eq!((claims, reads.load(Ordering::SeqCst)), (1, 2));
    engine.shutdown().await.unwrap();
}

async fn a_step_whose_inbox_cannot_be_read_runs_at_the_next_claim<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let reads = Arc::new(AtomicU32::new(0));
    let counted = reads.clone();
    let store = Through::new(store).breaking(move |verb| match verb {
        "inbox" if counted.fetch_add(1, Ordering::SeqCst) == 0 => Some(Break::Before),
        _ => None,
    });
    let machine = Diary::default();
    let engine = running(store, machine.clone()).await;
    let diary = write(engine.client(), chain(3, &[2])).await;
    let found = diary.output().timeout(LONG).await.unwrap();
    assert_eq!(found, [vec![], vec![2], vec![2]]);
    assert_eq!(machine.steps.load(Ordering::SeqCst), 3, "no step ran twice");
    assert_eq!(reads.load(Ordering::SeqCst), 1, "the claim has the inbox");
    let ended = diary.ended().timeout(LONG).await.unwrap();
    assert_eq!((ended.attempt, ended.crashes), (0, 0));
    engine.shutdown().await.unwrap();
}

async fn a_step_whose_claim_was_lost_while_its_inbox_was_read_does_not_run<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let reading = Arc::new(tokio::sync::Notify::new());
    let gate = Arc::new(tokio::sync::Notify::new());
    let (begun, held) = (reading.clone(), gate.clone());
    let through = Through::new(store.clone()).delaying(move |verb| {
        (verb == "inbox").then(|| {
            begun.notify_one();
            (Break::Before, held.clone())
        })
    });
    let machine = Diary::default();
    let engine = running(through, machine.clone()).await;
    let diary = write(engine.client(), chain(3, &[2])).await;
    let read = tokio::time::timeout(LONG, reading.notified()).await;
    read.expect("the inbox is read after the first step");
    diary.terminate(Note::by("ada")).await.unwrap();
    gate.notify_one();
    let ended = diary.ended().timeout(LONG).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    engine.shutdown().await.unwrap();
    assert_eq!(machine.steps.load(Ordering::SeqCst), 1);
}

async fn on_cancel_sees_a_signal_that_came_before_the_cancel<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let engine = running(store, Diary::default()).await;
    let diary = write(engine.client(), Page::Regret).await;
    let found = diary.output().timeout(LONG).await.unwrap();
    assert_eq!(found, [[7]]);
    engine.shutdown().await.unwrap();
}
