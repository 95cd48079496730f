//! Groups of any shape, with ends in any order, on workers that crash anywhere.

use crate::support::*;
use outlast::prelude::*;
use outlast::testing::{Harness, Point};

on_both_stores!(groups_of_any_shape_have_the_expected_result_despite_crashes);

/// A child that returns its number or fails after this many milliseconds.
#[derive(Clone, Serialize, Deserialize)]
struct Member {
    ms: u64,
    fails: bool,
    number: u64,
}

type Tree = Vec<Vec<Vec<Member>>>;

fn any_tree(random: &mut fastrand::Rng) -> Tree {
    let mut number = 0;
    let failing = random.f64() / 4.0;
    let level = |random: &mut fastrand::Rng| random.usize(0..4);
    let mut member = |random: &mut fastrand::Rng| {
        number += 1;
        Member {
            ms: random.u64(1..6),
            fails: random.f64() < failing,
            number,
        }
    };
    let outer = level(random);
    (0..outer)
        .map(|_| {
            let middle = level(random);
            (0..middle)
                .map(|_| {
                    let inner = level(random);
                    (0..inner).map(|_| member(random)).collect()
                })
                .collect()
        })
        .collect()
}

/// The results in the shape of the tree, or the number of the member that fails first.
fn expected(tree: &Tree) -> Value {
    let members = tree.iter().flatten().flatten();
    let failed = members
        .filter(|it| it.fails)
        .min_by_key(|it| (it.ms, it.number));
    match failed {
        Some(failed) => json!({ "failed": format!("kid failed: {}", failed.number) }),
        None => {
            let numbers = |members: &Vec<Member>| -> Vec<u64> {
                members.iter().map(|it| it.number).collect()
            };
            let rows = |rows: &Vec<Vec<Member>>| rows.iter().map(numbers).collect::<Vec<_>>();
            json!(tree.iter().map(rows).collect::<Vec<_>>())
        }
    }
}

async fn groups_of_any_shape_have_the_expected_result_despite_crashes(ground: Ground) {
    let code = script(|flow, input: Value| async move {
        let tree: Tree = serde_json::from_value(input)?;
        let child = |member: Member| {
            flow.run(Kid::with(match member.fails {
                true => Say::SleepThenFail(member.ms, member.number.to_string()),
                false => Say::Sleep(member.ms, member.number),
            }))
        };
        let groups = tree.into_iter().map(|rows| {
            let rows = rows.into_iter().map(|row| {
                let row = row.into_iter().map(child);
                flow.all(row.collect::<Vec<_>>())
            });
            rows.collect::<Vec<_>>()
        });
        let result = match flow.all(groups.collect::<Vec<_>>()).await {
            Ok(results) => json!(results),
            Err(error) => json!({ "failed": error.to_string() }),
        };
        // The park makes the code replay after all members have ended.
        flow.sleep(SECOND).await?;
        Ok(result)
    });
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let trees: Vec<Tree> = (0..40).map(|_| any_tree(&mut random)).collect();
    let mut harness = ground.runs(code.clone()).await;
    begin_all(&harness, &trees).await;
    let steps = harness.run_all().await.steps;
    let mut harness = ground.runs(code).await;
    let ids = begin_all(&harness, &trees).await;
    let points = [Point::BeforeStep, Point::BeforeCommit, Point::AfterCommit];
    for _ in 0..CRASHES {
        // Several crashes may be due at one commit. Only the first happens there. The others
        // happen at later commits, so enough commits must follow.
        let nth = random.u32(1..=steps - CRASHES);
        harness.crash_any(points[random.usize(0..3)], nth);
    }
    let report = harness.run_all().await;
    assert_eq!(report.crashes, CRASHES, "seed {seed}");
    for (tree, id) in trees.iter().zip(ids) {
        let seen = output(&get(&harness, id).await);
        assert_eq!(seen, expected(tree), "seed {seed}");
    }
}

/// How many workers crash.
const CRASHES: u32 = 20;

async fn begin_all(harness: &Harness, trees: &[Tree]) -> Vec<Scripted> {
    let mut ids = Vec::new();
    for tree in trees {
        ids.push(begin(harness, tree).await);
    }
    ids
}
