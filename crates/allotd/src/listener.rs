//! The socket: who may connect, and who a connection is.

use front::{Counted, Tally, thread_time};
use ledger::Persons;
use nix::sys::stat::Mode;
use observe::{Peer, peer_of};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// The most connections that one ordinary person may have open, so that nobody keeps others out.
const CONNECTIONS_PER_PERSON: usize = 64;
/// The most of all ordinary persons together.
const CONNECTIONS_IN_ALL: usize = 4096;

/// How long a connection too many stays open before it is closed unanswered: whoever waits for that before the next try
/// does not keep allotd busy with refusals.
const REFUSAL: Duration = Duration::from_millis(100);

/// The person of callers whom the kernel does not name.
const NOBODY: u32 = u32::MAX;

/// A connection that may be answered, counted while this or a clone of its count lives.
pub struct Admitted {
    pub socket: OwnedFd,
    /// The process at the other end, as the kernel names it; `None` where it would not.
    pub who: Option<ledger::Caller>,
    /// The person whose limits hold for it.
    pub person: u32,
    pub counted: Option<Arc<Counted>>,
    /// CPU time that it took to ask who it is.
    pub cost: Duration,
}

/// The socket of an allotd, gone from the file system when dropped.
pub struct Gate {
    listener: UnixListener,
    path: PathBuf,
    // A private allotd serves its owner and root.
    only_uid: Option<u32>,
    open: Tally,
    /// Connections too many that are not closed yet.
    refused: Tally,
    persons: Persons,
}

/// A socket that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Somebody listens there.
    #[error("another allotd listens at {0}; stop it, or name another socket with --socket")]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{0} exists and is no socket; name another path with --socket")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot listen at {path}: {cause}")]
    Os {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
}

impl Gate {
    /// Listen at a path; a socket that nobody listens at any more is replaced. `only_uid`:
    /// serve this user and root only. Must be called within the runtime.
    ///
    /// # Errors
    /// See [`GateError`].
    pub fn open(path: &Path, only_uid: Option<u32>, persons: Persons) -> Result<Gate, GateError> {
        let os = |cause| GateError::Os { path: path.to_owned(), cause };
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(GateError::NotASocket(path.to_owned()));
            }
            Ok(_) => {
                // Only what refuses has nobody behind it: who is busy or keeps us out lives.
                match std::os::unix::net::UnixStream::connect(path) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        std::fs::remove_file(path).map_err(os)?;
                    }
                    Ok(_) => return Err(GateError::InUse(path.to_owned())),
                    Err(cause) => return Err(os(cause)),
                }
            }
            Err(_) => {}
        }
        // Nobody else gets in between the making of the socket and its mode.
        let before = nix::sys::stat::umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(path).map_err(os);
        nix::sys::stat::umask(before);
        let listener = listener?;
        if only_uid.is_none() {
            let everybody = std::fs::Permissions::from_mode(0o666);
            std::fs::set_permissions(path, everybody).map_err(os)?;
        }
        let (open, refused) = (Tally::default(), Tally::default());
        Ok(Gate { listener, path: path.to_owned(), only_uid, open, refused, persons })
    }

    /// Waits for the next connection of somebody who may have one.
    pub async fn accept(&self) -> Admitted {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(admitted) = self.admit(stream) {
                        return admitted;
                    }
                }
                Err(error) => {
                    // Out of file descriptors, most likely: those in use will be given back.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn admit(&self, stream: UnixStream) -> Option<Admitted> {
        let began = thread_time();
        let peer = peer_of(&stream);
        let socket = OwnedFd::from(stream.into_std().ok()?);
        let peer = match peer {
            Ok(peer) => peer,
            Err(error) => {
                tracing::debug!("a caller without a name: {error}");
                let (who, counted, cost) = (None, None, thread_time() - began);
                let nobody = Admitted { socket, who, person: NOBODY, counted, cost };
                return self.only_uid.is_none().then_some(nobody);
            }
        };
        let uid = peer.uid;
        if self.only_uid.is_some_and(|only| uid != only && uid != 0) {
            tracing::warn!("uid {uid} may not connect to a private allotd");
            return None;
        }
        let person = self.persons.of(uid);
        let count =
            |tally: &Tally| tally.count(person, 1, CONNECTIONS_PER_PERSON, CONNECTIONS_IN_ALL);
        let counted = match uid {
            0 => None,
            _ => match count(&self.open) {
                Some(counted) => Some(Arc::new(counted)),
                None => {
                    // Not louder: that user decides how often.
                    tracing::debug!(
                        "uid {person} has its {CONNECTIONS_PER_PERSON} connections: no more"
                    );
                    if let Some(counted) = count(&self.refused) {
                        tokio::spawn(async move {
                            tokio::time::sleep(REFUSAL).await;
                            drop((socket, counted));
                        });
                    }
                    return None;
                }
            },
        };
        let (who, cost) = (Some(caller(peer)), thread_time() - began);
        Some(Admitted { socket, who, person, counted, cost })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let own = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
        if own {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn caller(peer: Peer) -> ledger::Caller {
    let Peer { uid, gid, groups, process, .. } = peer;
    ledger::Caller { uid, gid, groups, process }
}
