//! Arguments as people write them: amounts, sizes, times, process numbers.

use std::num::IntErrorKind;
use std::time::Duration;

/// Parses an amount of tickets, 0 to 2^64 - 1; allotd decides how many a ticket may have.
pub fn amount(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if text.starts_with('-') && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("an amount of tickets cannot be negative".to_owned());
    }
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "too large; a ticket has 0 to 1000000000".to_owned(),
        IntErrorKind::Empty => "an amount is missing; write a whole number of tickets".to_owned(),
        _ => "not a number of tickets; write a whole number, as in 500".to_owned(),
    })
}

/// Memory, as tickets or as an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Soft or hard tickets.
    Tickets(u64),
    /// A guaranteed amount, in KiB.
    Kib(u64),
}

/// Parses a number of tickets, or a size with its unit; K, M, G and T are powers of 1024.
pub fn memory(text: &str) -> Result<Memory, String> {
    if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return amount(text).map(Memory::Tickets);
    }
    let bytes = parse_size::Config::new().with_binary().parse_size(text);
    match bytes {
        Ok(bytes) if bytes >= 1024 => Ok(Memory::Kib(bytes / 1024)),
        Ok(bytes) => Err(format!("{bytes} bytes are too little; an amount is at least 1K")),
        Err(error) => Err(format!("{error}; write a size as in 2M, or a number of tickets")),
    }
}

/// Parses a size with or without its unit, in bytes; K, M, G and T are powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size::Config::new().with_binary().parse_size(text);
    bytes.map_err(|error| format!("{error}; write a size as in 10M"))
}

/// Parses a process's number.
pub fn pid(text: &str) -> Result<u32, String> {
    match text.parse::<i32>() {
        Ok(pid) if pid > 0 => Ok(pid.unsigned_abs()),
        _ => Err("not the number of a process".to_owned()),
    }
}

/// Parses `NAME=N`, tickets of a device or an interface.
pub fn named_amount(text: &str) -> Result<(String, u64), String> {
    match text.rsplit_once('=') {
        Some((name, tickets)) if !name.is_empty() => Ok((name.to_owned(), amount(tickets)?)),
        _ => Err("write NAME=N, as in sda=500".to_owned()),
    }
}

/// Parses a time in seconds, 0.1 to a day.
pub fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds, 0.1 to 86400".to_owned()),
    }
}

/// Parses a number of seconds; the experiment decides whether it is enough.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("write a number of seconds, as in 30".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!(amount("0"), Ok(0));
        assert_eq!(amount("18446744073709551615"), Ok(u64::MAX));
        assert!(amount("18446744073709551616").unwrap_err().contains("too large"));
        assert!(amount("-1").unwrap_err().contains("negative"));
        assert!(amount("-99999999999999999999").unwrap_err().contains("negative"));
        assert!(amount("1.5").unwrap_err().contains("whole number"));
        assert!(amount("").unwrap_err().contains("missing"));
    }

    #[test]
    fn memory_is_tickets_or_an_amount() {
        assert_eq!(memory("200"), Ok(Memory::Tickets(200)));
        assert_eq!(memory("2M"), Ok(Memory::Kib(2048)));
        assert_eq!(memory("1.5G"), Ok(Memory::Kib(3 << 19)));
        for (wrong, said) in [("12B", "at least 1K"), ("2X", "as in 2M"), ("-2", "negative")] {
            assert!(memory(wrong).unwrap_err().contains(said), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("10M"), Ok(10 << 20));
        assert_eq!(size("65536"), Ok(65_536));
        for wrong in ["", "-1", "x", "99999999999T"] {
            assert!(size(wrong).unwrap_err().contains("as in 10M"), "{wrong}");
        }
    }

    #[test]
    fn processes() {
        assert_eq!(pid("4711"), Ok(4711));
        for wrong in ["0", "-1", "x", "4294967296", ""] {
            assert!(pid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices() {
        assert_eq!(named_amount("sda=500"), Ok(("sda".to_owned(), 500)));
        assert!(named_amount("sda").is_err());
        assert!(named_amount("=5").is_err());
        assert!(named_amount("sda=-5").unwrap_err().contains("negative"));
    }

    #[test]
    fn intervals() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
