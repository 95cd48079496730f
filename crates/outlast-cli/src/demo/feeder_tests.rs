//! Every fed instance finishes, and the number of live ones is bounded.

use super::*;
use crate::database::Location;
use crate::demo::engine::DemoEngine;
use outlast::{Count, Sqlite};

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
    let inserted = client.insert(New::<Approval>(ask)).await.unwrap();
    let id = inserted.id().unwrap();
    let settled = client.wait_settled(id, PATIENT).await.unwrap();
    cancel(&client, &settled, "submitted twice").await.unwrap();
    let ended = client.wait_ended(id, PATIENT).await.unwrap();
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
    let order = Fulfilment::Pack {
        order: 1,
        articles: vec!["lamp".into(); 40],
    };
    let inserted = client.insert(New::<Order>(order)).await.unwrap();
    let id = inserted.id().unwrap();
    let settled = client.wait_settled(id, PATIENT).await.unwrap();
    assert_eq!(settled.status, Status::AwaitingChildren);
    cancel(&client, &settled, "bought elsewhere").await.unwrap();
    client.wait_ended(id, PATIENT).await.unwrap();
    let lines = client.children(settled.id).await.unwrap();
    assert_eq!(lines.len(), 40);
    for line in lines {
        client.wait_ended(line.id, PATIENT).await.unwrap();
    }
    let actions = client.close_actions(settled.id, None).await.unwrap();
    assert!(actions.len() > 30, "{} of 40 close actions", actions.len());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fed_instances_run_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let place = Location::Sqlite(folder.path().join("demo.db"));
    let running = DemoEngine::start(&place).await.unwrap();
    let client = running.client();
    let order = Fulfilment::Pack {
        order: 1,
        articles: vec!["lamp".into(), "rug".into()],
    };
    let order = client
        .insert(New::<Order>(order))
        .await
        .unwrap()
        .id()
        .unwrap();
    let parked = client
        .insert(New::<Checkout>(Payment::Start {
            order: 1,
            amount: 10,
        }))
        .await;
    let parked = parked.unwrap().id().unwrap();
    client
        .wait_ended(order, Duration::from_secs(60))
        .await
        .unwrap();
    let settled = client
        .wait_settled(parked, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(settled.status, Status::AwaitingSignal);
    running.stop().await;

    let running = DemoEngine::start(&place).await.unwrap();
    let client = running.client();
    let checkout = client.get(parked).await.unwrap().unwrap();
    pay(&client, &checkout).await.unwrap();
    let ended = client
        .wait_ended(parked, Duration::from_secs(20))
        .await
        .unwrap();
    assert!(ended.status.is_terminal());
    running.stop().await;
}
