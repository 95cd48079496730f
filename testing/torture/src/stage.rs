//! A run, from an empty database to the verdict: load and faults start and end, the system drains,
//! the workers stop, and the remaining rows are checked.

use crate::args::Args;
use crate::audit;
use crate::check::{Books, Checker, Records, Violation};
use crate::crew::{Crew, Orders, Worker};
use crate::ledger::{self, Entry, Ledger, now_us};
use crate::load::{Errors, Load, Mix};
use crate::report::{Report, Story};
use crate::site::{self, Site};
use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the system may take to drain after the faults. An instance that is still live then is
/// stuck.
const REST_MAX: Duration = Duration::from_secs(120);
/// How long the sessions of ended processes may last.
const SESSIONS_END_MAX: Duration = Duration::from_secs(10);
/// The number of violations that are printed with all records of their instance.
const STORIES_MAX: usize = 5;

/// The setup of a scenario.
pub(crate) struct Stage {
    args: Args,
    folder: TempDir,
    /// The database itself, without proxies: for the audit and the checks.
    direct: Site,
    pub(crate) crew: Crew,
    load: Option<Load>,
    pub(crate) random: fastrand::Rng,
    may_lose: bool,
    sessions_max: i64,
    /// Violations that the scenario itself found.
    found: Vec<Violation>,
}

/// The lease of workers that are killed: short, so that a run has many recoveries.
pub(crate) const LEASE: Duration = Duration::from_millis(1_000);

/// Returns the default configuration of workers.
pub(crate) fn usual_orders(site: &Site, folder: &Path) -> Orders {
    Orders {
        name: String::new(),
        site: site.clone(),
        folder: folder.to_owned(),
        slots: 24,
        lease_ms: LEASE.as_millis() as u64,
        work_max_ms: 20,
        // Innocent instances crash with their workers, repeatedly.
        crashes_max: 10_000,
        retention_ms: Some(30_000),
        poison: None,
        clock_off_s: 0,
        drives: None,
        seed: 0,
    }
}

impl Stage {
    /// Creates the schema and the audit. `direct` is the database itself; workers and load use
    /// `way`.
    pub(crate) async fn set(args: &Args, direct: Site, way: Site) -> Result<Stage> {
        let mut stage = Stage::set_without_load(args, direct).await?;
        let client = way.client().await?;
        let (ledger, mix) = (stage.crew.ledger.clone(), Mix::of(args.rate));
        stage.load = Some(Load::new(client, ledger, args.seed, mix));
        stage.crew.orders.site = way;
        Ok(stage)
    }

    /// The same without a load: the workers drive their own.
    pub(crate) async fn set_without_load(args: &Args, direct: Site) -> Result<Stage> {
        let folder = tempfile::Builder::new()
            .prefix("outlast-torture-")
            .tempdir()?;
        direct.client().await.context("the schema cannot be made")?;
        audit::install(&direct).await?;
        let ledger = Ledger::open(folder.path(), ledger::SUPERVISOR)?;
        let orders = usual_orders(&direct, folder.path());
        Ok(Stage {
            args: args.clone(),
            direct,
            crew: Crew { orders, ledger },
            load: None,
            random: fastrand::Rng::with_seed(args.seed),
            may_lose: false,
            sessions_max: 0,
            found: Vec::new(),
            folder,
        })
    }

    /// Drives mostly families.
    pub(crate) fn with_families(mut self) -> Stage {
        self.load = self.load.map(Load::mostly_families);
        self
    }

    /// Drives mostly workflows.
    pub(crate) fn with_flows(mut self) -> Stage {
        self.load = self.load.map(Load::mostly_flows);
        self
    }

    /// Allows acknowledged writes to be lost, and counts them.
    pub(crate) fn may_lose(mut self) -> Stage {
        self.may_lose = true;
        // The end of a tree may be lost, and the tree would live on.
        self.load = self.load.map(Load::without_doomed);
        self
    }

    /// Allows this many sessions to stay open: a pooler keeps them.
    pub(crate) fn may_keep_sessions(mut self, sessions: i64) -> Stage {
        self.sessions_max = sessions;
        self
    }

    /// Returns the errors that the load received.
    pub(crate) fn errors(&self) -> Option<Errors> {
        self.load.as_ref().map(Load::errors)
    }

    /// Drives load while `faults` runs, then drains the system and checks it. `faults` returns the
    /// workers for the drain.
    pub(crate) async fn play<F>(mut self, faults: impl FnOnce(Act) -> F) -> Result<Report>
    where
        F: Future<Output = Result<Vec<Worker>>>,
    {
        let begun = Instant::now();
        let (stop, stopped) = watch::channel(false);
        let errors = self.errors();
        let driving = self.load.take().map(|load| {
            let (site, seed) = (self.direct.clone(), self.args.seed);
            tokio::spawn(async move { load.run(&site, seed, stopped).await })
        });
        let duration = Duration::from_secs_f64(self.args.minutes * 60.0);
        let act = Act {
            crew: self.crew.clone(),
            end: begun + duration,
            random: self.random.fork(),
            begun: false,
        };
        let bar = progress(duration);
        let workers = faults(act).await;
        bar.finish_and_clear();
        stop.send_replace(true);
        let workers = workers?;
        if let Some(driving) = driving {
            driving.await?;
        }
        self.check_nothing_to_mend().await;
        self.come_to_rest(workers.len()).await;
        self.stop_workers(workers).await;
        let errors = errors.map_or(0, |errors| errors.count());
        self.check_remains().await?;
        let seconds = begun.elapsed().as_secs_f64();
        self.verdict(seconds, errors).await
    }

