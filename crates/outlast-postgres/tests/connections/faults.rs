//! Faults: connections break, servers restart, disks fill up, and locks are held.
//!
//! The verb then gives a transient error in bounded time, nothing is half-written, and the next
//! verb works.

use crate::support::proxy::Proxy;
use crate::support::work::{self, done, get, outcome_of, running, task};
use crate::support::{drop_schema, raw, raw_to, unique_schema, url, url_of, value_of};
use async_trait::async_trait;
use futures_util::future::join_all;
use outlast_core::{
    Answer, CascadeRequest, Claim, Delivery, Error, ErrorKind, Extent, Filter, Heartbeat, Inspect,
    InstanceId, Join, Json, ListRequest, NewSignal, Note, Outcome, ReapRequest, RepairScope,
    Status, Store, Target, Timestamp, WorkerId, WriteCheck,
};
use outlast_postgres::{Conductor, Options, Postgres};
use outlast_testbed::cluster::{Cluster, Stop};
use outlast_testbed::program::eventually;
use outlast_testbed::small_disk::SmallDisk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A store whose connections have its schema as application name.
struct Named {
    store: Postgres,
    schema: String,
    raw: Client,
}

impl Named {
    async fn open(change: impl FnOnce(Options) -> Options) -> Named {
        let schema = unique_schema();
        let url = format!("{}?application_name={schema}", url_of(|config| config));
        let options = Postgres::options(&url).unwrap().schema(&schema);
        let store = change(options).connect().await.unwrap();
        let raw = raw().await;
        Named { store, schema, raw }
    }

    /// How many connections of the store fulfil the condition, as the server counts them.
    async fn connections(&self, condition: &str) -> i64 {
        let query = format!(
            "select count(*) from pg_stat_activity where application_name = '{}' and {condition}",
            self.schema
        );
        value_of(&self.raw, &query).await
    }

    async fn terminate_connections(&self) {
        terminate(&self.raw, &self.schema).await;
    }

    /// A session that holds the lock of an instance until it rolls back.
    async fn lock(&self, id: InstanceId) -> Client {
        let holder = raw().await;
        let sql = format!(
            "begin; select from \"{}\".instances where id = {id} for update",
            self.schema
        );
        holder.batch_execute(&sql).await.unwrap();
        holder
    }

    async fn blocked(&self) {
        eventually("a verb waits for the lock", || async {
            self.connections("wait_event_type = 'Lock'").await > 0
        })
        .await;
    }

    async fn close(self) {
        self.store.close().await;
        drop_schema(&self.schema).await;
    }
}

async fn terminate(raw: &Client, application: &str) {
    let sql = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{application}'"
    );
    raw.batch_execute(&sql).await.unwrap();
}

async fn unlock(holder: Client) {
    holder.batch_execute("rollback").await.unwrap();
}

fn assert_transient(error: &Error, message: &str) {
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    assert!(error.to_string().contains(message), "{error}");
}

fn is_committed(answer: &Answer) -> bool {
    matches!(answer, Answer::Committed { .. })
}

async fn try_done(store: &Postgres, claim: &Claim) -> Result<Answer, Error> {
    let committed = store.commit(outcome_of(claim, done()).into()).await;
    committed.map(|mut committed| committed.answers.remove(0))
}

#[tokio::test]
async fn the_pool_replaces_connections_that_the_server_terminated() {
    let named = Named::open(|options| options.max_connections(4)).await;
    let ask_at_once = || join_all((0..4).map(|_| named.store.count(Filter::default())));
    for _ in 0..3 {
        // All four connections are open and idle, and the pool trusts them.
        for answer in ask_at_once().await {
            answer.unwrap();
        }
        assert_eq!(named.connections("true").await, 4);
        named.terminate_connections().await;
        let mut errors = 0;
        for _ in 0..12 {
            if let Err(error) = named.store.insert(vec![task()], None).await {
                assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
                errors += 1;
            }
        }
        assert!(errors <= 4, "{errors} errors for four connections");
    }
    named.close().await;
}

