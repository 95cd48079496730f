//! The server behind the browser: a store, an engine with machines, and the router on a port of
//! this machine.

use crate::flow_machines::{Errand, crowd, fulfil, insure, label, pack, shelf, stuck};
use crate::machines::{
    Cart, Checkout, Fulfilment, GiftWrap, Line, LineItem, Mail, Mailing, OldCheckout, OldOrder,
    Order, Parcel, Patrol, PaymentConfirmed,
};
use crate::team::{Piece, Plan, Team, Teamwork, Work};
use crate::tracked::Tracked;
use axum::Router;
use outlast::engine::EngineBuilder;
use outlast::prelude::*;
use outlast::store::{ClosePolicy, RunStats, Store};
use outlast::{Client, Durable, InstanceId, New, Note, Postgres, Roles, Sqlite, Status};
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
    pub(crate) client: Client,
    engine: Engine,
    /// The URL of the dashboard, with a slash at its end.
    pub(crate) ui: String,
    /// Whether the mail server is well.
    pub(crate) is_well: Arc<AtomicBool>,
    app: Router,
    address: SocketAddr,
    /// A separate runtime, whose end closes all connections.
    server: Option<Runtime>,
    folder: Option<TempDir>,
    schema: Option<String>,
}

/// Options of a stage.
#[derive(Default)]
pub(crate) struct Setting {
    pub(crate) prefix: &'static str,
    pub(crate) token: Option<Token>,
    /// Run stats that are stored before the engine starts.
    pub(crate) history: Option<RunStats>,
    /// The roles of the engine. Default: all.
    pub(crate) roles: Option<Roles>,
}

impl Stage {
    /// Starts a stage on a new SQLite database.
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

    /// Starts a stage on an existing SQLite database.
    pub(crate) async fn filled(folder: TempDir, file: &str) -> Stage {
        let store = Sqlite::open(folder.path().join(file)).expect("the database can be opened");
        let mut stage = Stage::on(Engine::builder(store), Setting::default()).await;
        stage.folder = Some(folder);
        stage
    }

