//! The command `allot`.

fn main() -> std::process::ExitCode {
    allot::run(std::env::args_os())
}
