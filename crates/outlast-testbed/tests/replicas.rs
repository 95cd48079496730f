//! A standby takes over from a killed primary with all that was answered, again and again.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::process::Process;
use outlast_testbed::replicas::{Mode, Replicas};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

async fn connect(replicas: &Replicas) -> Client {
    let (client, connection) = tokio_postgres::connect(&replicas.url(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

async fn rows(replicas: &Replicas) -> i64 {
    let client = connect(replicas).await;
    let count = client.query_one("select count(*) from kept", &[]).await;
    count.unwrap().get(0)
}

#[tokio::test]
async fn what_was_answered_outlives_every_fail_over_in_synchronous_mode() {
    let Some(mut replicas) = Replicas::start(Mode::Synchronous) else {
        return;
    };
    let client = connect(&replicas).await;
    client
        .batch_execute("create table kept (n int)")
        .await
        .unwrap();
    let mut expected = 0;
    for _ in 0..2 {
        let client = connect(&replicas).await;
        for _ in 0..50 {
            let insert = "insert into kept values (1)";
            client.batch_execute(insert).await.unwrap();
        }
        expected += 50;
        let begun = Instant::now();
        let (old, new) = (replicas.primary().port(), replicas.other().port());
        replicas.fail_over();
        assert_eq!(
            (replicas.other().port(), replicas.primary().port()),
            (old, new)
        );
        let failed_over = begun.elapsed();
        assert_eq!(rows(&replicas).await, expected);
        // With nobody to wait for, it does not wait.
        let client = connect(&replicas).await;
        client
            .batch_execute("insert into kept values (2)")
            .await
            .unwrap();
        expected += 1;
        replicas.rebuild();
        eprintln!(
            "taken over in {failed_over:?}, both again after {:?}",
            begun.elapsed()
        );
    }
    assert_eq!(rows(&replicas).await, expected);
}

#[tokio::test]
async fn a_synchronous_commit_waits_for_the_standby_and_an_asynchronous_one_does_not() {
    for mode in [Mode::Synchronous, Mode::Asynchronous] {
        let Some(replicas) = Replicas::start(mode) else {
            return;
        };
        let standby = replicas.other().process().unwrap();
        let standby = Process::find(standby).unwrap();
        let receivers = standby.children();
        let receiver = receivers
            .iter()
            .find(|it| it.title().contains("walreceiver"));
        let receiver = receiver.unwrap();
        receiver.signal(Signal::STOP);
        let client = connect(&replicas).await;
        let write = client.batch_execute("create table kept ()");
        let patience = Duration::from_millis(500);
        let written = tokio::time::timeout(patience, write).await;
        assert_eq!(written.is_ok(), mode == Mode::Asynchronous, "{mode:?}");
        // Stopped, it would keep its server from ending.
        receiver.signal(Signal::CONT);
    }
}
