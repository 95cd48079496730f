//! An order and the machine that delivers it, written in one transaction: both, or neither.
//!
//! A web handler writes its own rows and starts an instance in the same transaction of its own database. The
//! instance exists when that is committed, and never did when it is rolled back, as here for an order of which
//! there is not enough in stock. With rusqlite on SQLite, and with sqlx on PostgreSQL.
//!
//! ```sh
//! cargo run -p outlast-examples --bin transactional
//! ```

use anyhow::Result;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router, routing::post};
use outlast::prelude::*;
use outlast::transaction;
use outlast::{Count, Filter, NewInstance};
use outlast_examples::{SCHEMA, postgres_url, send_post};
use rusqlite::{Connection, TransactionBehavior};
use sqlx::PgPool;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

struct Delivering;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Parcel {
    Send { number: i64, pieces: i64 },
}

impl Machine for Delivering {
    const NAME: &'static str = "delivering";
    type State = Parcel;
    type Output = String;

    async fn step(&self, state: Parcel, _cx: &Context) -> StepResult<Self> {
        let Parcel::Send { number, pieces } = state;
        Ok(Outcome::done(format!("order {number}: sent {pieces}")))
    }
}

/// What the handler is sent.
#[derive(Clone, Copy, Deserialize)]
struct Order {
    number: i64,
    pieces: i64,
}

impl Order {
    fn delivery(self) -> New<Delivering> {
        let Order { number, pieces } = self;
        New::<Delivering>(Parcel::Send { number, pieces }).key(format!("order:{number}"))
    }
}

/// Where the shop has its own tables: beside those of the store, in the same database.
enum Database {
    Sqlite { path: PathBuf },
    Postgres { pool: PgPool, store: Postgres },
}

/// With rusqlite: the instance that will deliver the order; none when there is not enough in stock.
fn take_on_sqlite(
    connection: &mut Connection,
    order: Order,
    delivery: NewInstance,
) -> Result<Option<InstanceId>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(
        "insert into orders values (?1, ?2)",
        (order.number, order.pieces),
    )?;
    let inserted = transaction::rusqlite::insert(&tx, delivery)?;
    let in_stock = tx.execute(
        "update stock set pieces = pieces - ?1 where pieces >= ?1",
        [order.pieces],
    )?;
    if in_stock == 0 {
        tx.rollback()?;
        return Ok(None);
    }
    tx.commit()?;
    Ok(inserted.new_id())
}

/// The same with sqlx.
async fn take_on_postgres(
    pool: &PgPool,
    store: &Postgres,
    order: Order,
    delivery: NewInstance,
) -> Result<Option<InstanceId>> {
    let mut tx = pool.begin().await?;
    let row = sqlx::query("insert into outlast_example_shop.orders values ($1, $2)");
    row.bind(order.number)
        .bind(order.pieces)
        .execute(&mut *tx)
        .await?;
    let inserted = transaction::sqlx_0_9::insert(&mut tx, store, delivery).await?;
    let taken = sqlx::query(
        "update outlast_example_shop.stock set pieces = pieces - $1 where pieces >= $1",
    );
    let in_stock = taken
        .bind(order.pieces)
        .execute(&mut *tx)
        .await?
        .rows_affected();
    if in_stock == 0 {
        tx.rollback().await?;
        return Ok(None);
    }
    tx.commit().await?;
    Ok(inserted.new_id())
}

#[derive(Clone)]
struct Shop {
    database: Arc<Database>,
    client: Client,
}

impl Shop {
    async fn take(&self, order: Order) -> Result<Option<InstanceId>> {
        let delivery = self.client.prepare(order.delivery())?;
        let taken = match self.database.as_ref() {
            Database::Sqlite { path } => {
                let path = path.clone();
                let take = move || take_on_sqlite(&mut Connection::open(path)?, order, delivery);
                // rusqlite blocks its thread.
                tokio::task::spawn_blocking(take).await??
            }
            Database::Postgres { pool, store } => {
                take_on_postgres(pool, store, order, delivery).await?
            }
        };
        // A transaction of your own tells nobody: without this, workers find it when they next look.
        self.client.wake(Delivering::QUEUE);
        Ok(taken)
    }
}

async fn post_order(State(shop): State<Shop>, Json(order): Json<Order>) -> (StatusCode, String) {
    match shop.take(order).await {
        Ok(Some(id)) => (StatusCode::CREATED, id.to_string()),
        Ok(None) => (StatusCode::CONFLICT, "there is not enough in stock".into()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (builder, database) = match postgres_url() {
        Some(url) => {
            let store = Postgres::options(&url)?.schema(SCHEMA).connect().await?;
            let pool = PgPool::connect(&url).await?;
            sqlx::raw_sql(POSTGRES_TABLES).execute(&pool).await?;
            (
                Engine::builder(store.clone()),
                Database::Postgres { pool, store },
            )
        }
        None => {
            let path = folder.path().join("shop.db");
            let store = Sqlite::open(&path)?;
            Connection::open(&path)?.execute_batch(SQLITE_TABLES)?;
            (Engine::builder(store), Database::Sqlite { path })
        }
    };
    let engine = builder
        .machine(Delivering)
        .queue("default", 10)
        .start()
        .await?;
    let shop = Shop {
        database: Arc::new(database),
        client: engine.client().clone(),
    };
    let routes = Router::new()
        .route("/orders", post(post_order))
        .with_state(shop);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let (status, body) = send_post(address, "/orders", r#"{"number": 42, "pieces": 2}"#).await?;
    assert_eq!(status, 201, "{body}");
    let delivery = Id::<Delivering>::of(InstanceId(body.parse()?));
    let sent = engine.wait(delivery, Duration::from_secs(10)).await?;
    println!("{sent}");
    assert_eq!(sent, "order 42: sent 2");

    let (status, body) = send_post(address, "/orders", r#"{"number": 43, "pieces": 99}"#).await?;
    println!("order 43: {body}");
    assert_eq!(status, 409, "{body}");
    let of_order = Filter {
        machine: Some(Delivering::NAME.into()),
        correlation_key: Some("order:43".into()),
        ..Filter::default()
    };
    assert_eq!(
        engine.count(of_order).await?,
        Count::Exactly(0),
        "the instance was not rolled back"
    );

    engine.shutdown().await;
    Ok(())
}

const SQLITE_TABLES: &str = "
create table orders (number integer primary key, pieces integer not null);
create table stock (pieces integer not null);
insert into stock values (10);
";

const POSTGRES_TABLES: &str = "
drop schema if exists outlast_example_shop cascade;
create schema outlast_example_shop;
create table outlast_example_shop.orders (number bigint primary key, pieces bigint not null);
create table outlast_example_shop.stock (pieces bigint not null);
insert into outlast_example_shop.stock values (10);
";
