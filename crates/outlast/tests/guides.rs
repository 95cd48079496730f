//! Checks documents against the sources.
//!
//! - Every piece of Rust and SQL in a guide is a piece of an example, which CI runs.
//! - The front page of the crate is an example, too.
//! - The crate's root and its prelude stay small.
//! - Links lead to files and headings, and the book has every page.
//! - Every finding has an entry in the runbook.
//! - Every defect, invariant and decision that is cited by its number exists.
//! - Documents, screens, messages and comments use the words of the glossary.
//! - In one crate a type name means one thing.

#![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]

use outlast::{Client, Sqlite};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_piece_of_rust_in_a_guide_is_taken_from_an_example() {
    assert!(pieces_from_examples("rust") > 40);
}

#[test]
fn every_piece_of_sql_in_a_guide_is_taken_from_an_example() {
    assert!(pieces_from_examples("sql") > 1);
}

/// The example runs on both stores. It chooses its store, so that one line differs.
#[test]
fn the_front_page_of_the_crate_is_an_example_up_to_its_first_output() {
    let crate_root = fs::read_to_string(root().join("crates/outlast/src/lib.rs")).unwrap();
    let documentation = crate_root.lines().map_while(|it| it.strip_prefix("//!"));
    let page = documentation.skip_while(|it| it.trim() != "```").skip(1);
    let page: Vec<_> = page
        .take_while(|it| it.trim() != "```")
        .filter(|it| !it.trim_start().starts_with("# "))
        .collect();
    let page = tokens(&page.join("\n")).replace(
        r#"Engine::sqlite("shop.db")?"#,
        "outlast_examples::engine().await?",
    );
    let end = page.find("engine.shutdown()").unwrap();
    let example = root().join("examples/src/bin/first_page.rs");
    let example = tokens(&fs::read_to_string(example).unwrap());
    assert!(end > 1_500, "only this is compared: {page}");
    assert!(
        example.contains(&page[..end]),
        "{page}\nis not in\n{example}"
    );
}

#[test]
fn the_root_of_the_crate_has_at_most_50_names_and_the_prelude_25() {
    let crate_root = fs::read_to_string(root().join("crates/outlast/src/lib.rs")).unwrap();
    let (root, prelude) = crate_root.split_once("pub mod prelude {").unwrap();
    let (mut root, prelude) = (public_names(root), public_names(prelude));
    root.insert("prelude".into());
    assert!((40..=50).contains(&root.len()), "{}: {root:?}", root.len());
    assert!(
        (20..=25).contains(&prelude.len()),
        "{}: {prelude:?}",
        prelude.len()
    );
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut checked = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            check(&page, &link);
            checked += 1;
        }
    }
    assert!(checked > 300, "only {checked} links were found");
}

#[test]
fn the_book_has_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<_> = links(&summary).iter().map(|link| docs.join(link)).collect();
    for page in markdown_below(&docs) {
        let is_summary = page.ends_with("SUMMARY.md");
        assert!(
            is_summary || listed.contains(&page),
            "docs/SUMMARY.md leaves out {}",
            page.display()
        );
    }
}

/// Names of findings are constants in the sources of the three places that make them.
#[test]
fn every_finding_has_an_entry_in_the_runbook() {
    let entries = headings(&root().join("docs/guides/operations.md"));
    let names = finding_names();
    assert!(names.len() > 18, "only {names:?} were found");
    for name in names {
        assert!(
            entries.contains(&name),
            "docs/guides/operations.md has no entry `### {name}`"
        );
    }
}

#[test]
fn every_kind_of_attention_has_an_entry_in_the_runbook() {
    let entries = headings(&root().join("docs/guides/operations.md"));
    let kinds = attention_kinds();
    assert!(kinds.len() > 5, "only {kinds:?} were found");
    for kind in kinds {
        assert!(
            entries.contains(&kind),
            "docs/guides/operations.md has no entry `### {kind}`"
        );
    }
}

#[tokio::test]
async fn every_finding_of_a_store_is_among_the_names_found_in_the_sources() {
    let names = finding_names();
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path().join("examined.db")).unwrap();
    for finding in Client::new(store).admin().doctor().await.unwrap() {
        assert!(names.contains(finding.check), "{}", finding.check);
    }
}

