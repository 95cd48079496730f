//! The bounds that every statement keeps in every situation.

use crate::cases::{self, Case};
use crate::header::Header;
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::{table, through_the_store};
use outlast_postgres::{Postgres, testing};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

/// The size of the measured batch.
const BATCH: usize = 100;

/// How many pages a statement may read besides those of its rows.
///
/// They are the descents into an index, two for each priority in use, and the pages of dead index
/// entries. The 10,000 rows that were set aside leave 92 such pages.
const ASIDE: u64 = 300;

/// How many pages the search of a claim may read for each row.
///
/// It walks the index once, and reads each row to test it and again to lock it. Most rows share
/// their index pages with their neighbours.
const SEARCH_PER_ROW: u64 = 3;
const SEARCH_ASIDE: u64 = 150;

/// How often a statement may handle a row, over all its parts.
///
/// Work that grows with the square of the batch is far above this bound.
const HANDLED_PER_ROW: u64 = 40;

/// Statements that change no indexed column, so that their updates can be HOT.
///
/// If a page has no room, the new version goes to another page and into the indexes. Room depends
/// on the snapshots of other sessions. So writes beyond the row's own page have a separate bound.
const MAY_BE_HOT: [&str; 7] = [
    "inbox/end_updates",
    "history/append",
    "join/join",
    "commit/advance_workflow",
    "commit/report_dropped",
    "operate/rejoin",
    "repair/count_again",
];
const HOT_PER_ROW: u64 = 2;
const NOT_HOT_PER_ROW: u64 = 13;

/// The store, and the indexes and lookups that its statements should have.
pub(crate) struct World {
    pub(crate) store: Postgres,
    schema: String,
    promised: BTreeMap<&'static str, BTreeSet<String>>,
    lookups: BTreeMap<&'static str, Vec<String>>,
}

impl World {
    /// Reads the plans for empty tables. Each statement must keep this plan.
    pub(crate) async fn learn(store: Postgres, schema: String, empty: &Prepared) -> World {
        let promised: BTreeMap<_, _> = testing::statements(&schema)
            .into_iter()
            .map(|(name, text)| (name, Header::of(&text).indexes()))
            .collect();
        let plans = empty.plan_all().await;
        // Queries for people may have several plans. The others read no table themselves.
        let elsewhere = ["doctor/", "inspect/", "notify/", "transaction/"];
        let is_checked = |name: &&&str| !elsewhere.iter().any(|area| name.starts_with(area));
        for name in promised.keys().filter(is_checked) {
            assert!(plans.contains_key(name), "{name} has no case");
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

    /// Checks the indexes, the plan and the bound of every statement on each connection.
    pub(crate) async fn check(&self, plans: &str, connections: &[&Prepared], admin: &Client) {
        for prepared in connections {
            self.check_line_before_any_claim(plans, prepared).await;
        }
        through_the_store::set_the_line_aside(&self.store, &self.schema, admin).await;
        table::wait_for_old_snapshots(admin).await;
        for prepared in connections {
            // The first scan that meets dead entries marks them. The scans after it are measured.
            prepared.run(&cases::claim("main", BATCH, BATCH)).await;
            for case in cases::cases(BATCH) {
                let plan = prepared.run(&case).await;
                self.check_case(plans, &case, &plan, BATCH);
            }
        }
    }

    /// Checks the first claim that meets the 10,000 rows behind a busy key.
    ///
    /// It looks at as many rows as its limit allows, and pays for setting each of them aside.
    async fn check_line_before_any_claim(&self, plans: &str, prepared: &Prepared) {
        for reach in [BATCH, 10 * BATCH] {
            let case = cases::claim("main", BATCH, reach);
            let plan = prepared.run(&case).await;
            self.check_case(plans, &case, &plan, reach);
            assert_eq!(plan.rows_of_part("looked_at"), reach as u64);
            assert_eq!(plan.rows_of_part("set_aside"), reach as u64);
        }
    }

    fn check_case(&self, plans: &str, case: &Case, plan: &Plan, rows: usize) {
        let name = case.name;
        print_if_requested(plans, name, plan, rows);
        let fail = |problem: String| panic!("{name}, plans {plans}: {problem}\n{plan}");
        if plan.indexes() != self.promised[name] {
            fail(format!("the header names {:?}", self.promised[name]));
        }
        if plan.lookups() != self.lookups[name] {
            fail(format!(
                "on empty tables it reads by {:#?}",
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
        if elsewhere > NOT_HOT_PER_ROW * rows {
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

    /// Checks that ten times the batch takes at most ten times the work.
    pub(crate) async fn check_growth(&self, prepared: &Prepared) {
        for case in cases::cases(10 * BATCH) {
            let plan = prepared.run(&case).await;
            self.check_case("fresh, ten times the batch", &case, &plan, 10 * BATCH);
        }
    }
}

/// Prints the figures of docs/performance.md if `OUTLAST_PRINT_PLANS` is set.
#[allow(clippy::print_stdout, reason = "the variable asks for it")]
fn print_if_requested(plans: &str, name: &str, plan: &Plan, rows: usize) {
    if std::env::var_os("OUTLAST_PRINT_PLANS").is_some() {
        let (buffers, handled) = (plan.buffers(), plan.rows_handled());
        println!("{plans}: {name} {rows}: buffers {buffers}, rows handled {handled}\n{plan}");
    }
}
