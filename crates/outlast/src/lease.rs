//! Whether this engine's lease surely covers a claim: asked before user code starts.
//!
//! A process that was stopped, or whose machine was suspended, goes on as if nothing had happened. Its claims may have
//! been taken meanwhile. The fence drops late outcomes, but not the effects of steps; so none may start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The share of a lease that is not relied on: clocks differ a little, and code starts a little after the look.
const MARGIN_SHARE: u32 = 20;

/// The time for which this engine surely had its lease without a gap.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// Changes with every gap, and with every new worker: claims from before are not covered any more.
    epoch: AtomicU64,
    /// When the lease may end, in nanoseconds of [`now`].
    until_ns: AtomicU64,
}

/// The gapless time in which a claim was asked for, or last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// Whether one claim is covered.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    coverage: Arc<Coverage>,
    epoch: Epoch,
}

impl Covered {
    pub(crate) fn new(coverage: Arc<Coverage>, epoch: Epoch) -> Covered {
        Covered { coverage, epoch }
    }

    /// Whether the claim is surely still this engine's.
    pub(crate) fn is_sure(&self) -> bool {
        self.coverage.covers(self.epoch)
    }
}

impl Coverage {
    /// The present epoch. A claim belongs to the epoch before it was asked for.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// The lease was renewed by a call that was sent at `sent`: the answer may have taken long.
    pub(crate) fn renewed(&self, sent: Duration, lease: Duration) {
        if nanos(sent) >= self.until_ns.load(Ordering::SeqCst) {
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        let until = sent + lease - lease / MARGIN_SHARE;
        self.until_ns.store(nanos(until), Ordering::SeqCst);
    }

    /// Covers nothing from before: this engine is another worker, or none.
    pub(crate) fn end(&self) {
        self.until_ns.store(0, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a claim of this epoch is surely still this engine's.
    pub(crate) fn covers(&self, epoch: Epoch) -> bool {
        #[cfg(outlast_mutants)]
        if outlast_core::mutant::is("starts-without-a-lease") {
            return true;
        }
        nanos(now()) < self.until_ns.load(Ordering::SeqCst) && epoch == self.epoch()
    }
}

/// The time since the machine was started. It counts while the process is stopped, and while the machine sleeps.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The time since the first call. It counts while the process is stopped.
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
