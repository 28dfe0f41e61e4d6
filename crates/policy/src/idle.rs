//! When a client's memory tickets do not count (paper 1, section 5.4: "a more complete implementation would
//! probably benefit from deactivating the memory tickets of clients who are idle for a sufficiently long period of
//! time"; to deactivate them at every block gives the erratic paging of its figure 6).
//!
//! 1. **Windows**. Use is looked at in windows that lie end to end: one ends with the first observation
//!    that comes at least the window's length after its begin. Observations that come more seldom make longer
//!    windows, and average over them.
//! 2. **Deactivation**: after the idle time without a window whose use was above the low threshold. The time counts
//!    from the end of the last such window, at first from the first observation, then from the reactivation.
//! 3. **Reactivation**: a window whose use is above the high threshold, as soon as it is sure to be. Between the
//!    thresholds nothing changes (hysteresis), so a client that wakes for its timers stays what it is.
//! 4. **A new client is active**: it asked for its tickets just now.
//! 5. **Who waits for a disk or for memory is not idle** (ours; the paper's clients block for nothing else): use is
//!    time on the CPU and time for which it was held up by either ([`Use`]). Where that time is not known, each
//!    request, and each fault for which something is read, counts as [`REQUEST_NS`].

/// Rule 5: about what a disk takes for a request.
pub const REQUEST_NS: u64 = 1_000_000;

/// What a client has done in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Time on CPUs, in ns.
    pub cpu_ns: u64,
    /// Time for which it was held up by disks or for lack of memory, in ns; 0 where that is not known.
    pub waited_ns: u64,
    /// Requests of disks, and faults for which something was read, that are not in `waited_ns`.
    pub requests: u64,
}

impl Use {
    /// Time for which it was not idle, in ns (rule 5).
    pub fn busy_ns(&self) -> u64 {
        let requests_ns = self.requests.saturating_mul(REQUEST_NS);
        self.cpu_ns.saturating_add(self.waited_ns).saturating_add(requests_ns)
    }
}

/// When tickets are deactivated and reactivated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleOptions {
    /// How long a client must be idle, in ns. Usually 300 s.
    pub idle_ns: u64,
    /// A window's length, in ns, above 0. Usually 1 s.
    pub window_ns: u64,
    /// Use above which a window is not idle, in thousandths of its length. Usually 10.
    pub low: u64,
    /// Use above which a window ends idleness, in thousandths of its length; not below `low`. Usually 50.
    pub high: u64,
}

impl Default for IdleOptions {
    fn default() -> Self {
        IdleOptions { idle_ns: 300_000_000_000, window_ns: 1_000_000_000, low: 10, high: 50 }
    }
}

/// Whether one client's memory tickets count. See the [module](self).
#[derive(Clone, Debug)]
pub struct Idle {
    options: IdleOptions,
    active: bool,
    /// The begin of this window, and what had been used by then.
    window: Option<(u64, u64)>,
    /// The end of the last window with use above the low threshold.
    busy_ns: u64,
}

impl Idle {
    /// Active (rule 4).
    ///
    /// # Panics
    /// When windows have no length, or the low threshold is above the high one: broken invariants.
    pub fn new(options: IdleOptions) -> Self {
        assert!(options.window_ns > 0, "a window has a length");
        assert!(options.low <= options.high, "{} is above {}", options.low, options.high);
        Idle { options, active: true, window: None, busy_ns: 0 }
    }

    /// Whether its tickets count.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// At `now_ns` (of a clock that does not go back) the client has been busy for `used_ns` in all
    /// ([`Use::busy_ns`]). What is less than before (a member has left) counts as no use. Answers whether its tickets count from now on.
    pub fn observe(&mut self, now_ns: u64, used_ns: u64) -> bool {
        let Some((begin_ns, used_before_ns)) = self.window else {
            self.busy_ns = now_ns;
            self.window = Some((now_ns, used_ns));
            return self.active;
        };
        let elapsed_ns = now_ns.saturating_sub(begin_ns);
        let use_ns = used_ns.saturating_sub(used_before_ns);
        let length_ns = elapsed_ns.max(self.options.window_ns);
        let above = |threshold: u64| {
            u128::from(use_ns) * 1000 > u128::from(threshold) * u128::from(length_ns)
        };
        // Rule 3. A window that is not over can only gain.
        if !self.active && above(self.options.high) {
            self.active = true;
            self.busy_ns = now_ns;
        }
        if elapsed_ns >= self.options.window_ns {
            if above(self.options.low) {
                self.busy_ns = now_ns;
            } else if now_ns.saturating_sub(self.busy_ns) >= self.options.idle_ns {
                self.active = false;
            }
            self.window = Some((now_ns, used_ns));
        } else if used_ns < used_before_ns {
            self.window = Some((begin_ns, used_ns));
        }
        self.active
    }
}