/// Defects and invariants are headings of docs/protocol.md, decisions are files.
#[test]
fn every_defect_invariant_and_decision_that_is_cited_exists() {
    let known = numbered();
    let mut checked = 0;
    for source in sources() {
        let cited = citations(&fs::read_to_string(&source).unwrap());
        let unknown = cited.difference(&known).cloned().collect::<Vec<_>>();
        assert!(
            unknown.is_empty(),
            "{} cites {}, which does not exist",
            source.display(),
            unknown.join(", ")
        );
        checked += cited.len();
    }
    assert!(checked > 400, "only {checked} citations were found");
}

/// A check that cannot fail proves nothing. The numbers are filled in, so this file does not cite
/// them.
#[test]
fn a_citation_of_an_unknown_number_is_found_in_every_notation() {
    let filled = |text: &str| text.replace('X', "98").replace('Y', "99");
    for (text, expected) in [
        ("(docs/protocol.md, defect X)", "defect-X"),
        ("docs/protocol.md#defect-X", "defect-X"),
        ("Defect X (docs/protocol.md): 7 of Y", "defect-X"),
        ("defect = X", "defect-X"),
        ("defects X and Y", "defect-X defect-Y"),
        ("defects X,\n/// Y and I7", "defect-X defect-Y i7"),
        ("Y defects, IX, 1IY", "iX"),
        ("docs/protocol.md#iX", "iX"),
        ("docs/decisions/00X", "00X"),
        ("decision 00X, 00Y_kernel.sql", "00X"),
        ("[00X](00X-title.md)", "00X"),
    ] {
        let cited = citations(&filled(text));
        let found: Vec<_> = cited.iter().map(String::as_str).collect();
        assert_eq!(found.join(" "), filled(expected), "{text}");
        assert!(!cited.is_subset(&numbered()), "{text}");
    }
}

