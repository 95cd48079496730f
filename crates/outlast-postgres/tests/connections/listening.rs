//! Hints of one node reach the others at once, and no decision depends on them.

use crate::support::proxy::Proxy;
use crate::support::{drop_schema, raw, start_pooler, unique_schema, url, url_of, value_of};
use futures_util::FutureExt;
use futures_util::future::poll_fn;
use outlast_core::{Error, ErrorKind, Hints, InstanceId, Listen, Store};
use outlast_postgres::{Options, Postgres};
use outlast_testbed::program::eventually;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// Longer than any operation in these tests takes.
const PATIENCE: Duration = Duration::from_secs(20);

async fn open_with(schema: &str, change: impl FnOnce(Options) -> Options) -> Postgres {
    let options = Postgres::options(&url()).unwrap().schema(schema);
    change(options).connect().await.unwrap()
}

async fn open(schema: &str) -> Postgres {
    open_with(schema, |options| options).await
}

/// A store whose connections have `name` as application name.
async fn open_named(schema: &str, name: &str) -> Postgres {
    let url = format!("{}?application_name={name}", url_of(|config| config));
    let options = Postgres::options(&url).unwrap().schema(schema);
    options.connect().await.unwrap()
}

async fn listen(store: &Postgres) -> Box<dyn Listen> {
    let listener = store.listen().await.unwrap();
    listener.expect("the server supports notifications")
}

async fn receive(listener: &mut Box<dyn Listen>) -> Result<Hints, Error> {
    let received = timeout(PATIENCE, listener.next()).await;
    received.expect("a hint or an error arrives")
}

fn queue(name: &str) -> Hints {
    Hints::now([name.to_owned()].into())
}

async fn close(stores: impl IntoIterator<Item = Postgres>, schemas: &[&str]) {
    for store in stores {
        store.close().await;
    }
    for schema in schemas {
        drop_schema(schema).await;
    }
}

#[tokio::test]
async fn hints_of_queues_deadlines_and_ends_reach_every_other_node() {
    let schema = unique_schema();
    let stores = [
        open(&schema).await,
        open(&schema).await,
        open(&schema).await,
    ];
    let mut listeners = [listen(&stores[0]).await, listen(&stores[1]).await];
    let mut hints = queue("default");
    hints.queue("it's \"quoted\" \\ ü", Duration::from_micros(1_234_567));
    hints.deadline(Duration::from_secs(3600));
    hints.ended = vec![InstanceId(1), InstanceId(i64::MAX)];
    stores[2].notify(hints.clone()).await.unwrap();
    stores[2].notify(queue("second")).await.unwrap();
    for listener in &mut listeners {
        assert_eq!(receive(listener).await.unwrap(), hints);
        assert_eq!(receive(listener).await.unwrap(), queue("second"));
    }
    close(stores, &[&schema]).await;
}

#[tokio::test]
async fn a_store_receives_no_hints_of_its_own_or_of_another_schema() {
    let schemas = [unique_schema(), unique_schema()];
    let store = open(&schemas[0]).await;
    let beside = open(&schemas[0]).await;
    let elsewhere = open(&schemas[1]).await;
    let mut listener = listen(&store).await;
    // A second listener of the same store is not another node.
    let mut second = listen(&store).await;
    store.notify(queue("own")).await.unwrap();
    store
        .clone()
        .notify(queue("own, by a clone"))
        .await
        .unwrap();
    elsewhere.notify(queue("of another schema")).await.unwrap();
    beside.notify(Hints::default()).await.unwrap();
    beside.notify(queue("of another node")).await.unwrap();
    // Messages arrive in the order of their commits. The last one comes first, so no other came.
    for listener in [&mut listener, &mut second] {
        assert_eq!(receive(listener).await.unwrap(), queue("of another node"));
        assert!(listener.next().now_or_never().is_none());
    }
    close([store, beside, elsewhere], &[&schemas[0], &schemas[1]]).await;
}

/// Receives every message of a schema through a connection that is not a node.
async fn eavesdrop(schema: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    let (sender, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(it) = message {
                let _ = sender.send(it.payload().to_owned());
            }
        }
    });
    let listen = format!("listen \"outlast:{schema}\"");
    client.batch_execute(&listen).await.unwrap();
    (client, messages)
}

