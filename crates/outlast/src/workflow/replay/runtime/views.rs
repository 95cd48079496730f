//! The views that the code has published, and which of their values are written.

use outlast_core::limits::VIEWS_MAX;
use outlast_core::{Invalid, Json, NewView};
use std::collections::BTreeMap;

/// Views by name. A replay publishes old values again; only the last of each name counts.
#[derive(Default)]
pub(in crate::workflow) struct Views(BTreeMap<String, Published>);

struct Published {
    view: NewView,
    is_written: bool,
}

impl Views {
    /// Publishes a value, which replaces the last one of this name.
    pub(in crate::workflow) fn publish(&mut self, name: &str, data: Json) -> Result<(), Invalid> {
        let view = NewView {
            name: name.to_owned(),
            data,
        };
        view.check()?;
        let known = self.0.get(name);
        if known.is_none() && self.0.len() == VIEWS_MAX {
            let reason = format!("is one too many; a workflow has at most {VIEWS_MAX} views");
            return Err(Invalid::new(format!("view {name:?}"), reason));
        }
        #[cfg(outlast_mutants)]
        if known.is_some() && outlast_core::mutant::is("first-value-of-a-view-stays") {
            return Ok(());
        }
        if known.is_none_or(|known| known.view != view) {
            let published = Published {
                view,
                is_written: false,
            };
            self.0.insert(name.to_owned(), published);
        }
        Ok(())
    }

    /// Returns the views to write with the next outcome.
    ///
    /// A session does not know what an earlier one has written, so its first outcome writes all.
    /// The store keeps a value that is there already.
    pub(in crate::workflow) fn unwritten(&self) -> Vec<NewView> {
        let views = self.0.values().filter(|it| !it.is_written);
        views.map(|it| it.view.clone()).collect()
    }

    /// Notes that all values are written.
    pub(in crate::workflow) fn wrote(&mut self) {
        self.0.values_mut().for_each(|it| it.is_written = true);
    }
}
