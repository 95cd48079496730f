//! Every statement fits the schema, and uses the index that its header names.
#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

mod scene;

use outlast_core::{Clock, ManualClock, Start, Store};
use outlast_sqlite::Sqlite;
use rusqlite::{Connection, StatementStatus, params};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns a database with the schema and no rows. It has no statistics, like that of a new user.
fn migrated() -> (tempfile::TempDir, Connection) {
    let (folder, path) = scene::new_path();
    drop(Sqlite::open(&path).unwrap());
    (folder, Connection::open(path).unwrap())
}

struct SqlFile {
    name: String,
    text: String,
}

impl SqlFile {
    /// Returns the text of the header after `-- <word>: `.
    fn header(&self, word: &str) -> Option<&str> {
        let mark = format!("-- {word}: ");
        self.text.lines().find_map(|line| line.strip_prefix(&mark))
    }

    fn plan(&self, connection: &Connection) -> String {
        let mut statement = connection
            .prepare(&format!("explain query plan {}", self.text))
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut rows = statement.raw_query();
        let mut plan = String::new();
        while let Some(row) = rows.next().unwrap() {
            plan += &row.get::<_, String>("detail").unwrap();
            plan.push('\n');
        }
        plan
    }
}

fn sql_files() -> Vec<SqlFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut paths = files_under(&root);
    paths.sort();
    paths
        .into_iter()
        .map(|path| SqlFile {
            name: path.strip_prefix(&root).unwrap().display().to_string(),
            text: fs::read_to_string(&path).unwrap(),
        })
        .collect()
}

/// Returns the files of a folder and of its sub-folders.
fn files_under(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files_under(&path),
            false => vec![path],
        })
        .collect()
}

#[test]
fn every_statement_prepares_and_its_header_states_its_bound() {
    let (_folder, connection) = migrated();
    let files = sql_files();
    assert!(files.len() > 70, "found only {}", files.len());
    for file in files {
        let statement = connection
            .prepare(&file.text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.name));
        assert!(
            file.header("Bound").is_some(),
            "{} has no header `Bound`",
            file.name
        );
        assert_eq!(
            statement.parameter_count() > 0,
            file.header("Parameters").is_some(),
            "{}: the header `Parameters` does not fit the statement",
            file.name
        );
    }
}

#[test]
fn every_statement_uses_the_index_its_header_names() {
    let (_folder, connection) = migrated();
    for file in sql_files() {
        let Some(named) = file.header("Index") else {
            continue;
        };
        let plan = file.plan(&connection);
        for name in named.trim_end_matches('.').split(", ") {
            assert!(
                uses(&plan, name),
                "{} does not use {name}:\n{plan}",
                file.name
            );
        }
    }
}

/// Returns whether the plan reads through `name`, which is an index or the key of a table.
fn uses(plan: &str, name: &str) -> bool {
    plan.lines().any(|line| match name {
        // There are few workers. A scan reads them in the order of their key.
        "primary key of workers" => line.contains("PRIMARY KEY") || line == "SCAN workers",
        _ if name.starts_with("primary key") => line.contains("PRIMARY KEY"),
        _ => format!("{line} ").contains(&format!("INDEX {name} ")),
    })
}

/// A statement that the engine runs all the time does not read a whole table and does not sort.
#[test]
fn no_statement_of_the_hot_path_scans_or_sorts() {
    let (_folder, connection) = migrated();
    // An inbox is sorted by id. A claim loads all of it anyway.
    let sorts = ["claim/inbox.sql"];
    let areas = [
        "claim/", "commit/", "insert/", "deliver/", "inbox/", "join/", "line/", "fire/", "lease/",
        "window/", "cascade/", "history/",
    ];
    for file in sql_files() {
        if !areas.iter().any(|area| file.name.starts_with(area)) {
            continue;
        }
        let plan = file.plan(&connection);
        for line in plan.lines() {
            let whole_table = line.starts_with("SCAN instances") && !line.contains("USING")
                || line.starts_with("SCAN signals")
                || line.starts_with("SCAN events");
            assert!(!whole_table, "{} scans:\n{plan}", file.name);
            let sorted = line.contains("TEMP B-TREE FOR ORDER BY");
            assert!(
                !sorted || sorts.contains(&file.name.as_str()),
                "{} sorts:\n{plan}",
                file.name
            );
        }
    }
}

/// A claim skips the delayed rows of an urgent priority without reading them (I10).
#[tokio::test]
async fn a_claim_reads_only_the_rows_it_takes_however_many_are_delayed() {
    let (_folder, path) = scene::new_path();
    let clock = ManualClock::default();
    let store = Sqlite::options().clock(clock.clone()).open(&path).unwrap();
    let hour = Start::After(Duration::from_secs(3600));
    let delayed = vec![scene::order().priority(-1).start(hour); 30_000];
    scene::insert(&store, delayed).await;
    scene::insert(&store, vec![scene::order(); 1_000]).await;

    let connection = Connection::open(&path).unwrap();
    let read = |sql: &str, priority: i64| {
        let now = clock.now().0;
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement
            .query(params!["default", priority, i64::MIN, i64::MIN, now, 100])
            .unwrap();
        let mut found = 0;
        while rows.next().unwrap().is_some() {
            found += 1;
        }
        drop(rows);
        (found, statement.get_status(StatementStatus::VmStep))
    };
    let eligible = include_str!("../sql/claim/eligible.sql");
    let (found, steps) = read(eligible, -1);
    assert_eq!(found, 0);
    assert!(steps < 50, "{steps} steps to find nothing");
    let (found, steps) = read(eligible, 0);
    assert_eq!(found, 100);
    // Each of the 28 columns takes one step, and each row a few more.
    assert!(steps < 100 * 41, "{steps} steps for 100 rows");
    store.close().await;
}