#[tokio::test]
async fn a_store_outlives_the_restart_of_its_server() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let store = Postgres::connect(&cluster.url()).await.unwrap();
    let claim = running(&store).await;
    // A server that crashes may lose a claim. The durable insert after it makes it durable.
    work::insert(&store, task()).await;
    for how in [Stop::Immediately, Stop::Fast] {
        cluster.stop(how);
        // The first insert may still use the old connection. The second one finds no server.
        let _ = store.insert(vec![task()], None).await;
        let error = store.insert(vec![task()], None).await.unwrap_err();
        assert_transient(&error, "is PostgreSQL running there");
        cluster.start();
        assert_eq!(get(&store, claim.id).await.revision, claim.revision);
    }
    assert!(is_committed(&work::commit(&store, &claim, done()).await));
    store.close().await;
}

#[tokio::test]
async fn writes_to_a_server_that_became_a_standby_fail_until_it_is_promoted() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let store = Postgres::connect(&cluster.url()).await.unwrap();
    let claim = running(&store).await;
    cluster.stop(Stop::Fast);
    cluster.make_standby();
    cluster.start();
    let _ = try_done(&store, &claim).await;
    let error = try_done(&store, &claim).await.unwrap_err();
    assert_transient(&error, "connect to the primary");
    assert_eq!(get(&store, claim.id).await.status, Status::Executing);
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::ReadOnly);
    cluster.promote();
    eventually("the promoted server writes", || async {
        try_done(&store, &claim).await.is_ok()
    })
    .await;
    assert_eq!(get(&store, claim.id).await.status, Status::Done);
    store.close().await;
}

#[tokio::test]
async fn a_full_disk_gives_a_transient_error_and_leaves_nothing_half_written() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let admin = raw_to(&cluster.url()).await;
    let sql = format!(
        "create tablespace small location '{}'",
        disk.path().display()
    );
    admin.batch_execute(&sql).await.unwrap();
    let sql = "alter database postgres set default_tablespace = small";
    admin.batch_execute(sql).await.unwrap();
    let store = Postgres::connect(&cluster.url()).await.unwrap();
    let claim = running(&store).await;

    // A large statement now fills the disk midway.
    disk.fill(128 << 10);
    let state = Json::of(&"x".repeat(2_000)).unwrap();
    let children: Vec<_> = (0..2_000)
        .map(|n| task().correlation_key(format!("child:{n}")))
        .map(|child| outlast_core::NewInstance {
            state: state.clone(),
            ..child
        })
        .collect();
    let fan_out = outcome_of(
        &claim,
        Outcome::FanOut {
            children,
            join: Join::default(),
            step: "joined".into(),
            state: Json::null(),
        },
    );
    for _ in 0..3 {
        let error = store.commit(fan_out.clone().into()).await.unwrap_err();
        assert_transient(&error, "the server's disk is full: make room");
        let row = get(&store, claim.id).await;
        assert_eq!(
            (row.status, row.revision),
            (Status::Executing, claim.revision)
        );
        assert_eq!(store.children(claim.id, None, None).await.unwrap(), []);
    }

    disk.free();
    let committed = store.commit(fan_out.into()).await.unwrap();
    assert!(is_committed(&committed.answers[0]));
    assert_eq!(get(&store, claim.id).await.children_pending, 2_000);
    store.close().await;
}

#[tokio::test]
async fn check_writes_finds_a_full_disk_and_notices_when_there_is_room_again() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster.start();
    let admin = raw_to(&cluster.url()).await;
    let place = disk.path().display();
    let sql = format!("create tablespace small location '{place}'");
    admin.batch_execute(&sql).await.unwrap();
    let sql = "alter database postgres set default_tablespace = small";
    admin.batch_execute(sql).await.unwrap();
    let store = Postgres::connect(&cluster.url()).await.unwrap();
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::Works);

    disk.fill(0);
    // The first checks may still find room in the pages of the table.
    let mut answers = Vec::new();
    while answers.last() != Some(&WriteCheck::DiskFull) {
        assert!(answers.len() < 20, "the disk is full: {answers:?}");
        answers.push(store.check_writes().await.unwrap());
    }
    disk.free();
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::Works);

    // A large write fails while a small one still finds room. Its failure counts for a while.
    disk.fill(256 << 10);
    let state = Json::of(&"x".repeat(2_000)).unwrap();
    let row = outlast_core::NewInstance { state, ..task() };
    let error = store.insert(vec![row; 1_000], None).await.unwrap_err();
    assert_transient(&error, "the server's disk is full: make room");
    assert_eq!(store.check_writes().await.unwrap(), WriteCheck::DiskFull);
    disk.free();
    store.close().await;
}

