//! Signals: early, late, concurrent and racing deadlines, and the instances that they reach.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, deliver, eventually, insert, on_both_stores, running};
use outlast::client::Sent;
use outlast::prelude::*;
use outlast::store::limits::INBOX_MAX;
use outlast::store::{Delivery, ErrorKind, Inspect, Store};
use outlast::{Client, Handle, InstanceId, New, SignalError, Status};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;
use tokio::task::JoinSet;

on_both_stores!(
    a_signal_sent_before_the_first_step_is_not_lost,
    a_signal_sent_while_the_step_before_the_wait_runs_is_not_lost,
    no_signal_of_many_concurrent_senders_is_lost,
    an_instance_gathers_signals_over_several_waits_without_spinning,
    a_retry_keeps_its_awaited_signals,
    progress_consumes_only_the_awaited_signals,
    a_signal_that_is_not_awaited_does_not_wake_the_instance,
    any_awaited_signal_wakes_the_instance,
    a_deadline_does_nothing_after_a_signal_has_woken_the_instance,
    a_deadline_before_the_signal_wakes_the_instance_without_it,
    a_deadline_that_races_a_signal_wakes_the_instance_once,
    a_signal_finds_its_target_by_key,
    a_signal_to_an_ended_instance_has_no_target,
    a_signal_to_a_missing_instance_has_no_target,
    a_signal_with_a_dedup_key_arrives_once_even_after_it_was_consumed,
    a_signal_to_a_full_inbox_is_answered_as_inbox_full,
    an_instance_woken_by_a_signal_waits_while_every_slot_is_taken,
    several_signals_at_once_wake_all_their_targets,
    signal_or_insert_starts_a_missing_instance_with_the_signal_in_its_inbox,
    signal_or_insert_signals_an_existing_instance,
    many_concurrent_signal_or_inserts_start_one_instance_and_lose_no_signal,
    signal_or_insert_starts_a_new_instance_after_the_first_has_ended,
    signal_or_insert_counts_a_dedup_key_once,
    signal_or_insert_without_a_key_is_refused_and_the_error_names_the_fix,
);

/// Gathers items until it has enough.
#[derive(Clone, Default)]
struct Packer {
    runs: Arc<AtomicU32>,
    /// Notified when [`Pack::Hold`] runs.
    held: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[steps]
enum Pack {
    /// Waits for the test before it waits for items.
    Hold {
        enough: usize,
    },
    Start {
        enough: usize,
    },
    Gather {
        enough: usize,
    },
    RetryThenTake,
    TakeClose,
    CloseTaken,
    TakeItem {
        seen: u32,
    },
    WaitAtMost {
        timeout_ms: u64,
    },
    WaitedAtMost,
    Listen,
}

#[derive(Signal, Serialize, Deserialize)]
struct Item(u32);

#[derive(Signal, Serialize, Deserialize)]
struct Close;

impl Machine for Packer {
    const NAME: &'static str = "packer";
    type State = Pack;
    type Output = Vec<u32>;

    async fn step(&self, pack: Pack, cx: &Context) -> StepResult<Self> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let items: Vec<u32> = {
            let items = cx.received_all::<Item>()?.into_iter();
            items.map(|item| item.0).collect()
        };
        match pack {
            Pack::Hold { enough } => {
                self.held.notify_one();
                self.go_on.notified().await;
                wait_for::<Item>().then(Pack::Gather { enough })
            }
            Pack::Start { enough } => wait_for::<Item>().then(Pack::Gather { enough }),
            Pack::Gather { enough } if items.len() < enough => {
                wait_for::<Item>().then(Pack::Gather { enough })
            }
            Pack::Gather { .. } => done(items),
            Pack::RetryThenTake if items.is_empty() => wait_for::<Item>().then(Pack::RetryThenTake),
            Pack::RetryThenTake if cx.attempt() < 2 => retry(Duration::ZERO, "again"),
            Pack::RetryThenTake => done(items),
            Pack::TakeClose => wait_for::<Close>().then(Pack::CloseTaken),
            Pack::CloseTaken => {
                let seen = cx.inbox().len() as u32;
                next(Pack::TakeItem { seen })
            }
            Pack::TakeItem { seen } if items.is_empty() => {
                assert_eq!(
                    cx.inbox().len(),
                    1,
                    "the close is consumed, the item is not"
                );
                wait_for::<Item>().then(Pack::TakeItem { seen })
            }
            Pack::TakeItem { seen } => done([vec![seen], items].concat()),
            Pack::WaitAtMost { timeout_ms } => wait_for::<Item>()
                .timeout(Duration::from_millis(timeout_ms))
                .then(Pack::WaitedAtMost),
            Pack::WaitedAtMost if items.is_empty() => done(vec![]),
            Pack::WaitedAtMost => wait_for::<Close>().then(Pack::Listen),
            Pack::Listen if cx.awaited().count() == 0 => {
                wait_for::<(Item, Close)>().then(Pack::Listen)
            }
            Pack::Listen => {
                let closed = cx.received::<Close>()?.is_some();
                done([items, vec![u32::from(closed)]].concat())
            }
        }
    }
}