#[test]
fn documents_screens_and_messages_use_the_words_of_the_glossary() {
    let mut findings = Vec::new();
    let mut checked = 0;
    for path in prose_files() {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let lines = match extension.as_ref() {
            "rs" | "sql" => messages_of(&path),
            _ => prose_of(&path),
        };
        checked += usize::from(!lines.is_empty());
        findings.extend(banned_words(&path, &lines));
    }
    assert!(checked > 150, "only {checked} files were found");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn comments_use_the_words_of_the_glossary() {
    let mut findings = Vec::new();
    let mut lines = 0;
    for path in prose_files() {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        if matches!(extension.as_ref(), "rs" | "sql") {
            let prose = prose_of(&path);
            lines += prose.len();
            findings.extend(banned_words(&path, &prose));
        }
    }
    assert!(lines > 10_000, "only {lines} lines of comments were found");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// A check that cannot fail proves nothing.
#[test]
fn a_banned_word_is_found_with_its_line_and_the_word_to_use() {
    let found = |path: &str, text: &str| banned_words(Path::new(path), &prose(path, text));
    assert_eq!(
        found("a.rs", "fn a() {}\n/// Wakes whoever waits.\nfn b() {}"),
        ["a.rs:2: `whoever`: name the row, task or caller"]
    );
    for (path, text, line) in [
        ("a.rs", "let a = 1;\t// It was wished.", 1),
        ("a.rs", "//! 30 s unless said\n//! otherwise.", 1),
        ("a.sql", "select 1 -- the FSM of it", 1),
        ("a.md", "One.\n\nThe Warden, or\nanother.", 3),
        ("a.md", "| a | keeps  house |", 1),
        ("a.md", "```sh\nsurvey\n```\nA survey of `it`.", 4),
        ("a.js", "const wish = 1;", 1),
        ("a.css", ".wish {}", 1),
    ] {
        let findings = found(path, text);
        assert_eq!(findings.len(), 1, "{text}");
        assert!(findings[0].starts_with(&format!("{path}:{line}: ")));
    }
    for (path, text) in [
        ("a.rs", "let wish = \"wished\"; // `fsm` was its name"),
        ("a.rs", "let url = \"https://example.org/survey\";"),
        ("a.rs", "/// Unless told. \nfn a() {}\n/// Otherwise."),
        ("a.sql", "select fsm from surveys"),
        (
            "a.md",
            "[Words](survey.md), `outlast survey`\n\n```\nfsm\n```",
        ),
        ("a.md", "See counted_at. Wishbones."),
    ] {
        assert_eq!(found(path, text), [""; 0], "{text}");
    }
    let code = "// whoever\nprintln!(\"whoever {}\", wish);\t// \"wish\"";
    let findings = banned_words(Path::new("a.rs"), &messages(code));
    assert_eq!(findings.len(), 1);
    assert!(findings[0].starts_with("a.rs:2: `whoever`"));
}

#[test]
fn a_type_name_means_one_thing_in_a_crate() {
    let mut types = 0;
    let mut findings = Vec::new();
    for folder in files(&root().join("crates")) {
        let mut declared = BTreeMap::<String, Vec<String>>::new();
        for source in files_below(&folder.join("src"), &["rs"]) {
            for (line, name) in type_names(&fs::read_to_string(&source).unwrap()) {
                let place = format!("{}:{line}", source.display());
                declared.entry(name).or_default().push(place);
            }
        }
        types += declared.len();
        findings.extend(declared_twice(&declared));
    }
    assert!(types > 500, "only {types} types were found");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// A check that cannot fail proves nothing.
#[test]
fn a_type_name_that_is_declared_twice_is_found_with_its_places() {
    let text = "pub(crate) struct Key;\n/// struct Other\nimpl A for B {\n    type Key = u8;\n}\n\
                enum Place<'a> {}\n    struct Inner {\npub trait Run: Send {}\ntype Code = u8;\n\
                #[cfg(test)]\nmod tests {\n    struct Key;\n}\n";
    let names = type_names(text);
    let expected = [
        (1, "Key"),
        (6, "Place"),
        (7, "Inner"),
        (8, "Run"),
        (9, "Code"),
    ];
    assert_eq!(names, expected.map(|(line, name)| (line, name.to_owned())));
    let once = BTreeMap::from([("Key".to_owned(), vec!["a.rs:1".to_owned()])]);
    assert_eq!(declared_twice(&once), [""; 0]);
    let places = vec!["a.rs:1".to_owned(), "b.rs:7".to_owned()];
    let twice = BTreeMap::from([("Key".to_owned(), places)]);
    assert_eq!(
        declared_twice(&twice),
        ["`Key` is declared at a.rs:1 and b.rs:7; rename the less public type"]
    );
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The lines and names of the types that a source declares before its tests. A `type` that is
/// indented belongs to a trait or its implementation.
fn type_names(source: &str) -> Vec<(usize, String)> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = (1..).zip(code.lines());
    let named = lines.filter_map(|(number, line)| Some((number, type_name(line)?)));
    named.collect()
}

fn type_name(line: &str) -> Option<String> {
    let words = line.trim_start();
    let words = match words.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => words,
    };
    let (keyword, rest) = words.split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let name = rest
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (is_type && name.starts_with(char::is_uppercase)).then(|| name.to_owned())
}

fn declared_twice(declared: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let twice = declared.iter().filter(|(_, places)| places.len() > 1);
    let findings = twice.map(|(name, places)| {
        let places = places.join(" and ");
        format!("`{name}` is declared at {places}; rename the less public type")
    });
    findings.collect()
}

fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    files_below(folder, &["md"])
}

/// Returns the files with one of these extensions, except those that tools install.
fn files_below(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with('.') && name != "node_modules" && name != "target"
    };
    let (folders, mut found): (Vec<_>, Vec<_>) = files(folder)
        .into_iter()
        .filter(is_ours)
        .partition(|path| path.is_dir());
    found.retain(|path| {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        extensions.contains(&extension.as_ref())
    });
    found.extend(
        folders
            .iter()
            .flat_map(|folder| files_below(folder, extensions)),
    );
    found
}

/// The pages outside `docs/`.
const OTHER_PAGES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "crates/outlast-postgres/sql/README.md",
    "deploy/README.md",
    "examples/README.md",
];

/// Every page whose links are checked: those of the book, and those outside `docs/`.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut pages = markdown_below(&root.join("docs"));
    pages.extend(OTHER_PAGES.map(|page| root.join(page)));
    pages
}

