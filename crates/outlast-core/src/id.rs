//! Identifiers. The store assigns them; they grow and may have gaps.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// One run of a machine. Ids of one batch grow in the caller's order.
    InstanceId
}
id! {
    /// One signal in an inbox.
    SignalId
}
id! {
    /// One recorded operation of an operator, or of a parent on its children.
    OperationId
}
id! {
    /// One registered worker: the owner of claims.
    WorkerId
}
id! {
    /// The fence of an instance.
    ///
    /// It grows by one at every claim, commit, release, reap and operator's verb, so that a claim
    /// names exactly one version of the row (I3).
    Revision
}

impl Revision {
    /// Returns the revision after one more change.
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}
