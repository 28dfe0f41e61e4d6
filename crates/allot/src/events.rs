//! `allot events`: what happened, and what happens.

use clap::Args;
use command_line::style::{Style, Tone, clean, pad_left};
use command_line::users::user_name;
use command_line::{CliError, GlobalOptions, connection, output};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use std::process::ExitCode;
use wire::{Event, EventKind, Lines};

/// Show what happened: operations, processes that came and went, what befell allotd
///
/// Without --follow it shows what is kept and ends; with it, it goes on with what happens.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot events --after 1200\n  allot events --follow --json\n  allot events --audit --since 7d"
)]
pub struct EventsArgs {
    /// Begin after this number of the journal; without it, at the oldest that is kept, or with
    /// --follow at what happens next
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// Go on with what happens
    #[arg(long, short)]
    pub follow: bool,
    /// Changes by people, and no processes: kept for a year; with --json, to be kept elsewhere
    #[arg(long, conflicts_with_all = ["after", "follow"])]
    pub audit: bool,
    /// Of the audit, what is not older: 7d, 12h, 30min
    #[arg(long, value_name = "TIME", requires = "audit", value_parser = since)]
    pub since: Option<Timestamp>,
}

pub fn events(global: &GlobalOptions, args: &EventsArgs) -> Result<ExitCode, CliError> {
    let client = connection::connect(global)?;
    if args.audit {
        let since = args.since.map_or(0, |since| since.as_millisecond());
        show(global, client.audit(u64::try_from(since).unwrap_or(0))?, |_| true)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stream =
        if args.follow { client.events(args.after)? } else { client.past_events(args.after)? };
    show(global, stream, |_| true)?;
    Ok(ExitCode::SUCCESS)
}

/// The time so long ago.
fn since(text: &str) -> Result<Timestamp, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}; write 7d, 12h or 30min"))?;
    let since = Zoned::now().checked_sub(span.abs()).map_err(|error| error.to_string())?;
    Ok(since.timestamp())
}

/// Shows events of a stream until it ends.
pub fn show(
    global: &GlobalOptions,
    stream: Lines<Event>,
    is_wanted: impl Fn(&Event) -> bool,
) -> Result<(), CliError> {
    let (zone, style) = (TimeZone::system(), Style::of_stdout());
    for event in stream {
        let event = event?;
        match is_wanted(&event) {
            true if global.json => output::json(&event)?,
            true => output::text(&line(&event, &zone, style))?,
            false => {}
        }
    }
    Ok(())
}

fn line(event: &Event, zone: &TimeZone, style: Style) -> String {
    let number = event.sequence.map(|sequence| sequence.to_string()).unwrap_or_default();
    let who = event.uid.map(user_name).unwrap_or_default();
    let (kind, tone) = match event.kind {
        EventKind::Operation => ("operation", Tone::Plain),
        EventKind::Process => ("process", Tone::Faint),
        EventKind::Daemon => ("daemon", Tone::Warning),
    };
    format!(
        "{} {} {} {} {}",
        local_time(event.at_unix_ms, zone.clone()),
        pad_left(&number, 7),
        style.paint(tone, &format!("{kind:9}")),
        format_args!("{:10}", clean(&who)),
        clean(&event.text)
    )
}

/// Date and time where the caller is, as in `2026-03-01 12:00:05.123`.
pub fn local_time(at_unix_ms: u64, zone: TimeZone) -> String {
    let at = i64::try_from(at_unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    match at {
        Some(at) => at.to_zoned(zone).strftime("%F %T%.3f").to_string(),
        None => format!("{at_unix_ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(local_time(0, TimeZone::UTC), "1970-01-01 00:00:00.000");
        assert_eq!(local_time(951_782_400_123, TimeZone::UTC), "2000-02-29 00:00:00.123");
        assert_eq!(local_time(u64::MAX, TimeZone::UTC), "18446744073709551615 ms");
    }

    #[test]
    fn lines() {
        let event = Event {
            sequence: Some(12),
            at_unix_ms: 0,
            kind: EventKind::Operation,
            uid: Some(0),
            text: "made currency \x1b[31mred".to_owned(),
            offers: Vec::new(),
            exchanges: Vec::new(),
        };
        assert_eq!(
            line(&event, &TimeZone::UTC, Style::PLAIN),
            "1970-01-01 00:00:00.000      12 operation root       made currency ?[31mred"
        );
    }
}
