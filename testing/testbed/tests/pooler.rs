//! Behind a pooler in transaction mode each transaction may get another process of the server.
//! This also holds after the server was killed.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::cluster::Cluster;
use outlast_testbed::pooler::{Behind, Pooler};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

#[tokio::test]
async fn a_pooler_uses_a_connection_per_open_transaction_and_finds_a_new_server() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let Some(pooler) = Pooler::start(&Behind::cluster(cluster.port()), 2) else {
        return;
    };
    let [one, other] = two_processes(&pooler).await.unwrap();
    assert_ne!(one, other);
    cluster.kill();
    assert!(two_processes(&pooler).await.is_none(), "there is no server");
    cluster.start();
    let begun = Instant::now();
    while two_processes(&pooler).await.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

/// Returns the processes of the server that serve two transactions at once. Returns `None` after
/// two seconds: the pooler lets clients wait for a server for minutes.
async fn two_processes(pooler: &Pooler) -> Option<[String; 2]> {
    let asking = async {
        let (one, other) = (connect(pooler).await?, connect(pooler).await?);
        one.batch_execute("begin").await.ok()?;
        Some([process(&one).await?, process(&other).await?])
    };
    let asked = tokio::time::timeout(Duration::from_secs(2), asking).await;
    asked.ok().flatten()
}

async fn process(client: &Client) -> Option<String> {
    let answer = client.simple_query("select pg_backend_pid()").await.ok()?;
    answer.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(0).map(str::to_owned)
    })
}

async fn connect(pooler: &Pooler) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(&pooler.url(), NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}
