//! `allot calibrate`: measures a disk. allotd's program does it; no daemon has to run.

use clap::Args;
use command_line::{CliError, GlobalOptions, programs};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Measure how fast a disk is, so that its shares can be enforced by iocost
///
/// Reads and writes a file of its own on the disk, as fast as that goes, and keeps the result for
/// allotd. Best done when nothing else uses the disk; nothing is changed for it. As root.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot calibrate sda\n  allot calibrate nvme0n1 --dir /srv --seconds 120"
)]
pub struct CalibrateArgs {
    /// The disk, as `lsblk` names it; a partition or volume of it will do
    #[arg(value_name = "DEVICE")]
    device: OsString,
    /// Make the file to measure on in this directory, on that disk [default: a mount point of it]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How long to measure, in all, in seconds: 8 to 3600 [default: 60]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// The size of that file, at most half of what is free there [default: 1024]
    #[arg(long, value_name = "MIB")]
    size: Option<u64>,
    /// Where the result is kept [default: /var/lib/allot/disks.toml]
    #[arg(long, value_name = "FILE")]
    disks: Option<PathBuf>,
}

impl CalibrateArgs {
    /// For `allotd calibrate`.
    fn words(&self, json: bool) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["calibrate".into()];
        let mut option = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                words.extend([name.into(), value]);
            }
        };
        option("--dir", self.dir.clone().map(Into::into));
        option("--seconds", self.seconds.map(|seconds| seconds.to_string().into()));
        option("--size", self.size.map(|size| size.to_string().into()));
        option("--disks", self.disks.clone().map(Into::into));
        if json {
            words.push("--json".into());
        }
        // What begins with a dash is no option.
        words.extend(["--".into(), self.device.clone()]);
        words
    }
}

pub fn calibrate(global: &GlobalOptions, args: &CalibrateArgs) -> Result<ExitCode, CliError> {
    let program = programs::path("allotd");
    // Only comes back if it failed.
    let error = Command::new(&program).args(args.words(global.json)).exec();
    Err(CliError::Failed(format!("cannot run {}: {error}", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_passed_on() {
        let args = CalibrateArgs {
            device: "-sda".into(),
            dir: Some("/a b".into()),
            seconds: Some(9),
            size: None,
            disks: Some("d".into()),
        };
        assert_eq!(
            args.words(true),
            [
                "calibrate",
                "--dir",
                "/a b",
                "--seconds",
                "9",
                "--disks",
                "d",
                "--json",
                "--",
                "-sda"
            ]
        );
        let bare = CalibrateArgs {
            device: "sda".into(),
            dir: None,
            seconds: None,
            size: None,
            disks: None,
        };
        assert_eq!(bare.words(false), ["calibrate", "--", "sda"]);
    }
}
