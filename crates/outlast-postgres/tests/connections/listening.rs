//! What one node tells, the others hear: at once, and without anything resting on it.

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

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

async fn open_with(schema: &str, change: impl FnOnce(Options) -> Options) -> Postgres {
    let options = Postgres::options(&url()).unwrap().schema(schema);
    change(options).connect().await.unwrap()
}

async fn open(schema: &str) -> Postgres {
    open_with(schema, |options| options).await
}

/// A store whose connections the server knows by `name`.
async fn open_named(schema: &str, name: &str) -> Postgres {
    let url = format!("{}?application_name={name}", url_of(|config| config));
    let options = Postgres::options(&url).unwrap().schema(schema);
    options.connect().await.unwrap()
}

async fn listen(store: &Postgres) -> Box<dyn Listen> {
    let listener = store.listen().await.unwrap();
    listener.expect("the server can notify")
}

async fn hear(listener: &mut Box<dyn Listen>) -> Result<Hints, Error> {
    let heard = timeout(PATIENCE, listener.next()).await;
    heard.expect("something is heard")
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
async fn queues_deadlines_and_ends_arrive_at_every_other_node() {
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
        assert_eq!(hear(listener).await.unwrap(), hints);
        assert_eq!(hear(listener).await.unwrap(), queue("second"));
    }
    close(stores, &[&schema]).await;
}

#[tokio::test]
async fn a_store_does_not_hear_itself_nor_another_schema() {
    let schemas = [unique_schema(), unique_schema()];
    let store = open(&schemas[0]).await;
    let beside = open(&schemas[0]).await;
    let elsewhere = open(&schemas[1]).await;
    let mut listener = listen(&store).await;
    // A second listener of the same store is no other node either.
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
    // Messages arrive in the order of their commits: what is heard first was told last.
    for listener in [&mut listener, &mut second] {
        assert_eq!(hear(listener).await.unwrap(), queue("of another node"));
        assert!(listener.next().now_or_never().is_none());
    }
    close([store, beside, elsewhere], &[&schemas[0], &schemas[1]]).await;
}

/// Everything that is told in a schema, as somebody hears it who is no node.
async fn eavesdrop(schema: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(it) = message {
                let _ = tell.send(it.payload().to_owned());
            }
        }
    });
    let order = format!("listen \"outlast:{schema}\"");
    client.batch_execute(&order).await.unwrap();
    (client, heard)
}

#[tokio::test]
async fn a_node_that_is_alone_tells_nobody_until_another_listens() {
    let schema = unique_schema();
    let store = open(&schema).await;
    let _listener = listen(&store).await;
    let (ear, mut heard) = eavesdrop(&schema).await;
    // The others have had their time to answer; nobody did.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    store.notify(queue("unheard")).await.unwrap();
    let mark = format!("notify \"outlast:{schema}\", 'mark'");
    ear.batch_execute(&mark).await.unwrap();
    // Messages arrive in the order of their commits. A greeting names no queue.
    loop {
        let message = timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
        assert!(!message.contains("unheard"), "{message}");
        if message == "mark" {
            break;
        }
    }

    let other = open(&schema).await;
    let mut listener = listen(&other).await;
    // Both have greeted each other before long; what is told from then on arrives.
    let known = async {
        let mut told = tokio::time::interval(Duration::from_millis(5));
        while listener.next().now_or_never().is_none() {
            told.tick().await;
            store.notify(queue("heard")).await.unwrap();
        }
    };
    timeout(PATIENCE, known)
        .await
        .expect("the newcomer is known");
    close([store, other], &[&schema]).await;
}

