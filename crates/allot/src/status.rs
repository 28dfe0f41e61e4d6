//! `allot status`: how an allotd is set up.

use clap::Args;
use command_line::style::{Style, Tone, clean, duration, pad};
use command_line::users::user_name;
use command_line::{CliError, GlobalOptions, connection, output};
use std::process::ExitCode;
use wire::Status;

/// Show how allotd is set up
#[derive(Args)]
#[command(after_help = "Example:\n  allot status\n  allot --user status --json")]
pub struct StatusArgs {}

pub fn status(global: &GlobalOptions, _: &StatusArgs) -> Result<ExitCode, CliError> {
    let client = connection::connect(global)?;
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
    // Only who rules it is told where the state is, and the seed.
    let state = match status.state_dir.as_str() {
        "" => format!("journal at {}", status.sequence),
        dir => format!("{dir}, journal at {}", status.sequence),
    };
    let policy = match cpu.seed {
        0 => cpu.policy.clone(),
        seed => format!("{}, seed {seed}", cpu.policy),
    };
    let mut lines = vec![
        (
            "allotd",
            format!("{}, process {} of {}", status.version, status.pid, user_name(status.uid)),
        ),
        ("socket", format!("{whose}{socket}")),
        ("state", state),
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
            ("policy", policy),
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
