//! What the browser looks at: a store, an engine that runs machines on it, and the router on a port of this machine.

use crate::flow_machines::{Crowd, Errand, Fulfil, Insure, Label, Pack, Stuck};
use crate::machines::{
    Cart, Checkout, Fulfilment, GiftWrap, Line, LineItem, Mail, Mailing, OldCheckout, OldOrder,
    Order, Parcel, Patrol, PaymentConfirmed,
};
use crate::team::{Piece, Plan, Team, Teamwork, Work};
use crate::tracked::Tracked;
use axum::Router;
use outlast::prelude::*;
use outlast::{EngineBuilder, InstanceId, Status};
use outlast_core::{RunStats, Store};
use outlast_http::{Role, Settings, Token};
use outlast_testbed::shared::{drop_schema, unique_schema, url};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(30);

/// A running server with an engine behind it.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    /// Of the dashboard, with a slash at its end.
    pub(crate) ui: String,
    /// Whether mails can be sent.
    pub(crate) is_well: Arc<AtomicBool>,
    app: Router,
    address: SocketAddr,
    /// A runtime of its own: its connections end with it.
    server: Option<Runtime>,
    folder: Option<TempDir>,
    schema: Option<String>,
}

/// Where the router is mounted, and who is let in.
#[derive(Default)]
pub(crate) struct Setting {
    pub(crate) prefix: &'static str,
    pub(crate) token: Option<Token>,
    /// What is said to have run before.
    pub(crate) history: Option<RunStats>,
}

impl Stage {
    /// On SQLite, in a file of its own.
    pub(crate) async fn sqlite(setting: Setting) -> Stage {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let store = Sqlite::open(folder.path().join("stage.db")).expect("a database can be made");
        if let Some(stats) = setting.history.clone() {
            store.add_run_stats(stats).await.expect("counts are kept");
        }
        let mut stage = Stage::on(Engine::builder(store), setting).await;
        stage.folder = Some(folder);
        stage
    }

    /// On an SQLite database that somebody has filled.
    pub(crate) async fn filled(folder: TempDir, file: &str) -> Stage {
        let store = Sqlite::open(folder.path().join(file)).expect("the database can be opened");
        let mut stage = Stage::on(Engine::builder(store), Setting::default()).await;
        stage.folder = Some(folder);
        stage
    }

    /// On PostgreSQL, in a schema of its own.
    pub(crate) async fn postgres(setting: Setting) -> Stage {
        let schema = unique_schema();
        let store = Postgres::options(&url())
            .expect("the address can be read")
            .schema(&schema)
            .connect();
        let mut stage = Stage::on(
            Engine::builder(store.await.expect("the server can be used")),
            setting,
        )
        .await;
        stage.schema = Some(schema);
        stage
    }

