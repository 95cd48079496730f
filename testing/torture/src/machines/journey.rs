//! Workflows that use every call: steps that depend on each other, and activities alone, in
//! groups, in nested groups, side by side and in selections. Their children are other journeys and
//! machines, which they signal or cancel through handles. They also wait for signals, take updates
//! with a handler and as calls, sleep, use versions, and continue as new. A journey survives every
//! failure on the way, and a cancelled one undoes something first.
//!
//! The behaviour of a journey follows from its token, so a replay is the same. The result of a
//! step is a number drawn when it runs, which identifies that run of the step. Times and random
//! values become names of steps: if a replay gave others, the history would not match.

use super::updates::handle_asks;
use super::{Chain, Effects, Hops, Paid, Payment, Plea, Sale, Way, step_of};
use outlast::prelude::*;
use outlast::workflow::{Call, OneOf2, OneOf3};
use outlast::{Durable, Job, JobError, New, Workflow};
use outlast_core::ClosePolicy;

pub(crate) struct Journey(pub(super) Effects);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Trip {
    pub(crate) token: u64,
    /// How many levels of journeys it may start.
    pub(crate) depth: u32,
    /// The current run, from 1, and the total.
    pub(crate) leg: u32,
    pub(crate) legs: u32,
}

/// A signal that a journey may wait for.
#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Word {
    pub(crate) number: u64,
}

impl Durable for Journey {
    const NAME: &'static str = "journey";
    type Input = Trip;
    type Output = u32;
}

impl Workflow for Journey {
    async fn run(&self, flow: Flow, trip: Trip) -> FlowResult<u32> {
        handle_asks(&flow, &self.0)?;
        let mut traveller = Traveller {
            effects: &self.0,
            random: fastrand::Rng::with_seed(trip.token.wrapping_mul(64) + u64::from(trip.leg)),
            flow: flow.clone(),
            trip,
            received: Vec::new(),
            steps: 0,
        };
        match traveller.travel().await {
            Ok(()) if trip.leg < trip.legs => flow.continue_as_new(Trip {
                leg: trip.leg + 1,
                ..trip
            }),
            Ok(()) => Ok(trip.legs),
            Err(cancelled) => {
                flow.uncancellable(async { traveller.step().await }).await?;
                Err(cancelled)
            }
        }
    }
}

/// A running journey.
struct Traveller<'a> {
    effects: &'a Effects,
    flow: Flow,
    random: fastrand::Rng,
    trip: Trip,
    /// The numbers that it has received in this run.
    received: Vec<u64>,
    steps: u32,
}

