//! What each ordinary person may write to the journal: a store of bytes that fills up again.

use std::collections::BTreeMap;
use std::time::Instant;
use wire::{ApiError, ErrorCode};

/// What one may write at once.
const STORE_BYTES: u64 = 16 << 20;
/// What of it comes back each second.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// What was written and has not come back.
#[derive(Default)]
pub(super) struct Written(BTreeMap<u32, (Instant, u64)>);

impl Written {
    /// Refuses a person who has written too much lately.
    pub(super) fn check(&mut self, person: u32) -> Result<(), ApiError> {
        let over = self.lately(person, Instant::now()).saturating_sub(STORE_BYTES);
        if over == 0 {
            return Ok(());
        }
        let seconds = over.div_ceil(BYTES_PER_SECOND);
        let message = format!(
            "uid {person} has written its {} MiB of the journal; {} KiB a second come back: try again in {seconds} s",
            STORE_BYTES >> 20,
            BYTES_PER_SECOND >> 10,
        );
        Err(ApiError::new(ErrorCode::Limit, message))
    }

    /// Notes what a person writes.
    pub(super) fn charge(&mut self, person: u32, bytes: u64) {
        let now = Instant::now();
        let before = self.lately(person, now);
        self.0.insert(person, (now, before + bytes));
    }

    fn lately(&mut self, person: u32, now: Instant) -> u64 {
        let Some((at, bytes)) = self.0.get(&person) else { return 0 };
        let back = now.saturating_duration_since(*at).as_secs_f64() * BYTES_PER_SECOND as f64;
        let left = bytes.saturating_sub(back as u64);
        if left == 0 {
            self.0.remove(&person);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_writes_much_is_refused_and_others_are_not() {
        let mut written = Written::default();
        written.charge(1, STORE_BYTES);
        written.check(1).expect("all of it, and no more");
        written.charge(1, 1 << 40);
        let refused = written.check(1).expect_err("too much");
        assert_eq!(refused.code, ErrorCode::Limit);
        assert!(refused.message.contains("try again in"), "{}", refused.message);
        written.check(2).expect("another's is another's");
    }
}
