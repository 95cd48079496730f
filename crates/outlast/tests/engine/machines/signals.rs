//! Signals: early, late, concurrent and racing deadlines, and the instances that they reach.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::{LONG, eventually, insert, on_both_stores, running};
use outlast::client::SignalledOrInserted;
use outlast::prelude::*;
use outlast_core::{Inspect, Store};
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

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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

#[derive(Serialize, Deserialize)]
struct Item(u32);

impl Signal for Item {
    const NAME: &'static str = "item";
}

#[derive(Serialize, Deserialize)]
struct Close;

impl Signal for Close {
    const NAME: &'static str = "close";
}

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
        Ok(match pack {
            Pack::Hold { enough } => {
                self.held.notify_one();
                self.go_on.notified().await;
                wait_for([Item::NAME]).then(Pack::Gather { enough })
            }
            Pack::Start { enough } => wait_for([Item::NAME]).then(Pack::Gather { enough }),
            Pack::Gather { enough } if items.len() < enough => {
                wait_for([Item::NAME]).then(Pack::Gather { enough })
            }
            Pack::Gather { .. } => Outcome::done(items),
            Pack::RetryThenTake if items.is_empty() => {
                wait_for([Item::NAME]).then(Pack::RetryThenTake)
            }
            Pack::RetryThenTake if cx.attempt() < 2 => Outcome::retry(Duration::ZERO, "again"),
            Pack::RetryThenTake => Outcome::done(items),
            Pack::TakeClose => wait_for([Close::NAME]).then(Pack::CloseTaken),
            Pack::CloseTaken => {
                let seen = cx.inbox().len() as u32;
                Outcome::next(Pack::TakeItem { seen })
            }
            Pack::TakeItem { seen } if items.is_empty() => {
                assert_eq!(
                    cx.inbox().len(),
                    1,
                    "the close is consumed, the item is not"
                );
                wait_for([Item::NAME]).then(Pack::TakeItem { seen })
            }
            Pack::TakeItem { seen } => Outcome::done([vec![seen], items].concat()),
            Pack::WaitAtMost { timeout_ms } => wait_for([Item::NAME])
                .timeout(Duration::from_millis(timeout_ms))
                .then(Pack::WaitedAtMost),
            Pack::WaitedAtMost if items.is_empty() => Outcome::done(vec![]),
            Pack::WaitedAtMost => wait_for([Close::NAME]).then(Pack::Listen),
            Pack::Listen if cx.awaited().count() == 0 => {
                wait_for([Item::NAME, Close::NAME]).then(Pack::Listen)
            }
            Pack::Listen => {
                let closed = cx.received::<Close>()?.is_some();
                Outcome::done([items, vec![u32::from(closed)]].concat())
            }
        })
    }
}

#[track_caller]
fn woke(delivery: Delivery) -> bool {
    match delivery {
        Delivery::Delivered { woke, .. } => woke,
        Delivery::Duplicate { .. } | Delivery::NoTarget | Delivery::InboxFull { .. } => {
            panic!("the signal was not delivered: {delivery:?}")
        }
    }
}

async fn a_signal_sent_before_the_first_step_is_not_lost<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store.clone());
    let id = insert::<Packer>(&client, New(Pack::Start { enough: 1 })).await;
    assert!(!woke(client.signal(id, Item(7)).await.unwrap()));
    let engine = running(store, Packer::default()).await;
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
}

async fn a_signal_sent_while_the_step_before_the_wait_runs_is_not_lost<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let id = insert::<Packer>(&engine, New(Pack::Hold { enough: 1 })).await;
    packer.held.notified().await;
    assert!(!woke(engine.signal(id, Item(7)).await.unwrap()));
    packer.go_on.notify_one();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
}