/// Sends a signal, and returns whether it woke the instance.
async fn wakes<M>(handle: &Handle<M>, signal: impl Signal) -> bool {
    match deliver(handle.client(), handle, signal).await {
        Delivery::Delivered { woke, .. } => woke,
        refused
        @ (Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. }) => {
            panic!("the signal was not delivered: {refused:?}")
        }
    }
}

/// Asserts that a signal found no target.
#[track_caller]
fn has_no_target(sent: Result<Sent, SignalError>) {
    let refusal = sent.unwrap_err();
    let is_meant = matches!(&refusal, SignalError::NoTarget { signal } if signal == Item::NAME);
    assert!(is_meant, "{refusal:?}");
}

async fn a_signal_sent_before_the_first_step_is_not_lost<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let handle = insert(&client, Packer::with(Pack::Start { enough: 1 })).await;
    assert!(!wakes(&handle, Item(7)).await);
    let _engine = running(store, Packer::default()).await;
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
}

async fn a_signal_sent_while_the_step_before_the_wait_runs_is_not_lost<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let handle = insert(engine.client(), Packer::with(Pack::Hold { enough: 1 })).await;
    packer.held.notified().await;
    assert!(!wakes(&handle, Item(7)).await);
    packer.go_on.notify_one();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
}

async fn no_signal_of_many_concurrent_senders_is_lost<S: Store + Inspect + Clone>(store: S) {
    const SENDERS: u32 = 8;
    const EACH: u32 = 15;
    let enough = (SENDERS * EACH) as usize;
    let engine = running(store, Packer::default()).await;
    let gathers = insert(engine.client(), Packer::with(Pack::Start { enough })).await;
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let gathers = gathers.clone();
        senders.spawn(async move {
            for n in 0..EACH {
                let item = Item(sender * EACH + n);
                let sent = gathers.signal(item).await.unwrap();
                assert!(sent.is_new, "{sent:?}");
            }
        });
    }
    senders.join_all().await;
    let items = gathers.output().timeout(LONG).await.unwrap();
    assert_eq!(items.len(), enough, "each item arrives once");
    assert_eq!(BTreeSet::from_iter(items), (0..SENDERS * EACH).collect());
}

async fn an_instance_gathers_signals_over_several_waits_without_spinning<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let packer = Packer::default();
    let runs = || packer.runs.load(Ordering::SeqCst);
    let engine = running(store, packer.clone()).await;
    let handle = insert(engine.client(), Packer::with(Pack::Start { enough: 4 })).await;
    for item in 1..=3 {
        let parked = handle.settled().timeout(LONG).await.unwrap();
        assert_eq!(parked.status, Status::AwaitingSignal);
        assert_eq!(runs(), item, "the step runs once for each item");
        assert!(wakes(&handle, Item(item)).await);
    }
    let parked = handle.settled().timeout(LONG).await.unwrap();
    assert_eq!((parked.status, runs()), (Status::AwaitingSignal, 4));
    handle.signal(Item(4)).await.unwrap();
    // Oldest first, each once, also the items of earlier waits.
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [1, 2, 3, 4]);
    assert_eq!(runs(), 5);
}

