//! Cancels, terminates and joins in the harness, on both stores.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use crate::harness::machines::on_both_harnesses;
use crate::support::family::{Go, Kid, Play};
use outlast::prelude::*;
use outlast::testing::{HarnessBuilder, Point};

on_both_harnesses!(
    a_cancel_is_answered_by_the_next_run,
    a_terminate_is_there_at_once_and_children_are_told_by_the_next_run,
    the_deadline_of_a_join_is_fired_by_name,
    everything_runs_to_its_end_with_windows_and_deadlines,
    a_worker_that_dies_before_the_answer_is_written_is_asked_again,
);

const HOUR: Duration = Duration::from_secs(3600);

/// Waits for one of its children, for a day.
struct Warder;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Watch {
    Begin { kids: u32 },
    End,
}

impl Machine for Warder {
    const NAME: &'static str = "warder";
    type State = Watch;
    type Output = String;

    async fn step(&self, watch: Watch, cx: &Context) -> StepResult<Self> {
        Ok(match watch {
            Watch::Begin { kids } => {
                let kids = (0..kids).map(|_| New::<Kid>(Play::Tidy));
                fan_out(kids)
                    .window(2)
                    .deadline(24 * HOUR)
                    .on_parent_close(ClosePolicy::RequestCancel)
                    .then(Watch::End)
            }
            Watch::End => {
                let joined = cx.joined().map_or("nothing", Joined::as_str);
                Outcome::done(joined.to_owned())
            }
        })
    }
}

async fn a_cancel_is_answered_by_the_next_run(builder: HarnessBuilder) {
    let mut harness = builder.machine(Kid::default()).build().await.unwrap();
    let id = harness.insert(New::<Kid>(Play::Tidy)).await.unwrap();
    harness.run().await;
    let note = Note::by("ada").because("late");
    harness.cancel(id.id().unwrap(), note).await.unwrap();
    let asked = harness.expect(id).await.is(Status::Runnable);
    asked.was_asked_to_end("by ada: late");
    let tally = harness.run().await;
    assert_eq!((tally.steps, tally.cancelled), (2, 1));
    harness.expect(id).await.is_cancelled_with("tidied up");
}

async fn a_terminate_is_there_at_once_and_children_are_told_by_the_next_run(
    builder: HarnessBuilder,
) {
    let builder = builder.machine(Kid::default()).machine(Warder);
    let mut harness = builder.build().await.unwrap();
    let id = harness
        .insert(New::<Warder>(Watch::Begin { kids: 3 }))
        .await;
    let id = id.unwrap().id().unwrap();
    harness.run().await;
    harness.terminate(id, Note::by("ada")).await.unwrap();
    harness
        .expect(id)
        .await
        .is_cancelled_with("terminated by ada");
    let tally = harness.run().await;
    // Two tidy up; the third never had a place.
    assert_eq!((tally.steps, tally.cancelled), (4, 2));
    let kids = harness.children(id.get()).await.unwrap();
    assert!(kids.iter().all(|kid| kid.status == Status::Cancelled));
}

async fn the_deadline_of_a_join_is_fired_by_name(builder: HarnessBuilder) {
    let builder = builder.machine(Kid::default()).machine(Warder);
    let mut harness = builder.build().await.unwrap();
    let id = harness
        .insert(New::<Warder>(Watch::Begin { kids: 1 }))
        .await;
    let id = id.unwrap();
    harness.run().await;
    harness.expect(id).await.awaits_children();
    let before = harness.time();
    harness.fire_deadline(id).await;
    assert_eq!(harness.time().since(before), 24 * HOUR);
    harness.run().await;
    harness
        .expect(id)
        .await
        .is_done_with(&"deadline".to_owned());
}

async fn everything_runs_to_its_end_with_windows_and_deadlines(builder: HarnessBuilder) {
    let builder = builder.machine(Kid::default()).machine(Warder);
    let mut harness = builder.build().await.unwrap();
    let id = harness
        .insert(New::<Warder>(Watch::Begin { kids: 5 }))
        .await;
    let id = id.unwrap();
    harness.run().await;
    // One tidies up and makes room; the others are asked when the time is up.
    let kids = harness.children(id.id().unwrap().get()).await.unwrap();
    harness.signal(kids[0].id, Go).await.unwrap();
    harness.cancel(kids[0].id, Note::by("ada")).await.unwrap();
    let tally = harness.run_all().await;
    assert_eq!(tally.timeouts, 1);
    harness
        .expect(id)
        .await
        .is_done_with(&"deadline".to_owned());
    let kids = harness.children(id.id().unwrap().get()).await.unwrap();
    assert!(kids.iter().all(|kid| kid.status == Status::Cancelled));
}

async fn a_worker_that_dies_before_the_answer_is_written_is_asked_again(builder: HarnessBuilder) {
    let kid = Kid::default();
    let mut harness = builder.machine(kid.clone()).build().await.unwrap();
    let id = harness.insert(New::<Kid>(Play::Tidy)).await.unwrap();
    harness.run().await;
    harness
        .cancel(id.id().unwrap(), Note::by("ada"))
        .await
        .unwrap();
    harness.crash::<Kid>("tidy", Point::BeforeCommit);
    let tally = harness.run().await;
    assert_eq!((tally.crashes, tally.cancelled), (1, 1));
    let seen = kid.seen.lock().unwrap();
    let expected = [
        "tidy",
        "cancel: cancelled by ada",
        "cancel: cancelled by ada",
        "tidied",
    ];
    assert_eq!(*seen, expected);
}
