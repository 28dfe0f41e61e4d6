//! The arguments of `allot-negotiate`.

use crate::progress::Source;
use crate::settings;
use clap::Parser;
use command_line::GlobalOptions;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Trade tickets for clients that know nothing of them
///
/// It watches what a client waits for, offers what it waits for least for what it waits for most, in
/// small steps, keeps what makes it faster and takes the rest back. It tells each action and verdict
/// in a line. When it ends, its offers are withdrawn and what is still on trial is ended; what was
/// found good stays until its lease is over.
#[derive(Parser)]
#[command(
    name = "allot-negotiate",
    bin_name = "allot negotiate",
    version,
    max_term_width = 100,
    after_help = "Example:\n  allot negotiate --for build --progress file:/run/build/objects\n  \
        allot negotiate --progress lines -- make -j8\n  \
        allot negotiate --policy /etc/allot/negotiate.toml\n\n\
        Exit status: the command's own, where there is one; else 0, also when its clients are gone."
)]
pub struct Arguments {
    #[command(flatten)]
    pub global: GlobalOptions,
    /// For whom: a client or a currency of yours with its clients, as NAME, USER:NAME, `#ID`,
    /// `pid:PID` or `cgroup:PATH`; may be given several times. Without it, for COMMAND, which is made
    /// a client
    #[arg(long = "for", value_name = "CLIENT", required_unless_present_any = ["policy", "command"])]
    pub clients: Vec<String>,
    /// For all clients that a policy names, as they come and go
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "clients", "progress", "window", "lease", "goods", "most_part", "command",
    ])]
    pub policy: Option<PathBuf>,
    /// Source of the client's progress: file:PATH, url:http://HOST/PATH#METRIC, or lines (of
    /// COMMAND); without it, CPU time less what faults cost
    #[arg(long, value_name = "SOURCE")]
    pub progress: Option<Source>,
    /// The least time between two looks [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = settings::span)]
    pub window: Option<Duration>,
    /// How long exchanges stay after it dies, or ends without --keep [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = settings::span)]
    pub lease: Option<Duration>,
    /// Trade these resources alone, as in cpu,memory
    #[arg(long, value_name = "RESOURCES", value_delimiter = ',')]
    pub goods: Option<Vec<String>>,
    /// Never give more of a good than this part of what is the client's own, 0 to 1
    #[arg(long, value_name = "PART")]
    pub most_part: Option<f64>,
    /// When it ends, leave its exchanges as they are, without an end
    #[arg(long)]
    pub keep: bool,
    /// Tell what it has cost, when it ends
    #[arg(long, short)]
    pub verbose: bool,
    /// A command to run meanwhile; its lines are passed on, and it ends with it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_sound() {
        Arguments::command().debug_assert();
    }

    /// Each line of the example is a command that can be typed.
    #[test]
    fn examples_can_be_typed() {
        let examples = Arguments::command().get_after_help().expect("an example").to_string();
        let typed =
            examples.lines().filter_map(|line| line.trim().strip_prefix("allot negotiate "));
        let typed = typed.inspect(|line| {
            let words = ["allot-negotiate"].into_iter().chain(line.split_whitespace());
            let parsed = Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "`{line}`: {}", parsed.err().unwrap());
        });
        assert_eq!(typed.count(), 3);
    }
}
