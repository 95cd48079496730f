//! The work of the server for a statement, as `explain (analyze, buffers)` shows it.

use serde_json::Value;
use std::collections::BTreeSet;

/// The condition of an index scan that has none.
pub(crate) const WHOLE: &str = "from end to end";

/// A plan. It may have been executed.
pub(crate) struct Plan {
    root: Value,
}

impl Plan {
    pub(crate) fn parse(explained: &str) -> Plan {
        let mut parsed: Value = serde_json::from_str(explained).expect("explain writes JSON");
        Plan {
            root: parsed[0]["Plan"].take(),
        }
    }

    /// Every index that was read or that decided a conflict.
    pub(crate) fn indexes(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for node in self.nodes() {
            names.extend(node["Index Name"].as_str().map(String::from));
            for arbiter in node["Conflict Arbiter Indexes"]
                .as_array()
                .into_iter()
                .flatten()
            {
                names.extend(arbiter.as_str().map(String::from));
            }
        }
        names
    }

    /// The tables that were read from end to end.
    pub(crate) fn scanned_tables(&self) -> Vec<&str> {
        self.nodes()
            .into_iter()
            .filter(|node| node["Node Type"] == "Seq Scan")
            .filter_map(|node| node["Relation Name"].as_str())
            .collect()
    }

    /// Every use of an index with its condition. Plans with the same lookups read the same pages.
    ///
    /// Lookups inside a recursion are left out: the server shows them only once it has run them.
    pub(crate) fn lookups(&self) -> Vec<String> {
        let nodes = self.nodes_where(|node| node["Node Type"] != "WorkTable Scan");
        let lookups = nodes.into_iter().filter_map(|node| {
            let index = node["Index Name"].as_str()?;
            let condition = node["Index Cond"].as_str().unwrap_or(WHOLE);
            Some(format!("{index} {condition}"))
        });
        let mut lookups: Vec<String> = lookups.collect();
        lookups.sort();
        lookups
    }

    /// Pages touched by the whole statement.
    ///
    /// A part that changes data and that no other part reads runs last. The root's figure does not
    /// include it.
    pub(crate) fn buffers(&self) -> u64 {
        let nodes = self.nodes();
        let read: BTreeSet<&str> = nodes
            .iter()
            .filter_map(|node| node["CTE Name"].as_str())
            .collect();
        let unread = nodes.iter().filter(|node| {
            let name = node["Subplan Name"].as_str().unwrap_or_default();
            node["Node Type"] == "ModifyTable"
                && name
                    .strip_prefix("CTE ")
                    .is_some_and(|name| !read.contains(name))
        });
        buffers_of(&self.root) + unread.map(|node| buffers_of(node)).sum::<u64>()
    }

    /// Pages touched by changing rows, without those touched to find them.
    pub(crate) fn buffers_of_changes(&self) -> u64 {
        let nodes = self.nodes();
        let changes = nodes
            .iter()
            .filter(|node| node["Node Type"] == "ModifyTable")
            // A new row is written to its indexes in any case, so only changed rows count.
            .filter(|node| node["Operation"] != "Insert");
        changes
            .map(|node| {
                let inputs = node["Plans"].as_array().into_iter().flatten();
                let found: u64 = inputs
                    .filter(|input| input["Parent Relationship"] == "Outer")
                    .map(buffers_of)
                    .sum();
                buffers_of(node).saturating_sub(found)
            })
            .sum()
    }

    /// Pages touched by one named part.
    pub(crate) fn buffers_of_part(&self, name: &str) -> u64 {
        buffers_of(self.part(name))
    }

    /// Rows that one named part returned.
    pub(crate) fn rows_of_part(&self, name: &str) -> u64 {
        number(&self.part(name)["Actual Rows"])
    }

    fn part(&self, name: &str) -> &Value {
        let name = format!("CTE {name}");
        let mut nodes = self.nodes().into_iter();
        let part = nodes.find(|node| node["Subplan Name"] == name.as_str());
        part.expect("the statement has this part")
    }

    /// Rows that passed through any node, and rows that were read and filtered out.
    ///
    /// Work that grows with the square of a batch shows here, even if it touches few pages.
    pub(crate) fn rows_handled(&self) -> u64 {
        self.nodes().into_iter().map(rows_of).sum()
    }

    fn nodes(&self) -> Vec<&Value> {
        self.nodes_where(|_| true)
    }

    /// Every node for which `enter` holds, with those below it.
    fn nodes_where(&self, enter: impl Fn(&Value) -> bool) -> Vec<&Value> {
        let mut found = Vec::new();
        let mut waiting = vec![&self.root];
        while let Some(node) = waiting.pop() {
            if enter(node) {
                waiting.extend(node["Plans"].as_array().into_iter().flatten());
                found.push(node);
            }
        }
        found
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_node(f, &self.root, 0)
    }
}

fn write_node(f: &mut std::fmt::Formatter<'_>, node: &Value, depth: usize) -> std::fmt::Result {
    let word = |key: &str| node[key].as_str().unwrap_or_default().to_string();
    writeln!(
        f,
        "{:indent$}{} {} {} {} [{}] rows {} × {} removed {} buffers {}",
        "",
        word("Subplan Name"),
        word("Node Type"),
        word("Relation Name") + &word("CTE Name"),
        word("Index Name"),
        word("Index Cond"),
        node["Actual Rows"],
        node["Actual Loops"],
        removed(node),
        buffers_of(node),
        indent = depth * 2,
    )?;
    for inner in node["Plans"].as_array().into_iter().flatten() {
        write_node(f, inner, depth + 1)?;
    }
    Ok(())
}

fn buffers_of(node: &Value) -> u64 {
    number(&node["Shared Hit Blocks"]) + number(&node["Shared Read Blocks"])
}

fn rows_of(node: &Value) -> u64 {
    (number(&node["Actual Rows"]) + removed(node)) * number(&node["Actual Loops"])
}

/// Rows that were filtered out, per loop.
fn removed(node: &Value) -> u64 {
    number(&node["Rows Removed by Filter"])
        + number(&node["Rows Removed by Join Filter"])
        + number(&node["Rows Removed by Index Recheck"])
}

/// Averages over loops have fractions since PostgreSQL 18.
fn number(value: &Value) -> u64 {
    value.as_f64().unwrap_or_default().round() as u64
}
