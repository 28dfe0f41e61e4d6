//! allotd: keeps the ledger, watches processes, applies plans. The only place where the parts
//! are put together.

mod beside;
mod bourse;
mod calibrate;
mod cpu;
mod doctor;
mod keeper;
mod listener;
mod members;
mod names;
mod options;
mod others;
mod policy_file;
mod resolve;
mod server;
mod start;
mod trouble;
mod view;

use clap::Parser;
use options::{Command, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    match options.command {
        Some(Command::Guardian) => enforce::guardian_main(),
        Some(Command::Doctor { json }) => {
            print_doctor(json);
            ExitCode::SUCCESS
        }
        Some(Command::Calibrate(args)) => calibrate::calibrate(&args),
        None => match start::run(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("allotd: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn print_doctor(json: bool) {
    let report = doctor::Findings::look().report(None);
    if json {
        println!("{}", serde_json::to_string_pretty(&report).expect("a report is JSON"));
        return;
    }
    println!("{}", report.machine);
    for resource in &report.resources {
        println!("  {:<14} {:<11} {}", resource.resource, resource.enforcer, resource.why);
    }
    for check in &report.checks {
        let mark = if check.ok { "ok" } else { "--" };
        println!("  {mark} {}: {}", check.name, check.says);
    }
}
