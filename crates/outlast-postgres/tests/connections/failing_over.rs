//! With a URL of several hosts, a store connects to the host that takes writes and follows a
//! failover.

use crate::support::work::{self, done, get, running, task};
use outlast_core::{ErrorKind, Hints, Status, Store};
use outlast_postgres::Postgres;
use outlast_testbed::cluster::Cluster;
use outlast_testbed::program::eventually;
use outlast_testbed::replicas::{Mode, Replicas};
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_store_follows_a_failover_to_the_new_primary_and_back() {
    let Some(mut replicas) = Replicas::start(Mode::Synchronous) else {
        return;
    };
    let store = Postgres::connect(&replicas.url()).await.unwrap();
    let mut listener = store.listen().await.unwrap().unwrap();
    for _ in 0..2 {
        let claim = running(&store).await;
        // A claim does not wait for the standby. A later insert does, and the claim reaches it
        // too.
        work::insert(&store, task()).await;
        replicas.fail_over();
        let lost = listener.next().await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Transient, "{lost:?}");
        eventually("the outcome is written", || async {
            let commits = work::outcome_of(&claim, done());
            match store.commit(commits.into()).await {
                Ok(_) => true,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
                    false
                }
            }
        })
        .await;
        assert_eq!(get(&store, claim.id).await.status, Status::Done);
        replicas.rebuild();
        // The store has no connection to the server that is the standby now.
        let connections = replicas.other().ask(
            "postgres",
            "select from pg_stat_activity where application_name = 'outlast'",
        );
        assert_eq!(connections.unwrap().len(), 0);
        listener = store.listen().await.unwrap().unwrap();
        let sender = Postgres::connect(&replicas.url()).await.unwrap();
        let sent = hints();
        eventually("the new primary takes a hint", || async {
            sender.notify(sent.clone()).await.is_ok()
        })
        .await;
        assert_eq!(listener.next().await.unwrap(), sent);
        sender.close().await;
    }
    store.close().await;
}

fn hints() -> Hints {
    Hints::now(["q".to_owned()].into())
}

#[tokio::test]
async fn a_host_that_accepts_connections_and_never_answers_is_skipped() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://outlast@127.0.0.1:{},127.0.0.1:{}/postgres?connect_timeout=1&target_session_attrs=read-write",
        hanging.local_addr().unwrap().port(),
        cluster.port()
    );
    let begun = Instant::now();
    let options = Postgres::options(&url).unwrap().max_connections(1);
    let store = options.without_notifications().connect().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
    running(&store).await;
    store.close().await;
}

#[tokio::test]
async fn a_session_that_becomes_read_only_is_closed() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let options = Postgres::options(&cluster.url()).unwrap();
    let options = options.max_connections(1).without_notifications();
    let store = options.connect().await.unwrap();
    let claim = running(&store).await;
    let serving = || {
        let ours = "select pid from pg_stat_activity where application_name = 'outlast'";
        cluster.ask("postgres", ours).unwrap()
    };
    let set = |value: &str| {
        let sql = format!("alter system set default_transaction_read_only = {value}");
        cluster.ask("postgres", &sql).unwrap();
        cluster.ask("postgres", "select pg_reload_conf()").unwrap();
    };
    set("on");
    // The session applies the setting between two statements.
    let before = serving();
    assert_eq!(before.len(), 1);
    let error = loop {
        if let Err(error) = store.insert(vec![task()], None).await {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    assert!(error.to_string().contains("read-only"), "{error}");
    eventually("the session is gone", || async { serving() != before }).await;
    set("off");
    eventually("outcomes are written again", || async {
        let commits = work::outcome_of(&claim, done());
        store.commit(commits.into()).await.is_ok()
    })
    .await;
    assert_eq!(get(&store, claim.id).await.status, Status::Done);
    store.close().await;
}
