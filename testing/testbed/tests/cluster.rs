//! A killed server leaves the files of a crash, and restarts on the same port with its commits.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::cluster::{Cluster, Stop};
use outlast_testbed::process::{Process, wait_until};
use std::io::Write;
use std::net::TcpStream;

fn committed(cluster: &Cluster) -> String {
    let rows = cluster.ask("postgres", "select count(*) from kept");
    rows.unwrap().concat().concat()
}

#[test]
fn a_killed_server_recovers_its_commits_on_the_same_port() {
    let Some(mut cluster) = Cluster::durable() else {
        return;
    };
    cluster.start();
    let port = cluster.port();
    let fill = "create table kept as select generate_series(1, 1000)";
    cluster.ask("postgres", fill).unwrap();
    for _ in 0..2 {
        let server = Process::find(cluster.process().unwrap()).unwrap();
        let others = server.descendants();
        assert!(others.len() >= 4, "{others:?}");
        cluster.kill();
        assert_eq!(cluster.process(), None);
        assert!(!others.iter().any(Process::is_alive));
        assert!(cluster.path().join("data/postmaster.pid").exists());
        assert!(cluster.ask("postgres", "select 1").is_err());
        cluster.start();
        assert_eq!(cluster.port(), port);
        assert_eq!(committed(&cluster), "1000");
    }
    let log = cluster.log();
    let recoveries = log.matches("database system was not properly shut down");
    assert_eq!(recoveries.count(), 2, "{log}");
}

#[test]
fn a_killed_backend_makes_the_server_recover_by_itself() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    cluster.ask("postgres", "create table kept ()").unwrap();
    wait_until("the query has ended", || cluster.backends().is_empty());
    let mut client = TcpStream::connect(("127.0.0.1", cluster.port())).unwrap();
    let words = b"\0\0\0\x28\0\x03\0\0user\0outlast\0database\0postgres\0\0";
    client.write_all(words).unwrap();
    wait_until("the client is served", || cluster.backends().len() == 1);
    let (server, backend) = (cluster.process(), cluster.backends()[0]);
    assert!(cluster.kill_backend(backend));
    assert!(!cluster.kill_backend(backend), "the backend has ended");
    wait_until("the server has noticed the kill", || {
        cluster.log().contains("all server processes terminated")
    });
    cluster.wait_ready();
    assert_eq!(cluster.process(), server);
    assert_eq!(committed(&cluster), "0");
}

#[test]
fn a_dropped_cluster_ends_its_server_and_keeps_a_given_folder() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut cluster) = Cluster::durable_in(folder.path()) else {
        return;
    };
    cluster.start();
    let server = Process::find(cluster.process().unwrap()).unwrap();
    cluster.stop(Stop::Fast);
    assert!(!server.is_alive());
    cluster.start();
    let server = Process::find(cluster.process().unwrap()).unwrap();
    drop(cluster);
    assert!(!server.is_alive());
    assert!(folder.path().join("data").is_dir());
}
