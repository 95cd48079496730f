//! An order and the machine that delivers it, written in one transaction: both, or neither.
//!
//! A web handler writes its own rows and starts an instance in the same transaction of its own
//! database. The instance exists after the commit, and never if the transaction is rolled back, as
//! here for an order that exceeds the stock. Another handler writes the payment and signals the
//! instance, also in one transaction. The example uses rusqlite on SQLite, and sqlx and plain SQL
//! on PostgreSQL.
//!
//! ```sh
//! cargo run -p outlast-examples --bin transactional
//! ```

use anyhow::Result;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router, routing::post};
use outlast::prelude::*;
use outlast::store::{Count, Delivery, Filter, NewInstance, NewSignal};
use outlast::{Client, InstanceId, New, Postgres, Sqlite, transaction};
use outlast_examples::{SCHEMA, postgres_url, send_post};
use rusqlite::{Connection, TransactionBehavior};
use sqlx::PgPool;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

struct Delivering;

#[steps]
enum Parcel {
    Take { number: i64, pieces: i64 },
    Send { number: i64, pieces: i64 },
}

#[derive(Signal, Serialize, Deserialize)]
struct Paid {
    amount: i64,
}

impl Machine for Delivering {
    const NAME: &'static str = "delivering";
    type State = Parcel;
    type Output = String;

    async fn step(&self, state: Parcel, _cx: &Context) -> StepResult<Self> {
        match state {
            Parcel::Take { number, pieces } => {
                wait_for::<Paid>().then(Parcel::Send { number, pieces })
            }
            Parcel::Send { number, pieces } => done(format!("order {number}: sent {pieces}")),
        }
    }
}

/// The input of the handlers.
#[derive(Clone, Copy, Deserialize)]
struct Payment {
    number: i64,
    amount: i64,
}

#[derive(Clone, Copy, Deserialize)]
struct Order {
    number: i64,
    pieces: i64,
}

impl Order {
    fn delivery(self) -> New<Delivering> {
        let Order { number, pieces } = self;
        Delivering::with(Parcel::Take { number, pieces }).key(format!("order:{number}"))
    }
}

/// The shop's own tables: in the same database as those of the store.
enum Database {
    Sqlite { path: PathBuf },
    Postgres { pool: PgPool, store: Postgres },
}

/// With rusqlite: returns the instance that will deliver the order, or `None` if the stock is too
/// low.
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

/// With rusqlite: writes the payment, and the signal that wakes the delivery.
fn pay_on_sqlite(
    connection: &mut Connection,
    payment: Payment,
    paid: NewSignal,
) -> Result<Delivery> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(
        "insert into payments values (?1, ?2)",
        (payment.number, payment.amount),
    )?;
    let delivery = transaction::rusqlite::signal(&tx, paid)?;
    tx.commit()?;
    Ok(delivery)
}

/// The same with sqlx.
async fn pay_on_postgres(
    pool: &PgPool,
    store: &Postgres,
    payment: Payment,
    paid: NewSignal,
) -> Result<Delivery> {
    let mut tx = pool.begin().await?;
    let row = sqlx::query("insert into outlast_example_shop.payments values ($1, $2)");
    row.bind(payment.number)
        .bind(payment.amount)
        .execute(&mut *tx)
        .await?;
    let delivery = transaction::sqlx_0_9::signal(&mut tx, store, paid).await?;
    tx.commit().await?;
    Ok(delivery)
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
        // Your own transaction wakes no worker. Without this call, workers find it by polling.
        self.client.wake(Delivering::QUEUE);
        Ok(taken)
    }

    async fn pay(&self, payment: Payment) -> Result<Delivery> {
        let order = Delivering::key(format!("order:{}", payment.number));
        let amount = payment.amount;
        let paid = self.client.prepare_signal(order, Paid { amount })?;
        let delivery = match self.database.as_ref() {
            Database::Sqlite { path } => {
                let path = path.clone();
                let pay = move || pay_on_sqlite(&mut Connection::open(path)?, payment, paid);
                tokio::task::spawn_blocking(pay).await??
            }
            Database::Postgres { pool, store } => {
                pay_on_postgres(pool, store, payment, paid).await?
            }
        };
        self.client.wake(Delivering::QUEUE);
        Ok(delivery)
    }
}

async fn post_order(State(shop): State<Shop>, Json(order): Json<Order>) -> (StatusCode, String) {
    match shop.take(order).await {
        Ok(Some(id)) => (StatusCode::CREATED, id.to_string()),
        Ok(None) => (StatusCode::CONFLICT, "there is not enough in stock".into()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn post_payment(
    State(shop): State<Shop>,
    Json(payment): Json<Payment>,
) -> (StatusCode, String) {
    match shop.pay(payment).await {
        Ok(Delivery::NoTarget) => (StatusCode::NOT_FOUND, "there is no such order".into()),
        Ok(delivery) => (StatusCode::OK, format!("{delivery:?}")),
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
    let engine = builder.register(Delivering).start().await?;
    let shop = Shop {
        database: Arc::new(database),
        client: engine.client().clone(),
    };
    let routes = Router::new()
        .route("/orders", post(post_order))
        .route("/payments", post(post_payment))
        .with_state(shop.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let (status, body) = send_post(address, "/orders", r#"{"number": 42, "pieces": 2}"#).await?;
    assert_eq!(status, 201, "{body}");
    let delivery = engine
        .handle::<Delivering>(InstanceId(body.parse()?))
        .await?;
    let (status, body) =
        send_post(address, "/payments", r#"{"number": 42, "amount": 100}"#).await?;
    assert_eq!(status, 200, "{body}");
    let sent = delivery.output().timeout(MINUTE).await?;
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
    let count = engine.client().count(of_order).await?;
    assert_eq!(count, Count::Exactly(0), "the instance was not rolled back");

    // In plain SQL, as a trigger, a migration or another language would.
    if let Database::Postgres { pool, .. } = shop.database.as_ref() {
        sqlx::raw_sql(ORDER_IN_SQL).execute(pool).await?;
        sqlx::raw_sql(PAYMENT_IN_SQL).execute(pool).await?;
        // The key finds the instance also after it has finished.
        let delivery = engine.handle::<Delivering>("order:44").await?;
        let sent = delivery.output().timeout(MINUTE).await?;
        println!("in plain SQL: {sent}");
        assert_eq!(sent, "order 44: sent 1");
    }

    engine.shutdown().await?;
    Ok(())
}

/// The functions are in the schema of the store. Default: `outlast`. These examples use another
/// one.
const ORDER_IN_SQL: &str = r#"
begin;
insert into outlast_example_shop.orders values (44, 1);
select outlast_examples.insert('delivering', 'take', '{"number": 44, "pieces": 1}',
                               correlation_key => 'order:44');
commit;
"#;

const PAYMENT_IN_SQL: &str = r#"
begin;
insert into outlast_example_shop.payments values (44, 100);
select outlast_examples.signal('delivering', 'order:44', 'paid', '{"amount": 100}',
                               dedup_key => 'payment-44');
commit;
"#;

const SQLITE_TABLES: &str = "
create table orders (number integer primary key, pieces integer not null);
create table payments (number integer primary key, amount integer not null);
create table stock (pieces integer not null);
insert into stock values (10);
";

const POSTGRES_TABLES: &str = "
drop schema if exists outlast_example_shop cascade;
create schema outlast_example_shop;
create table outlast_example_shop.orders (number bigint primary key, pieces bigint not null);
create table outlast_example_shop.payments (number bigint primary key, amount bigint not null);
create table outlast_example_shop.stock (pieces bigint not null);
insert into outlast_example_shop.stock values (10);
";
