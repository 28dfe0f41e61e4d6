//! The settings that each I/O controller needs on a device. Pure. Their rules stand in [`prepare`](mod@super::prepare).

use crate::found::NR_REQUESTS;
use crate::io_controller::IoController;
use crate::iocost::{Quality, Speed};
use crate::look::DiskFacts;

/// Rule 5: requests that BFQ sees at a time.
const LEAST_REQUESTS: u32 = 128;
/// Rule 5, in sectors: 8 MiB, `bfq_default_max_budget` in block/bfq-iosched.c.
const BUDGET_WITH_HEAD: u32 = 16 * 1024;
/// Rule 5, in sectors: 128 KiB, about what a slow device serves of small requests in a turn.
const BUDGET_SHALLOW: u32 = 256;
/// Rule 5, in sectors: 32 KiB.
const BUDGET_DEEP: u32 = 64;
/// Rule 7: of what was measured.
const SPEED_THOUSANDTHS: u64 = 950;
/// Rule 8: of the model's speed, in hundredths of a percent.
const GREATEST_RATE: u32 = 10_000;
/// Rule 8, in hundredths of a percent.
const LEAST_RATE: u32 = 2500;
/// Rule 9, in hundredths of a percent.
const PERCENTILE: u32 = 9500;
/// Rule 9.
const REQUESTS: u64 = 25;
/// Rule 9.
const LATENCIES: u64 = 4;
/// Rule 9: the kernel's for its fastest kind of device.
const LEAST_LATENCY_US: u64 = 5_000;
/// Rule 9: the kernel's for its slowest.
const GREATEST_LATENCY_US: u64 = 250_000;

/// Rule 2.
pub(crate) const LOW_LATENCY: &str = "iosched/low_latency";
/// The same as `slice_idle_us`, in ms.
pub(crate) const SLICE_IDLE_MS: &str = "iosched/slice_idle";

/// The value that a setting has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Exactly(u32),
    AtLeast(u32),
}

impl Wanted {
    pub fn allows(self, is: &str) -> bool {
        match (self, is.parse::<u32>()) {
            (Wanted::Exactly(value), Ok(is)) => is == value,
            (Wanted::AtLeast(value), Ok(is)) => is >= value,
            (_, Err(_)) => false,
        }
    }

    pub fn text(self) -> String {
        let (Wanted::Exactly(value) | Wanted::AtLeast(value)) = self;
        value.to_string()
    }
}

/// Returns whether the device has a head. If that is unknown, the budget of one that has is safe.
fn has_head(facts: &DiskFacts) -> bool {
    facts.is_rotational.unwrap_or(true)
}

/// Returns the settings of the queue that a controller needs, in the order in which they are set (rules 2 to 5).
pub(crate) fn wanted(controller: &IoController, facts: &DiskFacts) -> Vec<(&'static str, Wanted)> {
    let strict = u32::from(facts.hardware_depth == Some(1));
    let budget = match has_head(facts) {
        true => BUDGET_WITH_HEAD,
        false if facts.is_shallow() => BUDGET_SHALLOW,
        false => BUDGET_DEEP,
    };
    match controller {
        IoController::Bfq => vec![
            (LOW_LATENCY, Wanted::Exactly(0)),
            ("iosched/slice_idle_us", Wanted::Exactly(8000)),
            ("iosched/strict_guarantees", Wanted::Exactly(strict)),
            ("iosched/max_budget", Wanted::Exactly(budget)),
            (NR_REQUESTS, Wanted::AtLeast(LEAST_REQUESTS)),
        ],
        IoController::Iocost(_) => Vec::new(),
    }
}

/// Returns iocost's quality and model (rules 7 to 9).
pub(crate) fn cost_lines(speed: &Speed, facts: &DiskFacts) -> (String, String) {
    let latency = |alone_us: u64, requests_a_second: u64| {
        let in_turn_us = REQUESTS * 1_000_000 / requests_a_second.max(1);
        let least_us = alone_us.saturating_mul(LATENCIES).max(in_turn_us);
        least_us.clamp(LEAST_LATENCY_US, GREATEST_LATENCY_US)
    };
    let quality = Quality {
        read_percentile: PERCENTILE,
        read_latency_us: latency(speed.read_latency_us, speed.model.rrandiops),
        write_percentile: PERCENTILE,
        write_latency_us: latency(speed.write_latency_us, speed.model.wrandiops),
        least_rate: LEAST_RATE,
        greatest_rate: GREATEST_RATE,
    };
    let model = speed.model.scaled(SPEED_THOUSANDTHS);
    (quality.line(facts.number), model.line(facts.number))
}