/// Defect 16 (docs/protocol.md): a time read before the wait would give a lease that is already
/// partly over.
#[tokio::test]
async fn a_delayed_heartbeat_renews_the_lease_from_the_time_of_its_write() {
    let named = Named::open(|options| options).await;
    let worker = work::worker(&named.store).await;
    let holder = raw().await;
    let lock = format!("begin; select from {}.workers for update", named.schema);
    holder.batch_execute(&lock).await.unwrap();
    let store = named.store.clone();
    let lease = Duration::from_secs(60);
    let waiting = tokio::spawn(async move { store.heartbeat(worker, lease).await });
    named.blocked().await;
    let blocked_at = named.store.now().await.unwrap();
    let long_enough = Duration::from_millis(300);
    eventually("time passes on the server", || async {
        named.store.now().await.unwrap().since(blocked_at) > long_enough
    })
    .await;
    unlock(holder).await;
    assert_eq!(waiting.await.unwrap().unwrap(), Heartbeat::Renewed);
    let workers = named.store.workers().await.unwrap();
    assert!(workers[0].lease_expires_at >= blocked_at + long_enough + lease);
    named.close().await;
}

#[tokio::test]
async fn lock_and_statement_timeouts_give_transient_errors_and_keep_the_connection() {
    // Only a wait for a lock takes so long, even on a busy machine.
    let limit = Duration::from_secs(1);
    let by_lock = Named::open(|options| options.max_connections(1).lock_timeout(limit)).await;
    let by_statement =
        Named::open(|options| options.max_connections(1).statement_timeout(limit)).await;
    for (named, message) in [
        (by_lock, "somebody holds a lock for too long"),
        (by_statement, "it took longer than the store allows"),
    ] {
        let claim = running(&named.store).await;
        let pid = "select max(pid) from pg_stat_activity where application_name";
        let pid = format!("{pid} = '{}'", named.schema);
        let before: i32 = value_of(&named.raw, &pid).await;
        let holder = named.lock(claim.id).await;
        let begun = Instant::now();
        let error = try_done(&named.store, &claim).await.unwrap_err();
        assert_transient(&error, message);
        assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(named.connections("state <> 'idle'").await, 0);
        // A read does not wait for a lock.
        assert_eq!(get(&named.store, claim.id).await.status, Status::Executing);
        unlock(holder).await;
        assert!(is_committed(&try_done(&named.store, &claim).await.unwrap()));
        let after: i32 = value_of(&named.raw, &pid).await;
        assert_eq!(before, after, "the connection was replaced without need");
        named.close().await;
    }
}

/// Drops a verb while it waits for a lock.
async fn drop_midway<T>(verb: impl Future<Output = T>) {
    let ended = tokio::time::timeout(Duration::from_millis(50), verb).await;
    assert!(ended.is_err(), "the verb did not wait for the lock");
}

#[tokio::test]
async fn a_verb_that_is_dropped_midway_leaves_no_open_transaction() {
    let named = Named::open(|options| options.max_connections(2)).await;
    let store = &named.store;
    let id = work::insert(store, task().correlation_key("key")).await;
    for round in 0..3 {
        // A delivery by key takes several round trips, and stops between two of them.
        let holder = named.lock(id).await;
        let key = Target::Key {
            machine: "task".into(),
            key: "key".into(),
        };
        let signal = NewSignal::new(key, "go", Json::null());
        drop_midway(store.deliver(vec![signal], None)).await;
        unlock(holder).await;
        eventually("the server has ended the dropped verb", || async {
            named.connections("state <> 'idle'").await == 0
        })
        .await;
        assert_eq!(store.signals(id, None).await.unwrap(), [], "round {round}");

        // The same for a signal that may start its target, while it waits for the holder's lock.
        let holder = named.lock(id).await;
        drop_midway(store.signal_or_insert(work::go_or_start("key"))).await;
        unlock(holder).await;
        eventually("the server has ended the dropped verb", || async {
            named.connections("state <> 'idle'").await == 0
        })
        .await;
        assert_eq!(store.signals(id, None).await.unwrap(), [], "round {round}");
    }
    named.close().await;
}

