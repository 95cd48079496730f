//! Classifies SQL by its words: the effect of a statement on its transaction.

/// The effect of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Begin,
    Commit,
    RollBack,
    Write,
    /// Reads, settings, and everything else that leaves no change.
    Nothing,
}

/// Returns the effect of each statement in a text.
pub(super) fn effects(sql: &str) -> Vec<Effect> {
    let words = words(sql);
    words
        .split(|word| word == ";")
        .filter(|statement| !statement.is_empty())
        .map(effect)
        .collect()
}

fn effect(words: &[String]) -> Effect {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    match words.first().map_or("", String::as_str) {
        "begin" => Effect::Begin,
        "start" if has("transaction") => Effect::Begin,
        "commit" | "end" => Effect::Commit,
        "rollback" | "abort" if !has("to") => Effect::RollBack,
        "set" | "reset" | "show" | "prepare" | "deallocate" | "listen" | "unlisten" | "notify"
        | "savepoint" | "release" => Effect::Nothing,
        "call" | "do" | "create" | "alter" | "drop" | "truncate" | "grant" | "revoke" | "copy"
        | "comment" | "refresh" => Effect::Write,
        _ if writes(words) => Effect::Write,
        _ => Effect::Nothing,
    }
}

/// Returns whether a query changes rows, directly or by a function of Outlast.
fn writes(words: &[String]) -> bool {
    let before = std::iter::once("").chain(words.iter().map(String::as_str));
    before.zip(words).any(|(before, word)| match word.as_str() {
        "insert" | "delete" | "merge" | "insert_one" | "deliver_one" => true,
        // `for update` and `for no key update` only lock rows.
        "update" => before != "for" && before != "key",
        _ => false,
    })
}

/// Returns the words of a text in lower case, and `;` between statements. It skips comments and
/// quoted texts.
fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            words.push(word.to_lowercase());
            rest = after;
            continue;
        }
        if first == ';' {
            words.push(";".to_owned());
        }
        let skipped = skippable(rest).unwrap_or(first.len_utf8());
        rest = &rest[skipped..];
    }
    words
}

/// Returns the length of the comment or quoted text that begins here.
fn skippable(rest: &str) -> Option<usize> {
    let after = |opening: usize, closing: &str| {
        let found = rest[opening..].find(closing);
        found.map_or(rest.len(), |at| opening + at + closing.len())
    };
    if rest.starts_with("--") {
        return Some(after(2, "\n"));
    }
    if rest.starts_with("/*") {
        return Some(after(2, "*/"));
    }
    match rest.chars().next()? {
        quote @ ('\'' | '"') => Some(after(1, quote.encode_utf8(&mut [0; 4]))),
        // A parameter is `$1`; a quoted text begins with `$$` or `$tag$`.
        '$' => {
            let tag_end = 2 + rest[1..].find('$')?;
            let tag = &rest[..tag_end];
            let is_tag = tag[1..tag_end - 1]
                .chars()
                .all(|c| c.is_alphanumeric() || c == '_');
            let is_parameter = rest[1..].starts_with(|c: char| c.is_ascii_digit());
            (is_tag && !is_parameter).then(|| after(tag_end, tag))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_begin_commit_and_rollback_is_recognised() {
        use Effect::{Begin, Commit, Nothing, RollBack};
        for (sql, expected) in [
            ("commit", vec![Commit]),
            ("COMMIT;", vec![Commit]),
            ("-- done\nend", vec![Commit]),
            ("begin isolation level read committed", vec![Begin]),
            ("begin; set local jit = off", vec![Begin, Nothing]),
            ("start transaction read only", vec![Begin]),
            ("rollback", vec![RollBack]),
            ("rollback to savepoint a", vec![Nothing]),
            ("", vec![]),
        ] {
            assert_eq!(effects(sql), expected, "{sql}");
        }
    }

    #[test]
    fn writes_are_distinguished_from_reads_and_locks() {
        for sql in [
            "insert into t values ($1, $2)",
            "/* insert */ with gone as (delete from t returning id) select * from gone",
            "select id from outlast.insert_one($1::text)",
            "update t set a = 'x; commit'",
        ] {
            assert_eq!(effects(sql), [Effect::Write], "{sql}");
        }
        for sql in [
            "-- update\nselect 1",
            "select 'insert', \"delete\", $$update t$$, $a$ insert $a$, $1",
            "with held as (select from t for update) select * from held",
            "select from t for no key update skip locked",
            "set local work_mem = '1MB'",
        ] {
            assert_eq!(effects(sql), [Effect::Nothing], "{sql}");
        }
    }
}
