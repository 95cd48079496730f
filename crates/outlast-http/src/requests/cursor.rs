//! Page cursors. A cursor is opaque to the caller and valid only for the query that returned it.

use crate::problem::Problem;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The first byte. A change of the format changes it.
const VERSION: u8 = 1;
const MARK_BYTES: usize = 8;
const BYTES: usize = 1 + MARK_BYTES + 8;

/// Identifies the query of a cursor: the list, and every parameter that decides what is on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListQuery([u8; MARK_BYTES]);

impl ListQuery {
    pub(crate) fn new(list: &str, what: &impl Serialize) -> ListQuery {
        // A value that cannot be serialized has no fields that could differ.
        let what = serde_json::to_string(what).unwrap_or_default();
        let digest = Sha256::new()
            .chain_update(list)
            .chain_update([0])
            .chain_update(what)
            .finalize();
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&digest[..MARK_BYTES]);
        ListQuery(mark)
    }

    /// Returns the cursor that continues after `position`.
    pub(crate) fn cursor(self, position: i64) -> String {
        let mut bytes = [0; BYTES];
        bytes[0] = VERSION;
        bytes[1..=MARK_BYTES].copy_from_slice(&self.0);
        bytes[1 + MARK_BYTES..].copy_from_slice(&position.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the position of a cursor, or a problem if the cursor is of another query.
    pub(crate) fn position(self, cursor: &str) -> Result<i64, Problem> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
        let bytes: Option<[u8; BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
        let Some(bytes) = bytes.filter(|bytes| bytes[0] == VERSION) else {
            return Err(Problem::invalid("invalid cursor; start again without one"));
        };
        if bytes[1..=MARK_BYTES] != self.0 {
            return Err(Problem::invalid(
                "the cursor belongs to another list or filter; start again without one",
            ));
        }
        let mut position = [0; 8];
        position.copy_from_slice(&bytes[1 + MARK_BYTES..]);
        Ok(i64::from_be_bytes(position))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unexpected error fails the test")]
    use super::*;

    #[test]
    fn a_cursor_keeps_its_position_and_fits_only_its_own_query() {
        let list_query = ListQuery::new("instances", &["machine", "checkout"]);
        for position in [0, 1, -5, i64::MAX, i64::MIN] {
            assert_eq!(
                list_query.position(&list_query.cursor(position)).unwrap(),
                position
            );
        }
        let cursor = list_query.cursor(7);
        assert!(
            ListQuery::new("instances", &["machine", "other"])
                .position(&cursor)
                .is_err()
        );
        assert!(
            ListQuery::new("children", &["machine", "checkout"])
                .position(&cursor)
                .is_err()
        );
    }

    #[test]
    fn a_malformed_cursor_is_refused() {
        let list_query = ListQuery::new("instances", &());
        let cursor = list_query.cursor(7);
        for garbage in [
            "",
            "7",
            "AAAA",
            "///",
            &cursor[1..],
            &format!("{cursor}AA"),
            &cursor.replace('A', "B"),
        ] {
            assert!(list_query.position(garbage).is_err(), "{garbage}");
        }
    }
}
