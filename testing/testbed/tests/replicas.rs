//! A standby takes over from a killed primary with every acknowledged commit, several times.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::process::Process;
use outlast_testbed::replicas::{Mode, Replicas};
use rustix::process::Signal;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Error, NoTls};

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Writes numbers until the flag is set. Returns the numbers whose commit was acknowledged.
async fn write(url: String, mut next: i32, until: Arc<AtomicBool>) -> Vec<i32> {
    let mut answered = Vec::new();
    while !until.load(Ordering::SeqCst) {
        let Ok(client) = connect(&url).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        while !until.load(Ordering::SeqCst) {
            let insert = format!("insert into kept values ({next})");
            if client.batch_execute(&insert).await.is_err() {
                break;
            }
            answered.push(next);
            next += 1;
        }
        // The failed insert may have been committed, so its number is not used again.
        next += 1;
    }
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_survive_every_fail_over_in_synchronous_mode() {
    let Some(mut replicas) = Replicas::start(Mode::Synchronous) else {
        return;
    };
    let url = replicas.url();
    let client = connect(&url).await.unwrap();
    let table = "create table kept (n int primary key)";
    client.batch_execute(table).await.unwrap();
    let until = Arc::new(AtomicBool::new(false));
    let writers = [0, 1, 2].map(|n| tokio::spawn(write(url.clone(), n * 1_000_000, until.clone())));
    for _ in 0..2 {
        let begun = Instant::now();
        let (old, new) = (replicas.primary().port(), replicas.other().port());
        replicas.fail_over();
        let ports = (replicas.other().port(), replicas.primary().port());
        assert_eq!(ports, (old, new));
        let failed_over = begun.elapsed();
        replicas.rebuild();
        let rebuilt = begun.elapsed();
        eprintln!("taken over in {failed_over:?}, both again after {rebuilt:?}");
    }
    // The last fail-over follows at once. The standby has the commits of the time with one server.
    replicas.fail_over();
    until.store(true, Ordering::SeqCst);
    let mut answered = Vec::new();
    for writer in writers {
        answered.extend(writer.await.unwrap());
    }
    let client = connect(&url).await.unwrap();
    let kept = client.query("select n from kept", &[]).await.unwrap();
    let kept: HashSet<i32> = kept.iter().map(|row| row.get(0)).collect();
    answered.retain(|n| !kept.contains(n));
    assert_eq!(answered, [], "of {}", kept.len());
    assert!(kept.len() > 100, "{}", kept.len());
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
        let client = connect(&replicas.url()).await.unwrap();
        let write = client.batch_execute("create table kept ()");
        let patience = Duration::from_millis(500);
        let written = tokio::time::timeout(patience, write).await;
        assert_eq!(written.is_ok(), mode == Mode::Asynchronous, "{mode:?}");
        // A stopped receiver would keep its server from ending.
        receiver.signal(Signal::CONT);
    }
}