fn pieces_from_examples(language: &str) -> usize {
    let examples: Vec<_> = files(&root().join("examples/src/bin"))
        .iter()
        .map(|path| lines(&fs::read_to_string(path).unwrap()))
        .collect();
    let mut pieces = 0;
    for guide in files(&root().join("docs/guides")) {
        for piece in pieces_of(language, &fs::read_to_string(&guide).unwrap()) {
            let shown = lines(&piece);
            let is_there = examples
                .iter()
                .any(|example| example.windows(shown.len()).any(|part| part == shown));
            assert!(
                is_there,
                "{} shows what no example has:\n{piece}",
                guide.display()
            );
            pieces += 1;
        }
    }
    pieces
}

/// Removes what a formatter may change, and comments.
fn tokens(code: &str) -> String {
    let lines = code.lines().map(|line| match line.split_once("//") {
        Some((code, _)) => code,
        None => line,
    });
    let dense: String = lines.flat_map(str::split_whitespace).collect();
    dense.replace(",}", "}").replace(",)", ")")
}

/// Returns the names that the `pub use` and `pub mod` of a source file declare.
fn public_names(source: &str) -> BTreeSet<String> {
    let code: Vec<_> = source
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//"))
        .collect();
    let code = code.join(" ");
    let statements = code.split(';');
    let public = statements.filter_map(|it| {
        let (before, public) = it.split_once("pub ")?;
        (!before.contains("doc(hidden)")).then_some(public)
    });
    let paths = public.filter_map(|it| it.strip_prefix("use ").or(it.strip_prefix("mod ")));
    let names = paths.flat_map(|path| {
        let list = path.split_once('{').map(|(_, list)| list);
        let list = list.unwrap_or(path).trim_end_matches('}').split(',');
        list.map(|name| {
            name.rsplit([' ', ':'])
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect::<Vec<_>>()
    });
    names
        .filter(|name| !name.is_empty() && name != "}")
        .collect()
}

/// Splits a text into lines without their indentation, which differs in a guide.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn pieces_of(language: &str, guide: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = guide.split(&fence).skip(1);
    blocks
        .map(|block| block.split("\n```").next().unwrap().to_owned())
        .collect()
}

/// Returns the targets of the links of a page, except those on other sites.
fn links(page: &str) -> Vec<String> {
    let text = without_code(page);
    let inline = text.split("](").skip(1);
    let inline = inline.map(|rest| rest.split(')').next().unwrap());
    let referenced = text
        .lines()
        .filter(|line| line.starts_with('['))
        .filter_map(|line| line.split_once("]: ").map(|(_, link)| link.trim()));
    inline
        .chain(referenced)
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

/// Removes the code of a page. It has brackets that are no links.
fn without_code(page: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn check(page: &Path, link: &str) {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        _ => page.parent().unwrap().join(path),
    };
    assert!(
        target.exists(),
        "{} links to {link}, which does not exist",
        page.display()
    );
    assert!(
        anchor.is_empty() || headings(&target).contains(anchor),
        "{} links to {link}, and there is no such heading",
        page.display()
    );
}

/// Returns the anchors of a page.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = without_code(&fs::read_to_string(page).unwrap());
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// A name is the first text after one of these markers in the sources that make findings.
fn finding_names() -> BTreeSet<String> {
    const BEFORE: [&str; 4] = [
        "CHECK: &str = ",
        "Finding::fine(",
        "Finding::warning(",
        "Finding::serious(",
    ];
    const SOURCES: [&str; 3] = [
        "crates/outlast-core/src/doctor.rs",
        "crates/outlast-postgres/src/doctor/judging.rs",
        "crates/outlast-sqlite/src/doctor.rs",
    ];
    let mut names = BTreeSet::new();
    for source in SOURCES {
        let text = fs::read_to_string(root().join(source)).unwrap();
        for before in BEFORE {
            let after = text.split(before).skip(1).map(str::trim_start);
            let quoted = after.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
            names.extend(quoted.map(str::to_owned));
        }
    }
    names
}

/// The kinds of the overview are the only texts with an underscore in the source that makes them.
fn attention_kinds() -> BTreeSet<String> {
    let source = root().join("crates/outlast-http/src/overview/attention.rs");
    let text = fs::read_to_string(source).unwrap();
    let is_kind = |text: &&str| {
        text.contains('_') && text.chars().all(|c| c == '_' || c.is_ascii_lowercase())
    };
    let quoted = text.split('"').filter(is_kind);
    quoted
        .filter(|text| *text != "snake_case")
        .map(str::to_owned)
        .collect()
}

/// Returns all files that may cite a number.
fn sources() -> Vec<PathBuf> {
    const FOLDERS: [&str; 6] = ["crates", "testing", "bench", "examples", "scripts", "docs"];
    const EXTENSIONS: [&str; 6] = ["rs", "sql", "md", "toml", "sh", "py"];
    let folders = FOLDERS.iter().map(|folder| root().join(folder));
    folders
        .flat_map(|folder| files_below(&folder, &EXTENSIONS))
        .collect()
}

/// Returns what can be cited: anchors of the protocol, and numbers of decisions.
fn numbered() -> BTreeSet<String> {
    let mut numbered = headings(&root().join("docs/protocol.md"));
    for decision in files(&root().join("docs/decisions")) {
        let name = decision.file_name().unwrap().to_string_lossy();
        numbered.extend(name.split_once('-').map(|(number, _)| number.to_owned()));
    }
    numbered
}

/// Returns the defects and invariants that a text cites, by their anchors, and the decisions, by
/// their numbers.
fn citations(text: &str) -> BTreeSet<String> {
    let text = text.replace("[00", "decision 00").replace("#i", "#I");
    let words: Vec<_> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let mut cited = BTreeSet::new();
    for (place, word) in words.iter().enumerate() {
        let rest = &words[place + 1..];
        let next = rest.first().copied().unwrap_or_default();
        match *word {
            "defect" | "Defect" => cited.extend(defects(&rest[..rest.len().min(1)])),
            "defects" | "Defects" => cited.extend(defects(rest)),
            "decision" | "decisions" if next.len() == 4 && is_number(next) => {
                cited.insert(next.to_owned());
            }
            _ => cited.extend(
                word.strip_prefix('I')
                    .filter(|number| is_number(number))
                    .map(|number| format!("i{number}")),
            ),
        }
    }
    cited
}

/// Returns the numbers at the start. Several have commas and an `and` between them.
fn defects(words: &[&str]) -> Vec<String> {
    let starts_with_number = words.first().is_some_and(|word| is_number(word));
    let numbers = words.iter().filter(|_| starts_with_number);
    numbers
        .take_while(|word| is_number(word) || ["and", "or", "to"].contains(word))
        .filter(|word| is_number(word))
        .map(|number| format!("defect-{number}"))
        .collect()
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit())
}

/// Words and phrases that must not come back, and what to write instead (docs/glossary.md).
const BANNED: [(&[&str], &str); 16] = [
    (
        &["wish", "wishes", "wished", "wishing"],
        "write `cancel` or `request`",
    ),
    (&["whoever", "whomever"], "name the row, task or caller"),
    (
        &[
            "unless said otherwise",
            "unless told otherwise",
            "unless another is said",
            "if nobody says",
            "nobody says so",
        ],
        "write `Default: 30 s.`",
    ),
    (&["warden", "wardens"], "write `cancel watcher`"),
    (
        &["keep house", "keeps house", "keeping house", "housekeeping"],
        "write `maintenance`",
    ),
    (&["fsm", "fsms"], "write `machine`"),
    (
        &["survey", "surveys", "surveyed", "surveying", "surveyor"],
        "write `count`, `count_by_step` or `gauge sampler`",
    ),
    (
        &["tally", "tallies"],
        "write `counters`, `report` or `counts`",
    ),
    (&["obstacle", "obstacles"], "write `unrunnable`"),
    (&["intake"], "write `fast path`"),
    (&["traffic"], "write `run stats`"),
    (
        &["leave word", "leaves word", "left word"],
        "write `notify` or `cascade`",
    ),
    (&["shielded"], "write `uncancellable`"),
    (
        &["rehearse", "rehearses", "rehearsed", "rehearsal"],
        "write `dry run`",
    ),
    (&["well or badly"], "write `successfully or not`"),
    (&["in vain"], "write `without a result`"),
];

/// Returns all files that people read: documents, screens, and sources with comments and messages.
fn prose_files() -> Vec<PathBuf> {
    const FOLDERS: [&str; 7] = [
        "crates", "testing", "bench", "examples", "scripts", "docs", "deploy",
    ];
    const EXTENSIONS: [&str; 6] = ["md", "rs", "sql", "js", "css", "html"];
    let folders = FOLDERS.iter().map(|folder| root().join(folder));
    let below = folders.flat_map(|folder| files_below(&folder, &EXTENSIONS));
    let pages = OTHER_PAGES.iter().map(|page| root().join(page));
    let files: BTreeSet<_> = below.chain(pages).collect();
    files.into_iter().collect()
}

/// Each banned word in these lines, with its file, its line and what to write instead. Phrases may
/// go over the end of a line.
fn banned_words(path: &Path, lines: &[(usize, String)]) -> Vec<String> {
    let words = words_of(lines);
    let path = path.strip_prefix(root()).unwrap_or(path).display();
    let mut findings = Vec::new();
    for (place, (line, word)) in words.iter().enumerate() {
        let rest = words[place..].iter().map(|(_, word)| word.as_str());
        let starts = |phrase: &str| {
            // Most words begin no phrase.
            !word.is_empty()
                && phrase.starts_with(word)
                && rest
                    .clone()
                    .take(phrase.split(' ').count())
                    .eq(phrase.split(' '))
        };
        for (banned, instead) in &BANNED {
            let found = banned.iter().filter(|phrase| starts(phrase));
            findings.extend(found.map(|phrase| format!("{path}:{line}: `{phrase}`: {instead}")));
        }
    }
    findings
}

/// The words in lower case with their lines. An empty word stands where lines are left out.
fn words_of(lines: &[(usize, String)]) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut before = 0;
    for (line, text) in lines {
        if *line != before + 1 {
            words.push((*line, String::new()));
        }
        let all = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let all = all.filter(|word| !word.is_empty());
        words.extend(all.map(|word| (*line, word.to_lowercase())));
        before = *line;
    }
    words
}