    /// Starts a stage on PostgreSQL, in a new schema.
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
            .roles(setting.roles.unwrap_or(Roles::ALL))
            .register(Checkout)
            .register(OldCheckout)
            .register(Fulfilment)
            .register(LineItem)
            .register(mailing)
            .register(Team)
            .register(Piece)
            .register(Tracked)
            .register(Patrol)
            .register(fulfil)
            .register(label)
            .register(crowd)
            .register(shelf)
            .register(stuck)
            .register(insure)
            .register(pack)
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
        let address = listener.local_addr().expect("the listener has an address");
        Stage {
            client: engine.client().clone(),
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

    /// Edits the database of a stage on SQLite by hand.
    pub(crate) fn edit(&self, sql: &str) {
        let folder = self.folder.as_ref().expect("the stage has a file");
        let database = rusqlite::Connection::open(folder.path().join("stage.db"));
        let edited = database.expect("the file can be opened").execute(sql, []);
        assert_eq!(edited.expect("the row can be edited"), 1, "{sql}");
    }

    /// Stops the server and closes every connection. The engine keeps running.
    pub(crate) fn hang_up(&mut self) {
        self.server
            .take()
            .expect("the server runs")
            .shutdown_background();
    }

    /// Starts the server again at the same address.
    pub(crate) fn pick_up(&mut self) {
        let listener = TcpListener::bind(self.address).expect("its port is free again");
        self.server = Some(serve(listener, self.app.clone()));
    }

    pub(crate) async fn end(mut self) {
        self.hang_up();
        self.engine.shutdown().await.unwrap();
        if let Some(schema) = self.schema {
            drop_schema(&schema).await;
        }
    }

    /// Starts an instance whose key is free, and returns its id.
    pub(crate) async fn start<D: Durable>(&self, new: New<D>) -> InstanceId {
        let started = self.engine.start(new).await.expect("it is started");
        assert!(started.is_new(), "its key is occupied");
        started.id().get()
    }

    /// Starts an order, and returns its id once it waits for its payment.
    pub(crate) async fn checkout(&self, number: u64) -> InstanceId {
        let new = Checkout::with(Order::Start(Cart::of(number))).key(format!("order:{number}"));
        let id = self.start(new).await;
        self.reaches(id, Status::AwaitingSignal).await;
        id
    }

    pub(crate) async fn mail(&self, to: &str, delay: Duration) -> InstanceId {
        let new = Mailing::with(Mail { to: to.to_owned() }).delay(delay);
        self.start(new).await
    }

    pub(crate) async fn pay(&self, number: u64, amount: u64) {
        let key = Checkout::key(format!("order:{number}"));
        self.client
            .signal(key, PaymentConfirmed { amount })
            .await
            .expect("the signal is delivered");
    }

    /// Starts an order of these articles. Lamps fail and chairs wait.
    pub(crate) async fn fulfilment(
        &self,
        tables: usize,
        lamps: usize,
        chairs: usize,
    ) -> InstanceId {
        let of = |article: &str, count: usize| vec![article.to_owned(); count];
        let articles = [of("table", tables), of("lamp", lamps), of("chair", chairs)].concat();
        self.start(Fulfilment::with(Parcel::Pack { articles }))
            .await
    }

    /// Starts a team with this plan.
    pub(crate) async fn team(&self, plan: Plan) -> InstanceId {
        self.start(Team::with(Teamwork::Begin(plan))).await
    }

    pub(crate) async fn piece(&self, what: &str) -> InstanceId {
        let what = what.to_owned();
        self.start(Piece::with(Work::Begin { what })).await
    }

    /// Starts a workflow, and returns its id once it waits for its approval.
    pub(crate) async fn errand(&self, errand: Errand) -> InstanceId {
        let id = self.start(fulfil::with(errand)).await;
        self.waits_for_approval(id, 1).await;
        id
    }

    /// Waits until this run of a workflow waits for its approval.
    pub(crate) async fn waits_for_approval(&self, id: InstanceId, run: i32) {
        let end = Instant::now() + PATIENCE;
        loop {
            let it = self.client.find(id).await.expect("the store answers");
            let it = it.expect("it is there");
            let awaits = it.awaits.as_deref().unwrap_or_default();
            if it.run == run && awaits.iter().any(|name| name == "approved") {
                return;
            }
            assert!(Instant::now() < end, "instance {id} does not wait: {it:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until an instance has a status.
    pub(crate) async fn reaches(&self, id: InstanceId, status: Status) {
        let end = Instant::now() + PATIENCE;
        loop {
            let it = self.client.find(id).await.expect("the store answers");
            let now = it.expect("it is there").status;
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

    /// Fills the stage with instances of every kind.
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
            self.start(OldCheckout::with(OldOrder::Start { number }))
                .await;
        }
        let parent = self.fulfilment(35, 2, 13).await;
        self.fulfilment(4, 0, 0).await;
        let stray = LineItem::with(Line::Pick {
            article: "table".into(),
        })
        .queue("reports");
        self.start(stray).await;
        let failed = self.mail("ada@mail.example", Duration::ZERO).await;
        for name in ["bob", "storm-1", "storm-2", "eve"] {
            self.mail(&format!("{name}@mail.example"), Duration::ZERO)
                .await;
        }
        self.mail("later@mail.example", HOUR).await;
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
        self.client
            .signal(orders[39], gift)
            .dedup("shop-7781")
            .await
            .expect("the signal is delivered");
        Cast {
            waiting: orders[39],
            parent,
            failed,
            team,
            asked,
        }
    }

    /// Starts a team that waits for a quorum in a window, and a cancelled piece that waits in its
    /// cleanup.
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
        let cancelled = self.client.admin().cancel(asked, note).await;
        cancelled.expect("the cancel is requested");
        (team, asked)
    }
}

/// The instances that tests look up on the stage.
pub(crate) struct Cast {
    pub(crate) waiting: InstanceId,
    pub(crate) parent: InstanceId,
    pub(crate) failed: InstanceId,
    pub(crate) team: InstanceId,
    pub(crate) asked: InstanceId,
}

/// Returns a token with the role admin, and its secret.
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
        .expect("the socket becomes non-blocking");
    runtime.spawn(async move {
        let listener =
            tokio::net::TcpListener::from_std(listener).expect("the runtime takes a socket");
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app)
            .await
            .expect("the server runs until its runtime ends");
    });
    runtime
}
