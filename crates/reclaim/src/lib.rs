//! Memory: who loses some when there is too little, by a [`policy::reclaim`] policy.
//!
//! A [`Reclaimer`] follows clients, each a cgroup or some processes. When memory runs short it asks its policy who
//! loses, and has the kernel take some from that one. What a client is guaranteed is never taken by choice; that the
//! kernel does not take it either is for `memory.min` and `memory.low` to say, which are not set here.
//!
//! **Nothing is set**: `memory.reclaim` and process_madvise(2) act once, and a pressure trigger ends with its file.
//! So there is nothing to give back, whatever becomes of us.
//!
//! See docs/memory.md.
//!
//! ```no_run
//! # use ledger::CurrencyId;
//! use allot_reclaim::{MemoryClient, MemoryError, MemorySource, ReclaimOptions, Reclaimer};
//! use policy::MinFunding;
//!
//! # fn share(id: CurrencyId) -> Result<(), MemoryError> {
//! let options = ReclaimOptions::new(Some("/sys/fs/cgroup/users".into()), Box::new(MinFunding::default()));
//! let reclaimer = Reclaimer::start(options)?;
//! reclaimer.follow(vec![MemoryClient {
//!     id,
//!     key: id.0,
//!     tickets: 3 << 40,
//!     guaranteed_bytes: 2 << 20,
//!     guest: false,
//!     source: MemorySource::Group("/sys/fs/cgroup/users/ann".into()),
//! }])?;
//! for client in reclaimer.sample() {
//!     println!("{}: holds {:?}, lost {}", client.key, client.held_bytes, client.taken_bytes);
//! }
//! # Ok(())
//! # }
//! ```

mod by_processes;
mod choice;
mod client;
mod error;
mod group;
mod means;
mod memory_client;
mod options;
mod pressure;
mod processes;
mod reclaimer;
mod room;
mod sample;
mod shared;
mod size;
mod worker;

pub use by_processes::{MemoryByProcesses, REGISTRATION};
pub use choice::ReclaimPolicy;
pub use error::MemoryError;
pub use means::{MemoryMeans, memory_means};
pub use memory_client::{MemoryClient, MemorySource};
pub use options::{ReclaimOptions, SharedLimit};
pub use reclaimer::Reclaimer;
pub use sample::{MemorySample, ReclaimTotals};
