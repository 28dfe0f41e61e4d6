//! `allot trace`: what the scheduler in the kernel does, choice by choice (paper 3, table 4).

use crate::graph::{Graph, label};
use crate::process::client_ref;
use clap::Args;
use command_line::style::{Style, Tone, duration, fit, pad_left, percent};
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output, users};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use wire::{Client, TraceKind, TraceLine};

/// Names of new clients are asked for at most so often.
const ASK_PAUSE: Duration = Duration::from_secs(1);
const CLIENT_COLUMNS: usize = 24;
/// Lines that wait to be shown; what comes while so many do waits in allotd.
const KEPT_LINES: usize = 4096;

/// Show every choice of the scheduler in the kernel: who was drawn, for how much, with which number
///
/// VALUE is what the client's tickets are worth at that moment, as a part of the machine; DRAWN the
/// lottery's random number, whose mean is 1; OWED the CPU time that its tickets were due and that
/// it has not been charged: the compensation for slices that it did not use. Tracing makes every
/// choice cost more: only root may, and the owner of a private allotd.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot trace --seconds 1\n  allot trace --client 4711 --all\n  \
        allot trace --json | jq .client"
)]
pub struct TraceArgs {
    /// Of one client only: PID, `#ID`, pid:PID, kernel, rest
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<String>,
    /// End after so long; without it, goes on
    #[arg(long, value_name = "SECONDS", value_parser = argument_parsing::interval)]
    pub seconds: Option<Duration>,
    /// Also who became runnable, was queued, was charged and went to sleep
    #[arg(long)]
    pub all: bool,
}

/// Shows it.
pub fn trace(global: &GlobalOptions, args: &TraceArgs) -> Result<ExitCode, CliError> {
    let client = connection::connect(global)?;
    let mut names = Names::new(&client)?;
    let id = match &args.client {
        Some(text) => {
            let view = client.ledger()?;
            Some(Graph::new(&view).find(&client_ref(text).0, users::own_uid())?.id)
        }
        None => None,
    };
    let style = Style::of_stdout();
    let lines = client.trace(id)?;
    // Who waits for a line waits for ever where nothing happens, and the time is up nevertheless.
    let (sender, arrived) = mpsc::sync_channel(KEPT_LINES);
    std::thread::spawn(move || lines.into_iter().try_for_each(|line| sender.send(line)));
    if !global.json {
        output::text(&style.paint(Tone::Strong, &heading()))?;
    }
    let until = args.seconds.map(|seconds| Instant::now() + seconds);
    while until.is_none_or(|until| Instant::now() < until) {
        let line = match until {
            Some(until) => {
                arrived.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
            }
            None => arrived.recv().ok(),
        };
        let Some(line) = line else { break };
        let line = line?;
        if line.kind != TraceKind::Win && !args.all {
            continue;
        }
        if global.json {
            output::json(&line)?;
        } else {
            let name = names.of(&client, line.client);
            output::text(&row(&line, &name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn heading() -> String {
    format!(
        "{} {} {} {} {} {} {} {} {}",
        pad_left("SECONDS", 14),
        fit("WHAT", 6),
        fit("CLIENT", CLIENT_COLUMNS),
        pad_left("THREAD", 7),
        pad_left("CPU", 3),
        pad_left("VALUE", 8),
        pad_left("DRAWN", 6),
        pad_left("OWED", 9),
        pad_left("USED", 9),
    )
}

fn row(line: &TraceLine, name: &str) -> String {
    let what = match line.kind {
        TraceKind::Join => "join",
        TraceKind::Queue => "queue",
        TraceKind::Win => "win",
        TraceKind::Charge => "charge",
        TraceKind::Leave => "leave",
    };
    let owed = match line.due_ns.checked_sub(line.charged_ns) {
        Some(owed) => duration(owed),
        None => format!("-{}", duration(line.charged_ns - line.due_ns)),
    };
    format!(
        "{} {} {} {} {} {} {} {} {}",
        pad_left(&format!("{:.6}", line.at_ns as f64 / 1e9), 14),
        fit(what, 6),
        fit(name, CLIENT_COLUMNS),
        pad_left(&line.tid.to_string(), 7),
        pad_left(&line.cpu.to_string(), 3),
        pad_left(&percent(line.value), 8),
        pad_left(&format!("{:.3}", line.drawn), 6),
        pad_left(&owed, 9),
        pad_left(&duration(line.used_ns), 9),
    )
}

/// What clients are called.
struct Names {
    known: BTreeMap<u64, String>,
    asked: Instant,
}

impl Names {
    fn new(client: &Client) -> Result<Names, CliError> {
        let mut names = Names { known: BTreeMap::new(), asked: Instant::now() };
        names.ask(client)?;
        Ok(names)
    }

    fn ask(&mut self, client: &Client) -> Result<(), CliError> {
        let view = client.ledger()?;
        self.known = view.currencies.iter().map(|one| (one.id, label(one))).collect();
        self.asked = Instant::now();
        Ok(())
    }

    fn of(&mut self, client: &Client, id: u64) -> String {
        if !self.known.contains_key(&id) && self.asked.elapsed() >= ASK_PAUSE {
            // Where it cannot be asked, the trace ends by itself.
            let _ = self.ask(client);
        }
        self.known.get(&id).cloned().unwrap_or_else(|| format!("#{id}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line() {
        let line = TraceLine {
            at_ns: 1_500_000_000,
            kind: TraceKind::Win,
            client: 7,
            tid: 4711,
            cpu: 1,
            key: 0,
            value: 0.25,
            used_ns: 9_000_000,
            due_ns: 8_000_000,
            charged_ns: 5_000_000,
            drawn: 0.5,
            virtual_ns: 0,
            number: 3,
        };
        let text = row(&line, "make 4711");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[..5], ["1.500000", "win", "make", "4711", "4711"], "{text}");
        assert!(text.contains("25.0 %") && text.contains("0.500"), "{text}");
        assert!(text.contains(&duration(3_000_000)), "owed: {text}");
        assert_eq!(row(&line, "x").find("win"), heading().find("WHAT"));
        let ahead = TraceLine { charged_ns: 9_000_000, ..line };
        assert!(row(&ahead, "x").contains(&format!("-{}", duration(1_000_000))));
    }
}
