//! Goods, rates and times as people write them.

use command_line::argument_parsing::{self, Memory};
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};
use wire::{Good, OfferPoint, TicketKind};

/// An amount of a good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift {
    /// Of what.
    pub good: Good,
    /// How many base tickets.
    pub amount: u64,
}

/// `RESOURCE=N`, `RESOURCE=N:hard`, or `memory=SIZE`, which is an amount.
pub fn gift(text: &str) -> Result<Gift, String> {
    let missing = || "write RESOURCE=N, as in cpu=100, disk:sda=100 or memory=2M".to_owned();
    let (resource, number) = text.split_once('=').ok_or_else(missing)?;
    if resource.is_empty() {
        return Err(missing());
    }
    let (number, kind) = match number.strip_suffix(":hard") {
        Some(number) => (number, TicketKind::Hard),
        None => (number, TicketKind::Soft),
    };
    let (amount, kind) = match argument_parsing::memory(number)? {
        Memory::Tickets(amount) => (amount, kind),
        Memory::Kib(kib) if resource == "memory" => (kib, TicketKind::Hard),
        Memory::Kib(_) => return Err("only memory has amounts; write a number of tickets".into()),
    };
    Ok(Gift { good: Good { resource: resource.to_owned(), kind }, amount })
}

/// `GIVE:WANT`, each a number of tickets or an amount of memory.
pub fn point(text: &str) -> Result<OfferPoint, String> {
    let (give, want) = text.split_once(':').ok_or("write GIVE:WANT, as in 100:50")?;
    let number = |text: &str| {
        argument_parsing::memory(text).map(|found| match found {
            Memory::Tickets(amount) | Memory::Kib(amount) => amount,
        })
    };
    Ok(OfferPoint { give: number(give)?, want: number(want)? })
}

/// Tickets for one ticket.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("write how many tickets for one, as in 1.5".to_owned()),
    }
}

/// How long from now, as in 2h: seconds since 1970 when that is over.
pub fn span(text: &str) -> Result<u64, String> {
    let now = Zoned::now();
    let bad = || format!("`{text}` is no time; write 30m, 2h or 3d");
    let span: Span = text.parse().map_err(|_| bad())?;
    let then = now.checked_add(span).map_err(|_| bad())?;
    if then <= now {
        return Err(format!("{text} is no time to come"));
    }
    seconds(&then)
}

/// A time: `2h` from now, the next `18:00`, or a date with a time, where the caller is.
pub fn until(text: &str) -> Result<u64, String> {
    let zone = TimeZone::system();
    let at = |at: DateTime| at.to_zoned(zone.clone()).map_err(|error| error.to_string());
    if let Ok(time) = text.parse::<Time>()
        && text.contains(':')
        && !text.contains('-')
    {
        let now = Zoned::now();
        let today = at(now.date().to_datetime(time))?;
        if today > now {
            return seconds(&today);
        }
        let tomorrow = now.date().tomorrow().map_err(|error| error.to_string())?;
        return seconds(&at(tomorrow.to_datetime(time))?);
    }
    match text.parse::<DateTime>() {
        Ok(found) => seconds(&at(found)?),
        Err(_) => span(text)
            .map_err(|_| format!("`{text}` is no time; write 2h, 18:00 or 2026-03-01T12:00")),
    }
}

fn seconds(at: &Zoned) -> Result<u64, String> {
    u64::try_from(at.timestamp().as_second()).map_err(|_| "that was before 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(resource: &str, kind: TicketKind) -> Good {
        Good { resource: resource.to_owned(), kind }
    }

    #[test]
    fn gifts() {
        let soft = good("disk:sda", TicketKind::Soft);
        assert_eq!(gift("disk:sda=100"), Ok(Gift { good: soft, amount: 100 }));
        let hard = good("cpu", TicketKind::Hard);
        assert_eq!(gift("cpu=200:hard"), Ok(Gift { good: hard, amount: 200 }));
        let amount = good("memory", TicketKind::Hard);
        assert_eq!(gift("memory=2M"), Ok(Gift { good: amount, amount: 2048 }));
        for bad in ["cpu", "=1", "cpu=", "cpu=2M", "cpu=-1", "cpu=x"] {
            assert!(gift(bad).is_err(), "{bad}");
        }
        assert_eq!(point("100:2M"), Ok(OfferPoint { give: 100, want: 2048 }));
        assert!(point("100").is_err() && point("a:b").is_err());
        assert!(rate("0").is_err() && rate("nan").is_err() && rate("0.5").is_ok());
    }

    #[test]
    fn times() {
        let now = seconds(&Zoned::now()).expect("after 1970");
        let near = |found: Result<u64, String>, from_now: u64| {
            let found = found.expect("a time");
            assert!((now + from_now..now + from_now + 60).contains(&found), "{found} from {now}");
        };
        near(span("2h"), 7200);
        near(until("30m"), 1800);
        let clock = until("18:00").expect("a time");
        assert!((now..now + 90_000).contains(&clock), "{clock} from {now}");
        assert_eq!(until("2000-01-01T00:00").map(|at| at / 86_400 / 365), Ok(30));
        for bad in ["", "soon", "-2h", "25:00"] {
            assert!(until(bad).is_err(), "{bad}");
        }
    }
}