impl Traveller<'_> {
    /// Its error means that the journey must end.
    async fn travel(&mut self) -> FlowResult<()> {
        for _ in 0..self.random.u32(1..6) {
            match self.random.u32(..24) {
                0..4 => self.step().await?,
                4 | 5 => self.errands().await?,
                6 => self.errands_and_a_step().await?,
                7 => self.errand_in_time().await?,
                8 => self.await_another().await?,
                9 => self.start_another().await?,
                10 => self.await_word().await?,
                11 => self.first_errand().await?,
                12 => self.errand_or_rest().await?,
                13 => self.step_or_rest().await?,
                14 => self.groups_of_groups().await?,
                15 => self.note_the_time().await?,
                16 => self.take_a_detour().await?,
                17 => self.hop().await?,
                18 => self.pay().await?,
                19 => self.side_by_side().await?,
                20 => self.first_group().await?,
                21 | 22 => self.take_plea().await?,
                _ => self.rest().await?,
            }
        }
        self.step().await
    }

    async fn step(&mut self) -> FlowResult<()> {
        let step = self.new_step();
        let result = step.call(&self.flow).await;
        self.receive(result)
    }

    async fn errands(&mut self) -> FlowResult<()> {
        let errands = self.new_errands();
        let mut all = self.flow.all(errands);
        if self.random.bool() {
            all = all.window(self.random.u32(1..3));
        }
        if self.random.bool() {
            all = all.cancel_rest();
        }
        let results = all.await;
        self.receive_all(results)
    }

    async fn errands_and_a_step(&mut self) -> FlowResult<()> {
        let (errands, step) = (self.new_errands(), self.new_step());
        let results = self.flow.all((errands, step.call(&self.flow))).await;
        self.receive_all(results.map(|(mut errands, step)| {
            errands.push(step);
            errands
        }))
    }

    async fn errand_in_time(&mut self) -> FlowResult<()> {
        let errand = self.new_errand();
        let within = Duration::from_millis(self.random.u64(1..200));
        let mut result = self.flow.deadline(within, errand);
        if self.random.bool() {
            result = result.cancel_rest();
        }
        let result = result.await;
        self.receive_all(result.map(|number| number.into_iter().collect()))
    }

    async fn await_another(&mut self) -> FlowResult<()> {
        let Some(trip) = self.another() else {
            return self.step().await;
        };
        let another = self.hurried(Journey::with(trip));
        let result = self.flow.run(another).await;
        self.receive_all(result.map(|_| Vec::new()))
    }

    async fn start_another(&mut self) -> FlowResult<()> {
        let Some(trip) = self.another() else {
            return self.rest().await;
        };
        let another = self.hurried(Journey::with(trip));
        let started = self.flow.spawn(another).await?;
        self.step().await?;
        let child = started.child();
        match self.random.u32(..3) {
            0 => {
                let number = self.random.u64(..1 << 53);
                let sent = child.signal(Word { number }).await;
                self.receive_all(sent.map(|_| Vec::new()))?;
            }
            1 => {
                let sent = child.cancel("the journey goes on without it").await;
                self.receive_all(sent.map(|_| Vec::new()))?;
            }
            _ => {}
        }
        if self.random.bool() {
            let result = started.join().await;
            self.receive_all(result.map(|_| Vec::new()))?;
        }
        Ok(())
    }

    async fn first_errand(&mut self) -> FlowResult<()> {
        let errands = self.new_errands();
        let mut first = self.flow.select(errands);
        if self.random.bool() {
            first = first.cancel_rest();
        }
        let first = first.await;
        self.receive(first.map(|(_, number)| number))
    }

    async fn errand_or_rest(&mut self) -> FlowResult<()> {
        let (errand, rest) = (self.new_errand(), self.new_rest());
        let first = self.flow.select((errand, rest)).await;
        self.receive_all(first.map(|first| match first {
            OneOf2::First(number) => vec![number],
            OneOf2::Second(()) => Vec::new(),
        }))
    }

    async fn step_or_rest(&mut self) -> FlowResult<()> {
        let (step, rest) = (self.new_step(), self.new_rest());
        let first = self.flow.select((step.call(&self.flow), rest)).await;
        self.receive_all(first.map(|first| match first {
            OneOf2::First(number) => vec![number],
            OneOf2::Second(()) => Vec::new(),
        }))
    }

    async fn groups_of_groups(&mut self) -> FlowResult<()> {
        let (errands, others, step) = (self.new_errands(), self.new_errands(), self.new_step());
        let inner = self.flow.all((others, step.call(&self.flow)));
        let rest = self.new_rest();
        let results = self.flow.all((errands, (inner, rest))).await;
        self.receive_all(results.map(|(mut errands, ((others, step), ()))| {
            errands.extend(others);
            errands.push(step);
            errands
        }))
    }

    /// Groups and a single activity, awaited concurrently.
    async fn side_by_side(&mut self) -> FlowResult<()> {
        let (errands, others, lone) = (self.new_errands(), self.new_errands(), self.new_errand());
        let (errands, others) = (self.flow.all(errands), self.flow.all(others));
        let (errands, others, lone) = futures_util::join!(
            errands.into_future(),
            others.into_future(),
            lone.into_future()
        );
        self.receive_all(errands)?;
        self.receive_all(others)?;
        self.receive(lone)
    }

    /// A selection of groups and a single activity.
    async fn first_group(&mut self) -> FlowResult<()> {
        let (errands, lone, others) = (self.new_errands(), self.new_errand(), self.new_errands());
        let groups = (self.flow.all(errands), lone, self.flow.all(others));
        let mut first = self.flow.select(groups);
        if self.random.bool() {
            first = first.cancel_rest();
        }
        let first = first.await;
        self.receive_all(first.map(|first| match first {
            OneOf3::First(numbers) | OneOf3::Third(numbers) => numbers,
            OneOf3::Second(number) => vec![number],
        }))
    }

    async fn note_the_time(&mut self) -> FlowResult<()> {
        let (now, drawn, key) = (self.flow.timestamp(), self.flow.random(), self.flow.uuid());
        let mut step = self.new_step();
        step.name = format!("{} at {} by {drawn:x} {key}", step.name, now.0);
        let result = step.call(&self.flow).await;
        self.receive(result)
    }

    async fn take_a_detour(&mut self) -> FlowResult<()> {
        let change = format!("detour {}", self.steps);
        match self.flow.version(&change, 0, 1) {
            0 => Ok(()),
            _ => self.step().await,
        }
    }

    async fn hop(&mut self) -> FlowResult<()> {
        let hops = Hops::Hop {
            token: self.random.u64(..1 << 53),
            done: 0,
            of: self.random.u32(1..4),
        };
        let result = self.flow.run(Chain::with(hops)).await;
        self.receive_all(result.map(|_| Vec::new()))
    }

    /// A machine that is signalled or cancelled through its handle.
    async fn pay(&mut self) -> FlowResult<()> {
        let sale = Sale::Offer {
            token: self.random.u64(..1 << 53),
            patience_ms: self.random.u64(20..300),
        };
        let sale = self.flow.spawn(Payment::with(sale)).await?;
        let sent = match self.random.bool() {
            true => sale.child().signal(Paid { amount: 1 }).await.map(|_| ()),
            false => sale.child().cancel("too dear").await.map(|_| ()),
        };
        self.receive_all(sent.map(|()| Vec::new()))?;
        let result = sale.join().await;
        self.receive_all(result.map(|_| Vec::new()))
    }

    async fn await_word(&mut self) -> FlowResult<()> {
        let patience = Duration::from_millis(self.random.u64(20..500));
        let word = self.flow.signal::<Word>().timeout(patience).await;
        self.receive_all(word.map(|word| word.into_iter().map(|word| word.number).collect()))
    }

    /// An update as a call. The reply to some comes after a further call.
    async fn take_plea(&mut self) -> FlowResult<()> {
        let patience = Duration::from_millis(self.random.u64(20..500));
        let plea = match self.flow.update::<Plea>().timeout(patience).await {
            Ok(Some(plea)) => plea,
            taken => return self.receive_all(taken.map(|_| Vec::new())),
        };
        let number = plea.number;
        self.received.push(number);
        match plea.way {
            Way::Plain | Way::Child => {
                plea.reply(number)?;
            }
            Way::Bad => drop(plea),
            Way::Refused => drop(plea.reject("refused")),
            Way::Step => {
                let step = Step {
                    name: step_of(number),
                    is_bad: false,
                    ..self.new_step()
                };
                let result = step.call(&self.flow).await;
                if let Ok(result) = &result {
                    plea.reply(*result)?;
                }
                self.receive(result)?;
            }
        }
        Ok(())
    }

    fn new_rest(&mut self) -> Call<'static, ()> {
        let pause = Duration::from_millis(self.random.u64(1..200));
        self.flow.sleep(pause)
    }

    async fn rest(&mut self) -> FlowResult<()> {
        let result = self.new_rest().await;
        self.receive_all(result.map(|()| Vec::new()))
    }

    fn receive(&mut self, result: FlowResult<u64>) -> FlowResult<()> {
        self.receive_all(result.map(|number| vec![number]))
    }

    /// A journey survives every failure except its own end.
    fn receive_all(&mut self, result: FlowResult<Vec<u64>>) -> FlowResult<()> {
        match result {
            Ok(numbers) => self.received.extend(numbers),
            Err(error) if error.is_cancelled() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn new_step(&mut self) -> Step {
        self.steps += 1;
        Step {
            effects: self.effects.clone(),
            name: format!("step {}", self.steps),
            follows: self.received.clone(),
            is_bad: self.random.u32(..12) == 0,
        }
    }

    fn new_errands(&mut self) -> Vec<Call<'static, u64>> {
        let count = self.random.usize(1..5);
        (0..count).map(|_| self.new_errand()).collect()
    }

    fn new_errand(&mut self) -> Call<'static, u64> {
        let task = Task {
            token: self.random.u64(..1 << 53),
            luck: match self.random.u32(..10) {
                0 => Luck::Bad,
                1 => Luck::Late,
                _ => Luck::Good,
            },
        };
        self.flow.run(Errand::with(task))
    }

    /// Gives it a close policy, and sometimes too little time.
    fn hurried(&mut self, another: New<Journey>) -> New<Journey> {
        let another = another.on_parent_close(ClosePolicy::ALL[self.random.usize(..3)]);
        let within = Duration::from_millis(self.random.u64(20..1_500));
        match self.random.u32(..6) {
            0 => another.timeout(within),
            1 => another.run_timeout(within),
            _ => another,
        }
    }

    /// Returns another journey, if the depth allows one.
    fn another(&mut self) -> Option<Trip> {
        let token = self.random.u64(..1 << 53);
        let legs = self.random.u32(1..3);
        let depth = self.trip.depth.checked_sub(1)?;
        Some(Trip {
            token,
            depth,
            leg: 1,
            legs,
        })
    }
}

