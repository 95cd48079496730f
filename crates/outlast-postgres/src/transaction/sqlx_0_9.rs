//! For `sqlx` 0.9, on a connection with an open transaction: `&mut *tx` for sqlx's own type.
//!
//! ```no_run
//! # use sqlx_core_0_9 as sqlx_core;
//! # mod sqlx { pub use sqlx_core_0_9::query::query; pub use sqlx_core_0_9::pool::Pool; pub use sqlx_postgres_0_9::Postgres; }
//! # type PgPool = sqlx::Pool<sqlx::Postgres>;
//! use outlast_core::{Json, NewInstance};
//! use outlast_postgres::transaction::{Schema, sqlx_0_9::insert};
//!
//! # async fn example(pool: PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let order = NewInstance::new("checkout", "start", Json::null()).correlation_key("order:42");
//! let mut tx = pool.begin().await?;
//! sqlx::query("insert into orders (number) values (42)").execute(&mut *tx).await?;
//! insert(&mut tx, &Schema::default(), order).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```

super::sqlx::verbs!(
    sqlx_core_0_9,
    sqlx_postgres_0_9,
    sqlx_core_0_9::sql_str::AssertSqlSafe
);
