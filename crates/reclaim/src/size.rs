//! How much is taken, and when: pure.
//!
//! 1. **A draw** takes a quarter of what is lacking, from 128 KiB (what the kernel takes at least) to 4 MiB (so that
//!    one call is short), in whole pages, and never more than the loser's excess. Many draws a shortfall, because
//!    the choice is the policy's and one draw decides little.
//! 2. **Headroom**: a sixteenth of what there is, from 256 KiB (the kernel charges memory to a cgroup in parts of 64
//!    pages) to 64 MiB, is kept free. What clients take between two rounds comes from there, so the kernel need not
//!    choose losers itself.
//! 3. **Margin**. The kernel's count of what a cgroup holds is ahead of the pages by at most 64 for each CPU, and
//!    it takes up to 64 more than it is asked for. So a cgroup is left alone until it holds that much more than its
//!    guarantee: only then no page of the guarantee is touched; and of one without a guarantee that holds no more, most
//!    is not there, so that asking costs much and brings nothing. CPUs beyond 16 do not count: a client is rarely
//!    charged on more at once.
//! 4. **Backing off**. From whom less could be taken than was asked for (then the kernel has tried 16 times), nothing
//!    is asked for 20 ms, then for twice as long each time, up to 2 s, until all could be; where nothing could be
//!    taken from anybody, up to 160 ms, since others may come.
//! 5. **Average** of refaults: exponential, with a time constant of 2 s.

/// What [`draw_bytes`] takes at least and at most, where the excess allows it.
const DRAW_BYTES: (u64, u64) = (128 << 10, 4 << 20);
/// Rule 2.
const HEADROOM_PART: u64 = 16;
const HEADROOM_BYTES: (u64, u64) = (256 << 10, 64 << 20);
/// The kernel's MEMCG_CHARGE_BATCH.
const CHARGE_PAGES: u64 = 64;
const MARGIN_CPUS: u64 = 16;
/// Rule 4: the first wait; the longest for one client, and for all.
const FIRST_NS: u64 = 20_000_000;
pub(crate) const CLIENT_NS: u64 = 2_000_000_000;
pub(crate) const NOBODY_NS: u64 = 160_000_000;
/// Rule 5.
const AVERAGE_NS: u64 = 2_000_000_000;

/// What one draw takes from a loser with this excess, in bytes; 0 where that is less than a page (rule 1).
pub(crate) fn draw_bytes(shortfall_bytes: u64, excess_bytes: u64, page_bytes: u64) -> u64 {
    let (least, most) = DRAW_BYTES;
    let wanted = (shortfall_bytes / 4).clamp(least, most).next_multiple_of(page_bytes);
    wanted.min(excess_bytes / page_bytes * page_bytes)
}

/// What is kept free of so much, in bytes (rule 2).
pub(crate) fn headroom_bytes(of_bytes: u64) -> u64 {
    let (least, most) = HEADROOM_BYTES;
    (of_bytes / HEADROOM_PART).clamp(least, most)
}

/// What a cgroup keeps besides its guarantee, in bytes, on so many CPUs (rule 3).
pub(crate) fn margin_bytes(cpus: u64, page_bytes: u64) -> u64 {
    (cpus.min(MARGIN_CPUS) + 1) * CHARGE_PAGES * page_bytes
}

/// When something that fails is tried again (rule 4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    wait_ns: u64,
    until_ns: u64,
}

impl Backoff {
    /// Nothing came of it; it waits no longer than `longest_ns`.
    pub fn failed(&mut self, now_ns: u64, longest_ns: u64) {
        self.wait_ns = (2 * self.wait_ns).clamp(FIRST_NS, longest_ns);
        self.until_ns = now_ns + self.wait_ns;
    }

    /// Something did.
    pub fn worked(&mut self) {
        *self = Backoff::default();
    }

    /// Whether it is left alone now.
    pub fn waits(&self, now_ns: u64) -> bool {
        self.left_ns(now_ns) > 0
    }

    /// For how long it is left alone.
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.saturating_sub(now_ns)
    }
}

/// A rate, averaged over time (rule 5).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    /// When it was counted last, and how many there were by then.
    last: Option<(u64, u64)>,
    /// Per second, in 1/1024.
    rate: u64,
}

