//! Each test that docs/specification.md names is a function in the file of its path, and each file
//! that it names exists. The same holds for docs/protocol.md.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_test_and_every_file_that_the_specification_names_exists() {
    let page = fs::read_to_string(root().join("docs/specification.md")).unwrap();
    let named = Named::of(&page);
    assert!(named.tests.len() > 100, "only {} tests", named.tests.len());
    assert!(named.files.len() > 100, "only {} files", named.files.len());
    let missing = named.missing(&sources());
    assert!(missing.is_empty(), "there is no {}", missing.join(", no "));
}

#[test]
fn every_test_and_every_file_that_the_protocol_names_exists() {
    let page = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let named = Named::in_text(&page);
    assert!(named.tests.len() > 80, "only {} tests", named.tests.len());
    assert!(named.files.len() > 80, "only {} files", named.files.len());
    let missing = named.missing(&sources());
    assert!(missing.is_empty(), "there is no {}", missing.join(", no "));
}

#[test]
fn every_rule_says_what_proves_it() {
    let page = fs::read_to_string(root().join("docs/specification.md")).unwrap();
    for row in rows(&page) {
        let proof = row.cell(PROVEN).unwrap_or_default();
        let is_proven = proof.contains('`') || proof.contains("in progress");
        assert!(is_proven, "nothing proves: {}", row.text);
    }
}

/// A check that cannot fail proves nothing.
#[test]
fn a_test_or_file_that_does_not_exist_is_found() {
    let page = "\
| rule | where | proven by |
|---|---|---|
| a | `crates/outlast/src/lib.rs` | `specification::a_test_or_file_that_does_not_exist_is_found` |
| b | `crates/outlast/src/nothing.rs` | `specification::nothing_of_this_name` |
| c | | `guides::a_test_or_file_that_does_not_exist_is_found`, in progress |
";
    let missing = Named::of(page).missing(&sources());
    assert_eq!(
        missing,
        [
            "specification::nothing_of_this_name",
            // It exists, but not in that file.
            "guides::a_test_or_file_that_does_not_exist_is_found",
            "crates/outlast/src/nothing.rs",
        ]
    );
    let text = "`Status::may_become` in `crates/outlast/src/nothing.rs`, by `guides::nothing_of_this_name`";
    assert_eq!(
        Named::in_text(text).missing(&sources()),
        [
            "guides::nothing_of_this_name",
            "crates/outlast/src/nothing.rs"
        ]
    );
}

const WHERE: &str = "where";
const PROVEN: &str = "proven by";

#[derive(Default)]
struct Named {
    tests: Vec<String>,
    files: Vec<String>,
}

impl Named {
    fn of(page: &str) -> Named {
        let mut named = Named::default();
        for row in rows(page) {
            named
                .files
                .extend(row.cell(WHERE).into_iter().flat_map(quoted));
            named
                .tests
                .extend(row.cell(PROVEN).into_iter().flat_map(quoted));
        }
        named
    }

    /// Finds the names outside of tables: files by their paths, and tests by paths of lower-case
    /// words.
    fn in_text(page: &str) -> Named {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
        let (tests, others): (Vec<_>, Vec<_>) = quoted(page)
            .into_iter()
            .partition(|name| name.contains("::") && name.chars().all(is_word));
        let files = others
            .into_iter()
            .filter(|name| name.starts_with("crates/") || name.starts_with("testing/"));
        Named {
            tests,
            files: files.collect(),
        }
    }

    fn missing(&self, sources: &[(PathBuf, String)]) -> Vec<String> {
        let is_missing = |test: &&String| !is_function(test, sources);
        let tests = self.tests.iter().filter(is_missing);
        let files = self.files.iter();
        let files = files.filter(|file| !root().join(file).is_file());
        tests.chain(files).cloned().collect()
    }
}

/// Whether a test exists. `suite::waiting::signals::name` is the function `name` in a file whose
/// path ends with `suite/waiting/signals.rs`.
fn is_function(test: &str, sources: &[(PathBuf, String)]) -> bool {
    let Some((place, name)) = test.rsplit_once("::") else {
        return false;
    };
    let file = PathBuf::from(format!("{}.rs", place.replace("::", "/")));
    let plain = format!("fn {name}(");
    let generic = format!("fn {name}<");
    sources
        .iter()
        .filter(|(path, _)| path.ends_with(&file))
        .any(|(_, text)| text.contains(&plain) || text.contains(&generic))
}

/// A row of a table, with the names of its columns.
struct Row<'a> {
    columns: Vec<&'a str>,
    text: &'a str,
}

impl<'a> Row<'a> {
    fn cell(&self, column: &str) -> Option<&'a str> {
        let position = self.columns.iter().position(|name| *name == column)?;
        cells(self.text).get(position).copied()
    }
}

/// Returns the rows of every table with a column `where`.
fn rows(page: &str) -> Vec<Row<'_>> {
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    let mut before = "";
    for text in page.lines() {
        if text.starts_with("|---") {
            columns = cells(before);
        } else if !text.starts_with('|') {
            columns.clear();
        } else if columns.contains(&WHERE) {
            let columns = columns.clone();
            rows.push(Row { columns, text });
        }
        before = text;
    }
    rows
}

fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

fn quoted(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("testing")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.push((path, text));
            }
        }
    }
    sources
}
