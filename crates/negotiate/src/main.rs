//! The program `allot-negotiate`, which `allot negotiate` runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    allot_negotiate::negotiate_main()
}
