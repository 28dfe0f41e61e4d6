//! One scheduler in the kernel, from load to detach, and its memory.

use crate::abi::skeleton::{SchedSkel, SchedSkelBuilder};
use crate::abi::{self, EDGES_MAX, GIVERS_MAX, Plain, SLOTS_MAX, STEPS_MAX, types};
use crate::bank_array::bank_start;
use crate::encode::{Bank, Members};
use crate::topology::Topology;
use crate::{LoadError, ScxOptions, libbpf_log};
use ledger::CurrencyId;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramInput};
use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Of threads that changed their client by one plan, so many do so at once, the others when they
/// next run or wake.
const RETAGGED_AT_ONCE: usize = 1024;

/// A loaded scheduler; dropping it detaches it, and the kernel gives every thread back to its own.
pub(crate) struct Session {
    // The order matters: links go before what they belong to, the skeleton before its storage.
    links: Vec<Link>,
    attached: Option<Link>,
    memory: Memory,
    pub skeleton: SchedSkel<'static>,
    _storage: Box<MaybeUninit<OpenObject>>,
    pub topology: Topology,
}

/// Where the scheduler's globals are mapped. The kernel writes there at any time, so nothing here
/// is ever a reference: only whole numbers are read and written, volatile.
#[derive(Clone, Copy)]
struct Memory {
    data: NonNull<types::data>,
    nodes: NonNull<types::node>,
    edges: NonNull<types::edge>,
    paths: NonNull<u32>,
    givers: NonNull<types::giver>,
    clients: NonNull<types::client>,
}

/// What the kernel said at the end of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub kind: u32,
    pub code: i64,
    pub reason: String,
    pub message: String,
}

impl Exit {
    /// Nothing is wrong: a CPU came or went, and the scheduler asks to be loaded for that.
    pub fn wants_restart(&self) -> bool {
        self.kind < abi::exits::ERROR && self.code & abi::exits::ACT_RESTART != 0
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.reason.is_empty() { "no reason given" } else { &self.reason })?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// A volatile read of one field.
macro_rules! get {
    ($pointer:expr) => {
        {
            let pointer = $pointer;
            // SAFETY: as below, for all of a structure of numbers.
            unsafe { pointer.read_volatile() }
        }
    };
    ($pointer:expr, $($field:tt)+) => {
        {
            let pointer = $pointer;
            // SAFETY: the pointer is into the scheduler's memory, which is mapped while the
            // session lives; a number is valid whatever the kernel writes there.
            unsafe { (&raw const (*pointer).$($field)+).read_volatile() }
        }
    };
}

/// A volatile write of one field.
macro_rules! put {
    ($pointer:expr, $field:ident = $value:expr) => {{
        let (pointer, value) = ($pointer, $value);
        // SAFETY: as for reading; the kernel expects these fields to be written by us.
        unsafe { (&raw mut (*pointer).$field).write_volatile(value) }
    }};
}

impl Session {
    /// Loads the scheduler: the verifier accepts it, nothing runs by it yet.
    pub fn load(options: &ScxOptions) -> Result<Session, LoadError> {
        libbpf_log::collect();
        let topology = Topology::here().map_err(LoadError::Topology)?;
        let mut storage = Box::new(MaybeUninit::<OpenObject>::uninit());
        let place: *mut MaybeUninit<OpenObject> = &raw mut *storage;
        // SAFETY: the box outlives the skeleton: both move together, and it is dropped later.
        let place: &'static mut MaybeUninit<OpenObject> = unsafe { &mut *place };
        let failed = |what| move |error| LoadError::libbpf(what, error);
        let mut open =
            SchedSkelBuilder::default().open(place).map_err(failed("open the scheduler"))?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        rodata.nr_cpus = topology.cpus_end();
        rodata.nr_domains = topology.domains;
        for (cpu, domain) in &topology.cpu_domain {
            rodata.cpu_domain[*cpu as usize] = *domain;
        }
        rodata.seed = options.seed;
        rodata.horizon_ns = options.horizon_ns;
        rodata.guest_grace_ns = options.guest_grace_ns;
        rodata.transfers = options.transfers;
        open.struct_ops.allot_ops_mut().timeout_ms = options.watchdog_ms;
        if !options.transfers {
            open.progs.on_contention_begin.set_autoload(false);
            open.progs.on_contention_end.set_autoload(false);
        }
        let mut skeleton = open.load().map_err(failed("load the scheduler"))?;
        let maps = &mut skeleton.maps;
        // References that are never used again: from here on only pointers.
        let data = NonNull::from(maps.data_data.take().expect("the object has data"));
        let nodes = NonNull::from(maps.bss_nodes_data.take().expect("it has nodes"));
        let edges = NonNull::from(maps.bss_edges_data.take().expect("it has edges"));
        let paths = NonNull::from(maps.bss_paths_data.take().expect("it has paths"));
        let givers = NonNull::from(maps.bss_givers_data.take().expect("it has givers"));
        let clients = NonNull::from(maps.bss_clients_data.take().expect("it has clients"));
        let memory = Memory {
            data,
            nodes: nodes.cast(),
            edges: edges.cast(),
            paths: paths.cast(),
            givers: givers.cast(),
            clients: clients.cast(),
        };
        let session = Session {
            links: Vec::new(),
            attached: None,
            memory,
            skeleton,
            _storage: storage,
            topology,
        };
        session.set_policy(options.policy);
        let control = session.control_pointer();
        put!(control, quantum_ns = options.quantum_ns);
        put!(control, round_ns = options.round_ns);
        Ok(session)
    }