#[tokio::test]
async fn a_verb_that_is_dropped_midway_does_not_block_the_next_verb() {
    let named = Named::open(|options| options.max_connections(1)).await;
    let store = &named.store;
    let claim = running(store).await;
    for _ in 0..3 {
        let holder = named.lock(claim.id).await;
        drop_midway(try_done(store, &claim)).await;
        let begun = Instant::now();
        let id = work::insert(store, task()).await;
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the insert waited"
        );
        let reader = Postgres::options(&url()).unwrap().schema(&named.schema);
        let reader = reader.connect().await.unwrap();
        assert_eq!(get(&reader, id).await.status, Status::Runnable);
        reader.close().await;
        unlock(holder).await;
        eventually("the server has ended the dropped verb", || async {
            named.connections("state <> 'idle'").await == 0
        })
        .await;
    }
    // The dropped commit was written or not. Sent again, it is written exactly once.
    let ended = get(store, claim.id).await;
    let answer = try_done(store, &claim).await.unwrap();
    assert_eq!(answer == Answer::Lost, ended.status == Status::Done);
    assert_eq!(get(store, claim.id).await.revision, claim.revision.next());
    named.close().await;
}

#[tokio::test]
async fn an_exhausted_pool_gives_a_transient_error_in_bounded_time() {
    let wait = Duration::from_millis(150);
    let named = Named::open(|options| options.max_connections(1).connection_wait(wait)).await;
    let claim = running(&named.store).await;
    let holder = named.lock(claim.id).await;
    let store = named.store.clone();
    let commits = outcome_of(&claim, done());
    let blocked = tokio::spawn(async move { store.commit(commits.into()).await });
    named.blocked().await;
    let begun = Instant::now();
    let error = named.store.now().await.unwrap_err();
    assert_transient(&error, "raise max_connections of the store");
    assert!(begun.elapsed() >= wait && begun.elapsed() < Duration::from_secs(5));
    unlock(holder).await;
    assert!(is_committed(&blocked.await.unwrap().unwrap().answers[0]));
    named.store.now().await.unwrap();
    named.close().await;
}

#[tokio::test]
async fn a_server_without_free_connections_gives_a_transient_error() {
    let Some(mut cluster) = Cluster::create() else {
        return;
    };
    cluster
        .configure("max_connections = 4\nsuperuser_reserved_connections = 0\nmax_wal_senders = 0");
    cluster.start();
    let options = Postgres::options(&cluster.url()).unwrap();
    let store = options.max_connections(1).connect().await.unwrap();
    let url = cluster.url();
    let others = join_all((0..3).map(|_| raw_to(&url))).await;
    let error = Postgres::connect(&cluster.url()).await.unwrap_err();
    assert_transient(
        &error,
        "raise the server's max_connections or lower the store's",
    );
    store.now().await.unwrap();
    drop(others);
    store.close().await;
}

#[tokio::test]
async fn closing_a_store_waits_for_running_verbs_and_closes_every_connection() {
    let named = Named::open(|options| options.max_connections(3)).await;
    let claim = running(&named.store).await;
    join_all((0..3).map(|_| named.store.now())).await;
    assert_eq!(named.connections("true").await, 3);
    let holder = named.lock(claim.id).await;
    let store = named.store.clone();
    let commits = outcome_of(&claim, done());
    let committing = tokio::spawn(async move { store.commit(commits.into()).await });
    named.blocked().await;
    let store = named.store.clone();
    let closing = tokio::spawn(async move { store.close().await });
    eventually("the store takes no more work", || async {
        named.store.now().await.is_err()
    })
    .await;
    assert!(!closing.is_finished(), "closing did not wait");
    unlock(holder).await;
    closing.await.unwrap();
    assert!(
        committing.is_finished(),
        "the store closed before the commit ended"
    );
    assert!(is_committed(&committing.await.unwrap().unwrap().answers[0]));
    eventually("the connections are gone", || async {
        named.connections("true").await == 0
    })
    .await;
    assert_closed(&named.store, &claim).await;
    named.store.close().await;
    drop_schema(&named.schema).await;
}

