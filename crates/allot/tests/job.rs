//! `allot run` as the job of a shell, under an allotd that holds processes by stopping them:
//! whatever the shell and its user see is as without allot.

mod common;

use common::{Daemon, PATIENCE, Terminal};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::process::Command;
use std::time::{Duration, Instant};

/// Shells with job control, as people have them.
const SHELLS: [&[&str]; 2] = [&["bash", "--norc", "--noediting", "-i"], &["dash", "-i"]];

/// One CPU to draw for, so that losers are held also where nobody else wants anything.
const HOLDING: [&str; 8] =
    ["--enforcer", "user-level", "--hold", "stop", "--cpus", "0", "--quantum-ms", "1"];

/// A shell on a terminal, in which `$A` is allot.
struct Shell {
    terminal: Terminal,
}

impl Shell {
    fn start(daemon: &Daemon, shell: &[&str]) -> Shell {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).env("ALLOT_SOCKET", daemon.socket()).env("PS1", "$ ");
        command.env("A", env!("CARGO_BIN_EXE_allot"));
        Shell { terminal: Terminal::run(command) }
    }

    /// Runs a command with allot, and waits until its `UP` says that it has come so far.
    #[track_caller]
    fn runs(&mut self, script: &str) {
        // The line as it is echoed does not contain what the command writes.
        let script = script.replace("UP", "echo u\"\"p.");
        self.types(&format!("$A run -- sh -c '{script}'\n"));
        self.shows("up.");
    }

    fn types(&mut self, text: &str) {
        self.terminal.types(text);
    }

    #[track_caller]
    fn shows(&mut self, text: &str) {
        self.terminal.shows(text);
    }

    /// Waits until the shell has its terminal back, and says how the last command ended.
    #[track_caller]
    fn ended_with(&mut self, code: u32) {
        self.types("echo code=$?.\n");
        self.shows(&format!("code={code}."));
    }

    /// The process in between: the shell's only child.
    #[track_caller]
    fn job(&self) -> u32 {
        only_child(self.terminal.leader.id())
    }
}

/// The only child of a process, besides the one that tells signals for the job.
#[track_caller]
fn only_child(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let is_witness = |child: &&str| {
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm"));
        comm.is_ok_and(|comm| comm == "allot-witness\n")
    };
    until(|| {
        let children = std::fs::read_to_string(&path).expect("it lives");
        let mut children = children.split_whitespace().filter(|child| !is_witness(child));
        let only = children.next()?.parse().ok()?;
        children.next().is_none().then_some(only)
    })
}

/// Waits for something.
#[track_caller]
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "it does not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process's state, and the CPU time that it has used, in ticks.
fn look(pid: u32) -> Option<(char, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 2..].split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<u64>().expect("ticks");
    Some((fields[0].chars().next()?, ticks(11) + ticks(12)))
}

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).expect("it lives");
}

/// Waits until the draws have gone on for so long.
#[track_caller]
fn draws(daemon: &Daemon, more: u64) {
    let now = || {
        daemon.json(&["top", "--once", "--interval", "0.1"])["draws"].as_u64().expect("a number")
    };
    let begun = now();
    until(|| (now() >= begun + more).then_some(()));
}

