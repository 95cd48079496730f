//! Parents that join and finish in every way, and children that are done, fail, are slow, wait
//! forever, or have children themselves. A cancelled instance undoes its work, and those effects
//! are in the ledger too.
//!
//! The behaviour of a member follows from its token, so it is the same on every worker.

use super::Effects;
use outlast::prelude::*;
use outlast::{New, Outcome};
use outlast_core::ClosePolicy;

pub(crate) struct Family(pub(super) Effects);

/// How long an instance waits for its end. No instance should reach this.
const PATIENCE: Duration = Duration::from_secs(90);

/// The most children of a fan-out.
const WIDTH_MAX: u64 = 7;
/// Keys that children share.
const KEYS: u64 = 20;

#[steps]
pub(crate) enum Kin {
    /// Fans out and joins, `rounds` more times.
    Raise {
        token: u64,
        depth: u32,
        rounds: u32,
        /// Whether an operator will end the whole tree; such a tree does not finish by itself.
        doomed: bool,
    },
    Gather {
        token: u64,
        depth: u32,
        rounds: u32,
        doomed: bool,
    },
    /// A child without children.
    Work { token: u64, lot: Lot },
    /// A child that was not ended in time.
    Outlive { token: u64 },
    /// Undoes, this many more times.
    Undo { token: u64, left: u32 },
}

/// The behaviour of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lot {
    /// It is done.
    Good,
    /// It fails.
    Bad,
    /// It is done after a while.
    Slow,
    /// It waits for its end.
    Patient,
}

impl Kin {
    fn token(&self) -> u64 {
        let (Kin::Raise { token, .. }
        | Kin::Gather { token, .. }
        | Kin::Work { token, .. }
        | Kin::Outlive { token }
        | Kin::Undo { token, .. }) = self;
        *token
    }
}

impl Machine for Family {
    const NAME: &'static str = "family";
    type State = Kin;
    type Output = u64;

    async fn step(&self, state: Kin, cx: &Context) -> StepResult<Self> {
        match state {
            Kin::Gather { .. } => self.0.of_join(cx).await,
            Kin::Raise { .. } | Kin::Work { .. } | Kin::Outlive { .. } | Kin::Undo { .. } => {
                self.0.of(cx).await;
            }
        }
        match state {
            Kin::Raise {
                token,
                depth,
                rounds,
                doomed,
            } => raise(token, depth, rounds, doomed).await,
            Kin::Gather {
                token,
                depth,
                rounds,
                doomed,
            } => gather(token, depth, rounds, doomed),
            Kin::Work { token, lot } => work(token, lot),
            Kin::Outlive { .. } => fail("nobody told it to end"),
            Kin::Undo { token, left } => match left {
                0 => Ok(Outcome::cancelled("undone")),
                _ => next(Kin::Undo {
                    token,
                    left: left - 1,
                }),
            },
        }
    }

    /// Ends, undoes first, retries, starts children that undo, or ignores the cancel.
    async fn on_cancel(&self, state: Kin, cx: &Context) -> StepResult<Self> {
        self.0.of_cancel(cx).await;
        let token = state.token();
        let mut random = chance(token, 3);
        match random.u32(..10) {
            0..4 => Ok(Outcome::cancelled("asked to")),
            4..6 => next(Kin::Undo {
                token,
                left: random.u32(..3),
            }),
            6 => Ok(Outcome::requeue(Kin::Undo { token, left: 1 })),
            7 if cx.attempt() < 2 => retry(Duration::from_millis(20), "not yet"),
            7 => Ok(Outcome::cancelled("asked to, again and again")),
            8 => {
                let helper = |number| {
                    let token = descend(token, 100 + number);
                    let lot = Lot::Good;
                    Family::with(Kin::Work { token, lot })
                };
                fan_out((0..2u64).map(helper)).then(Kin::Undo { token, left: 0 })
            }
            _ => done(token),
        }
    }
}

