//! Calls that answer differently when a workflow runs again.

#![allow(unused)]

use outlast::prelude::*;
use std::time::{Instant, SystemTime};

#[workflow]
async fn remind(flow: Flow, order: Order) -> FlowResult<()> {
    tokio::time::sleep(DAY).await;
    tokio::time::timeout(DAY, async {}).await?;
    std::thread::sleep(DAY);
    tokio::spawn(async {});
    let started = SystemTime::now();
    let measured = Instant::now();
    let id = Uuid::new_v4();
    let template = std::fs::read_to_string("reminder.txt")?;
    let sender = std::env::var("SENDER")?;
    Ok(())
}

#[workflow]
async fn named_otherwise(ctx: Flow, order: Order) -> FlowResult<()> {
    if order.is_urgent {
        return Ok(());
    }
    loop {
        tokio::time::sleep(DAY).await;
    }
}

// In the code of a step, all of them are right.
#[workflow]
async fn in_a_step(flow: Flow, order: Order) -> FlowResult<()> {
    flow.step("write", async || std::fs::write("order.txt", "urgent"))
        .await
}

#[derive(Serialize, Deserialize)]
struct Order {
    is_urgent: bool,
}

struct Uuid;

impl Uuid {
    fn new_v4() -> Uuid {
        Uuid
    }
}

fn main() {}
