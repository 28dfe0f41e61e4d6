//! Why something was refused or failed, for programs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason of an error, as a short, stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum ErrorCode {
    /// A request that cannot be understood, or never makes sense.
    Invalid,
    /// A missing right.
    Forbidden,
    /// A name, process or number of nothing that there is.
    Unknown,
    /// A request that does not fit how things are now.
    Conflict,
    /// A currency that would fund itself.
    Cycle,
    /// A request beyond what one may have.
    Limit,
    /// A journal that cannot be written; nothing was changed.
    Journal,
    /// A failure of allotd.
    Internal,
}

impl ErrorCode {
    /// Every code, with its word and the HTTP status of an answer that has it.
    const TABLE: [(ErrorCode, &'static str, u16); 8] = [
        (ErrorCode::Invalid, "invalid", 400),
        (ErrorCode::Forbidden, "forbidden", 403),
        (ErrorCode::Unknown, "unknown", 404),
        (ErrorCode::Conflict, "conflict", 409),
        (ErrorCode::Cycle, "cycle", 409),
        (ErrorCode::Limit, "limit", 422),
        (ErrorCode::Journal, "journal", 507),
        (ErrorCode::Internal, "internal", 500),
    ];

    /// The word, as it is on the wire.
    pub fn as_str(self) -> &'static str {
        ErrorCode::TABLE[self as usize].1
    }

    /// The HTTP status.
    pub fn http_status(self) -> u16 {
        ErrorCode::TABLE[self as usize].2
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<ErrorCode> for &'static str {
    fn from(code: ErrorCode) -> Self {
        code.as_str()
    }
}

/// A word of a newer allotd is read as [`ErrorCode::Internal`].
impl From<String> for ErrorCode {
    fn from(word: String) -> Self {
        let known = ErrorCode::TABLE.iter().find(|(_, known, _)| *known == word);
        known.map_or(ErrorCode::Internal, |(code, ..)| *code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_codes_are_their_words() {
        for (place, (code, word, _)) in ErrorCode::TABLE.into_iter().enumerate() {
            assert_eq!(code as usize, place);
            let json = serde_json::to_string(&code).expect("a word");
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<ErrorCode>(&json).expect("a word"), code);
        }
        let newer = serde_json::from_str::<ErrorCode>("\"newer\"").expect("a word");
        assert_eq!(newer, ErrorCode::Internal);
    }
}
