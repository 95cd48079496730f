//! A verb that writes commits once, whether it is sent as one message or as several.
//!
//! The proxy sees that commit and can cut the connection there, as other tests do. The verb is
//! then written as a whole or not at all, and the store goes on.

use crate::support::work::{self, claim, done, task, worker};
use crate::support::{drop_schema, unique_schema, url, url_of};
use outlast_core::{Count, ErrorKind, Filter, Inspect, Status, Store};
use outlast_postgres::{Options, Postgres};
use outlast_testbed::proxy::{Faults, Proxy};

/// The ways to send a verb.
const WAYS: [fn(Options) -> Options; 2] = [|options| options, Options::without_named_statements];

struct Bed {
    schema: String,
    proxy: Proxy,
    store: Postgres,
    /// A store in the same schema, without the proxy.
    near: Postgres,
}

impl Bed {
    async fn new(way: fn(Options) -> Options) -> Bed {
        let schema = unique_schema();
        let config: tokio_postgres::Config = url().parse().unwrap();
        let server_port = *config.get_ports().first().unwrap_or(&5432);
        let proxy = Proxy::to(server_port, 1);
        let [here, there] = [server_port, proxy.port()].map(|port| format!(":{port}/"));
        let far = url_of(|config| config).replace(&here, &there);
        let near = Postgres::options(&url()).unwrap().schema(&schema);
        let near = near.without_notifications().connect().await.unwrap();
        let store = Postgres::options(&far).unwrap().schema(&schema);
        let store = way(store).without_notifications().connect().await.unwrap();
        Bed {
            schema,
            proxy,
            store,
            near,
        }
    }

    async fn instances(&self) -> u64 {
        match self.near.count(Filter::default()).await.unwrap() {
            Count::Exactly(count) | Count::AtLeast(count) => count,
        }
    }

    async fn close(self) {
        self.store.close().await;
        self.near.close().await;
        drop_schema(&self.schema).await;
    }
}

#[tokio::test]
async fn a_verb_that_writes_commits_once_and_a_read_does_not_commit() {
    for way in WAYS {
        let bed = Bed::new(way).await;
        let (store, mut before) = (&bed.store, bed.proxy.counts().commits);
        let mut commits = || {
            let now = bed.proxy.counts().commits;
            now - std::mem::replace(&mut before, now)
        };
        let id = work::insert(store, task()).await;
        assert_eq!(commits(), 1, "insert");
        let worker = worker(store).await;
        assert_eq!(commits(), 1, "register");
        let claim = claim(store, worker).await;
        assert_eq!((claim.id, commits()), (id, 1), "claim");
        store.get(id).await.unwrap();
        store.now().await.unwrap();
        assert_eq!(commits(), 0, "read");
        work::commit(store, &claim, done()).await;
        assert_eq!(commits(), 1, "commit");
        bed.close().await;
    }
}

#[tokio::test]
async fn a_verb_whose_connection_is_cut_at_its_commit_is_written_once_or_not_at_all() {
    let never = Faults::default();
    let cuts = [
        (
            Faults {
                before_commit: 1.0,
                ..never
            },
            false,
            0,
        ),
        (
            Faults {
                before_answer: 1.0,
                ..never
            },
            false,
            1,
        ),
        (
            Faults {
                after_answer: 1.0,
                ..never
            },
            true,
            1,
        ),
    ];
    for way in WAYS {
        let bed = Bed::new(way).await;
        for (faults, answered, inserted) in cuts {
            let claim = work::running(&bed.store).await;
            let before = bed.instances().await;
            bed.proxy.set_faults(faults);
            let answer = bed.store.insert(vec![task()], None).await;
            bed.proxy.set_faults(never);
            assert_eq!(answer.is_ok(), answered, "{faults:?}");
            if let Err(error) = answer {
                assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
            }
            assert_eq!(bed.instances().await, before + inserted, "{faults:?}");
            // The pool may not have noticed yet that its connection is cut.
            let outcome = work::outcome_of(&claim, done());
            if bed.store.commit(outcome.clone().into()).await.is_err() {
                bed.store.commit(outcome.into()).await.unwrap();
            }
            let ended = bed.near.get(claim.id).await.unwrap().unwrap();
            assert_eq!(ended.status, Status::Done);
        }
        assert_eq!(bed.proxy.counts().cuts_at_commit(), 3);
        bed.close().await;
    }
}