async fn a_retry_keeps_its_awaited_signals<S: Store + Inspect + Clone>(store: S) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let handle = insert(engine.client(), Packer::with(Pack::RetryThenTake)).await;
    handle.settled().timeout(LONG).await.unwrap();
    handle.signal(Item(7)).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
    assert_eq!(packer.runs.load(Ordering::SeqCst), 4);
}

async fn progress_consumes_only_the_awaited_signals<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let handle = insert(engine.client(), Packer::with(Pack::TakeClose)).await;
    handle.settled().timeout(LONG).await.unwrap();
    assert!(!wakes(&handle, Item(7)).await);
    assert!(wakes(&handle, Close).await);
    // Two signals were in the inbox at the close. The item stays for the next wait.
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [2, 7]);
}

async fn a_signal_that_is_not_awaited_does_not_wake_the_instance<S: Store + Inspect + Clone>(
    store: S,
) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let handle = insert(engine.client(), Packer::with(Pack::Start { enough: 1 })).await;
    handle.settled().timeout(LONG).await.unwrap();
    assert!(!wakes(&handle, Close).await);
    let parked = handle.instance().await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    assert_eq!(packer.runs.load(Ordering::SeqCst), 1);
}

async fn any_awaited_signal_wakes_the_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let item = insert(engine.client(), Packer::with(Pack::Listen)).await;
    let close = insert(engine.client(), Packer::with(Pack::Listen)).await;
    item.signal(Item(7)).await.unwrap();
    close.signal(Close).await.unwrap();
    assert_eq!(item.output().timeout(LONG).await.unwrap(), [7, 0]);
    assert_eq!(close.output().timeout(LONG).await.unwrap(), [1]);
}

async fn a_deadline_does_nothing_after_a_signal_has_woken_the_instance<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let timeout_ms = 400;
    let handle = insert(
        engine.client(),
        Packer::with(Pack::WaitAtMost { timeout_ms }),
    )
    .await;
    let parked = handle.settled().timeout(LONG).await.unwrap();
    let deadline = parked.await_deadline.unwrap();
    assert!(wakes(&handle, Item(7)).await, "the signal came too late");
    let parked = handle.settled().timeout(LONG).await.unwrap();
    assert_eq!(parked.await_deadline, None);
    // The instance is still parked after the deadline.
    eventually("the deadline passes", async || {
        engine.client().admin().now().await.unwrap() > deadline
    })
    .await;
    let timers_have_looked = insert(
        engine.client(),
        Packer::with(Pack::WaitAtMost { timeout_ms: 1 }),
    )
    .await;
    assert!(
        timers_have_looked
            .output()
            .timeout(LONG)
            .await
            .unwrap()
            .is_empty()
    );
    let parked = handle.instance().await.unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    assert_eq!(parked.awaits, Some(vec!["close".to_owned()]));
    handle.signal(Close).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [1]);
}

async fn a_deadline_before_the_signal_wakes_the_instance_without_it<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let handle = insert(
        engine.client(),
        Packer::with(Pack::WaitAtMost { timeout_ms: 30 }),
    )
    .await;
    assert!(handle.output().timeout(LONG).await.unwrap().is_empty());
    has_no_target(handle.signal(Item(7)).await);
}

async fn a_deadline_that_races_a_signal_wakes_the_instance_once<S: Store + Inspect + Clone>(
    store: S,
) {
    const RACES: u64 = 40;
    let engine = running(store, Packer::default()).await;
    let mut races = JoinSet::new();
    for race in 0..RACES {
        let client = engine.client().clone();
        races.spawn(async move {
            let timeout_ms = 20 + race % 20;
            let handle = insert(&client, Packer::with(Pack::WaitAtMost { timeout_ms })).await;
            handle.settled().timeout(LONG).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            match deliver(&client, &handle, Item(7)).await {
                // The signal woke the instance, which takes it and waits for the next.
                Delivery::Delivered { woke: true, .. } => {
                    let settled = handle.settled().timeout(LONG).await.unwrap();
                    assert_eq!(settled.status, Status::AwaitingSignal);
                    assert_eq!(settled.step, "listen");
                }
                // The deadline woke the instance, which may still find the signal at its claim.
                Delivery::Delivered { woke: false, .. } => {
                    let settled = handle.settled().timeout(LONG).await.unwrap();
                    assert!(matches!(settled.step.as_str(), "listen" | "waited_at_most"));
                }
                // The instance was woken once and ended: two claims, two outcomes.
                Delivery::NoTarget => {
                    let ended = handle.instance().await.unwrap();
                    assert_eq!((ended.status, ended.revision.0), (Status::Done, 4));
                }
                other @ (Delivery::Duplicate { .. } | Delivery::InboxFull { .. }) => {
                    panic!("{other:?}")
                }
            }
        });
    }
    races.join_all().await;
}

