//! A connection with prepared statements, as a worker keeps it.

use crate::cases::{self, Case};
use crate::plan::Plan;
use crate::table;
use outlast_postgres::testing;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;
use tokio_postgres::{Client, SimpleQueryMessage};

/// One connection with every statement prepared.
pub(crate) struct Prepared {
    client: Client,
    schema: String,
}

impl Prepared {
    pub(crate) async fn new(schema: &str) -> Prepared {
        let client = table::connect().await;
        let texts: BTreeMap<_, _> = testing::statements(schema).into_iter().collect();
        let mut names = BTreeSet::new();
        for case in cases::cases(1) {
            // A statement can have several cases.
            if !names.insert(case.name) {
                continue;
            }
            let types = in_brackets(case.types);
            let sql = format!("prepare \"{}\" {types} as {}", case.name, texts[case.name]);
            let prepared = client.batch_execute(&sql).await;
            prepared.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        }
        let schema = schema.to_owned();
        Prepared { client, schema }
    }

    /// Plans every statement now. The server keeps the plans until it invalidates them.
    pub(crate) async fn plan_all(&self) -> BTreeMap<&'static str, Plan> {
        let mut plans = BTreeMap::new();
        for case in cases::cases(1) {
            let plan = self.explain("format json", &case).await;
            plans.insert(case.name, plan);
        }
        plans
    }

    /// Runs a case in a transaction with the settings of the store, and rolls it back.
    pub(crate) async fn run(&self, case: &Case) -> Plan {
        self.explain("analyze, buffers, format json", case).await
    }

    async fn explain(&self, options: &str, case: &Case) -> Plan {
        let arguments = in_brackets(&case.arguments);
        let sql = format!("explain ({options}) execute \"{}\" {arguments}", case.name);
        self.client
            .batch_execute(&testing::opening())
            .await
            .unwrap();
        if let Some(ids) = &case.written {
            let write = format!(
                "update {}.instances set revision = revision + 1 where id = any ({ids})",
                self.schema
            );
            self.client.batch_execute(&write).await.unwrap();
        }
        let answer = self.client.simple_query(&sql).await;
        let messages = answer.unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        self.client.batch_execute("rollback").await.unwrap();
        let lines: Vec<&str> = messages
            .iter()
            .filter_map(|message| {
                let SimpleQueryMessage::Row(row) = message else {
                    return None;
                };
                row.get(0)
            })
            .collect();
        Plan::parse(&lines.join("\n"))
    }

    /// Uses the connection now and then while `work` runs.
    ///
    /// An idle connection misses messages when others create and drop tables. It then discards all
    /// its plans.
    pub(crate) async fn busy_while(&self, work: impl Future<Output = ()>) {
        let using = async {
            loop {
                self.client.batch_execute("select 1").await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = using => {}
        }
    }
}

fn in_brackets(list: &str) -> String {
    match list {
        "" => String::new(),
        list => format!("({list})"),
    }
}