#[tokio::test]
async fn a_node_that_is_alone_sends_no_hints_until_another_node_listens() {
    let schema = unique_schema();
    let store = open(&schema).await;
    let _listener = listen(&store).await;
    let (client, mut messages) = eavesdrop(&schema).await;
    // Other nodes would have answered within this time.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    store.notify(queue("unheard")).await.unwrap();
    let mark = format!("notify \"outlast:{schema}\", 'mark'");
    client.batch_execute(&mark).await.unwrap();
    // Messages arrive in the order of their commits. Greetings name no queue.
    loop {
        let message = timeout(PATIENCE, messages.recv()).await.unwrap().unwrap();
        assert!(!message.contains("unheard"), "{message}");
        if message == "mark" {
            break;
        }
    }

    let other = open(&schema).await;
    let mut listener = listen(&other).await;
    // The nodes greet each other soon. Hints that are sent after that arrive.
    let known = async {
        let mut interval = tokio::time::interval(Duration::from_millis(5));
        while listener.next().now_or_never().is_none() {
            interval.tick().await;
            store.notify(queue("heard")).await.unwrap();
        }
    };
    timeout(PATIENCE, known)
        .await
        .expect("the first node knows the new one");
    close([store, other], &[&schema]).await;
}

#[tokio::test]
async fn hints_too_long_for_one_message_are_cut_and_the_rest_arrives() {
    let schema = unique_schema();
    let [sender, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    let mut hints = queue("default");
    hints.deadline(Duration::from_millis(5));
    hints.ended = (0..100_000).map(|n| InstanceId(i64::MAX - n)).collect();
    sender.notify(hints.clone()).await.unwrap();
    let received = receive(&mut listener).await.unwrap();
    assert_eq!(
        (received.queues, received.deadline),
        (hints.queues, hints.deadline)
    );
    assert!(received.ended.len() > 300, "{}", received.ended.len());
    assert_eq!(received.ended, hints.ended[..received.ended.len()]);

    let mut many = Hints::default();
    for n in 0..1_000 {
        many.queue(&format!("{n:ü>100}"), Duration::ZERO);
    }
    many.deadline(Duration::ZERO);
    sender.notify(many.clone()).await.unwrap();
    let received = receive(&mut listener).await.unwrap();
    assert!(received.queues.len() > 30, "{}", received.queues.len());
    assert!(
        received
            .queues
            .keys()
            .all(|queue| many.queues.contains_key(queue))
    );
    close([sender, store], &[&schema]).await;
}

#[tokio::test]
async fn foreign_messages_on_the_channel_are_skipped() {
    let schema = unique_schema();
    let [sender, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    let client = raw().await;
    for message in [
        "",
        "hello",
        "[]",
        r#"{"form":2,"node":"a","queues":{"new":0}}"#,
    ] {
        client
            .execute(
                "select pg_notify($1, $2)",
                &[&format!("outlast:{schema}"), &message],
            )
            .await
            .unwrap();
    }
    sender.notify(queue("readable")).await.unwrap();
    assert_eq!(receive(&mut listener).await.unwrap(), queue("readable"));
    close([sender, store], &[&schema]).await;
}

#[tokio::test]
async fn the_longest_schema_name_has_a_channel_of_its_own() {
    let unique = unique_schema();
    let schemas = ['a', 'b'].map(|last| format!("{unique}{}{last}", "_".repeat(62 - unique.len())));
    let stores = [open(&schemas[0]).await, open(&schemas[0]).await];
    let elsewhere = open(&schemas[1]).await;
    let mut listener = listen(&stores[0]).await;
    elsewhere.notify(queue("of another schema")).await.unwrap();
    stores[1].notify(queue("of this one")).await.unwrap();
    assert_eq!(receive(&mut listener).await.unwrap(), queue("of this one"));
    elsewhere.close().await;
    close(stores, &[&schemas[0], &schemas[1]]).await;
}

#[tokio::test]
async fn a_terminated_listener_gives_a_transient_error_and_a_new_one_works() {
    let schema = unique_schema();
    let [sender, store] = [open(&schema).await, open_named(&schema, &schema).await];
    let mut listener = listen(&store).await;
    let raw = raw().await;
    for _ in 0..2 {
        let terminate = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity
              where application_name = '{schema}'"
        );
        raw.batch_execute(&terminate).await.unwrap();
        for _ in 0..2 {
            let error = receive(&mut listener).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
            assert!(error.to_string().contains("listen anew"), "{error}");
        }
        // The pool's connections were terminated, too.
        listener = loop {
            match store.listen().await {
                Ok(listener) => break listener.unwrap(),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}"),
            }
        };
        sender.notify(queue("again")).await.unwrap();
        assert_eq!(receive(&mut listener).await.unwrap(), queue("again"));
    }
    close([sender, store], &[&schema]).await;
}

