//! Who loses pages, where a policy and not age alone says so.

/// A client that holds memory, as it is when a policy is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Names it.
    pub key: u64,
    /// The base value of its memory tickets, in parts of 2⁴⁸.
    pub tickets: u64,
    /// What it holds, in bytes.
    pub held_bytes: u64,
    /// What it is sure to keep, in bytes.
    pub guaranteed_bytes: u64,
    /// What of `held_bytes` was used recently, in bytes.
    pub active_bytes: u64,
    /// Whether it is here for what others leave (paper 4, section 2).
    pub guest: bool,
    /// How often it needed again what was taken from it: pages a second, averaged over time, in 1/1024.
    pub refaults: u64,
}

impl Holder {
    /// What may be taken, in bytes.
    pub fn excess_bytes(&self) -> u64 {
        self.held_bytes.saturating_sub(self.guaranteed_bytes)
    }
}

/// A rule that chooses who loses memory.
pub trait Reclaim: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Who loses memory next: an index into `holders`, of one that holds more than it is guaranteed. `None` where
    /// there is no such.
    fn choose(&mut self, holders: &[Holder]) -> Option<usize>;
}
