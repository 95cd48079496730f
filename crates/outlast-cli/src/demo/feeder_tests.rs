//! What is fed comes to its end, and there is never too much of it.

use super::*;
use crate::database::Place;
use crate::demo::engine::Running;
use outlast::{Count, Sqlite};

async fn stored(client: &Client) -> u64 {
    match client.count(Filter::default()).await.unwrap() {
        Count::Exactly(number) | Count::AtLeast(number) => number,
    }
}

#[tokio::test]
async fn without_an_engine_it_stops_at_its_bound() {
    let client = Client::new(Sqlite::in_memory().unwrap());
    for _ in 0..LIVE_MAX + 50 {
        feed_once(&client).await.unwrap();
    }
    // Two of one moment may share a key, and then only one of them is there.
    let stored = stored(&client).await;
    assert!((1..=LIVE_MAX).contains(&stored), "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_fed_runs_and_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::Sqlite(folder.path().join("demo.db"));
    let running = Running::start(&place).await.unwrap();
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

    let running = Running::start(&place).await.unwrap();
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