async fn assert_closed(store: &Postgres, claim: &Claim) {
    let (id, worker) = (claim.id, WorkerId(1));
    let note = || Note::by("ada");
    let signal = NewSignal::new(Target::Id(id), "go", Json::null());
    let reap = ReapRequest {
        max: 1,
        crashes_max: 1,
    };
    let collect = outlast_core::CollectRequest {
        retention: Duration::ZERO,
        max: 1,
    };
    let release = outlast_core::Release {
        claim: claim.reference(),
        pause: Duration::ZERO,
    };
    let list = ListRequest {
        limit: 1,
        ..ListRequest::default()
    };
    let step_counts = outlast_core::StepCountRequest {
        after: None,
        limit: 1,
    };
    let lease = Duration::from_secs(60);
    let errors = [
        store.now().await.err(),
        store.insert(vec![task()], None).await.err(),
        store.claim(work::request(worker, 1)).await.err(),
        store.commit(outcome_of(claim, done()).into()).await.err(),
        store.release(vec![release]).await.err(),
        store.claims_of(worker).await.err(),
        store.deliver(vec![signal], None).await.err(),
        store.signal_or_insert(work::go_or_start("key")).await.err(),
        store.heartbeat(worker, lease).await.err(),
        store.deregister(worker).await.err(),
        store.reap(reap).await.err(),
        store.fire(1).await.err(),
        store.collect(collect).await.err(),
        store.repair(vec![id], note()).await.err(),
        store.needing_repair(RepairScope::Ids(vec![id])).await.err(),
        store.cancel(vec![id], Extent::One, note()).await.err(),
        store.terminate(vec![id], Extent::One, note()).await.err(),
        store.cascade(CascadeRequest { max: 1 }).await.err(),
        store.retry(vec![id], note()).await.err(),
        store.delete(vec![id], note()).await.err(),
        store.pause("default", note()).await.err(),
        store.resume("default", note()).await.err(),
        store.get(id).await.err(),
        store.find("task", "key").await.err(),
        store.list(list).await.err(),
        store.count(Filter::default()).await.err(),
        store.signals(id, None).await.err(),
        store.children(id, None, None).await.err(),
        store.queues().await.err(),
        store.workers().await.err(),
        store.operations(None).await.err(),
        store.add_run_stats(work::stats(Timestamp(0))).await.err(),
        store.rounds(id).await.err(),
        store.count_by_step(step_counts).await.err(),
        store.run_stats(Timestamp(0)).await.err(),
    ];
    for (position, error) in errors.into_iter().enumerate() {
        let kind = error.as_ref().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::Closed), "verb {position}: {error:?}");
    }
}

/// Terminates the store's connections right before the next commit, once it is armed.
struct CutBeforeCommit {
    armed: AtomicBool,
    application: String,
}

#[async_trait]
impl Conductor for CutBeforeCommit {
    async fn before(&self, statement: &'static str) {
        if statement == "commit" && self.armed.swap(false, Ordering::SeqCst) {
            terminate(&raw().await, &self.application).await;
        }
    }
}

/// Defect 13 (docs/protocol.md).
#[tokio::test]
async fn an_outcome_whose_connection_broke_before_the_commit_is_written_when_sent_again() {
    let schema = unique_schema();
    let cut = Arc::new(CutBeforeCommit {
        armed: AtomicBool::new(false),
        application: schema.clone(),
    });
    let url = format!("{}?application_name={schema}", url_of(|config| config));
    let options = Postgres::options(&url).unwrap().schema(&schema);
    let store = options.conductor(cut.clone()).connect().await.unwrap();
    let claim = running(&store).await;
    cut.armed.store(true, Ordering::SeqCst);
    let error = try_done(&store, &claim).await.unwrap_err();
    assert_transient(&error, "commit: ");
    assert!(!cut.armed.load(Ordering::SeqCst), "nothing was cut");
    let row = get(&store, claim.id).await;
    assert_eq!(
        (row.status, row.revision),
        (Status::Executing, claim.revision)
    );
    assert!(is_committed(&try_done(&store, &claim).await.unwrap()));
    assert_eq!(try_done(&store, &claim).await.unwrap(), Answer::Lost);
    assert_eq!(get(&store, claim.id).await.revision, claim.revision.next());
    store.close().await;
    drop_schema(&schema).await;
}

