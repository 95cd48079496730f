//! A conference and its talks: what happens to children when their parent ends, how a parent
//! signals them, and how a whole tree is counted and ended.
//!
//! ```sh
//! cargo run -p outlast-examples --bin family
//! ```

use outlast::prelude::*;
use outlast::store::{CancelAnswer, ClosePolicy};
use outlast::{New, Note, Status};

struct Conference;

#[steps]
enum Day {
    Open,
    Close,
    /// Waits forever.
    Endless,
    Over,
}

#[derive(Signal, Serialize, Deserialize)]
struct Finish;

impl Machine for Conference {
    const NAME: &'static str = "conference";
    type State = Day;
    type Output = ();

    async fn step(&self, day: Day, cx: &Context) -> StepResult<Self> {
        match day {
            Day::Open => fan_out([
                talk("keynote"),
                // Continues when the conference ends. This is the default.
                talk("hallway"),
                // Gets a cancel request, and decides how to end.
                talk("workshop").on_parent_close(ClosePolicy::RequestCancel),
                // Is terminated.
                talk("stream").on_parent_close(ClosePolicy::Terminate),
            ])
            .any()
            .deadline(Duration::from_millis(200))
            .then(Day::Close),
            Day::Close => {
                let Some(keynote) = cx.round().first() else {
                    return fail("no keynote");
                };
                // Sent once, however often this step runs.
                let keynote = cx.child(keynote.id).await?;
                keynote.signal(Finish).await?;
                done(())
            }
            Day::Endless => fan_out([talk("panel"), talk("lunch")]).then(Day::Over),
            Day::Over => done(()),
        }
    }
}

fn talk(title: &str) -> New<Talk> {
    Talk::with(Slot::Begin {
        title: title.to_owned(),
    })
}

struct Talk;

#[steps]
enum Slot {
    Begin { title: String },
    End { title: String },
}

impl Machine for Talk {
    const NAME: &'static str = "talk";
    type State = Slot;
    type Output = String;

    async fn step(&self, slot: Slot, _cx: &Context) -> StepResult<Self> {
        match slot {
            Slot::Begin { title } => wait_for::<Finish>().then(Slot::End { title }),
            Slot::End { title } => done(title),
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(Conference)
        .register(Talk)
        .start()
        .await?;
    let admin = engine.client().admin();

    // The end of a parent.
    let conference = engine.start(Conference::with(Day::Open)).await?;
    conference.output().timeout(MINUTE).await?;
    let talks = conference.children().await?;
    for (position, expected) in [(0, "done"), (2, "cancelled"), (3, "cancelled")] {
        let talk = engine.handle::<Talk>(talks[position].id).await?;
        let ended = talk.ended().timeout(MINUTE).await?;
        let reason = ended.last_error.as_deref().unwrap_or_default();
        println!("talk {}: {} {reason}", ended.id, ended.status);
        assert_eq!(ended.status.as_str(), expected);
    }
    let hallway = engine.handle::<Talk>(talks[1].id).await?;
    assert!(!hallway.status().await?.is_terminal(), "the talk continues");
    hallway.signal(Finish).await?;
    // The actions on the children are recorded with the parent.
    for action in admin.close_actions(conference.id().get(), None).await? {
        println!("{} {:?}: {:?}", action.verb, action.instance, action.reason);
    }

    // The end of a tree: count it, then ask it to end.
    let conference = engine.start(Conference::with(Day::Endless)).await?;
    conference.settled().timeout(MINUTE).await?;
    let family = admin.family(&conference).await?.expect("it is stored");
    println!(
        "{} would be asked to end: {:?}",
        family.live(),
        family.members
    );
    assert!(family.live() == 3 && family.complete);
    let note = Note::by("ada").because("fire");
    let answer = admin.cancel_tree(&conference, note).await?;
    assert_eq!(answer, CancelAnswer::Requested(Status::AwaitingChildren));
    conference.ended().timeout(MINUTE).await?;
    for talk in conference.children().await? {
        let talk = engine.handle::<Talk>(talk.id).await?;
        let ended = talk.ended().timeout(MINUTE).await?;
        assert_eq!(ended.last_error.as_deref(), Some("cancelled by ada: fire"));
    }

    engine.shutdown().await
}
