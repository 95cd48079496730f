//! The faults of a proxy as clients see them, and its counts. A commit that was cut before it
//! reached the server did not happen. A commit whose response was lost did.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast_testbed::cluster::Cluster;
use outlast_testbed::program::eventually;
use outlast_testbed::proxy::{Counts, Faults, Proxy};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls, Statement};

/// A server, and a proxy in front of it.
struct Bed {
    cluster: Cluster,
    proxy: Proxy,
}

impl Bed {
    fn new() -> Option<Bed> {
        let mut cluster = Cluster::create()?;
        cluster.start();
        cluster
            .ask("postgres", "create table kept (n int)")
            .unwrap();
        let proxy = Proxy::to(cluster.port(), 7);
        Some(Bed { cluster, proxy })
    }

    async fn client(&self) -> Client {
        self.client_and_driver().await.0
    }

    /// Returns a client, and the task of its driver, which returns how the connection ended.
    async fn client_and_driver(&self) -> (Client, JoinHandle<Result<(), Error>>) {
        let url = format!(
            "postgres://outlast@127.0.0.1:{}/postgres",
            self.proxy.port()
        );
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        (client, tokio::spawn(connection))
    }

    fn rows(&self) -> usize {
        let rows = self.cluster.ask("postgres", "select count(*) from kept");
        rows.unwrap().concat().concat().parse().unwrap()
    }
}

/// The ways in which a client commits one row.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// `begin`, an executed statement and `commit` as one flight.
    Pipelined,
    /// One executed statement that is a transaction by itself.
    Alone,
    /// A simple query.
    Simple,
    /// `COMMIT` as a prepared statement.
    Executed,
}

const WAYS: [Way; 4] = [Way::Pipelined, Way::Alone, Way::Simple, Way::Executed];

struct Prepared {
    insert: Statement,
    commit: Statement,
}

async fn prepare(client: &Client) -> Prepared {
    Prepared {
        insert: client
            .prepare("-- a comment\nwith new as (insert into kept values ($1) returning n) select * from new")
            .await
            .unwrap(),
        commit: client.prepare("commit").await.unwrap(),
    }
}

async fn write(client: &Client, prepared: &Prepared, way: Way) -> Result<(), Error> {
    match way {
        Way::Pipelined => {
            let (begun, written, committed) = tokio::join!(
                client.batch_execute("begin"),
                client.query(&prepared.insert, &[&1]),
                client.batch_execute("commit"),
            );
            begun.and(written.map(drop)).and(committed)
        }
        Way::Alone => client.query(&prepared.insert, &[&1]).await.map(drop),
        Way::Simple => client.batch_execute("insert into kept values (1)").await,
        Way::Executed => {
            client.batch_execute("begin").await?;
            client.query(&prepared.insert, &[&1]).await?;
            client.execute(&prepared.commit, &[]).await.map(drop)
        }
    }
}

#[tokio::test]
async fn the_proxy_finds_every_way_to_commit_and_cuts_where_it_is_configured_to() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let mut committed = 0;
    for reset in [0.0, 1.0] {
        for way in WAYS {
            for (faults, answered, kept) in [
                (before_commit(), false, 0),
                (before_answer(), false, 1),
                (after_answer(), true, 1),
            ] {
                let (client, driver) = bed.client_and_driver().await;
                let prepared = prepare(&client).await;
                write(&client, &prepared, way).await.unwrap();
                let before = (bed.rows(), bed.proxy.counts());
                bed.proxy.set_faults(Faults { reset, ..faults });
                let written = write(&client, &prepared, way).await;
                let case = format!("{way:?} {faults:?}: {written:?}");
                assert_eq!(written.is_ok(), answered, "{case}");
                bed.proxy.set_faults(Faults::default());
                let ended = driver.await.unwrap();
                assert!(reset == 0.0 || is_reset(&ended), "{case}: {ended:?}");
                assert_eq!(bed.rows() - before.0, kept, "{case}");
                let (then, now) = (before.1, bed.proxy.counts());
                assert_eq!(now.cuts_at_commit(), then.cuts_at_commit() + 1, "{case}");
                assert_eq!(now.resets - then.resets, reset as u64, "{case}");
                committed += 1 + kept as u64;
                assert_eq!(now.commits, committed, "{case}");
            }
        }
    }
    let counts = bed.proxy.counts();
    let each = (2 * WAYS.len()) as u64;
    let cuts = [
        counts.before_commit,
        counts.before_answer,
        counts.after_answer,
    ];
    assert_eq!(cuts, [each; 3]);
}

