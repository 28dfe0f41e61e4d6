//! From what was measured of a device to the speed that iocost takes. Pure.
//!
//! 1. A run is one kind of load. It is cut into windows; the first is left out (the device's queue
//!    fills), and of the others the **middle half** counts, together: a device that pauses once is not
//!    slow, and one that does few requests in a window is still measured by all that it did.
//! 2. **A model that the kernel can follow**: it takes a request's cost apart into a share for being
//!    one and a share for each page (`calc_lcoefs` in block/blk-iocost.c). So pieces in order are no
//!    slower than anywhere, and large pieces move no fewer bytes than small ones. Where measuring
//!    says otherwise, within its error, the faster of both counts.
//! 3. **Steadiness** is how far the windows of the middle half are apart, as a part of its rate; one
//!    request a window does not count, since a window cuts requests. A device that is less steady than
//!    [`STEADY_THOUSANDTHS`] was busy with other things, or is not of one speed.

use crate::iocost::{Model, Speed};

/// The kinds of load, in the order in which they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Load {
    /// Large pieces, in order, written.
    WriteLarge,
    /// 4 KiB, in order, written.
    WriteInOrder,
    /// 4 KiB, anywhere, written.
    WriteAnywhere,
    /// 4 KiB, anywhere, written, one at a time.
    WriteAlone,
    /// Large pieces, in order, read.
    ReadLarge,
    /// 4 KiB, in order, read.
    ReadInOrder,
    /// 4 KiB, anywhere, read.
    ReadAnywhere,
    /// 4 KiB, anywhere, read, one at a time.
    ReadAlone,
}

impl Load {
    /// All.
    pub const ALL: [Load; 8] = [
        Load::WriteLarge,
        Load::WriteInOrder,
        Load::WriteAnywhere,
        Load::WriteAlone,
        Load::ReadLarge,
        Load::ReadInOrder,
        Load::ReadAnywhere,
        Load::ReadAlone,
    ];

    /// What it does, as users read it.
    pub fn name(self) -> &'static str {
        match self {
            Load::WriteLarge => "write, 1 MiB, in order",
            Load::WriteInOrder => "write, 4 KiB, in order",
            Load::WriteAnywhere => "write, 4 KiB, anywhere",
            Load::WriteAlone => "write, 4 KiB, one at a time",
            Load::ReadLarge => "read, 1 MiB, in order",
            Load::ReadInOrder => "read, 4 KiB, in order",
            Load::ReadAnywhere => "read, 4 KiB, anywhere",
            Load::ReadAlone => "read, 4 KiB, one at a time",
        }
    }

    /// Bytes of one request.
    pub fn request_bytes(self) -> u64 {
        match self {
            Load::WriteLarge | Load::ReadLarge => 1 << 20,
            _ => 4096,
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Load::WriteLarge | Load::WriteInOrder | Load::WriteAnywhere | Load::WriteAlone
        )
    }

    /// Whether each request follows the one before.
    pub fn is_in_order(self) -> bool {
        matches!(self, Load::WriteLarge | Load::WriteInOrder | Load::ReadLarge | Load::ReadInOrder)
    }

    /// Whether only one request is in flight.
    pub fn is_alone(self) -> bool {
        matches!(self, Load::WriteAlone | Load::ReadAlone)
    }
}

/// What was done in some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Requests that were done.
    pub requests: u64,
    /// The time, in ns.
    pub elapsed_ns: u64,
}

/// One kind of load, measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which.
    pub load: Load,
    /// One after the other.
    pub windows: Vec<Window>,
}

/// Above this, a device was not steady (rule 3).
pub const STEADY_THOUSANDTHS: u64 = 200;

/// What a run amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in 1000 s.
    pub requests_in_1000_s: u64,
    /// How far apart the windows are that count, in thousandths of it.
    pub spread_thousandths: u64,
}

impl Rate {
    /// Bytes a second of such requests.
    pub fn bytes_a_second(&self, load: Load) -> u64 {
        let bytes = u128::from(self.requests_in_1000_s) * u128::from(load.request_bytes()) / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Whether it can be relied on.
    pub fn is_steady(&self) -> bool {
        self.spread_thousandths <= STEADY_THOUSANDTHS
    }
}

/// Why there is no speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSpeed {
    /// A kind of load is missing.
    #[error("`{}` was not measured", .0.name())]
    Missing(Load),
    /// Too little was done in the time.
    #[error("`{}`: nothing was done in most of the time; measure for longer", .0.name())]
    TooSlow(Load),
}

impl Run {
    /// Rules 1 and 3.
    ///
    /// # Errors
    /// When there are fewer than two windows, or nothing was done in those that count.
    pub fn rate(&self) -> Result<Rate, NoSpeed> {
        let rate = |requests: u64, elapsed_ns: u64| {
            let scaled = u128::from(requests) * 1_000_000_000_000;
            u64::try_from(scaled / u128::from(elapsed_ns.max(1))).unwrap_or(u64::MAX)
        };
        let mut windows: Vec<Window> = self.windows.iter().skip(1).copied().collect();
        windows.sort_unstable_by_key(|window| rate(window.requests, window.elapsed_ns));
        let outer = windows.len() / 4;
        let middle = &windows[outer..windows.len() - outer];
        let (Some(slowest), Some(fastest)) = (middle.first(), middle.last()) else {
            return Err(NoSpeed::Missing(self.load));
        };
        let requests = middle.iter().map(|window| window.requests).sum();
        let elapsed_ns = middle.iter().map(|window| window.elapsed_ns).sum();
        let all = rate(requests, elapsed_ns);
        if all == 0 {
            return Err(NoSpeed::TooSlow(self.load));
        }
        let slowest = rate(slowest.requests + 1, slowest.elapsed_ns);
        let fastest = rate(fastest.requests, fastest.elapsed_ns);
        let apart = u128::from(fastest.saturating_sub(slowest)) * 1000 / u128::from(all);
        let spread_thousandths = u64::try_from(apart).unwrap_or(u64::MAX);
        Ok(Rate { requests_in_1000_s: all, spread_thousandths })
    }
}

