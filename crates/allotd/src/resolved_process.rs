//! Processes as a request or an event names them, looked at.

use crate::own_processes;
use ledger::{Member, NewClient, ProcessIdentity};
use observe::{ProcessError, ProcessHandle};
use wire::{ApiError, ErrorCode};

/// A process that was looked at, with the name that a person knows it by.
pub struct ResolvedProcess {
    /// The process or thread and its owner.
    pub client: NewClient,
    /// The name of its command.
    pub command: String,
    /// The kind of process, if allot never manages it: to hold it would hang the machine or allotd.
    pub spared: Option<&'static str>,
}

impl ResolvedProcess {
    /// Refuses a process that would hang the machine or allotd, and any thread of it.
    pub fn unless_spared(self) -> Result<ResolvedProcess, ApiError> {
        match (self.spared, self.client.member.within_process()) {
            (Some(what), Some(ProcessIdentity { pid, .. })) => {
                let message = format!("pid {pid} is {what}, which nobody may manage");
                Err(ApiError::new(ErrorCode::Forbidden, message))
            }
            _ => Ok(self),
        }
    }
}

/// Looks at a process: what it is, and whose.
///
/// # Errors
/// When it is gone.
pub fn look(handle: &ProcessHandle) -> Result<ResolvedProcess, ProcessError> {
    let facts = handle.facts()?;
    let (process, uid, gid) = (handle.identity(), facts.real_uid, facts.real_gid);
    let spared = match process.pid {
        _ if facts.is_kernel_thread => Some("a thread of the kernel"),
        1 => Some("init"),
        pid => own_processes::which(pid, facts.parent_pid),
    };
    Ok(ResolvedProcess {
        client: NewClient::process(process, uid, gid),
        command: facts.comm,
        spared,
    })
}

/// Looks at a thread, and the process that it belongs to.
///
/// # Errors
/// When there is none.
pub fn find_thread(tid: u32) -> Result<ResolvedProcess, ApiError> {
    let thread = observe::thread(tid).map_err(gone)?;
    let process = ProcessHandle::open_identity(thread.process).map_err(gone)?;
    let found = look(&process).map_err(gone)?;
    let client = NewClient { member: Member::Thread(thread), ..found.client };
    Ok(ResolvedProcess { client, ..found })
}

/// The process that has a pid now.
///
/// # Errors
/// When there is none.
pub fn identity(pid: u32) -> Result<ProcessIdentity, ApiError> {
    ProcessHandle::open(pid).map(|handle| handle.identity()).map_err(gone)
}

/// The error of a process that is not there.
pub fn gone(error: ProcessError) -> ApiError {
    ApiError::new(ErrorCode::Unknown, error.to_string())
}
