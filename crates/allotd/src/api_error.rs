//! Errors of the journal, in the words of the interface.

use journal::JournalError;
use wire::{ApiError, ErrorCode};

/// The error of operations that could not be written down: nothing was done.
pub fn not_durable(error: &JournalError) -> ApiError {
    let mut message = format!("nothing was changed: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        message.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    ApiError::new(ErrorCode::Journal, message)
}
