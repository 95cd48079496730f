//! The grants that docs/security.md prints are those of the library. They are enough for an engine
//! and its clients.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast::postgres::{Migrations, Options, Roles as Rights};
use outlast::prelude::*;
use outlast::store::{Filter, ListRequest, Store};
use outlast::{Client, InstanceId, Note, Postgres};
use outlast_testbed::shared::{connect, unique_schema, url};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/security.md");
const LONG: Duration = Duration::from_secs(60);

/// The roles as the page names them.
const ROLES: [&str; 3] = ["shop_worker", "shop_web", "shop_support"];

/// Returns the grants of the page: each has one list of rights, one object and one role.
fn printed() -> BTreeSet<String> {
    let (_, rest) = PAGE
        .split_once("```sql\ngrant ")
        .expect("the page prints grants");
    let (block, _) = rest.split_once("```").expect("the block ends");
    let block = format!("grant {block}");
    let statements = block.split(';').map(str::trim).filter(|it| !it.is_empty());
    statements.flat_map(apart).collect()
}

/// Splits `grant a on x, y to r, s` into one grant for each object and role.
fn apart(statement: &str) -> Vec<String> {
    let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let (rights, rest) = statement
        .split_once(" on ")
        .expect("the grant has an object");
    let (objects, roles) = rest.rsplit_once(" to ").expect("the grant has a role");
    let (kind, objects) = ["schema ", "sequence ", "function "]
        .into_iter()
        .find_map(|kind| Some((kind, objects.strip_prefix(kind)?)))
        .unwrap_or(("", objects));
    let mut parts = Vec::new();
    for object in outside_parentheses(objects) {
        for role in roles.split(", ") {
            parts.push(format!("{rights} on {kind}{object} to {role}"));
        }
    }
    parts
}