async fn no_signal_of_many_concurrent_senders_is_lost<S: Store + Inspect + Clone>(store: S) {
    const SENDERS: u32 = 8;
    const EACH: u32 = 15;
    let enough = (SENDERS * EACH) as usize;
    let engine = running(store, Packer::default()).await;
    let gathers = insert::<Packer>(&engine, New(Pack::Start { enough })).await;
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let client = engine.client().clone();
        senders.spawn(async move {
            for n in 0..EACH {
                let item = Item(sender * EACH + n);
                let delivery = client.signal(gathers, item).await.unwrap();
                assert!(
                    matches!(delivery, Delivery::Delivered { .. }),
                    "{delivery:?}"
                );
            }
        });
    }
    senders.join_all().await;
    let items = engine.wait(gathers, LONG).await.unwrap();
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
    let id = insert::<Packer>(&engine, New(Pack::Start { enough: 4 })).await;
    for item in 1..=3 {
        let parked = engine.wait_settled(id, LONG).await.unwrap();
        assert_eq!(parked.status, Status::AwaitingSignal);
        assert_eq!(runs(), item, "the step runs once for each item");
        assert!(woke(engine.signal(id, Item(item)).await.unwrap()));
    }
    let parked = engine.wait_settled(id, LONG).await.unwrap();
    assert_eq!((parked.status, runs()), (Status::AwaitingSignal, 4));
    engine.signal(id, Item(4)).await.unwrap();
    // Oldest first, each once, also the items of earlier waits.
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [1, 2, 3, 4]);
    assert_eq!(runs(), 5);
}

async fn a_retry_keeps_its_awaited_signals<S: Store + Inspect + Clone>(store: S) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let id = insert::<Packer>(&engine, New(Pack::RetryThenTake)).await;
    engine.wait_settled(id, LONG).await.unwrap();
    engine.signal(id, Item(7)).await.unwrap();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
    assert_eq!(packer.runs.load(Ordering::SeqCst), 4);
}

async fn progress_consumes_only_the_awaited_signals<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let id = insert::<Packer>(&engine, New(Pack::TakeClose)).await;
    engine.wait_settled(id, LONG).await.unwrap();
    assert!(!woke(engine.signal(id, Item(7)).await.unwrap()));
    assert!(woke(engine.signal(id, Close).await.unwrap()));
    // Two signals were in the inbox at the close. The item stays for the next wait.
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [2, 7]);
}

async fn a_signal_that_is_not_awaited_does_not_wake_the_instance<S: Store + Inspect + Clone>(
    store: S,
) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let id = insert::<Packer>(&engine, New(Pack::Start { enough: 1 })).await;
    engine.wait_settled(id, LONG).await.unwrap();
    assert!(!woke(engine.signal(id, Close).await.unwrap()));
    let parked = engine.get(id).await.unwrap().unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    assert_eq!(packer.runs.load(Ordering::SeqCst), 1);
}

async fn any_awaited_signal_wakes_the_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let item = insert::<Packer>(&engine, New(Pack::Listen)).await;
    let close = insert::<Packer>(&engine, New(Pack::Listen)).await;
    engine.signal(item, Item(7)).await.unwrap();
    engine.signal(close, Close).await.unwrap();
    assert_eq!(engine.wait(item, LONG).await.unwrap(), [7, 0]);
    assert_eq!(engine.wait(close, LONG).await.unwrap(), [1]);
}

async fn a_deadline_does_nothing_after_a_signal_has_woken_the_instance<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let packer = Packer::default();
    let engine = running(store, packer.clone()).await;
    let timeout_ms = 400;
    let id = insert::<Packer>(&engine, New(Pack::WaitAtMost { timeout_ms })).await;
    let parked = engine.wait_settled(id, LONG).await.unwrap();
    let deadline = parked.await_deadline.unwrap();
    assert!(
        woke(engine.signal(id, Item(7)).await.unwrap()),
        "the signal came too late"
    );
    let parked = engine.wait_settled(id, LONG).await.unwrap();
    assert_eq!(parked.await_deadline, None);
    // The instance is still parked after the deadline.
    eventually("the deadline passes", async || {
        engine.now().await.unwrap() > deadline
    })
    .await;
    let timers_have_looked =
        insert::<Packer>(&engine, New(Pack::WaitAtMost { timeout_ms: 1 })).await;
    assert!(
        engine
            .wait(timers_have_looked, LONG)
            .await
            .unwrap()
            .is_empty()
    );
    let parked = engine.get(id).await.unwrap().unwrap();
    assert_eq!(parked.status, Status::AwaitingSignal);
    assert_eq!(parked.awaits, Some(vec!["close".to_owned()]));
    engine.signal(id, Close).await.unwrap();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [1]);
}

