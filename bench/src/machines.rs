//! The measured machines. Their steps do nothing.

use outlast::prelude::*;
use outlast::{History, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The number of steps that ran, for the progress bar and to know when to poll.
pub(crate) type Counter = Arc<AtomicU64>;

/// One step.
pub(crate) struct Single(pub(crate) Counter);

#[steps]
pub(crate) enum One {
    Work { number: u64 },
}

impl Machine for Single {
    const NAME: &'static str = "single";
    type State = One;
    type Output = u64;

    async fn step(&self, state: One, _cx: &Context) -> StepResult<Self> {
        let One::Work { number } = state;
        self.0.fetch_add(1, Ordering::Relaxed);
        done(number)
    }
}

/// The number of steps of a chain.
pub(crate) const CHAIN_STEPS: u64 = 10;

/// A sequence of steps.
pub(crate) struct Chain(pub(crate) Counter);

#[steps]
pub(crate) enum Link {
    Link { number: u64, left: u64 },
}

impl Machine for Chain {
    const NAME: &'static str = "chain";
    type State = Link;
    type Output = u64;

    async fn step(&self, state: Link, _cx: &Context) -> StepResult<Self> {
        let Link::Link { number, left } = state;
        self.0.fetch_add(1, Ordering::Relaxed);
        match left {
            0 | 1 => done(number),
            _ => next(Link::Link {
                number,
                left: left - 1,
            }),
        }
    }
}

/// The same with a history: none, transitions, or states.
pub(crate) struct Recorded<const HOW: u8>(pub(crate) Counter);

impl<const HOW: u8> Machine for Recorded<HOW> {
    const NAME: &'static str = "recorded";
    const HISTORY: History = match HOW {
        0 => History::Off,
        1 => History::Transitions,
        _ => History::States,
    };
    type State = Link;
    type Output = u64;

    async fn step(&self, state: Link, _cx: &Context) -> StepResult<Self> {
        let Link::Link { number, left } = state;
        self.0.fetch_add(1, Ordering::Relaxed);
        match left {
            0 | 1 => done(number),
            _ => next(Link::Link {
                number,
                left: left - 1,
            }),
        }
    }
}

/// A parent with many children.
pub(crate) struct Family(pub(crate) Counter);

#[steps]
pub(crate) enum Gathering {
    Start {
        children: u64,
        window: Option<usize>,
    },
    Join,
}

impl Machine for Family {
    const NAME: &'static str = "family";
    type State = Gathering;
    type Output = usize;

    async fn step(&self, state: Gathering, cx: &Context) -> StepResult<Self> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match state {
            Gathering::Start { children, window } => {
                let child = |number| Single::with(One::Work { number });
                let children = fan_out((0..children).map(child));
                match window {
                    Some(window) => children.window(window),
                    None => children,
                }
                .then(Gathering::Join)
            }
            // Reads their results, which is the purpose of a join.
            Gathering::Join => done(cx.children::<Single>()?.len()),
        }
    }
}

/// A tree whose leaves park until it is cancelled.
pub(crate) struct Dynasty(pub(crate) Counter);

#[steps]
pub(crate) enum Growing {
    Grow { depth: u32, width: u64 },
    Grown,
}

impl Machine for Dynasty {
    const NAME: &'static str = "dynasty";
    type State = Growing;
    type Output = ();

    async fn step(&self, state: Growing, _cx: &Context) -> StepResult<Self> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match state {
            Growing::Grow { depth: 0, .. } => wait_for::<Go>().then(Growing::Grown),
            Growing::Grow { depth, width } => {
                let depth = depth - 1;
                let child = |_| Dynasty::with(Growing::Grow { depth, width });
                fan_out((0..width).map(child)).then(Growing::Grown)
            }
            Growing::Grown => fail("woken by something other than a cancel"),
        }
    }

    async fn on_cancel(&self, _: Growing, _cx: &Context) -> StepResult<Self> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Outcome::cancelled("asked to"))
    }
}

/// Parks until it is signalled.
pub(crate) struct Waiting(pub(crate) Counter);

#[steps]
pub(crate) enum Parking {
    Start { number: u64 },
    Go { number: u64 },
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Go;

impl Machine for Waiting {
    const NAME: &'static str = "waiting";
    type State = Parking;
    type Output = u64;

    async fn step(&self, state: Parking, cx: &Context) -> StepResult<Self> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match state {
            Parking::Start { number } => wait_for::<Go>().then(Parking::Go { number }),
            Parking::Go { number } => match cx.received::<Go>()? {
                Some(Go) => done(number),
                None => fail("woken without a signal"),
            },
        }
    }
}

/// The start time of each step of a chain.
pub(crate) type Starts = Arc<Mutex<Vec<Instant>>>;

/// A sequence of steps that records its start times.
pub(crate) struct Trail(pub(crate) Starts);

impl Machine for Trail {
    const NAME: &'static str = "trail";
    type State = Link;
    type Output = u64;

    async fn step(&self, state: Link, _cx: &Context) -> StepResult<Self> {
        let Link::Link { number, left } = state;
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.push(Instant::now());
        match left {
            0 | 1 => done(number),
            _ => next(Link::Link {
                number,
                left: left - 1,
            }),
        }
    }
}

/// Fails once, and returns the time of its retry in microseconds since 1970.
pub(crate) struct Later(pub(crate) Counter);

#[steps]
pub(crate) enum Delayed {
    Work { delay_ms: u64 },
}

impl Machine for Later {
    const NAME: &'static str = "later";
    type State = Delayed;
    type Output = u64;

    async fn step(&self, state: Delayed, cx: &Context) -> StepResult<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let Delayed::Work { delay_ms } = state;
        self.0.fetch_add(1, Ordering::Relaxed);
        match cx.attempt() {
            0 => retry(Duration::from_millis(delay_ms), "not yet"),
            _ => done(now.as_micros() as u64),
        }
    }
}
