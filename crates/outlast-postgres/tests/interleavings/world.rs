//! A schema, the sessions that act in it, and a connection that observes them.

use super::act::Effect;
use super::gate::{Arrival, Gate, Variants};
use crate::support;
use outlast_core::{Clock, InstanceId, ManualClock, SignalId};
use outlast_postgres::testing::with_test_clock;
use outlast_postgres::{Migrations, Postgres};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{Client, Statement};

/// The largest number of sessions in a scenario.
const SESSIONS: usize = 3;

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    /// A store without a conductor, for the time before and after a schedule.
    pub(crate) store: Postgres,
    pub(crate) sessions: Vec<Session>,
    pub(crate) arrivals: UnboundedReceiver<(usize, Arrival<Vec<Effect>>)>,
    schema: String,
    monitor: Client,
    ending: Statement,
    blockers: Statement,
}

/// A store with a conductor and one connection.
pub(crate) struct Session {
    pub(crate) store: Postgres,
    pub(crate) gate: Arc<Gate<Vec<Effect>>>,
    pub(crate) pid: i32,
}

/// A change of an instance's status or revision by a session.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) session: usize,
    pub(crate) txid: i64,
    pub(crate) id: i64,
    pub(crate) was: Option<(String, i64)>,
    pub(crate) is: Option<(String, i64)>,
}

impl Written {
    pub(crate) fn is_move(&self, from: &str, to: &str) -> bool {
        let word = |side: &Option<(String, i64)>, word: &str| {
            side.as_ref().is_some_and(|(status, _)| status == word)
        };
        word(&self.was, from) && word(&self.is, to)
    }
}

/// The present row of an instance.
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) status: String,
    pub(crate) parent_id: Option<i64>,
    pub(crate) round: i32,
    pub(crate) partition_key: Option<String>,
    pub(crate) joined: Option<String>,
    pub(crate) is_cancelled: bool,
    pub(crate) started: i32,
    pub(crate) needs: Option<i32>,
    pub(crate) fails_fast: bool,
    pub(crate) parent_round: Option<i32>,
    /// The rounds that a workflow waits for, or last waited for, each with the number of its join
    /// set.
    pub(crate) joining: Option<Vec<(i32, i32)>>,
    pub(crate) latest_signal: Option<SignalId>,
}

/// A stored update.
pub(crate) struct UpdateRow {
    pub(crate) id: SignalId,
    pub(crate) target: i64,
    /// Whether it waits in the inbox.
    pub(crate) is_pending: bool,
    pub(crate) reply: Option<String>,
}

impl World {
    pub(crate) async fn open() -> World {
        World::with_variants(Variants::new()).await
    }

    /// Opens a world whose sessions run other texts for some statements.
    pub(crate) async fn with_variants(variants: Variants) -> World {
        let (schema, clock) = (support::unique_schema(), ManualClock::default());
        let store = Postgres::options(&url_of("outlast", ""))
            .expect("the URL can be read")
            .schema(&schema)
            .clock(clock.clone())
            .connect()
            .await
            .expect("the test server can be used");
        let monitor = support::raw_to(&url_of("monitor", "")).await;
        let record = in_schema(include_str!("record.sql"), &schema);
        let recorded = monitor.batch_execute(&record).await;
        recorded.expect("the record is made");

        let (sender, arrivals) = unbounded_channel();
        // If the role may set it, the server notices a deadlock sooner.
        let deadlock_timeout = match is_superuser(&monitor).await {
            true => "%20-c%20deadlock_timeout%3D100ms",
            false => "",
        };
        let mut sessions = Vec::new();
        for number in 0..SESSIONS {
            let variants = variants
                .iter()
                .map(|(name, text)| (*name, in_schema(&with_test_clock(text), &schema)))
                .collect();
            let gate = Arc::new(Gate::new(number, sender.clone(), variants));
            let name = format!("{schema}.{number}");
            let store = Postgres::options(&url_of(&name, deadlock_timeout))
                .expect("the URL can be read")
                .schema(&schema)
                .clock(clock.clone())
                .max_connections(1)
                .migrations(Migrations::Check)
                .conductor(gate.clone())
                .connect()
                .await
                .expect("the test server can be used");
            let pid = pid_of(&monitor, &name).await;
            sessions.push(Session { store, gate, pid });
        }
        let ending = in_schema(include_str!("ending.sql"), &schema);
        let ending = monitor.prepare(&ending).await;
        let blockers = monitor.prepare(include_str!("blockers.sql")).await;
        World {
            clock,
            store,
            sessions,
            arrivals,
            schema,
            monitor,
            ending: ending.expect("the statement is right"),
            blockers: blockers.expect("the statement is right"),
        }
    }

    pub(crate) async fn clear(&self) {
        self.clock.set(ManualClock::default().now());
        self.run("select outlast.clear()").await;
    }

    /// Parks the instance again that a signal has woken, as if nothing had.
    pub(crate) async fn lose_the_wake(&self) {
        self.run("update outlast.instances set status = 'awaiting_signal'")
            .await;
    }

    /// Saves the present state, from which every schedule starts.
    pub(crate) async fn keep_start(&self) {
        self.run("select outlast.keep_start()").await;
        self.tidy().await;
    }

    pub(crate) async fn restore_start(&self) {
        self.run("select outlast.restore_start()").await;
    }

    /// Removes the dead rows of earlier schedules, which would slow down every scan.
    pub(crate) async fn tidy(&self) {
        self.run("vacuum outlast.instances, outlast.signals, outlast.workers, outlast.cascades, outlast.events, outlast.history")
            .await;
    }

    /// The final state and history as one text.
    pub(crate) async fn ending(&self) -> String {
        let row = self.monitor.query_one(&self.ending, &[]).await;
        row.expect("the state is read").get(0)
    }