    /// From now on every thread runs by it. Answers what it will do without.
    pub fn attach(&mut self, transfers: bool) -> Result<Option<String>, LoadError> {
        let attached = self.skeleton.maps.allot_ops.attach_struct_ops();
        self.attached =
            Some(attached.map_err(|error| LoadError::libbpf("attach the scheduler", error))?);
        if !transfers {
            return Ok(None);
        }
        for program in
            [&self.skeleton.progs.on_contention_begin, &self.skeleton.progs.on_contention_end]
        {
            match program.attach() {
                Ok(link) => self.links.push(link),
                Err(error) => {
                    return Ok(Some(format!("who waits for a lock does not lend: {error}")));
                }
            }
        }
        Ok(None)
    }

    fn data(&self) -> *mut types::data {
        self.memory.data.as_ptr()
    }

    fn control_pointer(&self) -> *mut types::control {
        // SAFETY: a field of mapped memory.
        unsafe { &raw mut (*self.data()).control }
    }

    /// Why it ended; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        let kind = get!(self.data(), exit_kind);
        if kind == abi::exits::NONE {
            return None;
        }
        Some(Exit {
            kind,
            code: get!(self.data(), exit_code),
            reason: text(&get!(self.data(), exit_reason)),
            message: text(&get!(self.data(), exit_message)),
        })
    }

    /// What it counts, and how it is controlled.
    pub fn totals(&self) -> types::totals {
        get!(self.data(), totals)
    }

    pub fn control(&self) -> types::control {
        get!(self.control_pointer())
    }

    /// Grows when anybody becomes active or inactive.
    pub fn activity(&self) -> u64 {
        get!(self.data(), activity)
    }

    pub fn set_policy(&self, policy: policy::PolicyName) {
        put!(self.control_pointer(), policy = policy_number(policy));
    }

    pub fn set_traced(&self, traced: bool) {
        put!(self.control_pointer(), traced = u32::from(traced));
    }

    /// Members have changed: every thread asks again whose it is.
    pub fn members_changed(&self) {
        let control = self.control_pointer();
        put!(control, epoch = get!(control, epoch).wrapping_add(1));
    }

    fn client_pointer(&self, slot: u32) -> *mut types::client {
        assert!((slot as usize) < SLOTS_MAX, "slots are below SLOTS_MAX");
        // SAFETY: within the array.
        unsafe { self.memory.clients.as_ptr().add(slot as usize) }
    }

    /// A copy of a client; its fields may be of different moments.
    pub fn client(&self, slot: u32) -> types::client {
        get!(self.client_pointer(slot))
    }

    /// The currency in a slot that the kernel names; `None` where there is no such slot.
    pub fn currency_in(&self, slot: u32) -> Option<CurrencyId> {
        ((slot as usize) < SLOTS_MAX).then(|| CurrencyId(self.client(slot).id))
    }

    /// A slot's new client. Nobody may be using the slot.
    pub fn write_client(&self, slot: u32, client: types::client) {
        let pointer = self.client_pointer(slot);
        // SAFETY: within the array; nobody else uses it, says the caller.
        unsafe { pointer.write_volatile(client) }
    }

    fn node_pointer(&self, bank: u32, slot: u32) -> *mut types::node {
        assert!((slot as usize) < SLOTS_MAX, "slots are below SLOTS_MAX");
        // SAFETY: within the two arrays.
        unsafe { self.memory.nodes.as_ptr().add(bank_start(bank, SLOTS_MAX) + slot as usize) }
    }

    /// Whether a client's tickets are counted.
    pub fn is_active(&self, bank: u32, slot: u32) -> bool {
        get!(self.node_pointer(bank, slot), active) != 0
    }

    /// The activity for which the scheduler's value of a currency is right.
    pub fn stamp(&self, bank: u32, slot: u32) -> u64 {
        get!(self.node_pointer(bank, slot), stamp)
    }

    /// Writes a plan into the bank that is not in use, and has it used from now on.
    pub fn switch(&self, plan: &Bank, arguments: types::switch_args) -> io::Result<()> {
        let Bank { nodes, edges, paths, givers, .. } = plan;
        assert!(nodes.len() <= SLOTS_MAX, "there are not more slots");
        let bank = (self.control().bank ^ 1) & 1;
        // SAFETY: no `BankArray` is longer than the bank's array; the kernel does not use this bank.
        unsafe {
            let to = self.node_pointer(bank, 0);
            std::ptr::copy_nonoverlapping(nodes.as_ptr(), to, nodes.len());
            let to = self.memory.edges.as_ptr().add(bank_start(bank, EDGES_MAX));
            std::ptr::copy_nonoverlapping(edges.as_ptr(), to, edges.len());
            let to = self.memory.paths.as_ptr().add(bank_start(bank, STEPS_MAX));
            std::ptr::copy_nonoverlapping(paths.as_ptr(), to, paths.len());
            let to = self.memory.givers.as_ptr().add(bank_start(bank, GIVERS_MAX));
            std::ptr::copy_nonoverlapping(givers.as_ptr(), to, givers.len());
        }
        let mut arguments = types::switch_args { bank, slots: nodes.len() as u32, ..arguments };
        call(&self.skeleton.progs.switch_plan, &mut arguments)
    }