fn prose_of(path: &Path) -> Vec<(usize, String)> {
    prose(&path.to_string_lossy(), &fs::read_to_string(path).unwrap())
}

/// The lines of a file that people read: comments of sources, documents without their code, and
/// all of a screen.
fn prose(path: &str, text: &str) -> Vec<(usize, String)> {
    let numbered = (1..).zip(text.lines());
    match path.rsplit('.').next() {
        Some("rs") => comments(numbered, "//"),
        Some("sql") => comments(numbered, "--"),
        Some("md") => paragraphs(numbered),
        _ => numbered
            .map(|(line, text)| (line, text.to_owned()))
            .collect(),
    }
}

fn comments<'a>(lines: impl Iterator<Item = (usize, &'a str)>, mark: &str) -> Vec<(usize, String)> {
    let comment = |text: &'a str| split_comment(text, mark).1;
    lines
        .filter_map(|(line, text)| Some((line, without_quoted(comment(text)?))))
        .collect()
}

/// Splits a line into its code and its comment, if it has one. A URL in a string is no comment.
fn split_comment<'a>(text: &'a str, mark: &str) -> (&'a str, Option<&'a str>) {
    let mut starts = text.match_indices(mark).map(|(start, _)| start);
    let is_first = |start: &usize| {
        text[..*start]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace)
    };
    match starts.find(is_first) {
        Some(start) => (&text[..start], Some(&text[start..])),
        None => (text, None),
    }
}

