//! Whether this engine's lease certainly covers a claim. The executor checks it before user code
//! starts.
//!
//! A process that was stopped, or whose host was suspended, continues without noticing. Other
//! workers may have taken its claims meanwhile. The fence drops late outcomes, but not the effects
//! of steps. So no step may start without a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The fraction of a lease that is not relied on. Clocks differ a little, and code starts a little
/// after the check.
const MARGIN_SHARE: u32 = 20;

/// The period for which this engine certainly held its lease without a gap.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// Changes with every gap and every new worker: earlier claims are no longer covered.
    epoch: AtomicU64,
    /// The end of the lease, in nanoseconds of [`now`].
    until_ns: AtomicU64,
}

/// The period without a gap in which a claim was requested, or last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// The coverage of one claim.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    coverage: Arc<Coverage>,
    epoch: Epoch,
}

impl Covered {
    pub(crate) fn new(coverage: Arc<Coverage>, epoch: Epoch) -> Covered {
        Covered { coverage, epoch }
    }

    /// Whether the lease certainly covers the claim now.
    pub(crate) fn is_sure(&self) -> bool {
        self.coverage.covers(self.epoch)
    }
}

impl Coverage {
    /// Returns the current epoch.
    ///
    /// Read it before requesting a claim: the claim belongs to that epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// Extends the coverage after a heartbeat that was sent at `sent`.
    ///
    /// The lease counts from then, because the answer may have taken long.
    pub(crate) fn renewed(&self, sent: Duration, lease: Duration) {
        if nanos(sent) >= self.until_ns.load(Ordering::SeqCst) {
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        let until = sent + lease - lease / MARGIN_SHARE;
        self.until_ns.store(nanos(until), Ordering::SeqCst);
    }

    /// Ends the coverage of all earlier claims: this engine is another worker now, or none.
    pub(crate) fn end(&self) {
        self.until_ns.store(0, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether the lease certainly covers a claim of this epoch now.
    pub(crate) fn covers(&self, epoch: Epoch) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("starts-without-a-lease") {
            return true;
        }
        nanos(now()) < self.until_ns.load(Ordering::SeqCst) && epoch == self.epoch()
    }
}

/// Returns the time since the host was started.
///
/// It advances while the process is stopped, and while the host sleeps.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Returns the time since the first call. It advances while the process is stopped.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn a_lease_covers_claims_from_its_renewal_until_just_before_its_end() {
        let coverage = Coverage::default();
        assert!(!coverage.covers(coverage.epoch()), "nothing was renewed");
        coverage.renewed(now(), LEASE);
        let epoch = coverage.epoch();
        assert!(coverage.covers(epoch));
        // The answer took longer than the lease.
        coverage.renewed(now().saturating_sub(LEASE), LEASE);
        assert!(!coverage.covers(epoch));
    }

    #[test]
    fn a_renewal_after_a_gap_does_not_cover_claims_from_before() {
        let coverage = Coverage::default();
        coverage.renewed(now().saturating_sub(LEASE), LEASE);
        let before = coverage.epoch();
        coverage.renewed(now(), LEASE);
        assert!(!coverage.covers(before));
        let after = coverage.epoch();
        coverage.renewed(now(), LEASE);
        assert!(coverage.covers(after), "no gap");
        coverage.end();
        coverage.renewed(now(), LEASE);
        assert!(!coverage.covers(after), "another worker");
    }
}