#[tokio::test]
async fn a_listener_notices_a_cut_connection() {
    let schema = unique_schema();
    let config: tokio_postgres::Config = url().parse().unwrap();
    let port = *config.get_ports().first().unwrap_or(&5432);
    let proxy = Proxy::to(port);
    let through =
        url_of(|config| config).replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let store = open_with(&schema, |options| options.listen_url(&through).unwrap()).await;
    let mut listener = listen(&store).await;
    proxy.cut();
    let error = receive(&mut listener).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    close([store], &[&schema]).await;
}

#[tokio::test]
async fn a_listener_leaves_no_connection_behind() {
    let schema = unique_schema();
    let store = open_named(&schema, &schema).await;
    let raw = raw().await;
    let listening = || async {
        let sql = format!(
            "select count(*) from pg_stat_activity
              where application_name = '{schema}' and query ~* 'listen|idle_session_timeout'"
        );
        value_of::<i64>(&raw, &sql).await
    };
    let dropped = listen(&store).await;
    let mut kept = listen(&store).await;
    assert_eq!(listening().await, 2);
    drop(dropped);
    eventually("the dropped listener's connection is gone", || async {
        listening().await == 1
    })
    .await;

    store.close().await;
    let error = receive(&mut kept).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    eventually("the closed store's connections are gone", || async {
        listening().await == 0
    })
    .await;
    let verbs = [
        store.listen().await.err(),
        store.notify(queue("default")).await.err(),
    ];
    for error in verbs {
        assert_eq!(error.unwrap().kind(), ErrorKind::Closed);
    }
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_store_without_notifications_neither_sends_nor_receives_hints() {
    let schema = unique_schema();
    let silent = open_with(&schema, Options::without_notifications).await;
    let [sender, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    assert!(silent.listen().await.unwrap().is_none());
    silent.notify(queue("silent")).await.unwrap();
    sender.notify(queue("loud")).await.unwrap();
    assert_eq!(receive(&mut listener).await.unwrap(), queue("loud"));
    close([silent, sender, store], &[&schema]).await;
}

#[tokio::test]
async fn behind_a_pooler_a_node_polls_or_listens_on_a_direct_connection() {
    for server_connections in [1, 2] {
        let Some(pooler) = start_pooler(server_connections) else {
            return;
        };
        let schema = unique_schema();
        let through = || Postgres::options(&pooler.url()).unwrap().schema(&schema);
        let polling = through().connect().await.unwrap();
        let begun = Instant::now();
        assert!(polling.listen().await.unwrap().is_none());
        assert!(begun.elapsed() < Duration::from_secs(5));

        let direct = through().listen_url(&url()).unwrap();
        let direct = direct.connect().await.unwrap();
        let mut listener = listen(&direct).await;
        polling.notify(queue("through the pooler")).await.unwrap();
        assert_eq!(
            receive(&mut listener).await.unwrap(),
            queue("through the pooler")
        );
        close([polling, direct], &[&schema]).await;
    }
}

#[tokio::test]
async fn a_wrong_listen_url_gives_an_error_or_no_listener() {
    let schema = unique_schema();
    let options = || Postgres::options(&url()).unwrap().schema(&schema);
    let error = options().listen_url("postgres://me:hunter2@host:port/db");
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!error.to_string().contains("hunter2"), "{error}");

    // A connection to another database of the server receives no hints.
    let elsewhere = url_of(|config| config.dbname("postgres"));
    let store = options().listen_url(&elsewhere).unwrap();
    let store = store.connect().await.unwrap();
    assert!(store.listen().await.unwrap().is_none());

    let nowhere = options()
        .listen_url("postgres://outlast@127.0.0.1:1/outlast")
        .unwrap();
    let nowhere = nowhere.connect().await.unwrap();
    let error = nowhere.listen().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
    close([store, nowhere], &[&schema]).await;
}

/// Speed depends on the machine, so the bound is loose, and the test prints the measured times.
#[tokio::test(flavor = "multi_thread")]
async fn a_hint_arrives_without_polling() {
    let schema = unique_schema();
    let [sender, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    let mut took = Vec::new();
    for n in 0..200 {
        let hints = queue(&n.to_string());
        let begun = Instant::now();
        let sending = tokio::spawn({
            let (sender, hints) = (sender.clone(), hints.clone());
            async move { sender.notify(hints).await }
        });
        assert_eq!(receive(&mut listener).await.unwrap(), hints);
        took.push(begun.elapsed());
        sending.await.unwrap().unwrap();
    }
    took.sort();
    eprintln!(
        "sent to received: median {:?}, p99 {:?}",
        took[100], took[197]
    );
    // With a poll every second this median would be longer.
    assert!(took[100] < Duration::from_millis(500), "{:?}", took[100]);
    close([sender, store], &[&schema]).await;
}
