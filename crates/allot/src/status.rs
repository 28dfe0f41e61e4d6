//! `allot status`: how an allotd is set up.

use crate::cli::Global;
use crate::error::CliError;
use crate::people::user_name;
use crate::style::{Style, Tone, clean, duration, pad};
use crate::{output, session};
use clap::Args;
use std::process::ExitCode;
use wire::Status;

/// Show how allotd is set up
#[derive(Args)]
#[command(after_help = "Example:\n  allot status\n  allot --user status --json")]
pub struct StatusArgs {}

pub fn status(global: &Global) -> Result<ExitCode, CliError> {
    let client = session::connect(global)?;
    let status = client.status()?;
    if global.json {
        output::json(&status)?;
    } else {
        let socket = client.socket().display().to_string();
        output::text(&render(&status, &socket, Style::of_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(status: &Status, socket: &str, style: Style) -> String {
    let cpu = &status.cpu;
    let cpus: Vec<String> = cpu.cpus.iter().map(u32::to_string).collect();
    let whose = if status.private { "private, " } else { "" };
    let mut lines = vec![
        (
            "allotd",
            format!("{}, process {} of {}", status.version, status.pid, user_name(status.uid)),
        ),
        ("socket", format!("{whose}{socket}")),
        ("state", format!("{}, journal at {}", status.state_dir, status.sequence)),
        (
            "ledger",
            format!(
                "{} currencies, {} tickets, {} clients",
                status.currencies, status.tickets, status.clients
            ),
        ),
        ("life", status.life_source.clone()),
        ("cpu", format!("{}: {}", cpu.name, cpu.why)),
    ];
    if cpu.name != "none" {
        lines.extend([
            ("policy", format!("{}, seed {}", cpu.policy, cpu.seed)),
            ("quantum", duration(cpu.quantum_ns)),
            ("CPUs", cpus.join(" ")),
            ("losers", cpu.hold.clone()),
            ("plan", format!("generation {}", cpu.generation)),
        ]);
    }
    let mut out = String::new();
    for (name, says) in lines {
        out.push_str(&style.paint(Tone::Faint, &pad(name, 9)));
        out.push_str(&clean(&says));
        out.push('\n');
    }
    for drift in &cpu.drift {
        out.push_str(&style.paint(Tone::Warning, &format!("{}{}", pad("drift", 9), clean(drift))));
        out.push('\n');
    }
    out
}