/// Returns a page without code and without the targets of its links.
fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut kept = Vec::new();
    for (line, text) in lines {
        if text.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            let mut links = text.split("](");
            let mut read = links.next().unwrap_or_default().to_owned();
            for link in links {
                read.push(' ');
                read.push_str(link.split_once(')').map_or("", |(_, after)| after));
            }
            kept.push((line, without_quoted(&read)));
        }
    }
    kept
}

/// Removes names in backticks. They are names of code, also of older code.
fn without_quoted(text: &str) -> String {
    let outside: Vec<_> = text.split('`').step_by(2).collect();
    outside.join(" ")
}

/// Returns the texts in the sources of the command line. Those of other sources are not checked.
fn messages_of(path: &Path) -> Vec<(usize, String)> {
    let is_command_line = path.starts_with(root().join("crates/outlast-cli/src"));
    match is_command_line {
        true => messages(&fs::read_to_string(path).unwrap()),
        false => Vec::new(),
    }
}

fn messages(text: &str) -> Vec<(usize, String)> {
    let quoted = |line: &str| {
        let code = split_comment(line, "//").0;
        let quoted: Vec<_> = code.split('"').skip(1).step_by(2).collect();
        quoted.join(" ")
    };
    let numbered = (1..).zip(text.lines());
    numbered.map(|(line, text)| (line, quoted(text))).collect()
}
