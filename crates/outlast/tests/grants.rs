//! The grants that docs/security.md prints are those of the library. They are enough for an engine
//! and its clients.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast::postgres::{Migrations, Options, Roles as Rights};
use outlast::prelude::*;
use outlast::{Filter, ListRequest};
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
        outlast_core::Store::close(&migrated.connect().await.unwrap()).await;
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

#[derive(Serialize, Deserialize)]
struct Go;

impl Signal for Go {
    const NAME: &'static str = "go";
}

/// A machine that parks, starts children, and ends.
struct Order;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        Ok(match stage {
            Stage::Start => wait_for([Go::NAME]).timeout(LONG).then(Stage::Pack),
            Stage::Pack => {
                cx.received::<Go>()?;
                fan_out((1..=3).map(|n| New::<Order>(Stage::Line(n)))).then(Stage::Ship)
            }
            Stage::Line(n) => Outcome::done(n),
            Stage::Ship => Outcome::done(cx.children::<Order>()?.len() as u32),
        })
    }
}

/// A workflow that waits for children, a signal and a timer.
struct Plan;

impl Workflow for Plan {
    const NAME: &'static str = "plan";
    type Input = u32;
    type Output = u32;

    async fn run(&self, flow: Flow, depth: u32) -> FlowResult<u32> {
        if depth == 0 {
            return Ok(1);
        }
        let first = flow
            .step("first", async || Ok::<_, std::io::Error>(1))
            .await?;
        flow.sleep(Duration::from_millis(1)).await?;
        let kids = flow
            .all(vec![flow.child::<Plan>(0), flow.child::<Plan>(0)])
            .await?;
        let alone = flow.child::<Plan>(0).await?;
        flow.signal::<Go>().await?;
        Ok(first + alone + kids.iter().sum::<u32>())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_grants_are_enough_for_worker_enqueuer_and_reader() {
    let shop = Shop::open().await;
    let worker = shop.options("shop_worker").connect().await.unwrap();
    let engine = Engine::builder(worker)
        .machine(Order)
        .workflow(Plan)
        .queue("default", 10)
        .start()
        .await
        .unwrap();
    let web = shop.options("shop_web").enqueue_only().connect().await;
    let web = Client::new(web.unwrap());
    let order = web.insert(New::<Order>(Stage::Start).key("o-1")).await;
    let order = order.unwrap().id().unwrap();
    let plan = web.insert(Run::<Plan>(1).key("p-1")).await;
    let plan = plan.unwrap().id().unwrap();
    web.signal(order, Go).await.unwrap();
    web.signal(plan, Go).dedup("once").await.unwrap();
    assert_eq!(engine.wait(order, LONG).await.unwrap(), 3);
    assert_eq!(engine.wait(plan, LONG).await.unwrap(), 4);
    operate(&engine).await;
    look(&shop, order.into(), plan.into()).await;
    engine.shutdown().await;
    shop.drop().await;
}

/// Does what operators do, with the rights of a worker.
async fn operate(engine: &Engine) {
    let client = engine.client();
    let parked = engine.insert(New::<Order>(Stage::Start)).await;
    let parked = parked.unwrap().id().unwrap();
    let note = || Note::by("ada");
    assert!(client.pause("mail", note()).await.unwrap());
    assert!(client.resume("mail", note()).await.unwrap());
    client.terminate(parked, note()).await.unwrap();
    client.retry(parked, note()).await.unwrap();
    client.cancel(parked, note()).await.unwrap();
    client.doctor().await.unwrap();
}

async fn look(shop: &Shop, order: InstanceId, plan: InstanceId) {
    let reader = shop.options("shop_support").connect().await.unwrap();
    let client = Client::new(reader);
    assert!(client.get(order).await.unwrap().is_some());
    let page = ListRequest {
        limit: 10,
        ..ListRequest::default()
    };
    assert!(!client.list(page).await.unwrap().instances.is_empty());
    client.count(Filter::default()).await.unwrap();
    client.rounds(order).await.unwrap();
    client.signals(order, None).await.unwrap();
    client.operations(None).await.unwrap();
    client.queues().await.unwrap();
    client.workers().await.unwrap();
    client.doctor().await.unwrap();
    assert!(!client.histories(plan).await.unwrap().is_empty());
}
