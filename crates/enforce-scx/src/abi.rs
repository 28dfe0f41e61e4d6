//! What the scheduler in the kernel and we agree on: bpf/abi.h, as it was compiled.

/// Generated from the compiled scheduler.
#[allow(clippy::undocumented_unsafe_blocks, reason = "generated")]
pub mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sched.skel.rs"));
}
pub use skeleton::types;
use std::mem::size_of;

/// Currencies; slot 0 is base.
pub const SLOTS_MAX: usize = size_of::<types::bss_clients>() / size_of::<types::client>();
/// Edges of one bank.
pub const EDGES_MAX: usize = size_of::<types::bss_edges>() / 2 / size_of::<types::edge>();
/// CPU numbers are below this.
pub const CPUS_MAX: usize = size_of::<types::bss_cpus>() / size_of::<types::cpu_state>();
/// Domains of CPUs that share a last-level cache.
pub const DOMAINS_MAX: usize = size_of::<types::bss_domains>() / size_of::<types::domain_state>();
/// Steps of one bank's paths.
pub const STEPS_MAX: usize = size_of::<types::bss_paths>() / 2 / size_of::<u32>();
/// Givers of one bank.
pub const GIVERS_MAX: usize = size_of::<types::bss_givers>() / 2 / size_of::<types::giver>();
/// In a giver's way: the ticket that leads there is soft.
pub const STEP_SOFT: u32 = 1 << 31;
/// Steps of one path.
pub const PATH_MAX: usize = 64;

const _: () = {
    assert!(SLOTS_MAX == 1 << 16);
    assert!(EDGES_MAX == 1 << 17);
    assert!(STEPS_MAX == 1 << 18);
    assert!(GIVERS_MAX == 1 << 12);
    assert!(SLOTS_MAX <= STEP_SOFT as usize, "no slot has the bit");
    assert!(size_of::<types::scratch>() >= PATH_MAX * size_of::<u32>());
};

/// Flags of a node.
pub mod flags {
    /// The slot is a client of this plan.
    pub const LIVE: u32 = 1 << 0;
    /// Runs only when no host wants the CPU (paper 4).
    pub const GUEST: u32 = 1 << 1;
    /// Has no tickets: waits.
    pub const FROZEN: u32 = 1 << 2;
    /// Has lent its tickets.
    pub const LENT: u32 = 1 << 3;
}

/// Kinds of edges.
pub mod kinds {
    /// A relative share.
    pub const SOFT: u32 = 0;
    /// A fixed share.
    pub const HARD: u32 = 1;
    /// All of its issuer's value.
    pub const TRANSFER: u32 = 2;
}

/// Why a scheduler ended (the kernel's enum scx_exit_kind and exit codes).
pub mod exits {
    /// It has not.
    pub const NONE: u32 = 0;
    /// From here on it was an error.
    pub const ERROR: u32 = 1024;
    /// It asks to be loaded anew.
    pub const ACT_RESTART: i64 = 1 << 48;
}

/// Plain data that may be seen as bytes.
///
/// # Safety
/// Every byte of the type belongs to a field, and any bytes are a value.
pub unsafe trait Plain: Copy {
    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        let pointer = std::ptr::from_ref(self).cast();
        // SAFETY: no padding, by the contract of the trait.
        unsafe { std::slice::from_raw_parts(pointer, size_of::<Self>()) }
    }

    /// Its bytes, to be overwritten.
    fn bytes_mut(&mut self) -> &mut [u8] {
        let pointer = std::ptr::from_mut(self).cast();
        // SAFETY: no padding, and any bytes are a value, by the contract of the trait.
        unsafe { std::slice::from_raw_parts_mut(pointer, size_of::<Self>()) }
    }
}

// SAFETY: four numbers and their named padding.
unsafe impl Plain for types::member {}
// SAFETY: numbers and a named padding.
unsafe impl Plain for types::switch_args {}
// SAFETY: two numbers of 4 bytes, one of 8.
unsafe impl Plain for types::thread_args {}
// SAFETY: two numbers of 4 bytes, one of 8.
unsafe impl Plain for types::value_args {}
// SAFETY: two numbers of 4 bytes, five of 8.
unsafe impl Plain for types::policy_args {}
// SAFETY: checked against the compiled type by a test; it has no padding.
unsafe impl Plain for RawEvent {}

/// One line of the trace, as the kernel writes it (struct event).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RawEvent {
    pub at_ns: u64,
    pub key: u64,
    pub value: u64,
    pub rate: u64,
    pub used_ns: u64,
    pub due_ns: u64,
    pub charged_ns: u64,
    pub drawn: u64,
    pub now: u64,
    pub slot: u32,
    pub tid: u32,
    pub cpu: u16,
    pub kind: u16,
    pub seq: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::process::Command;

    /// BTF does not have the type of what goes into the ring buffer, so a C compiler is asked.
    #[test]
    fn the_event_is_that_of_the_header() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("event");
        let source = directory.path().join("event.c");
        let fields = [
            ("at_ns", offset_of!(RawEvent, at_ns)),
            ("key", offset_of!(RawEvent, key)),
            ("value", offset_of!(RawEvent, value)),
            ("used_ns", offset_of!(RawEvent, used_ns)),
            ("due_ns", offset_of!(RawEvent, due_ns)),
            ("charged_ns", offset_of!(RawEvent, charged_ns)),
            ("drawn", offset_of!(RawEvent, drawn)),
            ("now", offset_of!(RawEvent, now)),
            ("slot", offset_of!(RawEvent, slot)),
            ("tid", offset_of!(RawEvent, tid)),
            ("cpu", offset_of!(RawEvent, cpu)),
            ("type", offset_of!(RawEvent, kind)),
            ("seq", offset_of!(RawEvent, seq)),
        ];
        let mut text = "#include <linux/types.h>\n#include <stddef.h>\n#include <stdio.h>\n\
                        #include \"abi.h\"\nint main(void) {\n"
            .to_owned();
        for (name, _) in fields {
            text += &format!("printf(\"%zu \", offsetof(struct event, {name}));\n");
        }
        text += "printf(\"%zu\", sizeof(struct event)); }\n";
        std::fs::write(&source, text).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../bpf");
        let compiled =
            Command::new("cc").arg(include).arg(&source).arg("-o").arg(&program).status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc compiles abi.h");
        let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
        let theirs: Vec<usize> = said.split(' ').map(|number| number.parse().unwrap()).collect();
        let mut ours: Vec<usize> = fields.iter().map(|(_, offset)| *offset).collect();
        ours.push(size_of::<RawEvent>());
        assert_eq!(theirs, ours);
    }
}
