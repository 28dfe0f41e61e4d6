//! The bytes that each ordinary person may write to the journal.

use front::Allowances;
use std::time::Instant;
use wire::{ApiError, ErrorCode};

/// What one may write at once.
const MOST_BYTES: u64 = 16 << 20;
/// What of it comes back each second.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// What was written and has not come back.
pub(super) struct Written(Allowances);

impl Default for Written {
    fn default() -> Written {
        Written(Allowances::new(MOST_BYTES, BYTES_PER_SECOND))
    }
}

impl Written {
    /// Refuses a person who has written too much lately.
    pub(super) fn check(&mut self, person: u32) -> Result<(), ApiError> {
        let Some(wait) = self.0.wait(person, Instant::now()) else { return Ok(()) };
        let message = format!(
            "uid {person} has written its {} MiB of the journal; {} KiB a second come back: try again in {} s",
            MOST_BYTES >> 20,
            BYTES_PER_SECOND >> 10,
            wait.as_secs() + 1,
        );
        Err(ApiError::new(ErrorCode::Limit, message))
    }

    /// Notes what a person writes.
    pub(super) fn charge(&mut self, person: u32, bytes: u64) {
        self.0.charge(person, bytes, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_writes_much_is_refused() {
        let mut written = Written::default();
        written.charge(1, 1 << 40);
        let refused = written.check(1).expect_err("too much");
        assert_eq!(refused.code, ErrorCode::Limit);
        assert!(refused.message.contains("try again in"), "{}", refused.message);
    }
}
