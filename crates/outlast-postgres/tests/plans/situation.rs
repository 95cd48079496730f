//! What must hold in every situation.

use crate::cases::{self, Case};
use crate::header::Header;
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::{table, through_the_store};
use outlast_postgres::{Postgres, testing};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

/// The batch that is measured.
const BATCH: usize = 100;

/// What any statement may read beside its rows: the way down an index for each priority in use, twice,
/// and the pages of index entries that have died since the last vacuum: 92 for the 10,000 rows that were
/// set aside.
const ASIDE: u64 = 300;

/// A search walks the index once, and per row reads the row to test it and again to lock it; most rows
/// share their pages of the index with their neighbours.
const SEARCH_PER_ROW: u64 = 3;
const SEARCH_ASIDE: u64 = 150;

/// No statement handles a row more often than this, in any of its parts. Anything that grows with the
/// square of the batch is far beyond it.
const HANDLED_PER_ROW: u64 = 40;

/// Statements whose change leaves every index alone. Where its page has no room the new version goes to
/// another one and into the indexes after all, and whether there is room is up to what other sessions still
/// look at. So what such a change writes beyond its own page is held to a bound of its own.
const MAY_BE_HOT: [&str; 6] = [
    "history/append",
    "join/join",
    "commit/advance_workflow",
    "commit/report_dropped",
    "operate/rejoin",
    "reconcile/joins",
];
const HOT_PER_ROW: u64 = 2;
const UNLESS_HOT_PER_ROW: u64 = 13;

/// The store, and what is known of its statements from empty tables.
pub(crate) struct World {
    pub(crate) store: Postgres,
    schema: String,
    promised: BTreeMap<&'static str, BTreeSet<String>>,
    lookups: BTreeMap<&'static str, Vec<String>>,
}

impl World {
    /// Looks at the plans for empty tables: there is one plan for each statement, and this is it.
    pub(crate) async fn learn(store: Postgres, schema: String, empty: &Prepared) -> World {
        let promised: BTreeMap<_, _> = testing::statements(&schema)
            .into_iter()
            .map(|(name, text)| (name, Header::of(&text).indexes()))
            .collect();
        let plans = empty.plan_all().await;
        // The planner is free for questions of people; the others read no table themselves.
        let elsewhere = ["doctor/", "inspect/", "notify/", "transaction/"];
        let looked_at = |name: &&&str| !elsewhere.iter().any(|area| name.starts_with(area));
        for name in promised.keys().filter(looked_at) {
            assert!(plans.contains_key(name), "{name} is not looked at");
        }
        let lookups = plans
            .iter()
            .map(|(&name, plan)| (name, plan.lookups()))
            .collect();
        World {
            store,
            schema,
            promised,
            lookups,
        }
    }

    /// Holds every statement of each connection to its index, its plan and its bound.
    pub(crate) async fn check(&self, plans: &str, connections: &[&Prepared], admin: &Client) {
        for prepared in connections {
            self.check_line_nobody_has_looked_at(plans, prepared).await;
        }
        through_the_store::set_the_line_aside(&self.store, &self.schema, admin).await;
        table::wait_for_old_snapshots(admin).await;
        for prepared in connections {
            // The first scan that meets dead entries marks them; this test is about the scans after it.
            prepared.run(&cases::claim("main", BATCH, BATCH)).await;
            for case in cases::cases(BATCH) {
                let plan = prepared.run(&case).await;
                self.hold(plans, &case, &plan, BATCH);
            }
        }
    }

    /// The first to meet 10,000 rows behind a busy key looks at as many as it was told to, and pays for
    /// setting each of them aside.
    async fn check_line_nobody_has_looked_at(&self, plans: &str, prepared: &Prepared) {
        for reach in [BATCH, 10 * BATCH] {
            let case = cases::claim("main", BATCH, reach);
            let plan = prepared.run(&case).await;
            self.hold(plans, &case, &plan, reach);
            assert_eq!(plan.rows_of_part("looked_at"), reach as u64);
            assert_eq!(plan.rows_of_part("set_aside"), reach as u64);
        }
    }

    fn hold(&self, plans: &str, case: &Case, plan: &Plan, rows: usize) {
        let name = case.name;
        print_if_asked(plans, name, plan, rows);
        let fail = |what: String| panic!("{name}, plans {plans}: {what}\n{plan}");
        if plan.indexes() != self.promised[name] {
            fail(format!("the header names {:?}", self.promised[name]));
        }
        if plan.lookups() != self.lookups[name] {
            fail(format!(
                "empty tables are read by {:#?}",
                self.lookups[name]
            ));
        }
        if !plan.scanned_tables().is_empty() {
            fail(format!("it reads whole {:?}", plan.scanned_tables()));
        }
        let rows = rows as u64;
        let most = case.buffers_per_row * rows + ASIDE;
        let elsewhere = match MAY_BE_HOT.contains(&name) {
            true => plan.buffers_of_changes().saturating_sub(HOT_PER_ROW * rows),
            false => 0,
        };
        if elsewhere > UNLESS_HOT_PER_ROW * rows {
            fail(format!("{elsewhere} buffers for changes on other pages"));
        }
        if plan.buffers() - elsewhere > most {
            fail(format!("{} buffers are more than {most}", plan.buffers()));
        }
        let most = HANDLED_PER_ROW * rows + ASIDE;
        if plan.rows_handled() > most {
            fail(format!("{} rows are more than {most}", plan.rows_handled()));
        }
        if name == "claim/claim" {
            let most = SEARCH_PER_ROW * rows + SEARCH_ASIDE;
            let search = plan.buffers_of_part("looked_at");
            if search > most {
                fail(format!(
                    "the search's {search} buffers are more than {most}"
                ));
            }
        }
    }

    /// Ten times the batch is ten times the work.
    pub(crate) async fn check_growth(&self, prepared: &Prepared) {
        for case in cases::cases(10 * BATCH) {
            let plan = prepared.run(&case).await;
            self.hold("fresh, ten times the batch", &case, &plan, 10 * BATCH);
        }
    }
}

/// `OUTLAST_PRINT_PLANS=1` prints what docs/performance.md reports.
#[allow(clippy::print_stdout, reason = "asked for")]
fn print_if_asked(plans: &str, name: &str, plan: &Plan, rows: usize) {
    if std::env::var_os("OUTLAST_PRINT_PLANS").is_some() {
        let (buffers, handled) = (plan.buffers(), plan.rows_handled());
        println!("{plans}: {name} {rows}: buffers {buffers}, rows handled {handled}\n{plan}");
    }
}
