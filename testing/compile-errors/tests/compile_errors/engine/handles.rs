//! Handles and signals with the wrong types.

#![allow(unused)]

use outlast::prelude::*;
use outlast::{Client, Handle};

#[derive(Serialize, Deserialize)]
struct Paid;

struct Invoice;

#[workflow]
async fn fulfil(flow: Flow, order: u64) -> FlowResult<u64> {
    Ok(order)
}

async fn signal(order: Handle<fulfil>) -> outlast::Result<()> {
    order.signal(Paid).await?;
    order.signal("paid").await?;
    Ok(())
}

async fn typed_error(order: Handle<fulfil>) -> outlast::Result<()> {
    let error = order.output().await.unwrap_err();
    let error = error.downcast::<fulfil>()?;
    Ok(())
}

async fn handle(client: Client) -> outlast::Result<()> {
    client.handle::<Invoice>("order:42").await?;
    Ok(())
}

async fn untyped(client: Client) -> outlast::Result<()> {
    let order = client.handle("order:42").await?;
    Ok(())
}

fn main() {}
