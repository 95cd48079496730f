//! Patroni gives a killed primary's place to a standby that has all that was answered, and takes it back as one.

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
async fn the_place_of_a_killed_leader_is_taken_and_it_comes_back_as_a_standby() {
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