/// A device's speed from one run of each kind (rule 2).
///
/// # Errors
/// When a kind is missing, or was too slow to be measured.
pub fn speed(runs: &[Run]) -> Result<Speed, NoSpeed> {
    let rate = |load| {
        let run = runs.iter().find(|run| run.load == load);
        run.ok_or(NoSpeed::Missing(load))?.rate()
    };
    let requests = |load| Ok((rate(load)?.requests_in_1000_s / 1000).max(1));
    let latency_us = |load| Ok((1_000_000_000 / rate(load)?.requests_in_1000_s).max(1));
    let one_way = |large, in_order, anywhere| {
        let anywhere = requests(anywhere)?;
        let in_order = requests(in_order)?.max(anywhere);
        let bytes: u64 = rate(large)?.bytes_a_second(large).max(in_order.saturating_mul(4096));
        Ok((bytes, in_order, anywhere))
    };
    let (rbps, rseqiops, rrandiops) =
        one_way(Load::ReadLarge, Load::ReadInOrder, Load::ReadAnywhere)?;
    let (wbps, wseqiops, wrandiops) =
        one_way(Load::WriteLarge, Load::WriteInOrder, Load::WriteAnywhere)?;
    Ok(Speed {
        read_latency_us: latency_us(Load::ReadAlone)?,
        write_latency_us: latency_us(Load::WriteAlone)?,
        model: Model { rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(load: Load, requests: &[u64]) -> Run {
        let window = |requests: &u64| Window { requests: *requests, elapsed_ns: 500_000_000 };
        Run { load, windows: requests.iter().map(window).collect() }
    }

    /// A disk of 100 MiB/s, 5000 and 100 requests a second.
    fn runs() -> Vec<Run> {
        Load::ALL
            .map(|load| {
                let requests = match load {
                    Load::WriteLarge | Load::ReadLarge => 50,
                    Load::WriteInOrder | Load::ReadInOrder => 2500,
                    Load::WriteAnywhere | Load::ReadAnywhere => 50,
                    Load::WriteAlone | Load::ReadAlone => 40,
                };
                run(load, &[0, requests, requests, requests, requests, requests])
            })
            .to_vec()
    }

    #[test]
    fn a_speed_comes_of_runs() {
        let speed = speed(&runs()).expect("all were measured");
        assert_eq!((speed.read_latency_us, speed.write_latency_us), (12_500, 12_500));
        let model = speed.model;
        assert_eq!((model.rbps, model.rseqiops, model.rrandiops), (100 << 20, 5000, 100));
        assert_eq!((model.wbps, model.wseqiops, model.wrandiops), (100 << 20, 5000, 100));
    }

    #[test]
    fn the_first_window_and_one_pause_do_not_count() {
        let rate = run(Load::ReadAlone, &[900, 100, 100, 0, 104, 97]).rate().expect("measured");
        assert_eq!(rate.requests_in_1000_s, 198_000);
        // 100 and 97 are two requests apart, but for the one that does not count.
        assert_eq!(rate.spread_thousandths, 20);
        assert!(rate.is_steady());
        let rate = run(Load::ReadAlone, &[0, 50, 100, 150, 200, 200]).rate().expect("measured");
        assert!(!rate.is_steady(), "{rate:?}");
    }

    #[test]
    fn few_requests_a_window_are_no_unsteadiness() {
        let few =
            run(Load::ReadLarge, &[4, 3, 4, 4, 3, 4, 3, 3, 4, 4, 4]).rate().expect("measured");
        assert!(few.is_steady(), "{few:?}");
        // 3.67 in half a second, and neither 3 nor 4.
        assert_eq!(few.requests_in_1000_s, 7333);
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let mut without = runs();
        without.retain(|run| run.load != Load::WriteAlone);
        assert_eq!(speed(&without), Err(NoSpeed::Missing(Load::WriteAlone)));
        let mut slow = runs();
        slow[6] = run(Load::ReadAnywhere, &[1, 0, 0, 0, 1]);
        assert_eq!(speed(&slow), Err(NoSpeed::TooSlow(Load::ReadAnywhere)));
        assert_eq!(run(Load::ReadAlone, &[5]).rate(), Err(NoSpeed::Missing(Load::ReadAlone)));
        assert!(speed(&[]).is_err());
    }

    #[test]
    fn the_model_is_one_that_the_kernel_can_follow() {
        let mut odd = runs();
        // In order a little slower than anywhere, and large pieces than small ones.
        odd[5] = run(Load::ReadInOrder, &[0, 45, 45, 45]);
        odd[4] = run(Load::ReadLarge, &[0, 0, 0, 1, 1, 1]);
        odd[4].windows.iter_mut().for_each(|window| window.elapsed_ns = 100_000_000_000);
        let model = speed(&odd).expect("all were measured").model;
        assert_eq!((model.rseqiops, model.rrandiops), (100, 100));
        assert_eq!(model.rbps, 409_600);
        let mut slow = runs();
        slow[6] = run(Load::ReadAnywhere, &[1, 1, 1]);
        slow[6].windows.iter_mut().for_each(|window| window.elapsed_ns = 9_000_000_000);
        assert_eq!(speed(&slow).expect("all were measured").model.rrandiops, 1, "never 0");
    }
}
