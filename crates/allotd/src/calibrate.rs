//! `allotd calibrate`: measures a disk for iocost and keeps the result. `allot calibrate` runs it.

use clap::Args;
use disk::{
    CalibrateOptions, DEFAULT_DISKS_FILE, DiskFacts, KeptDisk, KeptDisks, Load, Places, Rate, Run,
    Speed,
};
use enforcement::with_causes;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// The disk to measure, and how.
#[derive(Args, Clone, Debug)]
pub struct CalibrateArgs {
    /// The disk, as `lsblk` names it; a partition or volume of it will do
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// Make the file to measure on in this directory, on that disk [default: a mount point of it]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How long to measure, in all
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(8..=3600))]
    pub seconds: u64,
    /// The size of that file, at most half of what is free there
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    pub size: u64,
    /// Where the result is kept
    #[arg(long, value_name = "FILE", default_value = DEFAULT_DISKS_FILE)]
    pub disks: PathBuf,
    /// Show JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// The measurements, for programs.
#[derive(Serialize)]
struct Report<'a> {
    disk: &'a str,
    identity: &'a str,
    folder: PathBuf,
    depth: usize,
    speed: Speed,
    loads: Vec<ReportedLoad>,
    kept_in: Option<PathBuf>,
}

#[derive(Serialize)]
struct ReportedLoad {
    load: &'static str,
    requests_a_second: f64,
    bytes_a_second: u64,
    spread: f64,
    is_steady: bool,
}

/// Measures, prints and keeps.
pub fn calibrate(args: &CalibrateArgs) -> ExitCode {
    match measure_and_keep(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("allotd: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure_and_keep(args: &CalibrateArgs) -> Result<(), String> {
    let say = |error: &dyn std::error::Error| with_causes(error);
    let places = Places::of_this_machine();
    let facts = disk::look_in(&places, &args.device).map_err(|error| say(&error))?;
    for step in &facts.steps {
        eprintln!("{step}");
    }
    // Before a minute is spent on what could not be kept.
    let mut kept = KeptDisks::load(&args.disks).map_err(|error| say(&error))?;
    let folder = match &args.dir {
        Some(folder) => folder.clone(),
        None => disk::calibration_folder(&facts).map_err(|error| say(&error))?,
    };
    let options = CalibrateOptions {
        folder: folder.clone(),
        file_bytes: args.size << 20,
        each: Duration::from_secs(args.seconds) / Load::ALL.len() as u32,
        depth: disk::calibration_depth(&facts),
    };
    let count = Load::ALL.len();
    let mut at = 0;
    let mut begins = |load: Load| {
        at += 1;
        eprintln!("{at}/{count} {}", load.name());
    };
    eprintln!("measuring {} on a file in {}", facts.name, folder.display());
    let runs = disk::calibrate(&places, &facts, &options, &mut begins).map_err(|e| say(&e))?;
    let speed = disk::speed(&runs).map_err(|error| say(&error))?;
    let measured_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let entry = KeptDisk {
        name: facts.name.clone(),
        measured_at: measured_at.map_or(0, |since| since.as_secs()),
        depth: options.depth,
        speed,
    };
    kept.keep(&facts, entry);
    let saved = kept.save(&args.disks).map_err(|error| say(&error));
    let rates: Vec<(Load, Rate)> =
        runs.iter().filter_map(|run: &Run| Some((run.load, run.rate().ok()?))).collect();
    if args.json {
        let loads = rates.iter().map(|(load, rate)| ReportedLoad {
            load: load.name(),
            requests_a_second: rate.requests_in_1000_s as f64 / 1000.0,
            bytes_a_second: rate.bytes_a_second(*load),
            spread: rate.spread_thousandths as f64 / 1000.0,
            is_steady: rate.is_steady(),
        });
        let report = Report {
            disk: &facts.name,
            identity: &facts.identity,
            folder,
            depth: options.depth,
            speed,
            loads: loads.collect(),
            kept_in: saved.is_ok().then(|| args.disks.clone()),
        };
        println!("{}", serde_json::to_string_pretty(&report).expect("a report is JSON"));
    } else {
        print!("{}", table(&facts, &rates, &speed));
    }
    // Measurements are shown whether they could be kept or not.
    saved.map_err(|why| format!("measured, but not kept: {why}"))?;
    eprintln!("kept in {}", args.disks.display());
    Ok(())
}

fn table(facts: &DiskFacts, rates: &[(Load, Rate)], speed: &Speed) -> String {
    let mut text = format!(
        "{:<28} {:>10} {:>10} {:>7}\n",
        format!("{} ({})", facts.name, facts.number),
        "requests/s",
        "MiB/s",
        "spread"
    );
    for (load, rate) in rates {
        let unsteady = if rate.is_steady() { "" } else { "  not steady" };
        text.push_str(&format!(
            "{:<28} {:>10.1} {:>10.1} {:>5.1} %{unsteady}\n",
            load.name(),
            rate.requests_in_1000_s as f64 / 1000.0,
            rate.bytes_a_second(*load) as f64 / (1 << 20) as f64,
            rate.spread_thousandths as f64 / 10.0,
        ));
    }
    if rates.iter().any(|(_, rate)| !rate.is_steady()) {
        text.push_str(
            "not steady: somebody else used the disk, or it has no one speed; measure again when \
             it is idle, or for longer\n",
        );
    }
    text.push_str(&format!("\nmodel  {}\n", speed.model.line(facts.number)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_steady_is_said() {
        let places = Places::of_this_machine();
        // Any disk will do, if there is one.
        let names = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        let mut disks =
            names.filter_map(|entry| disk::look_in(&places, entry.file_name().to_str()?).ok());
        let Some(facts) = disks.next() else {
            eprintln!("SKIP what_is_not_steady_is_said: there is no disk here");
            return;
        };
        let rate = |spread_thousandths| Rate { requests_in_1000_s: 250_500, spread_thousandths };
        let model =
            disk::Model { rbps: 6, rseqiops: 5, rrandiops: 4, wbps: 3, wseqiops: 2, wrandiops: 1 };
        let speed = Speed { read_latency_us: 1, write_latency_us: 1, model };
        let steady = table(&facts, &[(Load::ReadLarge, rate(10))], &speed);
        assert!(steady.contains("     250.5      250.5   1.0 %\n"), "{steady}");
        assert!(!steady.contains("not steady"), "{steady}");
        let both = [(Load::ReadLarge, rate(10)), (Load::ReadAlone, rate(900))];
        assert!(table(&facts, &both, &speed).contains("90.0 %  not steady\n"));
    }
}
