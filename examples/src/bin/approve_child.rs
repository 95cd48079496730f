//! An approval that goes through its parent: an update signals the child that the parent waits for.
//!
//! The sender gets a reply, also when it sends the update again. The child gets one signal, however
//! often the parent is replayed: the second half lets the worker crash twenty times.
//!
//! ```sh
//! cargo run -p outlast-examples --bin approve_child
//! ```

use outlast::client::RequestError;
use outlast::prelude::*;
use outlast::testing::{Harness, Point};

/// Wants the name of the child that was approved.
#[derive(Signal, Serialize, Deserialize)]
#[signal(reply = String)]
struct ApproveChild {
    by: String,
}

#[derive(Signal, Serialize, Deserialize)]
struct ApprovedBy {
    name: String,
}

#[workflow]
async fn approval(flow: Flow, amount: u64) -> FlowResult<String> {
    let approved = flow.signal::<ApprovedBy>().await?;
    Ok(format!("{amount}, approved by {}", approved.name))
}

#[workflow]
async fn order(flow: Flow, amount: u64) -> FlowResult<String> {
    flow.on_update(approve_child)?.validate(|approve| {
        // Rejected before anything is recorded.
        match approve.by.is_empty() {
            true => Err("an approval has a name"),
            false => Ok(()),
        }
    });
    flow.run(approval::with(amount)).await
}

/// Runs beside the code of the order, at the moment at which the update arrives.
async fn approve_child(flow: Flow, approve: ApproveChild) -> FlowResult<String> {
    let Some(child) = flow.last_child() else {
        return flow.fail("the approval has not begun");
    };
    child.signal(ApprovedBy { name: approve.by }).await?;
    Ok(child.machine())
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = outlast_examples::engine().await?;
    let engine = engine.register(order).register(approval).start().await?;

    let started = engine.start(order::with(100)).await?;
    started.settled().await?;
    let nameless = ApproveChild { by: String::new() };
    let rejected = started.update(nameless).await;
    assert!(matches!(rejected, Err(RequestError::Rejected { .. })));

    // The request comes twice, as requests do.
    for _ in 0..2 {
        let approve = ApproveChild { by: "Ada".into() };
        let reply = started
            .update(approve)
            .id("request-7")
            .timeout(MINUTE)
            .await?;
        assert_eq!(reply, "approval");
    }
    assert_eq!(
        started.output().timeout(MINUTE).await?,
        "100, approved by Ada"
    );
    engine.shutdown().await?;

    twenty_crashes().await
}

/// Sends one update to an order whose worker crashes twenty times.
async fn twenty_crashes() -> outlast::Result<()> {
    let mut harness = Harness::builder().register(order).build().await?;
    let started = harness.start(order::with(100)).await?;
    harness.run().await;
    let approve = || ApproveChild { by: "Ada".into() };
    // Nothing runs yet, so there is no reply yet.
    let sent = started
        .update(approve())
        .id("request-7")
        .timeout(Duration::ZERO);
    assert!(matches!(sent.await, Err(RequestError::TimedOut { .. })));
    for crash in 0..20 {
        let point = match crash % 2 {
            0 => Point::BeforeCommit,
            _ => Point::AfterCommit,
        };
        harness.crash_any(point, 1 + crash % 3);
        harness.run().await;
    }
    harness.run().await;
    let reply = started.update(approve()).id("request-7").await?;
    assert_eq!(reply, "approval");
    // Nothing runs the child here, so its inbox shows what it was sent.
    let child = started.children().await?[0].id;
    let signals = harness.client().admin().signals(child, None).await?;
    assert_eq!(signals.len(), 1);
    println!("one signal after twenty crashes");
    Ok(())
}
