//! `allot doctor`: what this machine offers.

use clap::Args;
use command_line::error::{self, CliError};
use command_line::style::{Style, Table, Tone, clean};
use command_line::{GlobalOptions, connection, output, programs};
use std::process::{Command, ExitCode, Stdio};
use wire::{ClientError, Doctor};

/// Show what this machine offers, and which enforcer each resource gets
///
/// Asks allotd; where none answers, looks by itself.
#[derive(Args)]
#[command(after_help = "Example:\n  allot doctor\n  allot doctor --json")]
pub struct DoctorArgs {}

pub fn doctor(global: &GlobalOptions, _: &DoctorArgs) -> Result<ExitCode, CliError> {
    let found = match connection::connect(global)?.doctor() {
        Ok(found) => found,
        Err(unreachable @ ClientError::Unreachable { .. }) => without_daemon(unreachable)?,
        Err(error) => return Err(error.into()),
    };
    if global.json {
        output::json(&found)?;
    } else {
        output::text(&render(&found, Style::of_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the daemon's program finds out without a daemon that runs.
fn without_daemon(unreachable: ClientError) -> Result<Doctor, CliError> {
    let program = programs::path("allotd");
    let failed = |why: String| {
        CliError::Failed(format!("{unreachable}. And `{} doctor` says: {why}", program.display()))
    };
    let answer = Command::new(&program)
        .args(["doctor", "--json"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !answer.status.success() {
        let why = String::from_utf8_lossy(&answer.stderr);
        return Err(failed(format!("{} ({})", why.trim(), answer.status)));
    }
    let found =
        serde_json::from_slice(&answer.stdout).map_err(|error| failed(error.to_string()))?;
    error::warn("no allotd answers; this is what one that you start would find");
    Ok(found)
}

fn render(doctor: &Doctor, style: Style) -> String {
    let mut resources = Table::new(&[("RESOURCE", false), ("ENFORCER", false), ("WHY", false)]);
    for resource in &doctor.resources {
        let tone = if resource.enforcer == "none" { Tone::Warning } else { Tone::Good };
        resources.row(vec![
            (Tone::Strong, clean(&resource.resource)),
            (tone, clean(&resource.enforcer)),
            (Tone::Plain, clean(&resource.why)),
        ]);
    }
    let mut checks = Table::new(&[("", false), ("CHECK", false), ("FOUND", false)]);
    for check in &doctor.checks {
        let (tone, sign) = if check.ok { (Tone::Good, "ok") } else { (Tone::Warning, "--") };
        checks.row(vec![
            (tone, sign.to_owned()),
            (Tone::Plain, clean(&check.name)),
            (Tone::Plain, clean(&check.says)),
        ]);
    }
    format!("{}\n\n{}\n{}", clean(&doctor.machine), resources.render(style), checks.render(style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Check, DoctorResource};

    #[test]
    fn shows_every_resource_and_check() {
        let doctor = Doctor {
            machine: "Linux 6.1, 2 CPUs, 24 GB".to_owned(),
            resources: vec![DoctorResource {
                resource: "cpu".to_owned(),
                enforcer: "user-level".to_owned(),
                why: "works anywhere".to_owned(),
            }],
            checks: vec![
                Check { name: "pidfd".to_owned(), ok: true, says: "there".to_owned() },
                Check { name: "sched_ext".to_owned(), ok: false, says: "not there".to_owned() },
            ],
        };
        assert_eq!(
            render(&doctor, Style::PLAIN),
            "Linux 6.1, 2 CPUs, 24 GB\n\n\
             RESOURCE  ENFORCER    WHY\n\
             cpu       user-level  works anywhere\n\n    \
             CHECK      FOUND\n\
             ok  pidfd      there\n\
             --  sched_ext  not there\n"
        );
    }
}
