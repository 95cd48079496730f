//! Fans out level by level and joins; from the root more than once. Some leaves fail, and their
//! parents continue without them.

use super::Effects;
use outlast::prelude::*;

pub(crate) struct Tree(pub(super) Effects);

#[steps]
pub(crate) enum Growth {
    /// `rounds` more batches of children, each a tree of one level less; `fruit` is the sum of the
    /// earlier batches.
    Grow {
        token: u64,
        depth: u32,
        width: u64,
        rounds: u32,
        fruit: u64,
    },
    Gather {
        token: u64,
        depth: u32,
        width: u64,
        rounds: u32,
        fruit: u64,
    },
}

impl Growth {
    fn child(token: u64, depth: u32, width: u64, number: u64) -> Growth {
        Growth::Grow {
            token: token_of_child(token, number),
            depth,
            width,
            rounds: 1,
            fruit: 0,
        }
    }
}

/// Depends only on the position in the tree, so the same leaves fail on every worker.
fn token_of_child(token: u64, number: u64) -> u64 {
    token.wrapping_mul(31).wrapping_add(number + 1)
}

fn is_bad(token: u64) -> bool {
    token % 7 == 3
}

/// Returns the sum of a tree: one for each leaf that does not fail.
pub(crate) fn fruit(token: u64, depth: u32, width: u64, rounds: u32) -> u64 {
    if depth == 0 {
        return u64::from(!is_bad(token));
    }
    let child = |number| fruit(token_of_child(token, number), depth - 1, width, 1);
    u64::from(rounds) * (0..width).map(child).sum::<u64>()
}

impl Machine for Tree {
    const NAME: &'static str = "tree";
    type State = Growth;
    type Output = u64;

    async fn step(&self, state: Growth, cx: &Context) -> StepResult<Self> {
        match state {
            Growth::Grow {
                token,
                depth,
                width,
                rounds,
                fruit,
            } => {
                self.0.of(cx).await;
                if depth == 0 {
                    return match is_bad(token) {
                        true => fail("a bad leaf"),
                        false => done(1),
                    };
                }
                let child = |number| Tree::with(Growth::child(token, depth - 1, width, number));
                fan_out((0..width).map(child)).then(Growth::Gather {
                    token,
                    depth,
                    width,
                    rounds: rounds - 1,
                    fruit,
                })
            }
            Growth::Gather {
                token,
                depth,
                width,
                rounds,
                fruit,
            } => {
                self.0.of_join(cx).await;
                let children = cx.children::<Tree>()?;
                let borne: u64 = children.iter().filter_map(|child| child.output).sum();
                let fruit = fruit + borne;
                match rounds {
                    0 => done(fruit),
                    _ => next(Growth::Grow {
                        token,
                        depth,
                        width,
                        rounds,
                        fruit,
                    }),
                }
            }
        }
    }
}