/// A step before its call.
pub(super) struct Step {
    pub(super) effects: Effects,
    pub(super) name: String,
    /// The numbers that the code has received before.
    pub(super) follows: Vec<u64>,
    pub(super) is_bad: bool,
}

impl Step {
    pub(super) fn call(self, flow: &Flow) -> Call<'static, u64> {
        let (id, run) = (flow.id(), flow.run_number());
        let name = self.name.clone();
        flow.step(&name, move || async move {
            let nonce = self
                .effects
                .of_flow(id, run, &self.name, self.follows)
                .await;
            match self.is_bad {
                // The error contains the number, so that it identifies the failed run of the step.
                true => Err(format!("bad luck {nonce}")),
                false => Ok(nonce),
            }
        })
    }
}

/// The input of an activity.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    token: u64,
    luck: Luck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Luck {
    Good,
    /// It succeeds when it is retried.
    Late,
    Bad,
}

pub(crate) struct Errand(pub(super) Effects);

impl Job for Errand {
    const NAME: &'static str = "errand";
    const MAX_ATTEMPTS: u32 = 10_000;
    type Args = Task;
    type Output = u64;

    async fn perform(&self, task: Task, cx: &Context) -> Result<u64, JobError> {
        let nonce = self.0.of_errand(cx).await;
        match task.luck {
            Luck::Good => Ok(nonce),
            Luck::Late if cx.attempt() > 0 => Ok(nonce),
            Luck::Late => Err(JobError::retry("not yet")),
            Luck::Bad => Err(JobError::fatal("a bad errand")),
        }
    }

    fn backoff(&self, _: u32) -> Duration {
        Duration::from_millis(20)
    }
}
