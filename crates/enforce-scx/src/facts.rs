//! Whether the running kernel can run the scheduler, and if not, why.

use crate::loader;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Typedef};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the running kernel offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Its release.
    pub release: String,
    /// Whether threads that wait for locks can lend their tickets: the kernel has the tracepoints.
    pub has_lock_tracepoints: bool,
}

/// Why the scheduler cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// CONFIG_SCHED_CLASS_EXT is unset, or the kernel is older than 6.12.
    #[error("kernel {release} was built without sched_ext (/sys/kernel/sched_ext is missing)")]
    NoSchedExt {
        /// Of the kernel.
        release: String,
    },
    /// CONFIG_DEBUG_INFO_BTF is unset.
    #[error("kernel {release} does not describe its types (/sys/kernel/btf/vmlinux: {cause})")]
    NoBtf {
        /// Of the kernel.
        release: String,
        /// What was found instead.
        cause: String,
    },
    /// Some Debian kernels (7.1.13, 7.2.12): the functions are there, their types are not.
    #[error(
        "kernel {release} was packaged wrongly: its BTF lacks {function}, which every sched_ext \
         scheduler calls; use another build of it"
    )]
    BrokenBtf {
        /// Of the kernel.
        release: String,
        /// One that is missing.
        function: String,
    },
    /// No capability to load one.
    #[error("loading a scheduler takes CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, as root has them")]
    NotPrivileged,
    /// The scheduler is the whole machine's and knows everybody by the machine's own numbers.
    #[error("we are in a container: its process ids are not the machine's")]
    InContainer,
    /// Somebody else's is loaded.
    #[error("another scheduler is loaded: {name}")]
    Occupied {
        /// Its name.
        name: String,
    },
}

/// What every kernel that runs schedulers has, by any of its names over time, as they must stand
/// in its BTF.
const FUNCTIONS: [&[&str]; 4] = [
    &["scx_bpf_create_dsq"],
    &["scx_bpf_select_cpu_dfl"],
    &["scx_bpf_kick_cpu"],
    &["scx_bpf_dsq_move_to_local", "scx_bpf_consume"],
];
const DIRECTORY: &str = "/sys/kernel/sched_ext";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Of /proc/self/ns/pid in the first namespace (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What the running kernel offers, or why it will not do. A kernel that passes can still refuse.
///
/// # Errors
/// The first reason that was found.
pub fn available() -> Result<KernelFacts, WhyNot> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim().to_owned();
    let Some(state) = state() else { return Err(WhyNot::NoSchedExt { release }) };
    let btf = Btf::from_path(BTF)
        .map_err(|error| WhyNot::NoBtf { release: release.clone(), cause: error.to_string() })?;
    let has_function = |name: &str| btf.type_by_name::<Func<'_>>(name).is_some();
    let missing = FUNCTIONS.iter().find(|names| !names.iter().any(|name| has_function(name)));
    if let Some(names) = missing {
        return Err(WhyNot::BrokenBtf { release, function: names[0].to_owned() });
    }
    // Where the kernel has wrapped a function to give it an argument of its own, the wrapped one
    // must be there too: this is what the broken builds lack.
    if let Some(name) = wrapped_without_core(&btf) {
        return Err(WhyNot::BrokenBtf { release, function: name });
    }
    if !is_privileged() && !loader::is_there() {
        return Err(WhyNot::NotPrivileged);
    }
    if fs::metadata("/proc/self/ns/pid").is_ok_and(|found| found.ino() != FIRST_PID_NAMESPACE) {
        return Err(WhyNot::InContainer);
    }
    if state != "disabled" {
        let name = fs::read_to_string(Path::new(DIRECTORY).join("root/ops")).unwrap_or_default();
        return Err(WhyNot::Occupied { name: name.trim().to_owned() });
    }
    let has_lock_tracepoints =
        btf.type_by_name::<Typedef<'_>>("btf_trace_contention_begin").is_some();
    Ok(KernelFacts { release, has_lock_tracepoints })
}

/// Since 7.1 the kernel hands some functions an argument of its own, `aux`: BTF must then have such
/// a function twice, without it for us and as `NAME_impl` with it. The broken builds have only one,
/// with it.
fn wrapped_without_core(btf: &Btf<'_>) -> Option<String> {
    ["scx_bpf_create_dsq", "scx_bpf_kick_cpu"].into_iter().find_map(|name| {
        let function = btf.type_by_name::<Func<'_>>(name)?;
        let prototype: FuncProto<'_> = function.next_type()?.try_into().ok()?;
        let takes_aux =
            prototype.iter().any(|parameter| parameter.name.is_some_and(|name| name == "aux"));
        let core = format!("{name}_impl");
        (takes_aux && btf.type_by_name::<Func<'_>>(&core).is_none()).then_some(core)
    })
}

/// `enabled`, `disabled` or something between; `None` where there is no sched_ext.
pub(crate) fn state() -> Option<String> {
    let state = fs::read_to_string(Path::new(DIRECTORY).join("state")).ok()?;
    Some(state.trim().to_owned())
}

/// Whether this process may load one.
pub(crate) fn is_privileged() -> bool {
    use rustix::thread::CapabilitySet;
    let has = |set: CapabilitySet| {
        set.contains(CapabilitySet::SYS_ADMIN)
            || set.contains(CapabilitySet::BPF | CapabilitySet::PERFMON)
    };
    rustix::thread::capabilities(None).is_ok_and(|sets| has(sets.effective))
}