/// Defect 13 (docs/protocol.md).
#[tokio::test]
async fn an_outcome_whose_answer_was_lost_is_not_written_twice() {
    let schema = unique_schema();
    let proxy = Proxy::to(server_port());
    let url = url_of(|config| config).replace(
        &format!(":{}/", server_port()),
        &format!(":{}/", proxy.port()),
    );
    let remote = Postgres::options(&url).unwrap().schema(&schema);
    let remote = remote.max_connections(1).connect().await.unwrap();
    let near = Postgres::options(&crate::support::url())
        .unwrap()
        .schema(&schema);
    let near = near.connect().await.unwrap();

    let parent = running(&remote).await;
    let fan_out = Outcome::FanOut {
        children: vec![task(), task()],
        join: Join::default(),
        step: "joined".into(),
        state: Json::null(),
    };
    assert!(is_committed(&work::commit(&remote, &parent, fan_out).await));
    let child = work::claim(&remote, work::worker(&remote).await).await;
    // The end of a first child prepares every statement of this outcome.
    let other = work::claim(&remote, work::worker(&remote).await).await;
    assert!(is_committed(&try_done(&remote, &other).await.unwrap()));
    let keyed = work::insert(&remote, task()).await;

    proxy.lose_answers();
    let (store, commits) = (remote.clone(), outcome_of(&child, done()));
    let sending = tokio::spawn(async move { store.commit(commits.into()).await });
    eventually("the outcome is durable", || async {
        get(&near, child.id).await.status == Status::Done
    })
    .await;
    proxy.cut();
    assert_transient(&sending.await.unwrap().unwrap_err(), "commit: ");
    assert_eq!(try_done(&remote, &child).await.unwrap(), Answer::Lost);
    let row = get(&near, parent.id).await;
    assert_eq!((row.status, row.children_pending), (Status::Runnable, 0));

    // A signal with a dedup key is safe to send again, too.
    let signal = || vec![NewSignal::new(Target::Id(keyed), "go", Json::null()).dedup_key("once")];
    remote
        .deliver(
            vec![NewSignal::new(Target::Id(keyed), "warm", Json::null())],
            None,
        )
        .await
        .unwrap();
    proxy.lose_answers();
    let (store, signals) = (remote.clone(), signal());
    let sending = tokio::spawn(async move { store.deliver(signals, None).await });
    eventually("the signal has arrived", || async {
        near.signals(keyed, None).await.unwrap().len() == 2
    })
    .await;
    proxy.cut();
    assert_transient(&sending.await.unwrap().unwrap_err(), "deliver: ");
    let again = remote.deliver(signal(), None).await.unwrap().answers[0];
    assert_eq!(again, Delivery::Duplicate { instance: keyed });

    // A repeated signal that starts its target starts it once.
    let warm = work::go_or_start("warm");
    remote.signal_or_insert(warm).await.unwrap();
    // The insert and the search for a former holder are answered, the commit is not.
    proxy.lose_answers_after(2);
    let store = remote.clone();
    let sending =
        tokio::spawn(async move { store.signal_or_insert(work::go_or_start("key")).await });
    eventually("the target is stored", || async {
        near.find("task", "key").await.unwrap().is_some()
    })
    .await;
    proxy.cut();
    assert_transient(&sending.await.unwrap().unwrap_err(), "signal_or_insert: ");
    let started = near.find("task", "key").await.unwrap().unwrap().id;
    let again = remote.signal_or_insert(work::go_or_start("key")).await;
    let again = again.unwrap();
    let duplicate = Delivery::Duplicate { instance: started };
    assert_eq!((again.inserted, again.delivery), (None, duplicate));
    assert_eq!(near.signals(started, None).await.unwrap().len(), 1);
    remote.close().await;
    near.close().await;
    drop_schema(&schema).await;
}

fn server_port() -> u16 {
    let config: tokio_postgres::Config = crate::support::url().parse().unwrap();
    *config.get_ports().first().unwrap_or(&5432)
}

/// Lets another store reap, claim and finish an instance during its claim, before its inbox or its
/// children are loaded.
struct OvertakeBeforeLoad {
    before: &'static str,
    armed: AtomicBool,
    other: Postgres,
    raw: Client,
}

#[async_trait]
impl Conductor for OvertakeBeforeLoad {
    async fn before(&self, statement: &'static str) {
        if statement == self.before && self.armed.swap(false, Ordering::SeqCst) {
            let schema = self.other.schema();
            let expire = format!("update {schema}.workers set lease_expires_at = 'epoch'");
            self.raw.batch_execute(&expire).await.unwrap();
            let reap = ReapRequest {
                max: 10,
                crashes_max: 10,
            };
            assert_eq!(self.other.reap(reap).await.unwrap().returned.len(), 1);
            let claim = work::claim(&self.other, work::worker(&self.other).await).await;
            assert!(is_committed(&try_done(&self.other, &claim).await.unwrap()));
        }
    }
}