    /// I6: a reconciler would find nothing to repair while the load is running. The engines'
    /// reconcilers run too rarely to show that.
    async fn check_nothing_to_mend(&mut self) {
        // A server that has just recovered may not respond yet; this walk is then skipped.
        for id in self.direct.mended().await.unwrap_or_default() {
            self.find("I6", format!("instance {id} had to be mended"));
        }
    }

    /// I2: the check reports instances that are still live after the timeout. A killed worker
    /// stays registered until its lease expires, even if everything else has finished.
    async fn come_to_rest(&self, workers: usize) {
        let begun = Instant::now();
        while begun.elapsed() < REST_MAX {
            // A server that has just recovered may not respond yet.
            if self.direct.rests(workers).await.is_ok_and(|rests| rests) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn stop_workers(&mut self, workers: Vec<Worker>) {
        for worker in workers {
            let name = worker.name.clone();
            if let Err(error) = worker.stop().await {
                self.find("I11", format!("worker {name}: {error:#}"));
            }
        }
    }

    /// I11. The server may need a moment to end the sessions of ended processes.
    async fn check_remains(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut remains = self.direct.remains().await?;
        while remains.connections > self.sessions_max && begun.elapsed() < SESSIONS_END_MAX {
            tokio::time::sleep(Duration::from_millis(50)).await;
            remains = self.direct.remains().await?;
        }
        if remains.connections > self.sessions_max {
            self.find(
                "I11",
                format!("{} sessions left after the stop", remains.connections),
            );
        }
        if remains.executing > 0 {
            self.find(
                "I11",
                format!("{} claims left after the stop", remains.executing),
            );
        }
        if remains.workers > 0 {
            self.find(
                "I11",
                format!(
                    "{} workers still registered after the stop",
                    remains.workers
                ),
            );
        }
        if remains.cascades > 0 {
            let what = format!("{} parents whose cascade has not run", remains.cascades);
            self.find("I13", what);
        }
        if remains.orphans > 0 {
            self.find(
                "I7",
                format!(
                    "{} unconsumed signals without a live target",
                    remains.orphans
                ),
            );
        }
        Ok(())
    }

    /// Records a violation that belongs to no instance.
    pub(crate) fn find(&mut self, rule: &'static str, what: String) {
        self.found.push(Violation {
            rule,
            instance: None,
            what,
        });
    }

    async fn verdict(mut self, seconds: f64, load_errors: u64) -> Result<Report> {
        let entries = ledger::read_all(self.folder.path())?;
        let coarse_us = match &self.direct {
            Site::Postgres { .. } => 0,
            // Its audit has a resolution of milliseconds.
            Site::Sqlite { .. } => 1_000,
        };
        let books = Books::of(entries.clone());
        let faults = books.faults.clone();
        let mut checker = Checker::new(books, coarse_us, self.may_lose);
        audit::read(&self.direct, None, |change| checker.see(change)).await?;
        let records = Records {
            retries: retries(&self.direct).await?,
        };
        let (figures, mut violations) = checker.finish(&records);
        violations.append(&mut self.found);
        let mut stories = Vec::new();
        let instances: BTreeSet<i64> = violations.iter().filter_map(|it| it.instance).collect();
        for id in instances.into_iter().take(STORIES_MAX) {
            stories.push(Story::of(&self.direct, &entries, id).await?);
        }
        let folder = match violations.is_empty() && !self.args.keep {
            true => None,
            false => Some(self.folder.keep()),
        };
        Ok(Report {
            scenario: self.args.scenario,
            store: match &self.direct {
                Site::Postgres { .. } => site::StoreKind::Postgres,
                Site::Sqlite { .. } => site::StoreKind::Sqlite,
            },
            seed: self.args.seed,
            minutes: self.args.minutes,
            seconds,
            faults,
            load_errors,
            figures,
            violations,
            stories,
            folder,
            extra: Vec::new(),
        })
    }
}

/// The context of the faults.
pub(crate) struct Act {
    pub(crate) crew: Crew,
    /// When the faults end.
    pub(crate) end: Instant,
    pub(crate) random: fastrand::Rng,
    begun: bool,
}

impl Act {
    /// Returns whether to inject another fault: at least one, however long the first worker takes
    /// to start.
    pub(crate) fn goes_on(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.begun, true);
        first || Instant::now() < self.end
    }

    /// Starts this many workers and waits until they are ready.
    pub(crate) async fn workers(&self, count: usize) -> Result<Vec<Worker>> {
        let mut workers = Vec::new();
        for number in 1..=count {
            workers.push(self.crew.start(format!("w{number}")).await?);
        }
        Ok(workers)
    }

    /// Records a fault in the ledger.
    pub(crate) async fn note(&self, kind: &str) {
        let (kind, at) = (kind.to_owned(), now_us());
        self.crew.ledger.write(&Entry::Fault { kind, at }).await;
    }
}

/// Returns the progress bar, visible on a terminal.
fn progress(duration: Duration) -> ProgressBar {
    let bar = ProgressBar::new(duration.as_secs());
    let ticking = bar.clone();
    tokio::spawn(async move {
        while !ticking.is_finished() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ticking.inc(1);
        }
    });
    bar
}

/// Returns the retries by operators that the database has recorded.
async fn retries(site: &Site) -> Result<HashMap<i64, u64>> {
    let mut retries = HashMap::new();
    let mut count = |id: i64| *retries.entry(id).or_default() += 1;
    match site {
        Site::Postgres { url, .. } => {
            let sql = "select instance_id from outlast.operations where verb = 'retry'";
            for row in site::plain(url).await?.query(sql, &[]).await? {
                count(row.get(0));
            }
        }
        Site::Sqlite { file } => {
            let connection = site::open(file)?;
            let sql = "select instance_id from operations where verb = 'retry'";
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                count(row.get(0)?);
            }
        }
    }
    Ok(retries)
}
