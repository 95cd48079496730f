//! What a store finds when it is asked how it is.

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// It works, and will not for ever, or not as fast as it could.
    Warning,
    /// It does not work, or what is committed may be lost.
    Serious,
}

impl Severity {
    /// The word for it, the same everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Fine => "fine",
            Severity::Warning => "warning",
            Severity::Serious => "serious",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: a short stable name in lower case, such as `old_snapshots`.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, in one sentence with its figures.
    pub found: String,
    /// What to do about it, in one sentence; empty when it is fine.
    pub remedy: String,
}
