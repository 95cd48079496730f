//! The load: instances of every machine, signals, updates, cancels and retries, at a steady rate.
//! It writes the responses to the ledger.

mod ending;
mod family;
mod journey;
mod updates;

use crate::ledger::{Entry, Inserted, Ledger, now_us};
use crate::machines::{
    Chain, Flaky, Gathering, Growth, Hops, Item, Keep, Keeper, Kept, Line, Pack, Paid, Payment,
    Sale, Tree, Tries, Turn, fruit,
};
use crate::site::Site;
use anyhow::Result;
use outlast::prelude::*;
use outlast::{Client, Durable, Id, InstanceId, New, SignalError};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

/// The number of live instances above which the load waits for the workers.
const LIVE_MAX: i64 = 5_000;
/// Concurrent tasks that follow an instance with signals or cancels.
const FOLLOWERS_MAX: usize = 1_000;
/// How often a signal is sent again when its result is unknown.
const SENDS_MAX: u32 = 50;
/// The number of distinct errors that are kept.
const ERRORS_KEPT_MAX: usize = 100;
const PARTITION_KEYS: u64 = 10;
const CORRELATION_KEYS: u64 = 40;

/// The machines that the load starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Roots per second.
    pub(crate) rate: f64,
    /// The width of trees; 0 for none.
    pub(crate) tree_width: u64,
    /// Whether operators end and retry instances.
    pub(crate) operators: bool,
    /// Families per hundred roots.
    pub(crate) families: u32,
    /// Workflows per hundred roots.
    pub(crate) flows: u32,
    /// Whether there are trees that must be ended; only for a load whose process is not killed.
    pub(crate) doomed: bool,
}

impl Mix {
    /// Returns all machines, at this rate.
    pub(crate) fn of(rate: f64) -> Mix {
        Mix {
            rate,
            tree_width: 3,
            operators: true,
            families: 12,
            flows: 15,
            doomed: true,
        }
    }
}

/// The errors that the load received.
#[derive(Clone, Default)]
pub(crate) struct Errors {
    count: Arc<AtomicU64>,
    texts: Arc<Mutex<BTreeSet<String>>>,
}

impl Errors {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the distinct texts.
    pub(crate) fn texts(&self) -> BTreeSet<String> {
        self.texts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, error: &anyhow::Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() < ERRORS_KEPT_MAX {
            texts.insert(format!("{error:#}"));
        }
    }
}

/// Drives load until it is stopped.
#[derive(Clone)]
pub(crate) struct Load {
    client: Client,
    ledger: Ledger,
    mix: Mix,
    tokens: Arc<AtomicU64>,
    errors: Errors,
    followers: Arc<Semaphore>,
    too_many: Arc<AtomicBool>,
}

impl Load {
    pub(crate) fn new(client: Client, ledger: Ledger, seed: u64, mix: Mix) -> Load {
        Load {
            client,
            ledger,
            mix,
            // Different in each run: it decides which leaves of a tree fail.
            tokens: Arc::new(AtomicU64::new(seed % 1_000_000 * 1_000_000)),
            errors: Errors::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            too_many: Arc::default(),
        }
    }

    /// Starts mostly families.
    pub(crate) fn mostly_families(mut self) -> Load {
        self.mix.families = 90;
        self.mix.flows = 3;
        self
    }

    /// Starts mostly workflows.
    pub(crate) fn mostly_flows(mut self) -> Load {
        self.mix.families = 3;
        self.mix.flows = 90;
        self
    }

    /// Starts no trees that must be ended.
    pub(crate) fn without_doomed(mut self) -> Load {
        self.mix.doomed = false;
        self
    }

    /// Returns the errors that it received.
    pub(crate) fn errors(&self) -> Errors {
        self.errors.clone()
    }

