//! One scheduler in the kernel, from load to detach, and its memory.

use crate::abi::{self, EDGES_MAX, GIVERS_MAX, Plain, SLOTS_MAX, STEPS_MAX, types};
use crate::bank_array::bank_start;
use crate::encode::{Bank, Members};
use crate::handles::{Mapped, Program, Ring, Table};
use crate::loader::{Constants, Handles, Links, Loader};
use crate::topology::Topology;
use crate::{LoadError, ScxOptions};
use ledger::CurrencyId;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Of threads that changed their client by one plan, so many do so at once, the others when they
/// next run or wake.
const RETAGGED_AT_ONCE: usize = 1024;

/// A loaded scheduler, by its descriptors; dropping it detaches it, and the kernel gives every thread back to its own.
pub(crate) struct Session {
    /// `None` while it is not attached. They go before what they belong to.
    links: Option<Links>,
    loader: Arc<Loader>,
    number: u64,
    memory: Memory,
    programs: Programs,
    members: MemberTables,
    events: OwnedFd,
    pub topology: Topology,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.links.is_none() {
            self.loader.forget(self.number);
        }
    }
}

struct Programs {
    switch_plan: Program,
    reconcile: Program,
    retag: Program,
    probe_value: Program,
    probe_policy: Program,
}

/// Maps from the numbers of processes, threads and cgroups to slots.
struct MemberTables {
    processes: Table,
    threads: Table,
    cgroups: Table,
}

/// The scheduler's globals. The kernel writes there at any time, so nothing here is ever a reference: only whole numbers
/// are read and written, volatile.
struct Memory {
    data: Mapped<types::data>,
    nodes: Mapped<types::bss_nodes>,
    edges: Mapped<types::bss_edges>,
    paths: Mapped<types::bss_paths>,
    givers: Mapped<types::bss_givers>,
    clients: Mapped<types::bss_clients>,
}

impl Memory {
    fn map(handles: &Handles<OwnedFd>) -> io::Result<Memory> {
        Ok(Memory {
            data: Mapped::map(&handles.data)?,
            nodes: Mapped::map(&handles.nodes)?,
            edges: Mapped::map(&handles.edges)?,
            paths: Mapped::map(&handles.paths)?,
            givers: Mapped::map(&handles.givers)?,
            clients: Mapped::map(&handles.clients)?,
        })
    }

    fn nodes(&self) -> *mut types::node {
        self.nodes.as_ptr().cast()
    }

    fn edges(&self) -> *mut types::edge {
        self.edges.as_ptr().cast()
    }

    fn paths(&self) -> *mut u32 {
        self.paths.as_ptr().cast()
    }

    fn givers(&self) -> *mut types::giver {
        self.givers.as_ptr().cast()
    }

