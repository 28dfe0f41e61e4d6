//! What clients used, and a digest of all that happened.

/// What a client used since the machine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu_ns: u64,
    /// How long its threads were runnable: what is not CPU time of it they waited for a CPU.
    pub runnable_ns: u64,
    /// How long its threads waited for the disk, but for what is below.
    pub disk_wait_ns: u64,
    /// How long its threads waited for frames, or for pages that it would have had still with twice its memory.
    pub memory_wait_ns: u64,
    /// Turns of its workloads that are done: what a benchmark counts.
    pub iterations: u64,
    /// Pages that it holds.
    pub held_pages: u64,
    /// Pages that it is sure to keep.
    pub guaranteed_pages: u64,
    /// Pages for which it had to wait for the disk.
    pub faults: u64,
    /// Pages that were brought in again after they had been taken.
    pub refaults: u64,
    /// Pages that were taken from it.
    pub taken_pages: u64,
    /// Those of them that were taken while it held no more than its guarantee.
    pub taken_within_guarantee: u64,
    /// Requests that the disk served for it.
    pub disk_requests: u64,
    /// Bytes that the disk read for it.
    pub disk_read_bytes: u64,
    /// Bytes that the disk wrote for it.
    pub disk_written_bytes: u64,
    /// Bytes that it sent.
    pub sent_bytes: u64,
}

/// A digest of all events in their order (FNV-1a, 64 bits, over their words): equal runs have equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    value: u64,
    events: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Digest { value: 0xcbf2_9ce4_8422_2325, events: 0 }
    }
}

impl Digest {
    /// An event happened.
    pub fn note(&mut self, kind: u64, at_ns: u64, whose: u64) {
        self.events += 1;
        for word in [kind, at_ns, whose] {
            for byte in word.to_le_bytes() {
                self.value = (self.value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    /// The digest so far.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// How many events it covers.
    pub fn events(&self) -> u64 {
        self.events
    }
}
