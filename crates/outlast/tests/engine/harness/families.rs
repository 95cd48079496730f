//! Cancels, terminates and joins in the harness, on both stores.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::harness::machines::on_both_harnesses;
use crate::support::family::{Go, Kid, Play};
use outlast::prelude::*;
use outlast::store::{ClosePolicy, Joined};
use outlast::testing::{HarnessBuilder, Point};
use outlast::{Note, Status};

on_both_harnesses!(
    the_next_run_answers_a_cancel,
    a_terminate_acts_at_once_and_the_next_run_cancels_the_children,
    fire_deadline_fires_the_deadline_of_a_join,
    run_all_ends_a_round_with_a_window_and_a_deadline,
    on_cancel_runs_again_when_its_worker_dies_before_the_commit,
);

/// Waits for its children, for at most a day.
struct Warder;

#[steps]
enum Watch {
    Begin { kids: u32 },
    End,
}

impl Machine for Warder {
    const NAME: &'static str = "warder";
    type State = Watch;
    type Output = String;

    async fn step(&self, watch: Watch, cx: &Context) -> StepResult<Self> {
        match watch {
            Watch::Begin { kids } => {
                let kids = (0..kids).map(|_| Kid::with(Play::Tidy));
                fan_out(kids)
                    .window(2)
                    .deadline(DAY)
                    .on_parent_close(ClosePolicy::RequestCancel)
                    .then(Watch::End)
            }
            Watch::End => {
                let joined = cx.joined().map_or("nothing", Joined::as_str);
                done(joined.to_owned())
            }
        }
    }
}

async fn the_next_run_answers_a_cancel(builder: HarnessBuilder) {
    let mut harness = builder.register(Kid::default()).build().await.unwrap();
    let kid = harness.start(Kid::with(Play::Tidy)).await.unwrap();
    harness.run().await;
    let note = Note::by("ada").because("late");
    kid.cancel(note).await.unwrap();
    let requested = harness.expect(&kid).await.is(Status::Runnable);
    requested.was_asked_to_end("by ada: late");
    let report = harness.run().await;
    assert_eq!((report.steps, report.cancelled), (2, 1));
    harness.expect(&kid).await.is_cancelled_with("tidied up");
}

async fn a_terminate_acts_at_once_and_the_next_run_cancels_the_children(builder: HarnessBuilder) {
    let builder = builder.register(Kid::default()).register(Warder);
    let mut harness = builder.build().await.unwrap();
    let warder = harness
        .start(Warder::with(Watch::Begin { kids: 3 }))
        .await
        .unwrap();
    harness.run().await;
    warder.terminate(Note::by("ada")).await.unwrap();
    harness
        .expect(&warder)
        .await
        .is_cancelled_with("terminated by ada");
    let report = harness.run().await;
    // Two children run their cleanup. The third is held and never starts.
    assert_eq!((report.steps, report.cancelled), (4, 2));
    let kids = warder.children().await.unwrap();
    assert!(kids.iter().all(|kid| kid.status == Status::Cancelled));
}

async fn fire_deadline_fires_the_deadline_of_a_join(builder: HarnessBuilder) {
    let builder = builder.register(Kid::default()).register(Warder);
    let mut harness = builder.build().await.unwrap();
    let warder = harness
        .start(Warder::with(Watch::Begin { kids: 1 }))
        .await
        .unwrap();
    harness.run().await;
    harness.expect(&warder).await.awaits_children();
    let before = harness.time();
    harness.fire_deadline(&warder).await;
    assert_eq!(harness.time().since(before), DAY);
    harness.run().await;
    harness
        .expect(&warder)
        .await
        .is_done_with(&"deadline".to_owned());
}

async fn run_all_ends_a_round_with_a_window_and_a_deadline(builder: HarnessBuilder) {
    let builder = builder.register(Kid::default()).register(Warder);
    let mut harness = builder.build().await.unwrap();
    let client = harness.client().clone();
    let warder = harness
        .start(Warder::with(Watch::Begin { kids: 5 }))
        .await
        .unwrap();
    harness.run().await;
    // One child ends and makes room. The deadline ends the join, and the others are cancelled.
    let kids = warder.children().await.unwrap();
    client.signal(kids[0].id, Go).await.unwrap();
    client
        .admin()
        .cancel(kids[0].id, Note::by("ada"))
        .await
        .unwrap();
    let report = harness.run_all().await;
    assert_eq!(report.timeouts, 1);
    harness
        .expect(&warder)
        .await
        .is_done_with(&"deadline".to_owned());
    let kids = warder.children().await.unwrap();
    assert!(kids.iter().all(|kid| kid.status == Status::Cancelled));
}

async fn on_cancel_runs_again_when_its_worker_dies_before_the_commit(builder: HarnessBuilder) {
    let machine = Kid::default();
    let mut harness = builder.register(machine.clone()).build().await.unwrap();
    let kid = harness.start(Kid::with(Play::Tidy)).await.unwrap();
    harness.run().await;
    kid.cancel(Note::by("ada")).await.unwrap();
    harness.crash::<Kid>("tidy", Point::BeforeCommit);
    let report = harness.run().await;
    assert_eq!((report.crashes, report.cancelled), (1, 1));
    let seen = machine.seen.lock().unwrap();
    let expected = [
        "tidy",
        "cancel: cancelled by ada",
        "cancel: cancelled by ada",
        "tidied",
    ];
    assert_eq!(*seen, expected);
}
