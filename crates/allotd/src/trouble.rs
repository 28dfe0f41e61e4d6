//! What goes wrong, in the words of the interface.

use journal::JournalError;
use ledger::Refusal;
use wire::Trouble;

/// A trouble with a stable word and a message.
pub fn trouble(code: &str, message: impl Into<String>) -> Trouble {
    Trouble { code: code.to_owned(), message: message.into(), operation: None }
}

/// What the broker said.
pub fn refused(refusal: &Refusal) -> Trouble {
    trouble(refusal.code(), refusal.to_string())
}

/// What the journal said: nothing was done.
pub fn not_durable(error: &JournalError) -> Trouble {
    let mut message = format!("nothing was changed: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        message.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    trouble("journal", message)
}