/// Asserts that a claim which is lost during the claim call is not handed out.
///
/// Its step would see an inbox that another worker has emptied, and take it for a timeout.
async fn assert_lost_claim_is_not_handed_out(
    before: &'static str,
    make_ready: impl AsyncFnOnce(&Postgres),
) {
    let schema = unique_schema();
    let options = || Postgres::options(&url()).unwrap().schema(&schema);
    let other = options().connect().await.unwrap();
    let overtake = Arc::new(OvertakeBeforeLoad {
        before,
        armed: AtomicBool::new(false),
        other: other.clone(),
        raw: raw().await,
    });
    let store = options()
        .conductor(overtake.clone())
        .connect()
        .await
        .unwrap();
    make_ready(&other).await;
    overtake.armed.store(true, Ordering::SeqCst);
    let worker = work::worker(&store).await;
    let claimed = store.claim(work::request(worker, 10)).await.unwrap();
    assert!(
        !overtake.armed.load(Ordering::SeqCst),
        "no other store overtook the claim"
    );
    assert_eq!(claimed.claims, []);
    store.close().await;
    other.close().await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_claim_that_is_lost_before_its_inbox_is_loaded_is_not_handed_out() {
    assert_lost_claim_is_not_handed_out("claim/inbox", async |store| {
        let id = work::insert(store, task()).await;
        let signal = NewSignal::new(Target::Id(id), "go", Json::null());
        store.deliver(vec![signal], None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_is_lost_before_its_children_are_loaded_is_not_handed_out() {
    assert_lost_claim_is_not_handed_out("claim/children", async |store| {
        let parent = running(store).await;
        let fan_out = Outcome::FanOut {
            children: vec![task()],
            join: Join::default(),
            step: "join".into(),
            state: Json::null(),
        };
        store
            .commit(outcome_of(&parent, fan_out).into())
            .await
            .unwrap();
        let child = work::claim(store, work::worker(store).await).await;
        assert!(is_committed(&try_done(store, &child).await.unwrap()));
    })
    .await;
}

/// Stops the claims of a store before their commit, as a slow server would.
struct SlowClaims {
    is_at_commit: Notify,
    go_on: Notify,
    claiming: AtomicBool,
}

#[async_trait]
impl Conductor for SlowClaims {
    async fn before(&self, statement: &'static str) {
        match statement {
            "claim/claim" => self.claiming.store(true, Ordering::SeqCst),
            "commit" if self.claiming.swap(false, Ordering::SeqCst) => {
                self.is_at_commit.notify_one();
                self.go_on.notified().await;
            }
            _ => {}
        }
    }
}

/// A worker whose claim call failed asks for its claims while the server may still run that call.
#[tokio::test]
async fn claims_of_waits_for_a_claim_in_progress_and_lists_it() {
    let named = Named::open(|options| options).await;
    let slow = Arc::new(SlowClaims {
        is_at_commit: Notify::new(),
        go_on: Notify::new(),
        claiming: AtomicBool::new(false),
    });
    let options = Postgres::options(&url()).unwrap().schema(&named.schema);
    let remote = options.conductor(slow.clone()).connect().await.unwrap();
    let worker = work::worker(&named.store).await;
    let id = work::insert(&named.store, task()).await;

    let claim = async { remote.claim(work::request(worker, 1)).await };
    let ask = async {
        slow.is_at_commit.notified().await;
        let asking = named.store.claims_of(worker);
        let going_on = async {
            named.blocked().await;
            slow.go_on.notify_one();
        };
        tokio::join!(asking, going_on).0
    };
    let (claimed, held) = tokio::join!(claim, ask);
    let claim = claimed.unwrap().claims[0].reference();
    assert_eq!(claim.id, id);
    assert_eq!(
        held.unwrap()
            .iter()
            .map(|held| held.claim)
            .collect::<Vec<_>>(),
        [claim]
    );
    remote.close().await;
    named.close().await;
}

/// Renews an expired lease just before a statement.
struct RenewBefore {
    statement: &'static str,
    armed: AtomicBool,
    other: Postgres,
    worker: std::sync::Mutex<Option<WorkerId>>,
}

#[async_trait]
impl Conductor for RenewBefore {
    async fn before(&self, statement: &'static str) {
        if statement == self.statement && self.armed.swap(false, Ordering::SeqCst) {
            let worker = self
                .worker
                .lock()
                .unwrap()
                .expect("the worker is registered");
            let renewed = self.other.heartbeat(worker, Duration::from_secs(60)).await;
            assert_eq!(renewed.unwrap(), Heartbeat::Renewed);
            if statement == "deliver/deliver" {
                let schema = self.other.schema();
                let lock = format!("select from {schema}.instances for no key update nowait");
                let error = raw().await.batch_execute(&lock).await.unwrap_err();
                assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error}");
            }
        }
    }
}

/// Runs a verb for a worker with an expired lease, which is renewed just before `statement`.
async fn renewed_before(
    statement: &'static str,
    verb: impl AsyncFnOnce(&Postgres, WorkerId, InstanceId),
) {
    let schema = unique_schema();
    let options = || Postgres::options(&url()).unwrap().schema(&schema);
    let other = options().connect().await.unwrap();
    let renew = Arc::new(RenewBefore {
        statement,
        armed: AtomicBool::new(false),
        other: other.clone(),
        worker: std::sync::Mutex::default(),
    });
    let store = options().conductor(renew.clone()).connect().await.unwrap();
    let id = work::insert(&other, task()).await;
    let worker = work::worker(&other).await;
    *renew.worker.lock().unwrap() = Some(worker);
    let expire = format!("update {schema}.workers set lease_expires_at = 'epoch'");
    raw().await.batch_execute(&expire).await.unwrap();
    renew.armed.store(true, Ordering::SeqCst);
    verb(&store, worker, id).await;
    assert!(!renew.armed.load(Ordering::SeqCst), "nothing was renewed");
    store.close().await;
    other.close().await;
    drop_schema(&schema).await;
}

/// The heartbeat and the claim of a worker that was stopped for a while run at once. If the claim
/// took rows without returning them, they would not run for as long as the worker lives.
#[tokio::test]
async fn a_claim_returns_its_rows_when_the_expired_lease_is_renewed_meanwhile() {
    renewed_before("claim/claim", async |store, worker, id| {
        let claimed = store.claim(work::request(worker, 10)).await.unwrap();
        let ids: Vec<_> = claimed.claims.iter().map(|claim| claim.id).collect();
        assert_eq!(ids, [id]);
    })
    .await;
}

#[tokio::test]
async fn a_delivery_locks_its_target_when_the_expired_lease_is_renewed_meanwhile() {
    renewed_before("deliver/deliver", async |store, worker, id| {
        let signal = NewSignal::new(Target::Id(id), "go", Json::null());
        let offer = work::offer(worker);
        let delivered = store.deliver(vec![signal], Some(offer)).await;
        let answers = delivered.unwrap().answers;
        assert!(
            matches!(answers[..], [Delivery::Delivered { .. }]),
            "{answers:?}"
        );
    })
    .await;
}

/// Claims every runnable instance just before a statement.
struct ClaimBefore {
    statement: &'static str,
    armed: AtomicBool,
    other: Postgres,
}

#[async_trait]
impl Conductor for ClaimBefore {
    async fn before(&self, statement: &'static str) {
        if statement == self.statement && self.armed.swap(false, Ordering::SeqCst) {
            let worker = work::worker(&self.other).await;
            self.other.claim(work::request(worker, 10)).await.unwrap();
        }
    }
}

/// Claims do not wait for the disk, so a crash may lose one. The instance is then claimed again at
/// the same revision, while the first outcome is sent again. It is written as a whole or not at
/// all.
#[tokio::test]
async fn an_outcome_is_not_half_written_when_its_forgotten_claim_is_taken_again() {
    let schema = unique_schema();
    let options = || Postgres::options(&url()).unwrap().schema(&schema);
    let other = options().connect().await.unwrap();
    let claims = Arc::new(ClaimBefore {
        statement: "commit/park",
        armed: AtomicBool::new(false),
        other: other.clone(),
    });
    let store = options().conductor(claims.clone()).connect().await.unwrap();
    let claim = running(&other).await;
    let forget = format!(
        "update {schema}.instances set status = 'runnable', revision = revision - 1, locked_by = null"
    );
    raw().await.batch_execute(&forget).await.unwrap();
    claims.armed.store(true, Ordering::SeqCst);
    let fan_out = Outcome::FanOut {
        children: vec![task(), task()],
        join: Join::default(),
        step: "join".into(),
        state: Json::null(),
    };
    let committed = store
        .commit(outcome_of(&claim, fan_out).into())
        .await
        .unwrap();
    assert!(
        !claims.armed.load(Ordering::SeqCst),
        "no other store claimed"
    );
    assert_eq!(committed.answers, [Answer::Lost]);
    let row = get(&store, claim.id).await;
    assert_eq!(
        (row.step.as_str(), row.revision.next()),
        ("start", claim.revision)
    );
    store.close().await;
    other.close().await;
    drop_schema(&schema).await;
}