    /// The violated invariants, as one sentence each.
    pub(crate) async fn violations(&self, seen: &[SignalId]) -> Vec<String> {
        let sql = in_schema(include_str!("invariants.sql"), &self.schema);
        let seen: Vec<i64> = seen.iter().map(|id| id.0).collect();
        let rows = self.monitor.query(&sql, &[&seen]).await;
        let rows = rows.expect("the invariants are checked");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Children that a close policy should have ended. Called when no cascade is left.
    pub(crate) async fn unclosed_children(&self) -> Vec<String> {
        let sql = in_schema(include_str!("unclosed_children.sql"), &self.schema);
        let rows = self.monitor.query(&sql, &[]).await;
        let rows = rows.expect("the children are checked");
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn history(&self) -> Vec<Written> {
        let sql = "select session, txid, instance_id, was_status, was_revision, status, revision \
                     from outlast.history order by place";
        let rows = self.monitor.query(&in_schema(sql, &self.schema), &[]).await;
        let pair = |status: Option<String>, revision: Option<i64>| status.zip(revision);
        rows.expect("the history is read")
            .iter()
            .map(|row| Written {
                session: usize::try_from(row.get::<_, i32>(0)).expect("sessions count from 0"),
                txid: row.get(1),
                id: row.get(2),
                was: pair(row.get(3), row.get(4)),
                is: pair(row.get(5), row.get(6)),
            })
            .collect()
    }

    pub(crate) async fn instances(&self) -> Vec<Row> {
        let sql = "select id, status, parent_id, round, partition_key, joined, cancel_requested_at is not null, \
                    children_started, join_needs, join_fails_fast, parent_round, joining, joining_part, latest_signal \
               from outlast.instances order by id";
        let rows = self.monitor.query(&in_schema(sql, &self.schema), &[]).await;
        rows.expect("the instances are read")
            .iter()
            .map(|row| Row {
                id: row.get(0),
                status: row.get(1),
                parent_id: row.get(2),
                round: row.get(3),
                partition_key: row.get(4),
                joined: row.get(5),
                is_cancelled: row.get(6),
                started: row.get(7),
                needs: row.get(8),
                fails_fast: row.get(9),
                parent_round: row.get(10),
                joining: row.get::<_, Option<Vec<i32>>>(11).map(|rounds| {
                    let sets: Vec<i32> = row.get::<_, Option<_>>(12).unwrap_or_default();
                    rounds.into_iter().zip(sets).collect()
                }),
                latest_signal: row.get::<_, Option<i64>>(13).map(SignalId),
            })
            .collect()
    }

    /// The number of events that commits have written for an instance, in all its runs. The store
    /// adds the event of a timeout by itself.
    pub(crate) async fn events(&self, id: InstanceId) -> i64 {
        let sql =
            "select count(*) from outlast.events where instance_id = $1 and kind <> 'timed_out'";
        let sql = in_schema(sql, &self.schema);
        let row = self.monitor.query_one(&sql, &[&id.0]).await;
        row.expect("the events are counted").get(0)
    }

    pub(crate) async fn updates(&self) -> Vec<UpdateRow> {
        let sql = "select id, target_id, consumed_at is null, reply_kind from outlast.signals \
                    where wants_reply order by id";
        let rows = self.monitor.query(&in_schema(sql, &self.schema), &[]).await;
        let rows = rows.expect("the updates are read");
        rows.iter()
            .map(|row| UpdateRow {
                id: SignalId(row.get(0)),
                target: row.get(1),
                is_pending: row.get(2),
                reply: row.get(3),
            })
            .collect()
    }

    /// The signals that wait in inboxes.
    pub(crate) async fn pending_signals(&self) -> Vec<SignalId> {
        let sql = "select id from outlast.signals where consumed_at is null order by id";
        let rows = self.monitor.query(&in_schema(sql, &self.schema), &[]).await;
        let rows = rows.expect("the signals are read");
        rows.iter().map(|row| SignalId(row.get(0))).collect()
    }

    /// For each of these sessions, the sessions that it waits for now.
    pub(crate) async fn blockers(&self, sessions: &[usize]) -> Vec<Vec<usize>> {
        let pids: Vec<i32> = sessions.iter().map(|&s| self.sessions[s].pid).collect();
        let rows = self.monitor.query(&self.blockers, &[&pids]).await;
        let number = |pid: i32| self.sessions.iter().position(|s| s.pid == pid);
        rows.expect("the server lists the blockers")
            .iter()
            .map(|row| {
                let pids: Vec<i32> = row.get(0);
                pids.into_iter().filter_map(number).collect()
            })
            .collect()
    }

    pub(crate) async fn close(self) {
        support::drop_schema(&self.schema).await;
    }

    async fn run(&self, sql: &str) {
        let done = self
            .monitor
            .batch_execute(&in_schema(sql, &self.schema))
            .await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

pub(crate) fn in_schema(sql: &str, schema: &str) -> String {
    sql.replace("outlast.", &format!("\"{schema}\"."))
}

/// The URL of the server with an application name. Commits do not wait for the disk.
fn url_of(name: &str, options: &str) -> String {
    let url = support::url();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!(
        "{url}{separator}application_name={name}&options=-c%20synchronous_commit%3Doff{options}"
    )
}

async fn is_superuser(monitor: &Client) -> bool {
    let sql = "select rolsuper from pg_roles where rolname = current_user";
    let row = monitor.query_one(sql, &[]).await;
    row.expect("the role is known").get(0)
}

async fn pid_of(monitor: &Client, name: &str) -> i32 {
    let sql = "select pid from pg_stat_activity where application_name = $1";
    let row = monitor.query_one(sql, &[&name]).await;
    row.expect("the session has one connection").get(0)
}