impl Average {
    /// At `now_ns` there had been so many. Answers the rate per second, in 1/1024. A count that is less than before
    /// (another file under the same name) begins anew, with the average as it was.
    pub fn observe(&mut self, now_ns: u64, count: u64) -> u64 {
        let Some((then_ns, before)) = self.last.replace((now_ns, count)) else { return self.rate };
        let elapsed_ns = now_ns.saturating_sub(then_ns);
        if elapsed_ns == 0 || count < before {
            return self.rate;
        }
        let scaled = u128::from(count - before) * 1_000_000_000 * 1024;
        let now = scaled / u128::from(elapsed_ns);
        // The step of an exponential average for an elapsed time of any length, without an exponential.
        let (new, old) = (u128::from(elapsed_ns), u128::from(AVERAGE_NS));
        let rate = (now * new + u128::from(self.rate) * old) / (new + old);
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.rate
    }

    /// As it was when last observed.
    pub fn rate(&self) -> u64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    proptest! {
        #[test]
        fn a_draw_is_of_whole_pages_and_within_the_excess(
            shortfall in 0..=1_u64 << 50,
            excess in prop_oneof![0..8 * MIB, 0..=1_u64 << 50],
        ) {
            let bytes = draw_bytes(shortfall, excess, PAGE);
            prop_assert!(bytes <= excess && bytes <= 4 * MIB && bytes.is_multiple_of(PAGE));
            prop_assert_eq!(bytes == 0, excess < PAGE);
            // Less than the kernel takes at least is asked only of who has no more.
            prop_assert!(bytes >= 128 * KIB || excess - bytes < PAGE);
        }

        /// However often it is looked, an even rate is found; the average never overshoots.
        #[test]
        fn an_average_approaches_the_rate(
            steps in prop::collection::vec(1_000_000..500_000_000_u64, 400..500),
            per_ms in 0..1000_u64,
        ) {
            let mut average = Average::default();
            let (mut now, mut last, due) = (0, 0, per_ms * 1000 * 1024);
            average.observe(now, 0);
            for step in steps {
                // In whole milliseconds, so that counts are exact.
                now += step / 1_000_000 * 1_000_000;
                let rate = average.observe(now, now / 1_000_000 * per_ms);
                prop_assert!(last <= rate && rate <= due, "{} after {}, of {}", rate, last, due);
                last = rate;
            }
            // At least 0.4 s, and usually a hundred: what is left of the start falls at each step.
            let left = if now > 40_000_000_000 { due / 1000 } else { due };
            prop_assert!(due - last <= left + 1000, "{} of {} after {} ns", last, due, now);
        }
    }

    #[test]
    fn a_draw_is_sized_to_what_is_lacking() {
        assert_eq!(draw_bytes(1, 64 * MIB, PAGE), 128 * KIB);
        assert_eq!(draw_bytes(2 * MIB, 64 * MIB, PAGE), 512 * KIB);
        assert_eq!(draw_bytes(2 * MIB + 4, 64 * MIB, PAGE), 512 * KIB + PAGE);
        assert_eq!(draw_bytes(1 << 40, 64 * MIB, PAGE), 4 * MIB);
        assert_eq!(draw_bytes(1 << 40, 3 * PAGE + 5, PAGE), 3 * PAGE);
        assert_eq!(draw_bytes(1 << 40, PAGE - 1, PAGE), 0);
    }

    #[test]
    fn headroom_and_margin_are_within_their_bounds() {
        assert_eq!(headroom_bytes(MIB), 256 * KIB);
        assert_eq!(headroom_bytes(8 * MIB), 512 * KIB);
        assert_eq!(headroom_bytes(1 << 40), 64 * MIB);
        assert_eq!(margin_bytes(2, PAGE), 768 * KIB);
        assert_eq!(margin_bytes(256, PAGE), 17 * 256 * KIB);
    }

    #[test]
    fn waits_double_until_it_works() {
        let mut backoff = Backoff::default();
        assert!(!backoff.waits(0));
        let mut now = 5;
        for wait in [20, 40, 80, 160, 320, 640, 1280, 2000, 2000].map(|ms| ms * 1_000_000) {
            backoff.failed(now, CLIENT_NS);
            assert!(backoff.waits(now + wait - 1));
            assert!(!backoff.waits(now + wait));
            now += wait;
        }
        backoff.worked();
        backoff.failed(now, CLIENT_NS);
        assert!(!backoff.waits(now + 20_000_000));
    }

    #[test]
    fn a_rate_fades_when_nothing_happens() {
        let mut average = Average::default();
        average.observe(0, 7);
        assert_eq!(average.observe(2_000_000_000, 2007), 512 * 1000, "half of 1000 a second");
        assert_eq!(average.observe(2_000_000_000, 9), 512 * 1000, "no time has passed");
        assert_eq!(average.observe(4_000_000_000, 9), 256 * 1000);
        assert_eq!(average.observe(5_000_000_000, 3), 256 * 1000, "it began anew");
        assert_eq!(average.rate(), 256 * 1000);
    }
}