/// Splits a list at the commas that are outside parentheses.
fn outside_parentheses(list: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in list.chars() {
        match c {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

#[test]
fn the_page_prints_the_grants_of_the_library() {
    let [worker, web, support] = ROLES;
    let rights = Rights::new().worker(worker).enqueuer(web).reader(support);
    let given = rights.sql("outlast").unwrap().replace('"', "");
    let given = given.lines().filter(|line| line.starts_with("grant "));
    let given: BTreeSet<_> = given
        .flat_map(|line| apart(line.trim_end_matches(';')))
        .collect();
    assert_eq!(printed(), given, "docs/security.md and roles.rs");
}

/// A schema whose roles have only the grants of the page.
struct Shop {
    schema: String,
}

impl Shop {
    async fn open() -> Shop {
        let shop = Shop {
            schema: unique_schema(),
        };
        let migrated = Postgres::options(&url()).unwrap().schema(&shop.schema);
        migrated.connect().await.unwrap().close().await;
        let admin = connect(&url()).await;
        for role in ROLES {
            let create = format!("create role \"{}\" login", shop.role(role));
            admin.batch_execute(&create).await.unwrap();
        }
        for statement in printed() {
            let mut sql = statement.replace("outlast.", &format!("{}.", shop.schema));
            sql = sql.replace("schema outlast", &format!("schema {}", shop.schema));
            for role in ROLES {
                let to = format!(" to \"{}\"", shop.role(role));
                sql = sql.replace(&format!(" to {role}"), &to);
            }
            admin.batch_execute(&sql).await.expect(&sql);
        }
        shop
    }

    /// Roles belong to the whole server, so each schema has its own.
    fn role(&self, role: &str) -> String {
        format!("{}_{role}", self.schema)
    }

    fn options(&self, role: &str) -> Options {
        let (_, address) = url()
            .split_once('@')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        let options = Postgres::options(&format!("postgres://{}@{address}", self.role(role)));
        let options = options.unwrap().schema(&self.schema).max_connections(4);
        options.migrations(Migrations::Check)
    }

    async fn drop(self) {
        let mut sql = format!(
            "set client_min_messages = warning; drop schema \"{}\" cascade",
            self.schema
        );
        for role in ROLES.map(|role| self.role(role)) {
            sql.push_str(&format!("; drop owned by \"{role}\"; drop role \"{role}\""));
        }
        connect(&url()).await.batch_execute(&sql).await.unwrap();
    }
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

/// A machine that parks, starts children, and ends.
struct Order;

#[steps]
enum Stage {
    Start,
    Pack,
    Line(u32),
    Ship,
}

impl Machine for Order {
    const NAME: &'static str = "order";
    type State = Stage;
    type Output = u32;

    async fn step(&self, stage: Stage, cx: &Context) -> StepResult<Self> {
        match stage {
            Stage::Start => wait_for::<Go>().timeout(LONG).then(Stage::Pack),
            Stage::Pack => {
                cx.received::<Go>()?;
                fan_out((1..=3).map(|n| Order::with(Stage::Line(n)))).then(Stage::Ship)
            }
            Stage::Line(n) => done(n),
            Stage::Ship => done(cx.children::<Order>()?.len() as u32),
        }
    }
}

/// A workflow that waits for children, a signal and a timer.
#[workflow]
async fn plan(flow: Flow, depth: u32) -> FlowResult<u32> {
    if depth == 0 {
        return Ok(1);
    }
    let first = flow
        .step("first", async || Ok::<_, std::io::Error>(1))
        .await?;
    flow.sleep(Duration::from_millis(1)).await?;
    let kids = flow
        .all(vec![flow.run(plan::with(0)), flow.run(plan::with(0))])
        .await?;
    let alone = flow.run(plan::with(0)).await?;
    flow.signal::<Go>().await?;
    Ok(first + alone + kids.iter().sum::<u32>())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_grants_are_enough_for_worker_enqueuer_and_reader() {
    let shop = Shop::open().await;
    let worker = shop.options("shop_worker").connect().await.unwrap();
    let engine = Engine::builder(worker)
        .register(Order)
        .register(plan)
        .start()
        .await
        .unwrap();
    let web = shop.options("shop_web").enqueue_only().connect().await;
    let web = Client::new(web.unwrap());
    let order = web.start(Order::with(Stage::Start).key("o-1")).await;
    let order = order.unwrap();
    let planned = web.start(plan::with(1).key("p-1")).await;
    let planned = planned.unwrap();
    order.signal(Go).await.unwrap();
    planned.signal(Go).dedup("once").await.unwrap();
    let by_worker = engine.handle(order.id()).await.unwrap();
    assert_eq!(by_worker.output().timeout(LONG).await.unwrap(), 3);
    let by_worker = engine.handle(planned.id()).await.unwrap();
    assert_eq!(by_worker.output().timeout(LONG).await.unwrap(), 4);
    operate(engine.client()).await;
    look(&shop, (&order).into(), (&planned).into()).await;
    engine.shutdown().await.unwrap();
    shop.drop().await;
}

/// Does what operators do, with the rights of a worker.
async fn operate(client: &Client) {
    let parked = client.start(Order::with(Stage::Start)).await.unwrap();
    let admin = client.admin();
    let note = || Note::by("ada");
    assert!(admin.pause("mail", note()).await.unwrap());
    assert!(admin.resume("mail", note()).await.unwrap());
    parked.terminate(note()).await.unwrap();
    admin.retry(&parked, note()).await.unwrap();
    parked.cancel(note()).await.unwrap();
    admin.doctor().await.unwrap();
}

async fn look(shop: &Shop, order: InstanceId, planned: InstanceId) {
    let reader = shop.options("shop_support").connect().await.unwrap();
    let client = Client::new(reader);
    assert!(client.find(order).await.unwrap().is_some());
    let page = ListRequest {
        limit: 10,
        ..ListRequest::default()
    };
    assert!(
        !client
            .admin()
            .list(page)
            .await
            .unwrap()
            .instances
            .is_empty()
    );
    client.count(Filter::default()).await.unwrap();
    let admin = client.admin();
    admin.rounds(order).await.unwrap();
    admin.signals(order, None).await.unwrap();
    admin.operations(None).await.unwrap();
    admin.queues().await.unwrap();
    admin.workers().await.unwrap();
    admin.doctor().await.unwrap();
    assert!(!admin.histories(planned).await.unwrap().is_empty());
}
