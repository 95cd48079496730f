//! Configuration files with one entry per line: tokens and webhooks.

use crate::failure::Failure;
use std::path::Path;

/// Parses the lines of a file. It skips empty lines and lines that begin with #.
pub(crate) fn read_lines<T>(
    file: &Path,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Failure::Usage(format!("cannot read {shown}: {error}")))?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let things = lines.map(|(position, line)| {
        let wrong = |why| Failure::Usage(format!("{shown}, line {}: {why}", position + 1));
        read(line).map_err(wrong)
    });
    things.collect()
}
