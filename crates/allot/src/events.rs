//! `allot events`: what happened, and what happens.

use crate::cli::Global;
use crate::error::CliError;
use crate::people::user_name;
use crate::style::{Style, Tone, clean, pad_left};
use crate::{output, session};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::process::ExitCode;
use std::time::Duration;
use wire::{Client, Event, EventKind};

/// Show what happened: operations, processes that came and went, what befell allotd
///
/// Without --follow it shows what is kept and ends; with it, it goes on with what happens.
#[derive(Args)]
#[command(after_help = "Example:\n  allot events --after 1200\n  allot events --follow --json")]
pub struct EventsArgs {
    /// Begin after this number of the journal; without it, at the oldest that is kept, or with
    /// --follow at what happens next
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// Go on with what happens
    #[arg(long, short)]
    pub follow: bool,
}

pub fn events(global: &Global, args: &EventsArgs) -> Result<ExitCode, CliError> {
    let client = session::connect(global)?;
    let (zone, style) = (TimeZone::system(), Style::of_stdout());
    let show = |event: &Event| {
        if global.json { output::json(event) } else { output::text(&line(event, &zone, style)) }
    };
    if args.follow {
        for event in client.events(args.after)? {
            show(&event?)?;
        }
    } else {
        for event in kept(&client, args.after.unwrap_or(0))? {
            show(&event)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How long a stream must be silent to have no more of what is kept.
const QUIET: Duration = Duration::from_secs(1);

/// The events that allotd still has, after a number of its journal. The stream itself never
/// ends: it is read until the journal's last number, or until nothing more comes (what is kept
/// may end earlier, for what was only observed has no number).
fn kept(client: &Client, after: u64) -> Result<Vec<Event>, CliError> {
    let last = client.status()?.sequence;
    let stream = client.events(Some(after))?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for event in stream {
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    let mut events = Vec::new();
    while let Ok(event) = receiver.recv_timeout(QUIET) {
        let event = event?;
        let is_last = event.sequence.is_some_and(|sequence| sequence >= last);
        events.push(event);
        if is_last {
            break;
        }
    }
    Ok(events)
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
fn local_time(at_unix_ms: u64, zone: TimeZone) -> String {
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
        };
        assert_eq!(
            line(&event, &TimeZone::UTC, Style::PLAIN),
            "1970-01-01 00:00:00.000      12 operation root       made currency ?[31mred"
        );
    }
}
