//! The least scheduler there is, to measure what allot's costs beside it.

use crate::{LoadError, facts, libbpf_log};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use std::mem::MaybeUninit;

#[allow(clippy::undocumented_unsafe_blocks, reason = "generated")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/fifo.skel.rs"));
}

/// One queue for all, first come first served. Dropping it gives every thread back to the
/// kernel's own scheduler.
pub struct Fifo {
    // Goes before the skeleton that it belongs to, and that before its storage.
    _attached: Link,
    _skeleton: skeleton::FifoSkel<'static>,
    _storage: Box<MaybeUninit<OpenObject>>,
}

impl Fifo {
    /// Loads it; from now on every thread of the machine runs by it.
    ///
    /// # Errors
    /// When the kernel cannot run schedulers or refuses this one.
    pub fn attach() -> Result<Fifo, LoadError> {
        facts::available()?;
        libbpf_log::collect();
        let mut storage = Box::new(MaybeUninit::<OpenObject>::uninit());
        let place: *mut MaybeUninit<OpenObject> = &raw mut *storage;
        // SAFETY: the box outlives the skeleton: both move together, and it is dropped later.
        let place: &'static mut MaybeUninit<OpenObject> = unsafe { &mut *place };
        let open = skeleton::FifoSkelBuilder::default()
            .open(place)
            .map_err(|error| LoadError::libbpf("open the FIFO scheduler", error))?;
        let mut skeleton =
            open.load().map_err(|error| LoadError::libbpf("load the FIFO scheduler", error))?;
        let attached = skeleton
            .maps
            .fifo_ops
            .attach_struct_ops()
            .map_err(|error| LoadError::libbpf("attach the FIFO scheduler", error))?;
        Ok(Fifo { _attached: attached, _skeleton: skeleton, _storage: storage })
    }
}