async fn a_signal_finds_its_target_by_key<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let start = || Packer::with(Pack::Start { enough: 1 });
    let other = insert(engine.client(), start().key("pack:1")).await;
    let handle = insert(engine.client(), start().key("pack:2")).await;
    let sent = engine.client().signal(Packer::key("pack:2"), Item(7));
    let expected = Sent {
        instance: handle.id().get(),
        is_new: true,
    };
    assert_eq!(sent.await.unwrap(), expected);
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
    let other = other.settled().timeout(LONG).await.unwrap();
    assert_eq!(other.status, Status::AwaitingSignal);
}

async fn a_signal_to_an_ended_instance_has_no_target<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let gather = Packer::with(Pack::Gather { enough: 0 }).key("pack:1");
    let handle = insert(engine.client(), gather).await;
    assert!(handle.output().timeout(LONG).await.unwrap().is_empty());
    has_no_target(handle.signal(Item(7)).await);
    let by_key = engine.client().signal(Packer::key("pack:1"), Item(7));
    has_no_target(by_key.await);
}

async fn a_signal_to_a_missing_instance_has_no_target<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    has_no_target(client.signal(InstanceId(4711), Item(7)).await);
    has_no_target(client.signal(Packer::key("pack:1"), Item(7)).await);
}

async fn a_signal_with_a_dedup_key_arrives_once_even_after_it_was_consumed<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let handle = insert(
        engine.client(),
        Packer::with(Pack::WaitAtMost { timeout_ms: 60_000 }),
    )
    .await;
    let send = async || handle.signal(Item(7)).dedup("event-7").await.unwrap();
    let sent = |is_new| Sent {
        instance: handle.id().get(),
        is_new,
    };
    assert_eq!(send().await, sent(true));
    assert_eq!(send().await, sent(false));
    // The instance goes on to wait for a close, which consumes the item.
    eventually("the item is taken", async || {
        handle.instance().await.unwrap().step == "listen"
    })
    .await;
    assert_eq!(send().await, sent(false));
    handle.signal(Close).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [1]);
}

async fn an_instance_woken_by_a_signal_waits_while_every_slot_is_taken<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let packer = Packer::default();
    let engine = Engine::builder(store).register(packer.clone());
    let engine = engine.queue("default", 1).start().await.unwrap();
    let handle = insert(engine.client(), Packer::with(Pack::Start { enough: 1 })).await;
    handle.settled().timeout(LONG).await.unwrap();
    insert(engine.client(), Packer::with(Pack::Hold { enough: 1 })).await;
    packer.held.notified().await;

    assert!(wakes(&handle, Item(7)).await);
    let woken = handle.instance().await.unwrap();
    assert_eq!((woken.status, woken.locked_by), (Status::Runnable, None));
    packer.go_on.notify_one();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
    engine.shutdown().await.unwrap();
}

async fn several_signals_at_once_wake_all_their_targets<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        let handle = insert(engine.client(), Packer::with(Pack::Start { enough: 1 })).await;
        handle.settled().timeout(LONG).await.unwrap();
        handles.push(handle);
    }
    let signals = handles
        .iter()
        .map(|handle| Item(1).to(handle).unwrap())
        .collect();
    let answers = engine.client().admin().signal_rows(signals).await.unwrap();
    assert_eq!(answers.len(), 3);
    for handle in handles {
        assert_eq!(handle.output().timeout(LONG).await.unwrap(), [1]);
    }
    engine.shutdown().await.unwrap();
}

