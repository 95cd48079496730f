//! A load of a hundred thousand instances of a mixed machine.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::support::on_both_stores;
use outlast::prelude::*;
use outlast::store::{Count, Delivery, Filter, Inspect, ListRequest, Store, limits};
use outlast::{Client, Handle, New, Status};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

on_both_stores!(a_hundred_thousand_instances_go_through_with_nothing_lost);

const TOTAL: u64 = 100_000;
const CHAINS: u64 = 30_000;
const WAITS: u64 = 10_000;
const TIMEOUTS: u64 = 10_000;
const RETRIES: u64 = 10_000;
const PARENTS: u64 = 2_000;
/// How many children each parent has.
const CHILDREN: u64 = 9;
const KEYED: u64 = 20_000;
const KEYS: u64 = 200;

/// The output of an instance is its number. The output of a parent is the sum of its children.
#[derive(Clone, Default)]
struct Mixed {
    ended: Arc<AtomicU64>,
}

#[steps]
enum Mix {
    Chain { left: u8, number: u64 },
    Wait { number: u64 },
    Waited { number: u64 },
    Timeout { number: u64 },
    TimedOut { number: u64 },
    Retry { number: u64 },
    Parent { number: u64 },
    Join,
    End { number: u64 },
}

#[derive(Signal, Serialize, Deserialize)]
struct Add {
    number: u64,
}

impl Mixed {
    fn end(&self, number: u64) -> StepResult<Mixed> {
        self.ended.fetch_add(1, Ordering::SeqCst);
        done(number)
    }
}

impl Machine for Mixed {
    const NAME: &'static str = "mixed";
    type State = Mix;
    type Output = u64;

    async fn step(&self, state: Mix, cx: &Context) -> StepResult<Self> {
        match state {
            Mix::Chain { left: 0, number } | Mix::End { number } => self.end(number),
            Mix::Chain { left, number } => next(Mix::Chain {
                left: left - 1,
                number,
            }),
            // The number comes with the signal.
            Mix::Wait { number } => wait_for::<Add>().then(Mix::Waited { number }),
            Mix::Waited { number } => match cx.received::<Add>()? {
                Some(add) => self.end(number + add.number),
                None => fail("woken without its signal"),
            },
            Mix::Timeout { number } => wait_for::<Add>()
                .timeout(Duration::from_millis(100))
                .then(Mix::TimedOut { number }),
            Mix::TimedOut { number } => match cx.received::<Add>()? {
                Some(_) => fail("a signal came that the test did not send"),
                None => self.end(number),
            },
            Mix::Retry { .. } if cx.attempt() == 0 => retry(Duration::from_millis(20), "not yet"),
            Mix::Retry { number } => self.end(number),
            Mix::Parent { number } => {
                let children = (0..CHILDREN).map(|nth| {
                    let number = number * CHILDREN + nth;
                    Mixed::with(Mix::End { number }).queue("children")
                });
                fan_out(children).then(Mix::Join)
            }
            Mix::Join => {
                let outputs = cx.children::<Mixed>()?.into_iter();
                let outputs = outputs.map(|child| child.into_output());
                self.end(outputs.sum::<Result<u64, _>>()?)
            }
        }
    }
}

/// The instances to insert, and the sum of all outputs.
fn everything() -> (Vec<New<Mixed>>, u64) {
    let mut news = Vec::new();
    let mut sum = 0;
    let mut add = |number: u64, new: New<Mixed>| {
        sum += number;
        news.push(new);
    };
    for number in 0..CHAINS {
        add(number, Mixed::with(Mix::Chain { left: 2, number }));
    }
    for number in 0..WAITS {
        // The signal adds as much again.
        let new = Mixed::with(Mix::Wait { number });
        add(2 * number, new.queue("waits").key(number.to_string()));
    }
    for number in 0..TIMEOUTS {
        add(number, Mixed::with(Mix::Timeout { number }).queue("waits"));
    }
    for number in 0..RETRIES {
        add(number, Mixed::with(Mix::Retry { number }).queue("waits"));
    }
    for number in 0..PARENTS {
        let children = (0..CHILDREN)
            .map(|nth| number * CHILDREN + nth)
            .sum::<u64>();
        // The children and the parent both count.
        add(2 * children, Mixed::with(Mix::Parent { number }));
    }
    for number in 0..KEYED {
        let new = Mixed::with(Mix::End { number }).queue("keyed");
        add(number, new.partition_key((number % KEYS).to_string()));
    }
    (news, sum)
}

