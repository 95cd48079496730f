//! Checks that the macro lists every rule of the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_rule_of_the_sources_is_in_the_list() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut written = BTreeSet::new();
    for group in folders(&src.join("suite")) {
        for file in fs::read_dir(&group).unwrap() {
            let path = file.unwrap().path();
            let place = format!("{}::{}", name_of(&group), name_of(&path));
            for line in fs::read_to_string(&path).unwrap().lines() {
                if let Some(rest) = line.strip_prefix("pub async fn ") {
                    let name = rest.split('(').next().unwrap();
                    written.insert(format!("{place}::{name}"));
                }
            }
        }
    }
    assert!(written.len() > 200, "found only {}", written.len());
    assert_eq!(listed(&src.join("rules.rs")), written);
}

fn folders(suite: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(suite).expect("the suite can be read");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    paths.filter(|path| path.is_dir()).collect()
}

fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn listed(rules: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(rules).expect("the list can be read");
    let list = text.split("$($open)?;\n            ").last().unwrap_or("");
    let mut group = "";
    let mut module = "";
    let mut listed = BTreeSet::new();
    for line in list.lines().map(str::trim) {
        if let Some((name, _)) = line.split_once(" on ") {
            module = name;
        } else if let Some(name) = line.strip_suffix(" {") {
            group = name;
        } else if let Some(rule) = line.strip_suffix(',') {
            listed.insert(format!("{group}::{module}::{rule}"));
        }
    }
    listed
}