    fn clients(&self) -> *mut types::client {
        self.clients.as_ptr().cast()
    }
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
    pub fn load(loader: &Arc<Loader>, options: &ScxOptions) -> Result<Session, LoadError> {
        let topology = Topology::here().map_err(LoadError::Topology)?;
        let (number, handles) = loader.load(Constants {
            seed: options.seed,
            horizon_ns: options.horizon_ns,
            guest_grace_ns: options.guest_grace_ns,
            transfers: options.transfers,
            watchdog_ms: options.watchdog_ms,
            cpu_domain: topology.cpu_domain.clone(),
            domains: topology.domains,
            cpus_end: topology.cpus_end(),
        })?;
        let memory = Memory::map(&handles).map_err(LoadError::Map)?;
        let session = Session {
            links: None,
            loader: Arc::clone(loader),
            number,
            memory,
            programs: Programs {
                switch_plan: Program(handles.switch_plan),
                reconcile: Program(handles.reconcile),
                retag: Program(handles.retag),
                probe_value: Program(handles.probe_value),
                probe_policy: Program(handles.probe_policy),
            },
            members: MemberTables {
                processes: Table(handles.processes),
                threads: Table(handles.threads),
                cgroups: Table(handles.cgroups),
            },
            events: handles.events,
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
        let (links, lacking) = self.loader.attach(self.number, transfers)?;
        self.links = Some(links);
        Ok(lacking)
    }

    /// Begins to read the trace.
    pub fn events(&self) -> io::Result<Ring> {
        Ring::open(&self.events)
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
        unsafe { self.memory.clients().add(slot as usize) }
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
        unsafe { self.memory.nodes().add(bank_start(bank, SLOTS_MAX) + slot as usize) }
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
            let to = self.memory.edges().add(bank_start(bank, EDGES_MAX));
            std::ptr::copy_nonoverlapping(edges.as_ptr(), to, edges.len());
            let to = self.memory.paths().add(bank_start(bank, STEPS_MAX));
            std::ptr::copy_nonoverlapping(paths.as_ptr(), to, paths.len());
            let to = self.memory.givers().add(bank_start(bank, GIVERS_MAX));
            std::ptr::copy_nonoverlapping(givers.as_ptr(), to, givers.len());
        }
        let mut arguments = types::switch_args { bank, slots: nodes.len() as u32, ..arguments };
        self.programs.switch_plan.run(&mut arguments)
    }

    /// Puts right what raced with a plan.
    pub fn reconcile(&self) -> io::Result<()> {
        self.programs.reconcile.run_without_arguments()
    }

    /// Has a thread find its client anew, at once. Answers the client's slot.
    pub fn retag(&self, tid: u32) -> io::Result<u32> {
        let mut arguments =
            types::thread_args { tid: tid.cast_signed(), ..types::thread_args::default() };
        self.programs.retag.run(&mut arguments)?;
        Ok(arguments.slot)
    }

    /// What the kernel makes of a client's recipe, after its activity was set.
    pub fn probe_value(&self, slot: u32, active: Option<bool>) -> io::Result<u64> {
        let active = active.map_or(2, u32::from);
        let mut arguments = types::value_args { slot, active, value: 0 };
        self.programs.probe_value.run(&mut arguments)?;
        Ok(arguments.value)
    }

    /// One step of the policy in use.
    pub fn probe_policy(&self, mut arguments: types::policy_args) -> io::Result<u64> {
        self.programs.probe_policy.run(&mut arguments)?;
        Ok(arguments.answer)
    }

    /// Numbers that mean something new; what they meant before is replaced.
    pub fn add_members(&self, old: &Members, new: &Members) -> io::Result<()> {
        let maps = &self.members;
        for (map, old, new) in [
            (&maps.processes, &old.processes, &new.processes),
            (&maps.threads, &old.threads, &new.threads),
        ] {
            for (number, entry) in new.iter().filter(|(number, e)| old.get(number) != Some(e)) {
                let (start_ticks, slot) = *entry;
                let member = types::member { start_ticks, slot, ..types::member::default() };
                map.set(&number.to_ne_bytes(), member.bytes())?;
            }
        }
        for (id, slot) in new.cgroups.iter().filter(|(id, slot)| old.cgroups.get(id) != Some(slot))
        {
            maps.cgroups.set(&id.to_ne_bytes(), &slot.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Numbers that mean nothing any more. All threads ask again whose they are, and those that
    /// were named do so at once.
    pub fn remove_members(&self, old: &Members, new: &Members) -> io::Result<()> {
        let maps = &self.members;
        for (map, old, new) in [
            (&maps.processes, &old.processes, &new.processes),
            (&maps.threads, &old.threads, &new.threads),
        ] {
            for number in old.keys().filter(|number| !new.contains_key(number)) {
                map.remove(&number.to_ne_bytes())?;
            }
        }
        for id in old.cgroups.keys().filter(|id| !new.cgroups.contains_key(id)) {
            maps.cgroups.remove(&id.to_ne_bytes())?;
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
        self.links.is_some()
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