fn in_each_shell(test: &str, mut check: impl FnMut(&Daemon, Shell)) {
    let Some(daemon) = Daemon::start_with(test, &HOLDING) else { return };
    for shell in SHELLS {
        check(&daemon, Shell::start(&daemon, shell));
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    in_each_shell("the_exit_status_is_the_commands", |_, mut shell| {
        for (script, code) in [("UP; exit 0", 0), ("UP; exit 7", 7), ("UP; kill -9 $$", 137)] {
            shell.runs(script);
            shell.ended_with(code);
        }
        shell.runs("UP; kill -TERM $$");
        shell.ended_with(143);
        shell.types("$A run -- /no/such/command\n");
        shell.ended_with(127);
    });
}

#[test]
fn the_terminals_keys_are_the_commands() {
    in_each_shell("the_terminals_keys_are_the_commands", |_, mut shell| {
        shell.runs("UP; exec sleep 1000");
        shell.types("\x03");
        shell.ended_with(130);
        shell.runs("trap \"echo caught.; exit 5\" INT; UP; while :; do sleep 0.02; done");
        shell.types("\x03");
        shell.shows("caught.");
        shell.ended_with(5);

        shell.runs("UP; read line; echo got=$line.; exit 4");
        shell.types("\x1a");
        shell.shows("topped");
        shell.ended_with(148);
        shell.types("fg\n");
        shell.types("hello\n");
        shell.shows("got=hello.");
        shell.ended_with(4);

        shell.runs("trap \"stty size\" WINCH; UP; while :; do sleep 0.02; done");
        shell.terminal.resize(33, 101);
        shell.shows("33 101");
        shell.types("\x03");
        shell.ended_with(130);
    });
}

#[test]
fn a_job_in_the_background_stops_when_it_reads_the_terminal() {
    let test = "a_job_in_the_background_stops_when_it_reads_the_terminal";
    in_each_shell(test, |_, mut shell| {
        shell.types("$A run -- cat &\n");
        let job = shell.job();
        until(|| (look(job)?.0 == 'T').then_some(()));
        shell.types("jobs\n");
        shell.shows("topped");
        shell.types("fg\n");
        // Typed before cat has the terminal, it is the shell's.
        until(|| (look(job)?.0 != 'T').then_some(()));
        until(|| (shell.terminal.foreground() == job.cast_signed()).then_some(()));
        shell.types("some line\n\x04");
        shell.shows("some line\r\nsome line");
        shell.ended_with(0);
    });
}

#[test]
fn the_rest_of_a_pipeline_has_the_terminal_too() {
    in_each_shell("the_rest_of_a_pipeline_has_the_terminal_too", |_, mut shell| {
        shell.types("$A run -- true | sh -c 'echo u\"\"p.; read x </dev/tty; echo peer=$x.'\n");
        shell.shows("up.");
        shell.types("abc\n");
        shell.shows("peer=abc.");
        shell.ended_with(0);
    });
}

#[test]
fn what_is_sent_to_the_job_reaches_the_command() {
    in_each_shell("what_is_sent_to_the_job_reaches_the_command", |_, mut shell| {
        shell.runs("trap \"echo caught.; exit 3\" TERM; UP; while :; do sleep 0.02; done");
        send(shell.job(), Signal::SIGTERM);
        shell.shows("caught.");
        shell.ended_with(3);

        shell.runs("UP; exec sleep 1000");
        let command = only_child(shell.job());
        send(shell.job(), Signal::SIGTSTP);
        shell.shows("topped");
        assert_eq!(look(command).expect("it lives").0, 'T');
        shell.types("fg\n");
        until(|| (look(command)?.0 == 'S').then_some(()));
        send(shell.job(), Signal::SIGKILL);
        shell.ended_with(137);
        until(|| look(command).is_none_or(|(state, _)| state == 'Z').then_some(()));
    });
}

/// `kill %1` and a terminal that hangs up send to every process of a job.
#[test]
fn what_is_sent_to_the_whole_job_reaches_the_command_once() {
    let test = "what_is_sent_to_the_whole_job_reaches_the_command_once";
    in_each_shell(test, |_, mut shell| {
        shell.runs(
            "trap \"n=\\$((n+1)); echo term\\$n.\" TERM; trap \"exit \\$n\" USR1; \
             sleep 1000 & UP; while :; do wait; done",
        );
        let job = Pid::from_raw(shell.job().cast_signed());
        for count in 1..=5 {
            killpg(job, Signal::SIGTERM).expect("it lives");
            shell.shows(&format!("term{count}."));
            std::thread::sleep(Duration::from_millis(50));
        }
        send(shell.job(), Signal::SIGUSR1);
        shell.ended_with(5);
    });
}

/// timeout(1) makes a process group of its own where it does not lead one.
#[test]
fn a_command_with_a_group_of_its_own_has_the_terminals_keys_too() {
    let test = "a_command_with_a_group_of_its_own_has_the_terminals_keys_too";
    in_each_shell(test, |_, mut shell| {
        shell.types("$A run -- timeout 1000 sh -c 'echo u\"\"p.; exec sleep 1000'\n");
        shell.shows("up.");
        shell.types("\x1a");
        shell.shows("topped");
        shell.types("fg\n");
        until(|| (shell.terminal.foreground() == shell.job().cast_signed()).then_some(()));
        shell.types("\x03");
        shell.ended_with(130);
    });
}

/// The tickets of two shells' jobs count, and ^Z stops also the one that is held at that moment,
/// for as long as its user wants.
#[test]
fn a_job_in_the_foreground_is_held_and_can_be_stopped() {
    let test = "a_job_in_the_foreground_is_held_and_can_be_stopped";
    in_each_shell(test, |daemon, mut shell| {
        let spin = "sh -c 'echo u\"\"p.; while :; do :; done'\n";
        let mut other = Shell::start(daemon, SHELLS[0]);
        other.types(&format!("$A run --tickets 900 -- {spin}"));
        other.shows("up.");
        shell.types(&format!("$A run --tickets 100 -- {spin}"));
        shell.shows("up.");
        let command = only_child(shell.job());
        // Held: it loses nine draws of ten.
        until(|| (look(command)?.0 == 'T').then_some(()));
        let drift = daemon.json(&["status"])["cpu"]["drift"].to_string();
        assert!(!drift.contains("not held"), "{drift}");

        shell.types("\x1a");
        shell.shows("topped");
        draws(daemon, 50);
        let before = look(command).expect("it lives");
        draws(daemon, 200);
        assert_eq!(look(command), Some(before), "it runs although its user has stopped it");
        assert_eq!(before.0, 'T');

        shell.types("fg\n");
        until(|| (look(command)?.1 > before.1).then_some(()));
        shell.types("\x03");
        shell.ended_with(130);
        other.types("\x03");
        other.ended_with(130);
    });
}

/// 900, 900 and 100 tickets in the foreground of three shells of one user.
#[test]
fn jobs_in_three_shells_have_what_their_tickets_promise() {
    let test = "jobs_in_three_shells_have_what_their_tickets_promise";
    let Some(daemon) = Daemon::start_with(test, &HOLDING) else { return };
    let mut shells = [("900", SHELLS[0]), ("900", SHELLS[1]), ("100", SHELLS[0])].map(|(n, of)| {
        let mut shell = Shell::start(&daemon, of);
        let spin = "sh -c 'echo u\"\"p.; while :; do :; done'";
        shell.types(&format!("$A run --tickets {n} -- {spin}\n"));
        shell.shows("up.");
        shell
    });
    let jobs = shells.each_ref().map(|shell| only_child(shell.job()));
    let used = || jobs.map(|pid| look(pid).expect("it lives").1);
    let begun = used();
    // Ticks of 10 ms: 2000 draws of 1 ms, of which the least one wins 105, give or take 10.
    let used = until(|| {
        let used = used();
        let used = [0, 1, 2].map(|job| used[job] - begun[job]);
        (used.iter().sum::<u64>() >= 200).then_some(used)
    });
    let all: u64 = used.iter().sum();
    let part = used.map(|ticks| 100.0 * ticks as f64 / all as f64);
    assert!((2.0..10.0).contains(&part[2]), "promised 47, 47 and 5 %: {part:?}");
    assert!(part[..2].iter().all(|part| (40.0..55.0).contains(part)), "{part:?}");
    for shell in &mut shells {
        shell.types("\x03");
        shell.ended_with(130);
    }
}

#[test]
fn a_foreground_job_that_cannot_be_held_is_said_so_when_it_is_adopted() {
    let test = "a_foreground_job_that_cannot_be_held_is_said_so_when_it_is_adopted";
    in_each_shell(test, |daemon, mut shell| {
        shell.types("sh -c 'echo u\"\"p.; exec sleep 1000'\n");
        shell.shows("up.");
        let done = daemon.run(&["adopt", &shell.job().to_string()]);
        let says = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && says.contains("is not held while a shell runs it"),
            "{says}"
        );
        shell.types("\x03");
        shell.ended_with(130);
    });
}
