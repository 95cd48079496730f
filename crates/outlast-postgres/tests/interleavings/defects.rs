//! Defective statements: the edits of the mutants, applied to the texts of `sql/`.

use super::gate::Variants;
use std::fs;
use std::path::Path;

#[path = "../../src/mutants/edits.rs"]
mod edits;

/// The statements of a mutant with its defect.
pub(crate) fn of(mutant: &str) -> Variants {
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut variants = Variants::new();
    for (_, statement, was, becomes) in edits::EDITS.iter().filter(|edit| edit.0 == mutant) {
        let text = variants.entry(*statement).or_insert_with(|| {
            let file = sql.join(format!("{statement}.sql"));
            fs::read_to_string(file).expect("the statement has a file")
        });
        assert!(
            text.contains(was),
            "{mutant}: the statement does not contain {was:?}:\n{text}"
        );
        *text = text.replace(was, becomes);
    }
    assert!(!variants.is_empty(), "there is no mutant {mutant}");
    variants
}
