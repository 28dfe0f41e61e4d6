//! The daemon of allot.

use std::process::ExitCode;

fn main() -> ExitCode {
    allotd::run(&[])
}