fn is_reset(ended: &Result<(), Error>) -> bool {
    let error = ended.as_ref().err().and_then(std::error::Error::source);
    let error = error.and_then(|error| error.downcast_ref::<std::io::Error>());
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

fn before_commit() -> Faults {
    Faults {
        before_commit: 1.0,
        ..Faults::default()
    }
}

fn before_answer() -> Faults {
    Faults {
        before_answer: 1.0,
        ..Faults::default()
    }
}

fn after_answer() -> Faults {
    Faults {
        after_answer: 1.0,
        ..Faults::default()
    }
}

#[tokio::test]
async fn the_proxy_does_not_disturb_reads_failures_and_rollbacks() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let client = bed.client().await;
    bed.proxy.set_faults(Faults {
        before_answer: 1.0,
        ..Faults::default()
    });
    client.query("select * from kept", &[]).await.unwrap();
    client
        .batch_execute("begin; select 1; commit")
        .await
        .unwrap();
    let rolled_back = "begin; insert into kept values (1); rollback";
    client.batch_execute(rolled_back).await.unwrap();
    let failing = client.batch_execute("insert into kept values ('x')");
    assert!(failing.await.unwrap_err().as_db_error().is_some());
    let failed = tokio::join!(
        client.batch_execute("begin"),
        client.batch_execute("insert into kept values ('x')"),
        client.batch_execute("commit"),
    );
    assert!(failed.1.is_err() && failed.2.is_ok(), "{failed:?}");
    client.query("select 1", &[]).await.unwrap();
    assert_eq!(bed.rows(), 0);
    let one = Counts {
        connections: 1,
        ..Counts::default()
    };
    assert_eq!(bed.proxy.counts(), one);
}

#[tokio::test]
async fn the_proxy_stalls_responses_to_commits_and_slows_every_chunk() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let client = bed.client().await;
    let prepared = prepare(&client).await;
    let late = Duration::from_millis(200);
    let took = async || {
        let begun = Instant::now();
        write(&client, &prepared, Way::Alone).await.unwrap();
        begun.elapsed()
    };
    bed.proxy.set_faults(Faults {
        stall: 1.0,
        stall_for: late,
        ..Faults::default()
    });
    assert!(took().await >= late);
    assert_eq!(bed.proxy.counts().stalls, 1);
    bed.proxy.set_faults(Faults {
        slow: 1.0,
        slow_by: late,
        ..Faults::default()
    });
    assert!(took().await >= 2 * late, "one delay in each direction");
    assert!(bed.proxy.counts().slowed >= 2);
    bed.proxy.set_faults(Faults::default());
    took().await;
    assert_eq!(bed.rows(), 3);
}

#[tokio::test]
async fn the_proxy_cuts_connections_and_leads_new_ones_to_another_server() {
    let (Some(bed), Some(mut other)) = (Bed::new(), Cluster::create()) else {
        return;
    };
    other.start();
    other.ask("postgres", "create table elsewhere ()").unwrap();
    let client = bed.client().await;
    bed.proxy.lead_to(other.port());
    client.query("select * from kept", &[]).await.unwrap();
    bed.proxy.cut_all();
    eventually("the client has noticed", || async { client.is_closed() }).await;
    let client = bed.client().await;
    client.query("select * from elsewhere", &[]).await.unwrap();
    assert_eq!(bed.proxy.counts().cut, 1);
    drop(bed.proxy);
    eventually("the proxy is gone", || async { client.is_closed() }).await;
}

#[tokio::test]
async fn the_proxy_forwards_long_messages_and_cancel_requests() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let client = bed.client().await;
    let long = "x".repeat(3 << 20);
    let row = client.query_one("select $1::text || 'y'", &[&long]).await;
    assert_eq!(row.unwrap().get::<_, String>(0), long + "y");
    let cancel = client.cancel_token();
    let (slept, _) = tokio::join!(client.batch_execute("select pg_sleep(60)"), async {
        eventually("the statement sleeps", || async {
            let asleep = "select from pg_stat_activity where wait_event = 'PgSleep'";
            !bed.cluster.ask("postgres", asleep).unwrap().is_empty()
        })
        .await;
        cancel.cancel_query(NoTls).await.unwrap();
    });
    let error = slept.unwrap_err();
    let code = error.code().unwrap().code();
    assert_eq!(code, "57014", "{error}");
}

#[tokio::test]
async fn faults_hit_commits_with_the_configured_probability() {
    let Some(bed) = Bed::new() else {
        return;
    };
    bed.proxy.set_faults(Faults {
        before_commit: 0.25,
        before_answer: 0.25,
        ..Faults::default()
    });
    let (mut answered, tries) = (0, 200);
    for _ in 0..tries {
        let client = bed.client().await;
        let wrote = client.batch_execute("insert into kept values (1)").await;
        answered += u64::from(wrote.is_ok());
    }
    let counts = bed.proxy.counts();
    assert_eq!(counts.cuts_at_commit() + answered, tries);
    assert_eq!(counts.commits, tries - counts.before_commit);
    assert_eq!(bed.rows() as u64, counts.commits);
    let expected = 25..=75;
    assert!(expected.contains(&counts.before_commit), "{counts:?}");
    assert!(expected.contains(&counts.before_answer), "{counts:?}");
}
