//! Steps that abort, exhaust the memory, block their thread, or return values that cannot be
//! stored, among harmless instances. Each poisonous instance must fail with a readable reason; all
//! others must succeed. Dead workers are started again, as a supervisor in production would do.

use super::Server;
use crate::args::Args;
use crate::crew::{Crew, GaveOut, Poison as Limits, Worker};
use crate::ledger::{Entry, Inserted, now_us};
use crate::machines::poison::{Dose, Poison};
use crate::report::Report;
use crate::stage::{Act, Stage};
use anyhow::{Result, ensure};
use outlast::prelude::*;
use outlast::store::{Count, ErrorKind, Filter, Json, NewInstance};
use outlast::{Client, Status};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const WORKERS: usize = 3;
/// The address space of a worker, including the stacks of its threads.
const MEMORY_MAX: u64 = 1 << 30;
/// How long a worker may make no progress before it is restarted. Longer than the watchdog needs.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The pause between two poisonous instances: each crashes a worker several times.
const PAUSE: Duration = Duration::from_millis(700);

pub(crate) async fn run(args: &Args) -> Result<Report> {
    let server = Server::start(args.store)?;
    let mut stage = Stage::set(args, server.site(), server.site()).await?;
    stage.crew.orders.poison = Some(Limits {
        memory_max: MEMORY_MAX,
    });
    // The instance that crashed a worker crashes the next worker too. The instances beside it must
    // not fail, although at this rate some of them crash several times in a row.
    stage.crew.orders.crashes_max = 6;
    let client = server.site().client().await?;
    refuse_what_cannot_be_stored(&client).await?;
    stage.play(|act| poison_again_and_again(act, client)).await
}

async fn poison_again_and_again(mut act: Act, client: Client) -> Result<Vec<Worker>> {
    let (stop, stopped) = watch::channel(false);
    let mut slots = JoinSet::new();
    for slot in 1..=WORKERS {
        slots.spawn(keep_alive(act.crew.clone(), slot, stopped.clone()));
    }
    let mut token = u64::from(u32::MAX) * 1_000;
    while act.goes_on() {
        tokio::time::sleep(PAUSE).await;
        token += 1;
        let dose = Dose::KINDS[act.random.usize(..Dose::KINDS.len())](token);
        give(&act, &client, dose, token).await?;
    }
    // The last doses still crash workers for a while.
    while has_live_poison(&client).await? {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    stop.send_replace(true);
    slots.join_all().await.into_iter().collect()
}

async fn give(act: &Act, client: &Client, dose: Dose, token: u64) -> Result<()> {
    let ledger = &act.crew.ledger;
    let asked_at = now_us();
    ledger
        .write(&Entry::Asked {
            token,
            at: asked_at,
        })
        .await;
    let poison = client.start(Poison::with(dose)).await?;
    let at = now_us();
    let kind = format!("{dose:?}");
    let kind = kind.split(' ').next().unwrap_or_default().to_lowercase();
    act.note(&format!("doses: {kind}")).await;
    let inserted = Inserted {
        token,
        id: poison.id().get().0,
        at,
        result: None,
        fails_with: dose.reasons(),
        asked_at,
    };
    ledger.write(&Entry::Inserted(inserted)).await;
    Ok(())
}

async fn has_live_poison(client: &Client) -> Result<bool> {
    let live = Status::ALL.into_iter();
    let filter = Filter {
        machine: Some(Poison::NAME.to_owned()),
        statuses: live.filter(|status| !status.is_terminal()).collect(),
        ..Filter::default()
    };
    Ok(client.count(filter).await? != Count::Exactly(0))
}

/// Restarts the worker whenever it has died or does not respond, until it is stopped. A process
/// whose threads are all blocked can only be killed from outside.
async fn keep_alive(crew: Crew, slot: usize, mut stopped: watch::Receiver<bool>) -> Result<Worker> {
    let mut number = 0;
    loop {
        number += 1;
        let mut worker = crew.start(format!("w{slot}-{number}")).await?;
        let gave_out = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(worker),
            gave_out = worker.gave_out(SILENCE_MAX) => gave_out?,
        };
        if gave_out == GaveOut::Silent {
            worker.kill().await?;
        }
    }
}

/// A caller may not send a value that a step may not return.
async fn refuse_what_cannot_be_stored(client: &Client) -> Result<()> {
    let huge = format!("\"{}\"", "x".repeat(10_000_000));
    let nul = "\"a\\u0000b\"".to_owned();
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for (name, text) in [("huge", huge), ("nul", nul), ("deep", deep)] {
        let json = Json::parse(text);
        ensure!(
            json.is_err(),
            "{name} JSON was accepted, and it cannot be stored"
        );
    }
    let row = NewInstance::new("poison", "a\u{0}b", Json::null());
    let refused = client.admin().insert_rows(vec![row]).await;
    ensure!(
        refused
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Invalid),
        "a step with a NUL in its name was accepted: {refused:?}"
    );
    Ok(())
}