    /// Starts instances until `stop`, then waits for the followers.
    pub(crate) async fn run(&self, site: &Site, seed: u64, mut stop: watch::Receiver<bool>) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tick = tokio::time::interval(Duration::from_secs_f64(1.0 / self.mix.rate));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asks = JoinSet::new();
        let lines = tokio::spawn(self.clone().form_lines(random.fork(), stop.clone()));
        let watching = tokio::spawn(self.clone().watch_live(site.clone()));
        while !*stop.borrow() {
            tokio::select! {
                _ = stop.changed() => break,
                _ = tick.tick() => {}
            }
            while asks.try_join_next().is_some() {}
            if self.too_many.load(Ordering::Relaxed) || asks.len() >= FOLLOWERS_MAX {
                continue;
            }
            let (load, random) = (self.clone(), random.fork());
            asks.spawn(async move { load.start_one(random).await });
        }
        let _ = lines.await;
        asks.join_all().await;
        watching.abort();
        // Every active follower holds a permit.
        let _ = self.followers.acquire_many(FOLLOWERS_MAX as u32).await;
    }

    /// Pauses the load while the workers fall behind, and while the database does not respond.
    async fn watch_live(self, site: Site) {
        loop {
            let live = site.live().await.unwrap_or(i64::MAX);
            self.too_many.store(live > LIVE_MAX, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn start_one(&self, mut random: fastrand::Rng) {
        let Mix {
            families, flows, ..
        } = self.mix;
        let result = match random.u32(..100) {
            lot if lot < families => self.start_related(&mut random).await,
            lot if lot < families + flows => self.start_journey(&mut random).await,
            _ => self.start_single(&mut random).await,
        };
        if let Err(error) = result {
            self.errors.note(&error);
        }
    }

    async fn start_single(&self, random: &mut fastrand::Rng) -> Result<()> {
        match random.u32(..100) {
            0..35 => self.start_chain(random).await,
            35..55 => self.start_payment(random).await,
            55..65 => self.start_pack(random).await,
            65..70 => self.start_desk(random).await,
            70..80 => self.start_flaky(random).await,
            80..92 => self.start_keeper(random).await,
            _ => self.start_tree(random).await,
        }
    }

    async fn start_chain(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let of = random.u32(1..8);
        let mut new = Chain::with(Hops::Hop { token, done: 0, of }).priority(random.i16(-2..3));
        if random.u32(..5) == 0 {
            new = new.delay(Duration::from_millis(random.u64(10..2_000)));
        }
        let ended = self.mix.operators && random.u32(..20) == 0;
        let result = (!ended).then(|| of.to_string());
        let id = self.insert(token, new, result).await?;
        if let (true, Some(id)) = (ended, id) {
            self.end_and_retry(id.into(), 300, random.fork());
        }
        Ok(())
    }

    async fn start_payment(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let patience_ms = random.u64(200..3_000);
        let new = Payment::with(Sale::Offer { token, patience_ms });
        let id = self.insert(token, new, None).await?;
        if let (Some(id), true) = (id, self.mix.operators && random.u32(..15) == 0) {
            self.end_within(id.into(), patience_ms, random.fork());
        }
        let pays = random.u32(..5) > 0;
        if let (true, Some(id)) = (pays, id) {
            self.follow(
                move |load, mut random| async move {
                    // Some payments arrive at once, some too late.
                    tokio::time::sleep(Duration::from_millis(random.u64(..patience_ms * 5 / 4)))
                        .await;
                    load.signal(
                        id.into(),
                        || Paid { amount: token },
                        format!("paid:{token}"),
                    )
                    .await;
                    if random.bool() {
                        load.signal(
                            id.into(),
                            || Paid { amount: token },
                            format!("paid:{token}"),
                        )
                        .await;
                    }
                },
                random.fork(),
            );
        }
        Ok(())
    }

    async fn start_pack(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let want = random.usize(1..8);
        let new = Pack::with(Gathering::Await {
            token,
            want,
            patience_ms: random.u64(300..1_500),
            have: Vec::new(),
        });
        if let Some(id) = self.insert(token, new, None).await? {
            if self.mix.operators && random.u32(..15) == 0 {
                self.end_within(id.into(), 1_000, random.fork());
            }
            self.follow(
                move |load, mut random| async move {
                    for number in 0..random.u64(..want as u64 + 3) {
                        tokio::time::sleep(Duration::from_millis(random.u64(..100))).await;
                        load.signal(id.into(), || Item { number }, format!("item:{number}"))
                            .await;
                    }
                },
                random.fork(),
            );
        }
        Ok(())
    }

    async fn start_flaky(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let left = random.u32(..4);
        let new = Flaky::with(Tries::Try {
            token,
            left,
            tried: 0,
        });
        let result = Some((left + 1).to_string());
        self.insert(token, new, result).await.map(drop)
    }

    /// Starts a keeper by an insert, or by a signal that inserts its target when no instance
    /// holds the key.
    async fn start_keeper(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let key = format!("keeper:{}", random.u64(..CORRELATION_KEYS));
        let new = Keeper::with(Keep::Open { token }).key(key);
        if random.bool() {
            return self.insert(token, new, None).await.map(drop);
        }
        let asked_at = now_us();
        self.ledger
            .write(&Entry::Asked {
                token,
                at: asked_at,
            })
            .await;
        let dedup = format!("kept:{token}");
        let signal = Kept { number: token };
        let sent = self.client.signal_or_start(new, signal).dedup(&dedup).await;
        match sent {
            Ok(keeper) if keeper.is_new() => {
                let id = keeper.id().get();
                self.note_inserted(token, id, asked_at, None).await;
            }
            Ok(keeper) => {
                self.note_duplicate(token).await;
                self.note_delivered(keeper.id().get(), dedup).await;
            }
            Err(SignalError::InboxFull { .. }) => self.note_duplicate(token).await,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn start_tree(&self, random: &mut fastrand::Rng) -> Result<()> {
        let width = self.mix.tree_width;
        if width == 0 {
            return self.start_chain(random).await;
        }
        let token = self.token();
        let depth = 3;
        let rounds = random.u32(1..3);
        let new = Tree::with(Growth::Grow {
            token,
            depth,
            width,
            rounds,
            fruit: 0,
        });
        let result = fruit(token, depth, width, rounds).to_string();
        self.insert(token, new, Some(result)).await.map(drop)
    }

    /// Inserts instances that share partition keys, each after the previous one was acknowledged.
    async fn form_lines(self, mut random: fastrand::Rng, stop: watch::Receiver<bool>) {
        let pause = Duration::from_secs_f64(5.0 / self.mix.rate);
        let mut next = Instant::now();
        while !*stop.borrow() {
            tokio::time::sleep_until(next).await;
            next = Instant::now() + pause;
            if self.too_many.load(Ordering::Relaxed) {
                continue;
            }
            let token = self.token();
            let key = format!("line:{}", random.u64(..PARTITION_KEYS));
            let new = Line::with(Turn::Enter { token }).partition_key(key);
            let result = Some(token.to_string());
            if let Err(error) = self.insert(token, new, result).await {
                self.errors.note(&error);
            }
        }
    }

    async fn insert<D: Durable>(
        &self,
        token: u64,
        new: New<D>,
        result: Option<String>,
    ) -> Result<Option<Id<D>>> {
        let asked_at = now_us();
        self.ledger
            .write(&Entry::Asked {
                token,
                at: asked_at,
            })
            .await;
        let started = self.client.start(new).await?;
        if !started.is_new() {
            self.note_duplicate(token).await;
            return Ok(None);
        }
        let id = started.id();
        self.note_inserted(token, id.get(), asked_at, result).await;
        Ok(Some(id))
    }

    async fn note_inserted(
        &self,
        token: u64,
        id: InstanceId,
        asked_at: i64,
        result: Option<String>,
    ) {
        let inserted = Inserted {
            token,
            id: id.0,
            at: now_us(),
            result,
            fails_with: Vec::new(),
            asked_at,
        };
        self.ledger.write(&Entry::Inserted(inserted)).await;
    }

    async fn note_duplicate(&self, token: u64) {
        let at = now_us();
        self.ledger.write(&Entry::Duplicate { token, at }).await;
    }

    /// Sends a signal until its result is known: again with the same dedup key when it is not.
    async fn signal<S: Signal>(&self, to: InstanceId, signal: impl Fn() -> S, dedup: String) {
        for _ in 0..SENDS_MAX {
            match self.client.signal(to, signal()).dedup(&dedup).await {
                Ok(sent) if sent.is_new => return self.note_delivered(sent.instance, dedup).await,
                Ok(_) | Err(SignalError::NoTarget { .. } | SignalError::InboxFull { .. }) => return,
                Err(error) => {
                    self.errors.note(&error.into());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn note_delivered(&self, instance: InstanceId, dedup: String) {
        let entry = Entry::Delivered {
            instance: instance.0,
            dedup,
            at: now_us(),
        };
        self.ledger.write(&entry).await;
    }

    /// Spawns a follower of an instance, unless there are too many.
    fn follow<F: Future<Output = ()> + Send + 'static>(
        &self,
        follower: impl FnOnce(Load, fastrand::Rng) -> F,
        random: fastrand::Rng,
    ) {
        if let Ok(permit) = self.followers.clone().try_acquire_owned() {
            let following = follower(self.clone(), random);
            tokio::spawn(async move {
                following.await;
                drop(permit);
            });
        }
    }

    fn token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }
}