async fn a_deadline_before_the_signal_wakes_the_instance_without_it<S: Store + Inspect + Clone>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let id = insert::<Packer>(&engine, New(Pack::WaitAtMost { timeout_ms: 30 })).await;
    assert!(engine.wait(id, LONG).await.unwrap().is_empty());
    let late = engine.signal(id, Item(7)).await.unwrap();
    assert_eq!(late, Delivery::NoTarget);
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
            let id = insert::<Packer>(&client, New(Pack::WaitAtMost { timeout_ms })).await;
            client.wait_settled(id, LONG).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            match client.signal(id, Item(7)).await.unwrap() {
                // The signal woke the instance, which takes it and waits for the next.
                Delivery::Delivered { woke: true, .. } => {
                    let settled = client.wait_settled(id, LONG).await.unwrap();
                    assert_eq!(settled.status, Status::AwaitingSignal);
                    assert_eq!(settled.step, "listen");
                }
                // The deadline woke the instance, which may still find the signal at its claim.
                Delivery::Delivered { woke: false, .. } => {
                    let settled = client.wait_settled(id, LONG).await.unwrap();
                    assert!(matches!(settled.step.as_str(), "listen" | "waited_at_most"));
                }
                // The instance was woken once and ended: two claims, two outcomes.
                Delivery::NoTarget => {
                    let ended = client.get(id).await.unwrap().unwrap();
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
    let start = || New::<Packer>(Pack::Start { enough: 1 });
    let other = insert(&engine, start().key("pack:1")).await;
    let id = insert(&engine, start().key("pack:2")).await;
    let delivery = engine.signal(Packer::key("pack:2"), Item(7)).await.unwrap();
    assert!(matches!(delivery, Delivery::Delivered { instance, .. } if instance == id.get()));
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
    let other = engine.wait_settled(other, LONG).await.unwrap();
    assert_eq!(other.status, Status::AwaitingSignal);
}

async fn a_signal_to_an_ended_instance_has_no_target<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let gather = New::<Packer>(Pack::Gather { enough: 0 }).key("pack:1");
    let id = insert(&engine, gather).await;
    assert!(engine.wait(id, LONG).await.unwrap().is_empty());
    let by_id = engine.signal(id, Item(7)).await.unwrap();
    let by_key = engine.signal(Packer::key("pack:1"), Item(7)).await.unwrap();
    assert_eq!((by_id, by_key), (Delivery::NoTarget, Delivery::NoTarget));
}

async fn a_signal_to_a_missing_instance_has_no_target<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let by_id = client.signal(InstanceId(4711), Item(7)).await.unwrap();
    let by_key = client.signal(Packer::key("pack:1"), Item(7)).await.unwrap();
    assert_eq!((by_id, by_key), (Delivery::NoTarget, Delivery::NoTarget));
}

async fn a_signal_with_a_dedup_key_arrives_once_even_after_it_was_consumed<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let id = insert::<Packer>(&engine, New(Pack::WaitAtMost { timeout_ms: 60_000 })).await;
    let send = async || engine.signal(id, Item(7)).dedup("event-7").await.unwrap();
    let first = send().await;
    assert!(matches!(first, Delivery::Delivered { .. }), "{first:?}");
    let duplicate = Delivery::Duplicate { instance: id.get() };
    assert_eq!(send().await, duplicate);
    // The instance goes on to wait for a close, which consumes the item.
    eventually("the item is taken", async || {
        engine.get(id).await.unwrap().unwrap().step == "listen"
    })
    .await;
    assert_eq!(send().await, duplicate);
    engine.signal(id, Close).await.unwrap();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [1]);
}

async fn an_instance_woken_by_a_signal_waits_while_every_slot_is_taken<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let packer = Packer::default();
    let engine = Engine::builder(store).machine(packer.clone());
    let engine = engine.queue("default", 1).start().await.unwrap();
    let id = insert(&engine, New::<Packer>(Pack::Start { enough: 1 })).await;
    engine.wait_settled(id, LONG).await.unwrap();
    insert(&engine, New::<Packer>(Pack::Hold { enough: 1 })).await;
    packer.held.notified().await;

    assert!(woke(engine.signal(id, Item(7)).await.unwrap()));
    let woken = engine.get(id).await.unwrap().unwrap();
    assert_eq!((woken.status, woken.locked_by), (Status::Runnable, None));
    packer.go_on.notify_one();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
    engine.shutdown().await;
}

async fn several_signals_at_once_wake_all_their_targets<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = insert(&engine, New::<Packer>(Pack::Start { enough: 1 })).await;
        engine.wait_settled(id, LONG).await.unwrap();
        ids.push(id);
    }
    let signals = ids.iter().map(|id| Item(1).to(*id).unwrap()).collect();
    let answers = engine.signal_rows(signals).await.unwrap();
    assert_eq!(answers.len(), 3);
    for id in ids {
        assert_eq!(engine.wait(id, LONG).await.unwrap(), [1]);
    }
    engine.shutdown().await;
}

