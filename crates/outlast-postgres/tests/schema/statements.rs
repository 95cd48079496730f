//! Every SQL file runs against the schema, is one of the store's statements, and has a header that
//! explains it.

#[path = "../../src/mutants/edits.rs"]
mod edits;
#[path = "../support/header.rs"]
mod header;
use header::Header;
use outlast_core::{ManualClock, Store};
use outlast_postgres::testing;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The text of every file under `sql/`, by the name of its statement.
fn files() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut files = BTreeMap::new();
    for path in folders(&root).iter().flat_map(|area| files_under(area)) {
        let name = path.strip_prefix(&root).unwrap().with_extension("");
        assert_eq!(path.extension().unwrap(), "sql", "{}", path.display());
        files.insert(
            name.display().to_string(),
            fs::read_to_string(&path).unwrap(),
        );
    }
    files
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// The files of a folder and of its subfolders.
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

/// An empty schema, and the names of its indexes.
async fn migrated() -> (String, BTreeSet<String>) {
    let schema = crate::support::unique_schema();
    let store = crate::support::options(&schema, &ManualClock::default())
        .connect()
        .await
        .unwrap();
    store.close().await;
    let sql = "select indexname from pg_indexes where schemaname = $1";
    let rows = crate::support::raw()
        .await
        .query(sql, &[&schema])
        .await
        .unwrap();
    (schema, rows.iter().map(|row| row.get(0)).collect())
}

#[test]
fn every_file_is_a_statement_of_the_store() {
    let known: BTreeMap<String, String> = testing::statements("outlast")
        .into_iter()
        .map(|(name, text)| (name.into(), text.replace("\"outlast\".", "outlast.")))
        .collect();
    let files = files();
    let names = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&known), names(&files));
    for (name, text) in &files {
        assert!(
            known[name] == *text,
            "{name} was built with a different text: rebuild"
        );
    }
}

/// A changed statement whose mutants no longer fit fails here, before `scripts/mutants.sh` finds
/// it.
#[test]
fn every_edit_of_a_mutant_fits_its_statement() {
    let mut files = files();
    let kernel = include_str!("../../migrations/0001_kernel.sql");
    files.insert("migration 1".into(), kernel.into());
    let bounds = include_str!("../../migrations/0010_bounds.sql");
    files.insert("migration 10".into(), bounds.into());
    let updates = include_str!("../../migrations/0017_updates.sql");
    files.insert("migration 17".into(), updates.into());
    for (mutant, statement, was, _) in edits::EDITS {
        let text = files[*statement].clone();
        assert!(
            text.contains(was),
            "{mutant}: {statement} does not contain {was:?}"
        );
    }
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let (schema, _) = migrated().await;
    let client = crate::support::raw().await;
    for (name, text) in testing::statements(&schema) {
        let prepared = client.prepare(&text).await;
        prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    crate::support::drop_schema(&schema).await;
}

#[tokio::test]
async fn every_index_a_header_names_exists_and_every_index_is_named() {
    let (schema, existing) = migrated().await;
    let mut named = BTreeSet::new();
    for (name, text) in files() {
        let promised = Header::of(&text).indexes();
        assert!(
            promised.is_subset(&existing),
            "{name} names {promised:?}, but the schema has {existing:?}"
        );
        named.extend(promised);
    }
    let unused: Vec<_> = existing
        .iter()
        .filter(|index| index.starts_with("instances_") || index.starts_with("signals_"))
        .filter(|index| !named.contains(*index))
        .collect();
    assert!(unused.is_empty(), "no header names {unused:?}");
    crate::support::drop_schema(&schema).await;
}

/// The comment above each index names the statements that use it.
#[test]
fn every_index_names_the_statements_it_is_for() {
    let files = files();
    let migration = outlast_postgres::migrations_sql("outlast").unwrap();
    let mut comment = String::new();
    let mut indexes = 0;
    for line in migration.lines() {
        if let Some(text) = line.trim_start().strip_prefix("--") {
            comment += text;
            continue;
        }
        if line.starts_with("create index") || line.starts_with("create unique index") {
            indexes += 1;
            let index = header::index_names(line).next().unwrap();
            let statements = named_files(&comment);
            assert!(
                !statements.is_empty(),
                "the comment above {index} names no statement"
            );
            for statement in statements {
                let text = files.get(statement).unwrap_or_else(|| {
                    panic!("{index} names {statement}.sql, which does not exist")
                });
                assert!(
                    Header::of(text).indexes().contains(index),
                    "{index} names {statement}.sql, whose header does not name it"
                );
            }
        }
        comment.clear();
    }
    assert!(indexes > 8, "found only {indexes} indexes");
}

fn named_files(comment: &str) -> Vec<&str> {
    comment
        .split([' ', ',', ':', ';', '(', ')'])
        .filter_map(|word| word.strip_suffix(".sql"))
        .collect()
}

#[test]
fn every_header_explains_its_parameters() {
    for (name, text) in files() {
        let body: String = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"))
            .collect();
        let used: BTreeSet<u32> = header::parameters(&body).collect();
        assert_eq!(Header::of(&text).parameters, used, "{name}");
    }
}

#[test]
fn every_header_names_the_locks_the_index_and_the_bound_of_its_statement() {
    for (name, text) in files() {
        let header = Header::of(&text);
        assert!(
            text.starts_with("-- "),
            "{name} does not begin with what it does"
        );
        if text.contains("outlast.instances i") || text.contains("outlast.signals s") {
            for word in ["locks", "index", "bound"] {
                assert!(header.says(word), "{name} does not say its {word}");
            }
        }
        let fenced = text.contains("revision = c.revision")
            || text.contains("revision = g.revision")
            || text.contains("revision = g.parent_revision");
        assert!(
            !fenced || header.says("guard"),
            "{name} checks a fence, but its header has no guard"
        );
    }
}
