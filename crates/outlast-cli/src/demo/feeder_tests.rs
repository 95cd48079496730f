//! Every fed instance finishes, and the number of live ones is bounded.

use super::*;
use crate::database::Location;
use crate::demo::engine::DemoEngine;
use outlast::Sqlite;
use outlast::prelude::MINUTE;

/// Longer than any step of these tests takes.
const PATIENT: Duration = Duration::from_secs(30);

async fn stored(client: &Client) -> u64 {
    match client.count(Filter::default()).await.unwrap() {
        Count::Exactly(number) | Count::AtLeast(number) => number,
    }
}

#[tokio::test]
async fn the_feeder_stops_at_its_bound_without_an_engine() {
    let client = Client::new(Sqlite::in_memory().unwrap());
    for _ in 0..LIVE_MAX + 50 {
        feed_once(&client).await.unwrap();
    }
    // Two instances that are fed at the same moment may share a key. Then only one is stored.
    let stored = stored(&client).await;
    assert!((1..=LIVE_MAX).contains(&stored), "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_that_is_cancelled_releases_its_money_first() {
    let folder = tempfile::tempdir().unwrap();
    let place = Location::Sqlite(folder.path().join("demo.db"));
    let running = DemoEngine::start(&place).await.unwrap();
    let client = running.client();
    let ask = Request::Ask {
        expense: 7,
        amount: 90,
    };
    let approval = client.start(Approval::with(ask)).await.unwrap();
    let settled = approval.settled().timeout(PATIENT).await.unwrap();
    cancel(&client, &settled, "submitted twice").await.unwrap();
    let ended = approval.ended().timeout(PATIENT).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    let error = ended.last_error.unwrap();
    assert!(
        error.starts_with("cancelled by ")
            && error.ends_with(": submitted twice; released 90 for expense 7"),
        "{error}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_an_order_that_is_cancelled_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = Location::Sqlite(folder.path().join("demo.db"));
    let running = DemoEngine::start(&place).await.unwrap();
    let client = running.client();
    let packing = Fulfilment::Pack {
        order: 1,
        articles: vec!["lamp".into(); 40],
    };
    let order = client.start(Order::with(packing)).await.unwrap();
    let settled = order.settled().timeout(PATIENT).await.unwrap();
    assert_eq!(settled.status, Status::AwaitingChildren);
    cancel(&client, &settled, "bought elsewhere").await.unwrap();
    order.ended().timeout(PATIENT).await.unwrap();
    let lines = order.children().await.unwrap();
    assert_eq!(lines.len(), 40);
    let admin = client.admin();
    for line in lines {
        admin.wait_ended(line.id, PATIENT).await.unwrap();
    }
    let actions = admin.close_actions(settled.id, None).await.unwrap();
    assert!(actions.len() > 30, "{} of 40 close actions", actions.len());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fed_instances_run_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let place = Location::Sqlite(folder.path().join("demo.db"));
    let running = DemoEngine::start(&place).await.unwrap();
    let client = running.client();
    let packing = Fulfilment::Pack {
        order: 1,
        articles: vec!["lamp".into(), "rug".into()],
    };
    let order = client.start(Order::with(packing)).await.unwrap();
    let payment = Payment::Start {
        order: 1,
        amount: 10,
    };
    let checkout = client.start(Checkout::with(payment)).await.unwrap();
    order.ended().timeout(MINUTE).await.unwrap();
    let settled = checkout.settled().timeout(Duration::from_secs(20));
    let settled = settled.await.unwrap();
    assert_eq!(settled.status, Status::AwaitingSignal);
    running.stop().await;

    let running = DemoEngine::start(&place).await.unwrap();
    let client = running.client();
    let checkout = client.handle::<Checkout>(checkout.id()).await.unwrap();
    pay(&client, &checkout.instance().await.unwrap())
        .await
        .unwrap();
    let ended = checkout.ended().timeout(Duration::from_secs(20));
    let ended = ended.await.unwrap();
    assert!(ended.status.is_terminal());
    running.stop().await;
}
