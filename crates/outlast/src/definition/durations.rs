//! Durations that read like words.

use std::time::Duration;

/// 60 seconds.
pub const MINUTE: Duration = Duration::from_secs(60);

/// 60 minutes.
pub const HOUR: Duration = Duration::from_secs(60 * 60);

/// 24 hours.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