    async fn on(engine: EngineBuilder, setting: Setting) -> Stage {
        let is_well = Arc::new(AtomicBool::new(false));
        let mailing = Mailing {
            is_well: is_well.clone(),
        };
        let engine = engine
            .name("shop-1")
            .machine(Checkout)
            .machine(OldCheckout)
            .machine(Fulfilment)
            .machine(LineItem)
            .machine(mailing)
            .machine(Team)
            .machine(Piece)
            .machine(Tracked)
            .machine(Patrol)
            .workflow(Fulfil)
            .workflow(Label)
            .workflow(Crowd)
            .workflow(Stuck)
            .machine(Insure)
            .machine(Pack)
            .queue("default", 20)
            .queue("mail", 5)
            .start()
            .await
            .expect("the engine starts");
        let settings = setting
            .token
            .into_iter()
            .fold(Settings::new(), Settings::token);
        let router = outlast_http::router(engine.client().clone(), settings);
        let app = match setting.prefix {
            "" => router,
            prefix => Router::new().nest(prefix, router),
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        Stage {
            engine,
            ui: format!("http://{address}{}/ui/", setting.prefix),
            is_well,
            server: Some(serve(listener, app.clone())),
            app,
            address,
            folder: None,
            schema: None,
        }
    }

    /// JoinSets the server, with every connection; the engine goes on.
    pub(crate) fn hang_up(&mut self) {
        self.server.take().expect("it serves").shutdown_background();
    }

    /// Serves again at the same address.
    pub(crate) fn pick_up(&mut self) {
        let listener = TcpListener::bind(self.address).expect("its port is free again");
        self.server = Some(serve(listener, self.app.clone()));
    }

    pub(crate) async fn end(mut self) {
        self.hang_up();
        self.engine.shutdown().await;
        if let Some(schema) = self.schema {
            drop_schema(&schema).await;
        }
    }

    /// An order that waits for its payment.
    pub(crate) async fn checkout(&self, number: u64) -> InstanceId {
        let new = New::<Checkout>(Order::Start(Cart::of(number))).key(format!("order:{number}"));
        let inserted = self.engine.insert(new).await.expect("it is inserted");
        let id = inserted.id().expect("its key is its own").get();
        self.reaches(id, Status::AwaitingSignal).await;
        id
    }

    pub(crate) async fn mail(&self, to: &str, delay: Duration) -> InstanceId {
        let new = New::<Mailing>(Mail { to: to.to_owned() }).delay(delay);
        self.engine
            .insert(new)
            .await
            .expect("it is inserted")
            .id()
            .expect("it has no key")
            .get()
    }

    pub(crate) async fn pay(&self, number: u64, amount: u64) {
        let key = Checkout::key(format!("order:{number}"));
        self.engine
            .signal(key, PaymentConfirmed { amount })
            .await
            .expect("it is delivered");
    }

    /// An order of so many articles, of which lamps fail and chairs wait.
    pub(crate) async fn fulfilment(
        &self,
        tables: usize,
        lamps: usize,
        chairs: usize,
    ) -> InstanceId {
        let of = |article: &str, count: usize| vec![article.to_owned(); count];
        let articles = [of("table", tables), of("lamp", lamps), of("chair", chairs)].concat();
        let new = New::<Fulfilment>(Parcel::Pack { articles });
        self.engine
            .insert(new)
            .await
            .expect("it is inserted")
            .id()
            .expect("it has no key")
            .get()
    }

    /// Children that are joined as the plan says.
    pub(crate) async fn team(&self, plan: Plan) -> InstanceId {
        let new = New::<Team>(Teamwork::Begin(plan));
        let inserted = self.engine.insert(new).await.expect("it is inserted");
        inserted.id().expect("it has no key").get()
    }

    pub(crate) async fn piece(&self, what: &str) -> InstanceId {
        let new = New::<Piece>(Work::Begin {
            what: what.to_owned(),
        });
        let inserted = self.engine.insert(new).await.expect("it is inserted");
        inserted.id().expect("it has no key").get()
    }

    /// A workflow that has come to its last wait.
    pub(crate) async fn errand(&self, errand: Errand) -> InstanceId {
        let inserted = self.engine.insert(Run::<Fulfil>(errand)).await;
        let id = inserted.expect("it is inserted").id();
        let id = id.expect("it has no key").get();
        self.waits_for_approval(id, 1).await;
        id
    }

    /// Waits until this run of a workflow waits for its approval.
    pub(crate) async fn waits_for_approval(&self, id: InstanceId, run: i32) {
        let end = Instant::now() + PATIENCE;
        loop {
            let it = self.engine.get(id).await.expect("the store answers");
            let it = it.expect("it is there");
            let awaits = it.awaits.as_deref().unwrap_or_default();
            if it.run == run && awaits.iter().any(|name| name == "approved") {
                return;
            }
            assert!(Instant::now() < end, "instance {id} does not wait: {it:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until an instance has come to a status.
    pub(crate) async fn reaches(&self, id: InstanceId, status: Status) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self
                .engine
                .get(id)
                .await
                .expect("the store answers")
                .expect("it is there")
                .status;
            if now == status {
                return;
            }
            assert!(
                Instant::now() < end,
                "instance {id} is {now} and does not become {status}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Fills the stage with something of everything.
    pub(crate) async fn populate(&self) -> Cast {
        let mut orders = Vec::new();
        for number in 1..=40 {
            orders.push(self.checkout(number).await);
        }
        for number in 1..=30 {
            self.pay(number, if number % 11 == 0 { 0 } else { number * 10 })
                .await;
        }
        for number in 1..=3 {
            let old = New::<OldCheckout>(OldOrder::Start { number });
            self.engine.insert(old).await.expect("it is inserted");
        }
        let parent = self.fulfilment(35, 2, 13).await;
        self.fulfilment(4, 0, 0).await;
        let stray = New::<LineItem>(Line::Pick {
            article: "table".into(),
        })
        .queue("reports");
        self.engine.insert(stray).await.expect("it is inserted");
        let failed = self.mail("ada@mail.example", Duration::ZERO).await;
        for name in ["bob", "storm-1", "storm-2", "eve"] {
            self.mail(&format!("{name}@mail.example"), Duration::ZERO)
                .await;
        }
        self.mail("later@mail.example", Duration::from_secs(3600))
            .await;
        let (team, asked) = self.populate_teams().await;
        self.reaches(failed, Status::Failed).await;
        self.reaches(parent, Status::AwaitingChildren).await;
        for &id in &orders[..1] {
            self.reaches(id, Status::Done).await;
        }
        let gift = GiftWrap {
            paper: "blue".into(),
            card: "Happy birthday!".into(),
        };
        self.engine
            .signal(orders[39], gift)
            .dedup("shop-7781")
            .await
            .expect("it is delivered");
        Cast {
            waiting: orders[39],
            parent,
            failed,
            team,
            asked,
        }
    }

    /// A team that waits for a quorum in a window, and a piece that undoes what it did because it was asked to cancel.
    async fn populate_teams(&self) -> (InstanceId, InstanceId) {
        let children = [
            "done", "done", "fail", "wait", "careful", "wait", "wait", "wait",
        ];
        let plan = Plan {
            children: children.map(str::to_owned).to_vec(),
            quorum: Some(5),
            window: Some(3),
            deadline_ms: Some(3_600_000),
            cancel_rest: true,
            on_close: Some(ClosePolicy::Terminate),
            ..Plan::default()
        };
        let team = self.team(plan).await;
        let asked = self.piece("careful").await;
        self.reaches(asked, Status::AwaitingSignal).await;
        let note = Note::by("ada").because("the customer has ordered twice");
        self.engine.cancel(asked, note).await.expect("it is asked");
        (team, asked)
    }
}

/// Who is on the stage.
pub(crate) struct Cast {
    pub(crate) waiting: InstanceId,
    pub(crate) parent: InstanceId,
    pub(crate) failed: InstanceId,
    pub(crate) team: InstanceId,
    pub(crate) asked: InstanceId,
}

/// A token that may do everything, with its secret.
pub(crate) fn admin() -> (String, Token) {
    let (secret, token) = Token::generate("test", Role::Admin).expect("there is randomness");
    (secret.to_string(), token)
}

fn serve(listener: TcpListener, app: Router) -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime can be made");
    listener
        .set_nonblocking(true)
        .expect("a socket can be told");
    runtime.spawn(async move {
        let listener =
            tokio::net::TcpListener::from_std(listener).expect("the runtime takes a socket");
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app)
            .await
            .expect("a server goes on until it is ended");
    });
    runtime
}
