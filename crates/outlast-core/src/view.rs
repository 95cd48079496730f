//! Views: values that a workflow publishes, for people and programs to read at any time.
//!
//! A commit writes them with its outcome. Nothing in a run depends on them.

use crate::limits::{self, VIEW_BYTES_MAX, VIEWS_MAX};
use crate::{Invalid, Json, Revision, Timestamp};
use std::collections::HashSet;

/// A view to write with an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewView {
    /// Its name. A view of the same name is replaced.
    pub name: String,
    /// Its value.
    pub data: Json,
}

impl NewView {
    /// Checks whether it can be stored.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::check_name("view", &self.name)?;
        let bytes = self.data.as_str().len();
        // An encoded value is larger than the value that the code published.
        let max = match self.data.as_encoded() {
            Some(_) => 2 * VIEW_BYTES_MAX,
            None => VIEW_BYTES_MAX,
        };
        if bytes > max {
            return Err(Invalid::new(
                format!("view {:?}", self.name),
                format!("has {bytes} bytes of JSON; at most {max} are stored"),
            ));
        }
        Ok(())
    }

    /// Checks whether one commit can write these views.
    pub fn check_all(views: &[NewView]) -> Result<(), Invalid> {
        limits::check_batch("views", views.len(), VIEWS_MAX)?;
        let mut names = HashSet::with_capacity(views.len());
        for view in views {
            view.check()?;
            if !names.insert(&view.name) {
                let what = format!("view {:?}", view.name);
                return Err(Invalid::new(what, "is written twice by one commit"));
            }
        }
        Ok(())
    }
}

/// A view as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: String,
    /// The revision of the instance that wrote this value. A later value has a higher one.
    pub revision: Revision,
    /// When this value was written.
    pub at: Timestamp,
    /// Its value.
    pub data: Json,
}
