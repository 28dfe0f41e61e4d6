//! allotd: keeps the ledger, watches processes, applies plans. The only place where the parts are put together.
//!
//! A program that has an enforcer of its own calls [`run`] with its registration; `allotd` itself has none.

mod answer_flow;
mod api_error;
mod audit;
mod calibrate;
mod clock;
mod connections;
mod doctor;
mod elder;
mod enforcer_view;
mod event;
mod exchange_desk;
mod fair_queue;
mod front_process;
mod front_session;
mod front_supervisor;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod instances;
mod keeper;
mod listener;
mod lives;
mod members;
mod names;
mod options;
mod others;
mod own_processes;
mod people;
mod persons;
mod policy_file;
mod reader;
mod registrations;
mod requests;
mod resolve;
mod resolved_process;
mod start;
mod view;
mod walls;

use clap::Parser;
use enforcer::Registration;
use options::{Command, Options};
use std::process::ExitCode;

/// Runs allotd by its command line, with these enforcers besides its own; its own are better.
pub fn run(more_enforcers: &[Registration]) -> ExitCode {
    let options = Options::parse();
    let enforcers = [registrations::ENFORCERS, more_enforcers].concat();
    match options.command {
        Some(Command::Guardian) => {
            // Whoever keeps rights for want of the right to give them up is no worse for it.
            let _ = enforcement::restrict_guardian();
            undo::guardian_main(&enforcement::restorers(&enforcers))
        }
        Some(Command::Enforce) => {
            start::log_to_stderr();
            enforcement::enforce_main(&enforcers)
        }
        Some(Command::Helper { of }) => {
            let helpers = enforcers.iter().filter(|it| it.name == of).find_map(|it| it.helper);
            helpers.map_or(ExitCode::FAILURE, |helper| (helper.main)())
        }
        Some(Command::Front) => front::front_main(),
        Some(Command::Doctor { json }) => {
            print_doctor(&enforcers, &options, json);
            ExitCode::SUCCESS
        }
        Some(Command::Calibrate(args)) => calibrate::calibrate(&args),
        None => match start::run(options, &enforcers) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("allotd: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn print_doctor(enforcers: &[Registration], options: &Options, json: bool) {
    // Nothing is started or recorded: neither path is used.
    let settings = options.settings(Default::default(), Default::default(), 0);
    let report =
        doctor::Findings::of(enforcement::Surveyed::look(enforcers, &settings)).report(None);
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