async fn a_signal_to_a_full_inbox_is_answered_as_inbox_full<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let handle = insert(&client, Packer::with(Pack::Start { enough: 1 })).await;
    let items = vec![Item(7).to(&handle).unwrap(); INBOX_MAX];
    let delivered = client.admin().signal_rows(items).await.unwrap();
    let fits = |delivery: &Delivery| matches!(delivery, Delivery::Delivered { .. });
    assert!(delivered.iter().all(fits));
    let refusal = handle.signal(Item(7)).await.unwrap_err();
    let SignalError::InboxFull { signal, instance } = refusal else {
        panic!("the inbox was not full: {refusal:?}");
    };
    assert_eq!((signal.as_str(), instance), (Item::NAME, handle.id().get()));
}

fn pack(enough: usize) -> New<Packer> {
    Packer::with(Pack::Start { enough }).key("pack:1")
}

async fn signal_or_insert_starts_a_missing_instance_with_the_signal_in_its_inbox<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let sending = engine.client().signal_or_start(pack(1), Item(7));
    let handle = sending.await.unwrap();
    assert!(handle.is_new(), "the instance existed before");
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
}

async fn signal_or_insert_signals_an_existing_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let handle = insert(engine.client(), pack(1)).await;
    handle.settled().timeout(LONG).await.unwrap();
    let sending = engine.client().signal_or_start(pack(1), Item(7));
    let signalled = sending.await.unwrap();
    assert_eq!((signalled.id(), signalled.is_new()), (handle.id(), false));
    // The instance was parked, so only the signal can wake it.
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7]);
}

async fn many_concurrent_signal_or_inserts_start_one_instance_and_lose_no_signal<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    const SENDERS: u32 = 20;
    let engine = running(store, Packer::default()).await;
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let client = engine.client().clone();
        senders.spawn(async move {
            let new = pack(SENDERS as usize);
            client.signal_or_start(new, Item(sender)).await.unwrap()
        });
    }
    let handles = senders.join_all().await;
    let started: Vec<_> = handles.iter().filter(|handle| handle.is_new()).collect();
    assert_eq!(started.len(), 1);
    assert!(handles.iter().all(|handle| handle.id() == started[0].id()));
    let items = started[0].output().timeout(LONG).await.unwrap();
    assert_eq!(items.len(), SENDERS as usize);
    assert_eq!(BTreeSet::from_iter(items), (0..SENDERS).collect());
}

async fn signal_or_insert_starts_a_new_instance_after_the_first_has_ended<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let first = engine.client().signal_or_start(pack(1), Item(1));
    let first = first.await.unwrap();
    assert_eq!(first.output().timeout(LONG).await.unwrap(), [1]);
    let second = engine.client().signal_or_start(pack(1), Item(2));
    let second = second.await.unwrap();
    assert!(second.is_new());
    assert_ne!(first.id(), second.id());
    assert_eq!(second.output().timeout(LONG).await.unwrap(), [2]);
}

async fn signal_or_insert_counts_a_dedup_key_once<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let admin = engine.client().admin();
    let send = async || {
        let sending = engine.client().signal_or_start(pack(2), Item(7));
        sending.dedup("event-7").await.unwrap()
    };
    let handle = send().await;
    assert!(handle.is_new(), "the instance existed before");
    let again = send().await;
    assert_eq!((again.id(), again.is_new()), (handle.id(), false));
    let stored = admin.signals(handle.id().get(), None).await.unwrap();
    assert_eq!(stored.len(), 1, "the second signal is a duplicate");
    handle.signal(Item(8)).await.unwrap();
    assert_eq!(handle.output().timeout(LONG).await.unwrap(), [7, 8]);
}

async fn signal_or_insert_without_a_key_is_refused_and_the_error_names_the_fix<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store);
    let keyless = Packer::with(Pack::Start { enough: 1 });
    let refusal = client.signal_or_start(keyless, Item(7)).await.unwrap_err();
    assert!(
        matches!(&refusal, SignalError::Store(error) if error.kind() == ErrorKind::Invalid),
        "{refusal:?}"
    );
    let message = refusal.to_string();
    assert!(message.contains("give the new instance one"), "{message}");
}
