//! The costs of verbs over a slow network: a transaction takes one round trip and few messages.

use crate::support::proxy::Proxy;
use crate::support::work::{
    self, claim, commit, done, insert, offer, request, task, wait_for, worker,
};
use crate::support::{drop_schema, unique_schema, url, url_of};
use outlast_core::{Answer, Inspect, Json, NewSignal, Store, Target};
use outlast_postgres::Postgres;
use std::time::Duration;

#[tokio::test]
async fn a_transaction_takes_one_round_trip_and_a_single_statement_one_message() {
    let schema = unique_schema();
    let config: tokio_postgres::Config = url().parse().unwrap();
    let port = *config.get_ports().first().unwrap_or(&5432);
    let proxy = Proxy::to(port);
    let slow =
        url_of(|config| config).replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let options = Postgres::options(&slow).unwrap().schema(&schema);
    let store = options.max_connections(1).connect().await.unwrap();

    // The first use of a verb on a connection takes one more round trip to prepare its statements.
    // Only the second use is counted.
    let mut counted = Vec::new();
    for warm in [false, true] {
        let mut count = |verb: &'static str| {
            let found = (
                verb,
                proxy.take_round_trips(),
                proxy.take_answers_asked_for(),
            );
            if warm {
                counted.push(found);
            }
        };
        let worker = worker(&store).await;
        count("register");
        let id = insert(&store, task()).await;
        count("insert");
        let first = claim(&store, worker).await;
        count("claim, as many as asked for, inbox empty");
        assert_eq!(first.id, id);
        let parked = commit(&store, &first, wait_for("go")).await;
        count("commit, wait");
        assert!(matches!(parked, Answer::Committed { .. }));
        let signal = NewSignal::new(Target::Id(id), "go", Json::null());
        store.deliver(vec![signal], None).await.unwrap();
        count("deliver by id");
        let second = claim(&store, worker).await;
        count("claim, inbox loaded");
        assert_eq!(second.inbox.len(), 1);
        commit(&store, &second, done()).await;
        count("commit, done");
        let id = insert(&store, task()).await;
        let first = claim(&store, worker).await;
        commit(&store, &first, wait_for("go")).await;
        proxy.count_anew();
        let signal = NewSignal::new(Target::Id(id), "go", Json::null());
        let offer = offer(worker);
        let delivered = store.deliver(vec![signal], Some(offer)).await.unwrap();
        count("deliver by id and claim, inbox loaded");
        assert_eq!(delivered.claims[0].inbox.len(), 1);
        commit(&store, &delivered.claims[0], done()).await;
        proxy.count_anew();
        assert_eq!(store.claim(request(worker, 5)).await.unwrap().claims, []);
        count("claim, nothing there");
        store
            .heartbeat(worker, Duration::from_secs(60))
            .await
            .unwrap();
        count("heartbeat");
        store.get(id).await.unwrap();
        count("get");
        store.deregister(worker).await.unwrap();
        count("deregister");
        let mut either = work::go_or_start(&format!("key {warm}"));
        either.row.queue = "aside".into();
        let started = store.signal_or_insert(either.clone()).await;
        assert!(started.unwrap().inserted.is_some());
        count("signal or insert, inserted");
        let signalled = store.signal_or_insert(either).await;
        assert!(signalled.unwrap().inserted.is_none());
        count("signal or insert, signalled");
    }
    assert_eq!(
        counted,
        [
            ("register", 1, 1),
            ("insert", 1, 1),
            ("claim, as many as asked for, inbox empty", 1, 4),
            ("commit, wait", 1, 4),
            ("deliver by id", 1, 4),
            ("claim, inbox loaded", 2, 8),
            ("commit, done", 1, 4),
            ("deliver by id and claim, inbox loaded", 1, 5),
            ("claim, nothing there", 1, 4),
            ("heartbeat", 1, 4),
            ("get", 1, 1),
            ("deregister", 1, 4),
            // The dedup key costs one more: a former holder may know it, and then nothing is
            // started.
            ("signal or insert, inserted", 3, 6),
            ("signal or insert, signalled", 2, 6),
        ]
    );
    store.close().await;
    drop_schema(&schema).await;
}
