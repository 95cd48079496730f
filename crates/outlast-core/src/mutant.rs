//! Known defects, restored on purpose to prove that the tests find them (`scripts/mutants.sh`).
//!
//! Only in builds with `--cfg outlast_mutants`. The environment variable `OUTLAST_MUTANT` selects
//! the defect when the process starts, so that one build serves all of them. A defect whose code
//! ran writes its name to the file `OUTLAST_MUTANT_REACHED`. So a defect that is never reached
//! does not count as harmless.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::sync::{LazyLock, Mutex, Once, PoisonError};

/// A defect in a statement: the mutant, the statement, its text, and the text with the defect.
pub type Edit = (&'static str, &'static str, &'static str, &'static str);

/// The selected defect.
static ON: LazyLock<Option<String>> = LazyLock::new(|| env::var("OUTLAST_MUTANT").ok());

/// Whether this defect is selected. Called at the place where it would act.
pub fn is(name: &str) -> bool {
    let on = is_on(name);
    if on {
        mark(name);
    }
    on
}

/// Returns the text of a statement, with the selected defect if it is in this statement.
///
/// # Panics
///
/// When the text does not contain the part that the defect would change.
pub fn edited(edits: &[Edit], statement: &str, text: &'static str) -> &'static str {
    // The edited text must be `'static`. The map leaks it once per statement, not once per call.
    static TEXTS: LazyLock<Mutex<HashMap<String, &'static str>>> = LazyLock::new(Mutex::default);
    if !is_of(edits, statement) {
        return text;
    }
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    texts.entry(statement.to_owned()).or_insert_with(|| {
        let edits = edits
            .iter()
            .filter(|edit| is_on(edit.0) && edit.1 == statement);
        edits
            .fold(text.to_owned(), |text, (name, _, was, becomes)| {
                assert!(
                    text.contains(was),
                    "mutant {name}: nothing says {was:?} in\n{text}"
                );
                text.replace(was, becomes)
            })
            .leak()
    })
}

/// Marks the selected defect as reached, if it is in this statement.
pub fn reached(edits: &[Edit], statement: &str) {
    if is_of(edits, statement) {
        mark(ON.as_deref().unwrap_or_default());
    }
}

fn is_of(edits: &[Edit], statement: &str) -> bool {
    let mut edits = edits.iter();
    edits.any(|edit| is_on(edit.0) && edit.1 == statement)
}

fn is_on(name: &str) -> bool {
    ON.as_deref() == Some(name)
}

fn mark(name: &str) {
    static MARKED: Once = Once::new();
    MARKED.call_once(|| {
        if let Some(file) = env::var_os("OUTLAST_MUTANT_REACHED") {
            fs::write(file, name).expect("the file of OUTLAST_MUTANT_REACHED can be written");
        }
    });
}