async fn a_hundred_thousand_instances_go_through_with_nothing_lost<S>(store: S)
where
    S: Store + Inspect + Clone,
{
    let (news, expected_sum) = everything();
    assert_eq!(news.len() as u64 + PARENTS * CHILDREN, TOTAL);
    let machine = Mixed::default();
    let engine = Engine::builder(store).register(machine.clone());
    let engine = engine.queue("default", 2_000).queue("waits", 2_000);
    let engine = engine.queue("children", 2_000).queue("keyed", 500);
    let engine = engine.start().await.unwrap();
    let begun = Instant::now();

    let client = engine.client().clone();
    let inserts = tokio::spawn(async move { client.start_many(news).await.unwrap() });
    // A signal to an instance that is not stored yet is sent again.
    signal_all_waits(engine.client()).await;
    let inserted = inserts.await.unwrap();
    assert!(inserted.iter().all(Handle::is_new));
    eprintln!("inserted after {:?}", begun.elapsed());
    wait_for_all_ends(&machine, begun).await;
    eprintln!("ended after {:?}", begun.elapsed());
    engine.shutdown().await.unwrap();

    let counted = statuses(engine.client()).await;
    assert_eq!(counted, [(Status::Done.as_str(), TOTAL)].into());
    assert_eq!(outputs(engine.client()).await, (TOTAL, expected_sum));
    eprintln!("counted after {:?}", begun.elapsed());
}

async fn signal_all_waits(client: &Client) {
    let mut missing: Vec<u64> = (0..WAITS).collect();
    while !missing.is_empty() {
        let mut next = Vec::new();
        for numbers in missing.chunks(1_000) {
            let signals = numbers.iter().map(|number| {
                let key = number.to_string();
                let add = Add { number: *number };
                add.to(Mixed::key(key.clone())).unwrap().dedup_key(key)
            });
            let answers = client.admin().signal_rows(signals.collect()).await.unwrap();
            for (number, answer) in numbers.iter().zip(answers) {
                match answer {
                    Delivery::Delivered { .. } => {}
                    Delivery::NoTarget => next.push(*number),
                    Delivery::Duplicate { .. } | Delivery::InboxFull { .. } => {
                        panic!("signal {number}: {answer:?}")
                    }
                }
            }
        }
        if next.len() == missing.len() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        missing = next;
    }
}

/// Waits until every instance has ended. Fails when there is no progress.
async fn wait_for_all_ends(machine: &Mixed, begun: Instant) {
    const STALLED: Duration = Duration::from_secs(20);
    let mut last = (0, Instant::now());
    loop {
        let ended = machine.ended.load(Ordering::SeqCst);
        if ended >= TOTAL {
            return;
        }
        if ended > last.0 {
            last = (ended, Instant::now());
        }
        let idle = last.1.elapsed();
        assert!(idle < STALLED, "{ended} ended after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn statuses(client: &Client) -> BTreeMap<&'static str, u64> {
    let mut counted = BTreeMap::new();
    for status in [
        Status::Runnable,
        Status::Executing,
        Status::AwaitingSignal,
        Status::AwaitingChildren,
        Status::Done,
        Status::Failed,
        Status::Cancelled,
    ] {
        let filter = Filter {
            statuses: vec![status],
            ..Filter::default()
        };
        let count = match client.count(filter).await.unwrap() {
            Count::Exactly(count) | Count::AtLeast(count) => count,
        };
        if count > 0 {
            counted.insert(status.as_str(), count);
        }
    }
    counted
}

/// How many instances there are, and the sum of their outputs.
async fn outputs(client: &Client) -> (u64, u64) {
    let (mut instances, mut sum) = (0, 0);
    let mut before = None;
    loop {
        let request = ListRequest {
            before,
            limit: limits::PAGE_MAX,
            values: true,
            ..ListRequest::default()
        };
        let page = client.admin().list(request).await.unwrap();
        for instance in page.instances {
            instances += 1;
            sum += instance.result.unwrap().decode::<u64>().unwrap();
        }
        before = page.next;
        if before.is_none() {
            return (instances, sum);
        }
    }
}
