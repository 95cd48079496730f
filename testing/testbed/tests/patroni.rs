//! Patroni replaces a killed primary by a standby with every acknowledged commit. The killed node
//! rejoins as a standby.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::patroni::Patroni;
use outlast_testbed::replicas::Mode;
use std::time::Instant;
use tokio_postgres::{Client, NoTls};

async fn connect(patroni: &Patroni) -> Client {
    let (client, connection) = tokio_postgres::connect(&patroni.url(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_standby_replaces_a_killed_leader_which_returns_as_a_standby() {
    let begun = Instant::now();
    let Some(mut patroni) = Patroni::start(2, Mode::Synchronous) else {
        return;
    };
    eprintln!("started in {:?}", begun.elapsed());
    let client = connect(&patroni).await;
    let sql = "create table kept (n int); insert into kept select generate_series(1, 1000)";
    client.batch_execute(sql).await.unwrap();
    let begun = Instant::now();
    let killed = patroni.kill_leader();
    assert_eq!(patroni.leader(), None);
    let leader = patroni.wait_for_leader();
    assert_ne!(leader, killed);
    eprintln!("taken over in {:?}", begun.elapsed());
    let client = connect(&patroni).await;
    let kept = client.query_one("select count(*) from kept", &[]).await;
    assert_eq!(kept.unwrap().get::<_, i64>(0), 1000);
    client
        .batch_execute("insert into kept values (1)")
        .await
        .unwrap();
    patroni.restart(killed);
    patroni.wait_for_standbys();
    assert_eq!(patroni.leader(), Some(leader));
    eprintln!("both again after {:?}", begun.elapsed());
}