#[tokio::test]
async fn what_does_not_fit_is_left_out_and_the_rest_arrives() {
    let schema = unique_schema();
    let [teller, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    let mut hints = queue("default");
    hints.deadline(Duration::from_millis(5));
    hints.ended = (0..100_000).map(|n| InstanceId(i64::MAX - n)).collect();
    teller.notify(hints.clone()).await.unwrap();
    let heard = hear(&mut listener).await.unwrap();
    assert_eq!(
        (heard.queues, heard.deadline),
        (hints.queues, hints.deadline)
    );
    assert!(heard.ended.len() > 300, "{}", heard.ended.len());
    assert_eq!(heard.ended, hints.ended[..heard.ended.len()]);

    let mut many = Hints::default();
    for n in 0..1_000 {
        many.queue(&format!("{n:ü>100}"), Duration::ZERO);
    }
    many.deadline(Duration::ZERO);
    teller.notify(many.clone()).await.unwrap();
    let heard = hear(&mut listener).await.unwrap();
    assert!(heard.queues.len() > 30, "{}", heard.queues.len());
    assert!(
        heard
            .queues
            .keys()
            .all(|queue| many.queues.contains_key(queue))
    );
    close([teller, store], &[&schema]).await;
}

#[tokio::test]
async fn messages_of_somebody_else_on_the_channel_are_skipped() {
    let schema = unique_schema();
    let [teller, store] = [open(&schema).await, open(&schema).await];
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
    teller.notify(queue("readable")).await.unwrap();
    assert_eq!(hear(&mut listener).await.unwrap(), queue("readable"));
    close([teller, store], &[&schema]).await;
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
    assert_eq!(hear(&mut listener).await.unwrap(), queue("of this one"));
    elsewhere.close().await;
    close(stores, &[&schemas[0], &schemas[1]]).await;
}

#[tokio::test]
async fn a_terminated_connection_is_a_transient_error_and_listening_anew_works() {
    let schema = unique_schema();
    let [teller, store] = [open(&schema).await, open_named(&schema, &schema).await];
    let mut listener = listen(&store).await;
    let raw = raw().await;
    for _ in 0..2 {
        let terminate = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity
              where application_name = '{schema}'"
        );
        raw.batch_execute(&terminate).await.unwrap();
        for _ in 0..2 {
            let error = hear(&mut listener).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}");
            assert!(error.to_string().contains("listen anew"), "{error}");
        }
        // The pool's connections were terminated as well.
        listener = loop {
            match store.listen().await {
                Ok(listener) => break listener.unwrap(),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Transient, "{error:?}"),
            }
        };
        teller.notify(queue("again")).await.unwrap();
        assert_eq!(hear(&mut listener).await.unwrap(), queue("again"));
    }
    close([teller, store], &[&schema]).await;
}

#[tokio::test]
async fn a_wire_that_is_cut_is_noticed() {
    let schema = unique_schema();
    let config: tokio_postgres::Config = url().parse().unwrap();
    let port = *config.get_ports().first().unwrap_or(&5432);
    let proxy = Proxy::to(port);
    let through =
        url_of(|config| config).replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let store = open_with(&schema, |options| options.listen_url(&through).unwrap()).await;
    let mut listener = listen(&store).await;
    proxy.cut();
    let error = hear(&mut listener).await.unwrap_err();
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
    let error = hear(&mut kept).await.unwrap_err();
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
async fn a_store_without_notifications_neither_tells_nor_listens() {
    let schema = unique_schema();
    let silent = open_with(&schema, Options::without_notifications).await;
    let [teller, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    assert!(silent.listen().await.unwrap().is_none());
    silent.notify(queue("silent")).await.unwrap();
    teller.notify(queue("loud")).await.unwrap();
    assert_eq!(hear(&mut listener).await.unwrap(), queue("loud"));
    close([silent, teller, store], &[&schema]).await;
}

#[tokio::test]
async fn behind_a_pooler_a_node_polls_or_listens_on_a_direct_connection() {
    for server_connections in [1, 2] {
        let Some(pooler) = start_pooler(server_connections) else {
            return;
        };
        let schema = unique_schema();
        let through = || Postgres::options(&pooler.url()).unwrap().schema(&schema);
        let deaf = through().connect().await.unwrap();
        let begun = Instant::now();
        assert!(deaf.listen().await.unwrap().is_none());
        assert!(begun.elapsed() < Duration::from_secs(5));

        let direct = through().listen_url(&url()).unwrap();
        let direct = direct.connect().await.unwrap();
        let mut listener = listen(&direct).await;
        deaf.notify(queue("through the pooler")).await.unwrap();
        assert_eq!(
            hear(&mut listener).await.unwrap(),
            queue("through the pooler")
        );
        close([deaf, direct], &[&schema]).await;
    }
}

#[tokio::test]
async fn an_address_for_listening_that_is_wrong_is_said_so() {
    let schema = unique_schema();
    let options = || Postgres::options(&url()).unwrap().schema(&schema);
    let error = options().listen_url("postgres://me:hunter2@host:port/db");
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!error.to_string().contains("hunter2"), "{error}");

    // Another database of the server: connected, and nothing to hear.
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

/// Not a bound on speed, which is the machine's; the figures are printed for people who measure.
#[tokio::test(flavor = "multi_thread")]
async fn a_hint_arrives_without_anybody_polling() {
    let schema = unique_schema();
    let [teller, store] = [open(&schema).await, open(&schema).await];
    let mut listener = listen(&store).await;
    let mut took = Vec::new();
    for n in 0..200 {
        let hints = queue(&n.to_string());
        let begun = Instant::now();
        let told = tokio::spawn({
            let (teller, hints) = (teller.clone(), hints.clone());
            async move { teller.notify(hints).await }
        });
        assert_eq!(hear(&mut listener).await.unwrap(), hints);
        took.push(begun.elapsed());
        told.await.unwrap().unwrap();
    }
    took.sort();
    eprintln!("told to heard: median {:?}, p99 {:?}", took[100], took[197]);
    // A poll every second would need more than this for each.
    assert!(took[100] < Duration::from_millis(500), "{:?}", took[100]);
    close([teller, store], &[&schema]).await;
}