    /// Puts right what raced with a plan.
    pub fn reconcile(&self) -> io::Result<()> {
        let input = ProgramInput::default();
        answered(self.skeleton.progs.reconcile.test_run(input))
    }

    /// Has a thread find its client anew, at once. Answers the client's slot.
    pub fn retag(&self, tid: u32) -> io::Result<u32> {
        let mut arguments =
            types::thread_args { tid: tid.cast_signed(), ..types::thread_args::default() };
        call(&self.skeleton.progs.retag, &mut arguments)?;
        Ok(arguments.slot)
    }

    /// What the kernel makes of a client's recipe, after its activity was set.
    pub fn probe_value(&self, slot: u32, active: Option<bool>) -> io::Result<u64> {
        let active = active.map_or(2, u32::from);
        let mut arguments = types::value_args { slot, active, value: 0 };
        call(&self.skeleton.progs.probe_value, &mut arguments)?;
        Ok(arguments.value)
    }

    /// One step of the policy in use.
    pub fn probe_policy(&self, mut arguments: types::policy_args) -> io::Result<u64> {
        call(&self.skeleton.progs.probe_policy, &mut arguments)?;
        Ok(arguments.answer)
    }

    /// Numbers that mean something new; what they meant before is replaced.
    pub fn add_members(&self, old: &Members, new: &Members) -> io::Result<()> {
        let maps = &self.skeleton.maps;
        for (map, old, new) in [
            (&maps.processes, &old.processes, &new.processes),
            (&maps.threads, &old.threads, &new.threads),
        ] {
            for (number, entry) in new.iter().filter(|(number, e)| old.get(number) != Some(e)) {
                let (start_ticks, slot) = *entry;
                let member = types::member { start_ticks, slot, ..types::member::default() };
                set_entry(map, &number.to_ne_bytes(), member.bytes())?;
            }
        }
        for (id, slot) in new.cgroups.iter().filter(|(id, slot)| old.cgroups.get(id) != Some(slot))
        {
            set_entry(&maps.cgroups, &id.to_ne_bytes(), &slot.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Numbers that mean nothing any more. All threads ask again whose they are, and those that
    /// were named do so at once.
    pub fn remove_members(&self, old: &Members, new: &Members) -> io::Result<()> {
        let maps = &self.skeleton.maps;
        for (map, old, new) in [
            (&maps.processes, &old.processes, &new.processes),
            (&maps.threads, &old.threads, &new.threads),
        ] {
            for number in old.keys().filter(|number| !new.contains_key(number)) {
                remove_entry(map, &number.to_ne_bytes())?;
            }
        }
        for id in old.cgroups.keys().filter(|id| !new.cgroups.contains_key(id)) {
            remove_entry(&maps.cgroups, &id.to_ne_bytes())?;
        }
        self.members_changed();
        let moved = |tid: &u32| old.threads.get(tid) != new.threads.get(tid);
        let tids: BTreeSet<u32> =
            old.threads.keys().chain(new.threads.keys()).copied().filter(moved).collect();
        for tid in tids.into_iter().take(RETAGGED_AT_ONCE) {
            // It may have ended.
            let _ = self.retag(tid);
        }
        Ok(())
    }

    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }
}

/// Runs a program of ours with arguments that it may change.
fn call<T: Plain>(program: &libbpf_rs::ProgramMut<'_>, arguments: &mut T) -> io::Result<()> {
    // For these programs the kernel writes its answers where it was given the arguments.
    let input = ProgramInput { context_in: Some(arguments.bytes_mut()), ..ProgramInput::default() };
    answered(program.test_run(input))
}

fn answered(answer: libbpf_rs::Result<libbpf_rs::ProgramOutput<'_>>) -> io::Result<()> {
    let answer = answer.map_err(io::Error::other)?;
    match answer.return_value.cast_signed() {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

fn set_entry(map: &dyn MapCore, key: &[u8], value: &[u8]) -> io::Result<()> {
    map.update(key, value, MapFlags::ANY).map_err(io::Error::other)
}

/// One that is not there is no error.
fn remove_entry(map: &dyn MapCore, key: &[u8]) -> io::Result<()> {
    match map.delete(key) {
        Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
            Err(io::Error::other(error))
        }
        _ => Ok(()),
    }
}

fn policy_number(policy: policy::PolicyName) -> u32 {
    match policy.as_str() {
        "lottery" => 0,
        "stride" => 1,
        _ => 2,
    }
}

pub(crate) fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
