//! Runs workloads and experiments for this crate's tests, as the command `allot` does for people.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match args.first().and_then(|first| first.to_str()) {
        Some("workload") => ExitCode::from(allot_experiments::workload_main(&args[1..])),
        Some("run") => run(&args[1..]),
        _ => {
            eprintln!("usage: experiment-actor workload ... | run NAME OPTION=VALUE...");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[OsString]) -> ExitCode {
    let mut options = allot_experiments::RunOptions::default();
    let mut name = String::new();
    for arg in args {
        let arg = arg.to_string_lossy();
        match arg.split_once('=') {
            None => name = arg.into_owned(),
            Some(("seconds", value)) => options.seconds = value.parse().expect("seconds"),
            Some(("seed", value)) => options.seed = value.parse().expect("a seed"),
            Some(("policy", value)) => options.policy = value.parse().expect("a policy"),
            Some(("cpus", value)) => {
                options.cpus = Some(allot_experiments::parse_cpus(value).expect("CPUs"));
            }
            Some(("graph", value)) => options.graph = Some(value.into()),
            Some(("out", value)) => options.out = Some(value.into()),
            Some(("socket", value)) => options.socket = Some(value.into()),
            Some(("enforcer", value)) => options.enforcer = Some(value.into()),
            Some(("quantum-ms", value)) => options.quantum_ms = Some(value.parse().expect("ms")),
            Some((option, _)) => panic!("no option {option}"),
        }
    }
    let mut progress = |progress: &allot_experiments::Progress| eprintln!("{progress:?}");
    match allot_experiments::run(&name, &options, &mut progress) {
        Ok(outcome) => {
            print!("{}", outcome.table);
            if let Some(dir) = &options.out {
                outcome.write(dir).expect("it was writable");
            }
            ExitCode::from(u8::from(!outcome.report.ok))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_status())
        }
    }
}
