//! Reads the header of an SQL file.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet};

/// The words that begin the parts of a header.
const WORDS: [&str; 4] = ["guard", "locks", "index", "bound"];

/// The parts of a header by their word, and the parameters that the header explains.
pub(crate) struct Header {
    parts: BTreeMap<&'static str, String>,
    pub(crate) parameters: BTreeSet<u32>,
}

impl Header {
    /// Parts are on lines of their own or three spaces apart. An empty line ends a part.
    pub(crate) fn of(sql: &str) -> Header {
        let mut header = Header {
            parts: BTreeMap::new(),
            parameters: BTreeSet::new(),
        };
        let mut part = None;
        for line in sql.lines().map_while(|line| line.strip_prefix("--")) {
            if line.trim().is_empty() {
                part = None;
            }
            for piece in line.split("   ").map(str::trim).filter(|p| !p.is_empty()) {
                header.add(&mut part, piece);
            }
        }
        header
    }

    fn add(&mut self, part: &mut Option<&'static str>, piece: &str) {
        let word = WORDS.into_iter().find(|word| {
            piece
                .strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        if word.is_some() {
            *part = word;
        }
        match *part {
            Some(word) => {
                let text = piece.strip_prefix(word).unwrap_or(piece);
                *self.parts.entry(word).or_default() += text;
            }
            None => self.parameters.extend(parameters(piece)),
        }
    }

    pub(crate) fn says(&self, word: &str) -> bool {
        self.parts
            .get(word)
            .is_some_and(|text| !text.trim().is_empty())
    }

    /// The indexes that the statement should use.
    pub(crate) fn indexes(&self) -> BTreeSet<String> {
        let text = self.parts.get("index").map_or("", String::as_str);
        index_names(text).map(String::from).collect()
    }
}

/// The names of indexes in a text. They begin with the name of their table.
pub(crate) fn index_names(text: &str) -> impl Iterator<Item = &str> {
    let tables = [
        "instances_",
        "signals_",
        "workers_",
        "queues_",
        "operations_",
        "runs_",
        "delays_",
        "cascades_",
        "events_",
        "views_",
    ];
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(move |word| tables.iter().any(|table| word.starts_with(table)))
}

/// The numbers of the parameters that a text mentions.
pub(crate) fn parameters(text: &str) -> impl Iterator<Item = u32> {
    text.split('$').skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok())
    })
}