/// Some fan out late, so that a cancel arrives before the fan-out.
async fn raise(token: u64, depth: u32, rounds: u32, doomed: bool) -> StepResult<Family> {
    let mut random = chance(token, u64::from(rounds));
    if random.u32(..3) == 0 {
        tokio::time::sleep(Duration::from_millis(random.u64(..300))).await;
    }
    let policy = match doomed {
        true => ClosePolicy::Abandon,
        false => ClosePolicy::ALL[random.usize(..3)],
    };
    // Only an instance that is sure to be ended may wait for it.
    let may_wait = doomed || policy != ClosePolicy::Abandon;
    let width = random.u64(1..=WIDTH_MAX);
    let children: Vec<(New<Family>, bool)> = (0..width)
        .map(|number| {
            let token = descend(token, u64::from(rounds) * 10 + number);
            // Without one of these, a doomed tree might finish by itself.
            if doomed && number == 0 {
                let lot = Lot::Patient;
                return (Family::with(Kin::Work { token, lot }), true);
            }
            child(token, depth, doomed, may_wait, &mut random)
        })
        .collect();
    let some_wait = children.iter().any(|(_, waits)| *waits);
    let mut fan_out = fan_out(children.into_iter().map(|(child, _)| child)).on_parent_close(policy);
    if random.u32(..3) == 0 {
        fan_out = fan_out.window(random.usize(1..4));
    }
    if doomed {
        return fan_out.then(Kin::Gather {
            token,
            depth,
            rounds: 0,
            doomed,
        });
    }
    let due = some_wait || random.u32(..4) == 0;
    if due {
        fan_out = fan_out.deadline(Duration::from_millis(random.u64(100..1_500)));
    }
    let (mut fan_out, for_all) = match random.u32(..5) {
        0 => (fan_out.all(), true),
        1 | 2 => (fan_out.fail_fast(), false),
        3 => (fan_out.quorum(random.u32(1..=width as u32 + 1)), false),
        _ => (fan_out.any(), false),
    };
    // A join of all children without a deadline leaves no live children.
    if due || !for_all {
        fan_out = match random.u32(..3) {
            0 => fan_out.cancel_rest(),
            1 => fan_out.terminate_rest(),
            _ => fan_out,
        };
    }
    fan_out.then(Kin::Gather {
        token,
        depth,
        rounds: rounds.saturating_sub(1),
        doomed,
    })
}

/// Returns a child, and whether it waits for its end.
fn child(
    token: u64,
    depth: u32,
    doomed: bool,
    may_wait: bool,
    random: &mut fastrand::Rng,
) -> (New<Family>, bool) {
    let lot = match random.u32(..10) {
        0..3 => Lot::Good,
        3..5 => Lot::Bad,
        5..7 => Lot::Slow,
        _ if may_wait => Lot::Patient,
        _ => Lot::Good,
    };
    let (state, waits) = match depth > 1 && random.u32(..3) == 0 {
        true => {
            let (depth, rounds) = (depth - 1, 1);
            let raise = Kin::Raise {
                token,
                depth,
                rounds,
                doomed,
            };
            (raise, doomed)
        }
        false => (Kin::Work { token, lot }, lot == Lot::Patient),
    };
    let mut new = Family::with(state).priority(random.i16(-1..2));
    match random.u32(..8) {
        0 => new = new.partition_key(format!("kin:{}", random.u64(..KEYS))),
        1 => new = new.key(format!("kin:{}", random.u64(..KEYS))),
        // A doomed tree must not finish by itself.
        2 if !doomed => new = new.timeout(Duration::from_millis(random.u64(20..1_000))),
        _ => {}
    }
    (new, waits)
}

fn gather(token: u64, depth: u32, rounds: u32, doomed: bool) -> StepResult<Family> {
    let mut random = chance(token, 50 + u64::from(rounds));
    match rounds {
        0 if random.u32(..4) == 0 => fail("a bad parent"),
        0 => done(token),
        _ => next(Kin::Raise {
            token,
            depth,
            rounds,
            doomed,
        }),
    }
}

fn work(token: u64, lot: Lot) -> StepResult<Family> {
    match lot {
        Lot::Good => done(token),
        Lot::Bad => fail("a bad child"),
        Lot::Slow => {
            let pause = Duration::from_millis(chance(token, 1).u64(50..600));
            let lot = Lot::Good;
            sleep(pause).then(Kin::Work { token, lot })
        }
        Lot::Patient => sleep(PATIENCE).then(Kin::Outlive { token }),
    }
}

/// Returns a token that is unique among the siblings.
fn descend(token: u64, number: u64) -> u64 {
    token.wrapping_mul(1_000_003).wrapping_add(number + 1) % (1 << 53)
}

fn chance(token: u64, salt: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(token.wrapping_mul(64).wrapping_add(salt))
}
