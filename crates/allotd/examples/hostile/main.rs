//! A hostile user's program, for the suite `tests/hostile_suite.rs`: `hostile SOCKET TRICK`, run as that user, does one
//! trick again and again until it is killed. Each line that it prints is something that it got and should not have.

mod processes;
mod requests;

use std::path::{Path, PathBuf};

/// A trick: its name, and what does it.
type Trick = (&'static str, fn(&Path));

const TRICKS: [&[Trick]; 2] = [&processes::TRICKS, &requests::TRICKS];

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "hostile SOCKET TRICK";
    let socket = PathBuf::from(arguments.next().expect(usage));
    let name = arguments.next().expect(usage);
    let mut tricks = TRICKS.iter().flat_map(|tricks| tricks.iter());
    let (_, trick) = tricks.find(|(known, _)| name == *known).expect("a known trick");
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("a signal");
    trick(&socket);
}
