//! Programs, maps and links in the kernel by their descriptors: what uses what another process has loaded. None of it
//! takes a capability, whatever `kernel.unprivileged_bpf_disabled` says: that forbids to make maps and load programs
//! (bpf(2), since Linux 5.19).

use crate::abi::{Plain, RawEvent};
use crate::trace::raw_event;
use libbpf_rs::libbpf_sys;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// A program of type `syscall`, which runs when it is told to.
pub(crate) struct Program(pub OwnedFd);

impl Program {
    /// Runs it with arguments that it may change.
    pub fn run<T: Plain>(&self, arguments: &mut T) -> io::Result<()> {
        self.run_with(arguments.bytes_mut())
    }

    /// Runs it without arguments.
    pub fn run_without_arguments(&self) -> io::Result<()> {
        self.run_with(&mut [])
    }

    fn run_with(&self, arguments: &mut [u8]) -> io::Result<()> {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        if !arguments.is_empty() {
            // For these programs the kernel writes its answers where it was given the arguments.
            options.ctx_in = arguments.as_mut_ptr().cast();
            options.ctx_size_in = arguments.len() as u32;
        }
        // SAFETY: the options and the arguments live until the call returns; the kernel writes no more of either than
        // their sizes say.
        checked(unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &mut options) })?;
        match options.retval.cast_signed() {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

/// A hash map, from keys of a type to values of another.
pub(crate) struct Table(pub OwnedFd);

impl Table {
    /// Sets an entry. The key and the value have the sizes of the map's.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
        let flags = u64::from(libbpf_sys::BPF_ANY);
        // SAFETY: the kernel reads as many bytes as the map's keys and values have, which these have, says the caller.
        checked(unsafe { libbpf_sys::bpf_map_update_elem(self.0.as_raw_fd(), key, value, flags) })
    }

    /// Removes an entry. One that is not there is no error. The key has the size of the map's.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        // SAFETY: as for `set`.
        let removed =
            unsafe { libbpf_sys::bpf_map_delete_elem(self.0.as_raw_fd(), key.as_ptr().cast()) };
        match checked(removed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Globals of a loaded object, mapped into this process.
pub(crate) struct Mapped<T>(NonNull<T>);

impl<T> Mapped<T> {
    /// Maps the memory of an array of one value. The kernel refuses to map more than there is.
    pub fn map(array: impl AsFd) -> io::Result<Mapped<T>> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (nowhere, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let mapped =
            unsafe { rustix::mm::mmap(nowhere, size_of::<T>(), protection, flags, array, 0)? };
        Ok(Mapped(NonNull::new(mapped.cast()).expect("the kernel maps nothing at zero")))
    }

    /// The place of the globals, as long as this lives.
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's; who has a pointer from `as_ptr` no longer uses it.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// The reading end of a ring buffer of events.
pub(crate) struct Ring {
    buffer: NonNull<libbpf_sys::ring_buffer>,
    /// Where the callback puts what it hears; the buffer has the pointer.
    heard: NonNull<Vec<RawEvent>>,
}

impl Ring {
    /// Begins to read. The buffer lives on while it is mapped here.
    pub fn open(map: impl AsFd) -> io::Result<Ring> {
        let heard = NonNull::from(Box::leak(Box::new(Vec::new())));
        let (map, no_options) = (map.as_fd().as_raw_fd(), std::ptr::null());
        // SAFETY: the context is a vector that is freed after the buffer.
        let buffer = unsafe {
            libbpf_sys::ring_buffer__new(map, Some(hear), heard.as_ptr().cast(), no_options)
        };
        match NonNull::new(buffer) {
            Some(buffer) => Ok(Ring { buffer, heard }),
            None => {
                let error = io::Error::last_os_error();
                // SAFETY: from the box above; there is no buffer that has it.
                drop(unsafe { Box::from_raw(heard.as_ptr()) });
                Err(error)
            }
        }
    }

    /// Takes what there is.
    pub fn take(&mut self) -> Vec<RawEvent> {
        // An error means that nothing could be read now.
        // SAFETY: the buffer lives; its callback has the vector to itself until this returns.
        let _ = unsafe { libbpf_sys::ring_buffer__consume(self.buffer.as_ptr()) };
        // SAFETY: nobody else has the vector now.
        std::mem::take(unsafe { self.heard.as_mut() })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both are this one's, and the buffer goes before what its callback writes to.
        unsafe {
            libbpf_sys::ring_buffer__free(self.buffer.as_ptr());
            drop(Box::from_raw(self.heard.as_ptr()));
        }
    }
}

/// One record. What is too short is left out.
unsafe extern "C" fn hear(
    heard: *mut c_void,
    bytes: *mut c_void,
    size: libbpf_sys::size_t,
) -> c_int {
    // SAFETY: libbpf gives what `open` gave it, and a record of so many bytes that stays until this returns.
    let (heard, bytes) = unsafe {
        let heard: &mut Vec<RawEvent> = &mut *heard.cast();
        (heard, std::slice::from_raw_parts(bytes.cast::<u8>(), size as usize))
    };
    heard.extend(raw_event(bytes));
    0
}

/// The answer of libbpf as a result: an error as its number below zero.
fn checked(answer: c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}
