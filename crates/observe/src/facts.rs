//! What is known about a process besides its identity.

use crate::error::ProcessError;
use crate::proc_dir::ProcDir;
use crate::run_state::RunState;
use serde::Serialize;

/// How much of a command line is kept, in characters. A process chooses its own command line,
/// up to megabytes of it.
const COMMAND_LINE_CHARACTERS: usize = 200;

/// What is known about a process besides its identity, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessFacts {
    /// Pid of the parent now: an orphan's is init or a subreaper. 0 for init itself.
    pub parent_pid: u32,
    /// Real user id.
    pub real_uid: u32,
    /// Effective user id.
    pub effective_uid: u32,
    /// Real group id.
    pub real_gid: u32,
    /// Effective group id.
    pub effective_gid: u32,
    /// Name (at most 15 bytes for a user's process, chosen by the process). Bytes that are not
    /// UTF-8 are replaced.
    pub comm: String,
    /// The first 200 characters of the command line, arguments separated by spaces; chosen by
    /// the process. Empty for kernel threads and zombies.
    pub cmdline: String,
    /// True for a thread of the kernel itself: it serves everybody and belongs to no user.
    pub is_kernel_thread: bool,
    /// Session id.
    pub session: u32,
    /// Process group id.
    pub process_group: u32,
    /// Number of threads.
    pub thread_count: u32,
    /// What the leading thread was doing. A process whose leader is dead may have other
    /// threads: see [`ProcessHandle::run_state`](crate::ProcessHandle::run_state).
    pub leader_state: RunState,
}

impl ProcessFacts {
    pub(crate) fn read(directory: &ProcDir) -> Result<Self, ProcessError> {
        let [real_uid, effective_uid, real_gid, effective_gid] = directory.ids()?;
        let cmdline = command_line(&directory.read("cmdline", 4 * COMMAND_LINE_CHARACTERS)?);
        directory.stat(|stat| Self {
            parent_pid: stat.parent_pid,
            real_uid,
            effective_uid,
            real_gid,
            effective_gid,
            comm: String::from_utf8_lossy(stat.comm).into_owned(),
            cmdline,
            is_kernel_thread: stat.is_kernel_thread(),
            session: stat.session,
            process_group: stat.process_group,
            thread_count: stat.thread_count,
            leader_state: RunState::from_letter(stat.state),
        })
    }
}

fn command_line(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    String::from_utf8_lossy(&bytes[..end])
        .chars()
        .take(COMMAND_LINE_CHARACTERS)
        .map(|character| if character == '\0' { ' ' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_joined_and_cut() {
        assert_eq!(command_line(b"sleep\x0010\0"), "sleep 10");
        assert_eq!(command_line(b""), "");
        assert_eq!(command_line(&[b'x'; 800]).chars().count(), 200);
        assert_eq!(command_line("é".repeat(400).as_bytes()).chars().count(), 200);
    }
}