async fn a_signal_to_a_full_inbox_is_answered_as_inbox_full<S: Store + Inspect + Clone>(store: S) {
    let client = Client::new(store);
    let id = insert::<Packer>(&client, New(Pack::Start { enough: 1 })).await;
    let payload = outlast::Json::of(&7).unwrap();
    let item = outlast::NewSignal::new(id.into(), Item::NAME, payload);
    let items = vec![item; outlast::limits::INBOX_MAX];
    let delivered = client.signal_rows(items).await.unwrap();
    let fits = |delivery: &Delivery| matches!(delivery, Delivery::Delivered { .. });
    assert!(delivered.iter().all(fits));
    let one_more = client.signal(id, Item(7)).await.unwrap();
    assert_eq!(one_more, Delivery::InboxFull { instance: id.get() });
}

fn pack(enough: usize) -> New<Packer> {
    New(Pack::Start { enough }).key("pack:1")
}

async fn signal_or_insert_starts_a_missing_instance_with_the_signal_in_its_inbox<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let answer = engine.signal_or_insert(pack(1), Item(7)).await.unwrap();
    let SignalledOrInserted::Inserted(id) = answer else {
        panic!("the instance existed before: {answer:?}");
    };
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
}

async fn signal_or_insert_signals_an_existing_instance<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let id = insert(&engine, pack(1)).await;
    engine.wait_settled(id, LONG).await.unwrap();
    let answer = engine.signal_or_insert(pack(1), Item(7)).await.unwrap();
    assert_eq!(answer.id(), Some(id));
    let SignalledOrInserted::Signalled(delivery) = answer else {
        panic!("the instance did not exist: {answer:?}");
    };
    assert!(woke(delivery));
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7]);
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
            client.signal_or_insert(new, Item(sender)).await.unwrap()
        });
    }
    let answers = senders.join_all().await;
    let started = answers.iter().filter_map(|answer| match answer {
        SignalledOrInserted::Inserted(id) => Some(*id),
        SignalledOrInserted::Signalled(_) => None,
    });
    let started: Vec<_> = started.collect();
    assert_eq!(started.len(), 1);
    assert!(answers.iter().all(|answer| answer.id() == Some(started[0])));
    let items = engine.wait(started[0], LONG).await.unwrap();
    assert_eq!(items.len(), SENDERS as usize);
    assert_eq!(BTreeSet::from_iter(items), (0..SENDERS).collect());
}

async fn signal_or_insert_starts_a_new_instance_after_the_first_has_ended<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let engine = running(store, Packer::default()).await;
    let first = engine.signal_or_insert(pack(1), Item(1)).await.unwrap();
    let first = first.id().unwrap();
    assert_eq!(engine.wait(first, LONG).await.unwrap(), [1]);
    let second = engine.signal_or_insert(pack(1), Item(2)).await.unwrap();
    let second = second.id().unwrap();
    assert_ne!(first, second);
    assert_eq!(engine.wait(second, LONG).await.unwrap(), [2]);
}

async fn signal_or_insert_counts_a_dedup_key_once<S: Store + Inspect + Clone>(store: S) {
    let engine = running(store, Packer::default()).await;
    let send = async || {
        let sending = engine.signal_or_insert(pack(2), Item(7)).dedup("event-7");
        sending.await.unwrap()
    };
    let SignalledOrInserted::Inserted(id) = send().await else {
        panic!("the instance existed before");
    };
    let again = send().await;
    let duplicate = Delivery::Duplicate { instance: id.get() };
    assert!(matches!(again, SignalledOrInserted::Signalled(delivery) if delivery == duplicate));
    engine.signal(id, Item(8)).await.unwrap();
    assert_eq!(engine.wait(id, LONG).await.unwrap(), [7, 8]);
}

async fn signal_or_insert_without_a_key_is_refused_and_the_error_names_the_fix<
    S: Store + Inspect + Clone,
>(
    store: S,
) {
    let client = Client::new(store);
    let keyless = New::<Packer>(Pack::Start { enough: 1 });
    let refusal = client.signal_or_insert(keyless, Item(7)).await.unwrap_err();
    assert_eq!(refusal.kind(), outlast::ErrorKind::Invalid);
    let message = refusal.to_string();
    assert!(message.contains("give the new instance one"), "{message}");
}
