//! A conference and its talks: what happens to children when their parent ends, how a parent
//! signals them, and how a whole tree is counted and ended.
//!
//! ```sh
//! cargo run -p outlast-examples --bin family
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::CancelAnswer;
use outlast::prelude::*;

struct Conference;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Day {
    Open,
    Close,
    /// Waits forever.
    Endless,
    Over,
}

#[derive(Serialize, Deserialize)]
struct Finish;

impl Signal for Finish {
    const NAME: &'static str = "finish";
}

impl Machine for Conference {
    const NAME: &'static str = "conference";
    type State = Day;
    type Output = ();

    async fn step(&self, day: Day, cx: &Context) -> StepResult<Self> {
        Ok(match day {
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
                    return Ok(Outcome::fail("no keynote"));
                };
                // Sent once, however often this step runs.
                let keynote = cx.child(keynote.id).await?;
                keynote.signal(Finish).await?;
                Outcome::done(())
            }
            Day::Endless => fan_out([talk("panel"), talk("lunch")]).then(Day::Over),
            Day::Over => Outcome::done(()),
        })
    }
}

fn talk(title: &str) -> New<Talk> {
    New(Slot::Begin {
        title: title.to_owned(),
    })
}

struct Talk;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Slot {
    Begin { title: String },
    End { title: String },
}

impl Machine for Talk {
    const NAME: &'static str = "talk";
    type State = Slot;
    type Output = String;

    async fn step(&self, slot: Slot, _cx: &Context) -> StepResult<Self> {
        Ok(match slot {
            Slot::Begin { title } => wait_for([Finish::NAME]).then(Slot::End { title }),
            Slot::End { title } => Outcome::done(title),
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .machine(Conference)
        .machine(Talk)
        .queue("default", 10)
        .start()
        .await?;
    let patience = Duration::from_secs(10);

    // The end of a parent.
    let conference = engine.insert(New::<Conference>(Day::Open)).await?;
    engine.wait(conference, patience).await?;
    let id = conference.id().context("its key is free")?;
    let talks = engine.children(id.get()).await?;
    for (talk, expected) in talks.iter().zip(["done", "", "cancelled", "cancelled"]) {
        if expected.is_empty() {
            continue;
        }
        let ended = engine.wait_ended(talk.id, patience).await?;
        let reason = ended.last_error.as_deref().unwrap_or_default();
        println!("talk {}: {} {reason}", talk.id, ended.status);
        ensure!(ended.status.as_str() == expected);
    }
    let hallway = engine.get(talks[1].id).await?.context("it is stored")?;
    ensure!(!hallway.status.is_terminal(), "the talk continues");
    engine.signal(hallway.id, Finish).await?;
    // The actions on the children are recorded with the parent.
    for closure in engine.close_actions(id.get(), None).await? {
        println!(
            "{} {:?}: {:?}",
            closure.verb, closure.instance, closure.reason
        );
    }

    // The end of a tree: count it, then ask it to end.
    let conference = engine.insert(New::<Conference>(Day::Endless)).await?;
    let id = conference.id().context("its key is free")?;
    engine.wait_settled(id, patience).await?;
    let family = engine.family(id).await?.context("it is stored")?;
    println!(
        "{} would be asked to end: {:?}",
        family.live(),
        family.members
    );
    ensure!(family.live() == 3 && family.complete);
    let answer = engine
        .cancel_tree(id, Note::by("ada").because("fire"))
        .await?;
    ensure!(answer == CancelAnswer::Requested(Status::AwaitingChildren));
    engine.wait_ended(id, patience).await?;
    for talk in engine.children(id.get()).await? {
        let ended = engine.wait_ended(talk.id, patience).await?;
        ensure!(ended.last_error.as_deref() == Some("cancelled by ada: fire"));
    }

    engine.shutdown().await;
    Ok(())
}
