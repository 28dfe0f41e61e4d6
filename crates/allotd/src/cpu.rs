//! The enforcer of cpu tickets: which one, and what it says in the words of the interface.

use crate::beside::{Beside, with_others};
use crate::options::{EnforcerName, HoldName, Options};
use crate::view::part;
use enforce::cgroup::OtherResource;
use enforce::scx::{Scx, ScxOptions, Trace};
use enforce::{
    Applied, Cgroup, CgroupOptions, ClientState, EnforceError, Enforcer, Guardian, Hold, Plan,
    UserLevel, UserLevelOptions,
};
use ledger::{CurrencyId, ProcessIdentity};
use policy::PolicyName;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use wire::{ClientSample, DoctorResource, EnforcerView, Sample};

/// How many of the latest drifts are shown.
const DRIFTS_SHOWN: usize = 20;
/// Between draws where nothing is said: switching processes from user space costs too much for
/// the kernel's.
const USER_LEVEL_QUANTUM_NS: u64 = 10_000_000;

/// Records of what was changed: of the tree that shares the CPU too, and of one beside the CPU's enforcer.
const CGROUPS: &str = ".cgroups";
const SHARES: &str = ".shares";

/// Why nobody enforces.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The enforcer.
    #[error(transparent)]
    Enforce(#[from] EnforceError),
    /// The cgroup tree.
    #[error(transparent)]
    NoCgroup(#[from] enforce::cgroup::NoCgroup),
    /// They schedule everybody.
    #[error("{0} shares the whole machine, and a private allotd only what it is given")]
    NotPrivate(&'static str),
}

/// One that runs.
enum Running {
    SchedExt(Scx),
    Cgroup(Cgroup),
    UserLevel(UserLevel),
}

impl Running {
    fn enforcer(&mut self) -> &mut dyn Enforcer {
        match self {
            Running::SchedExt(enforcer) => enforcer,
            Running::Cgroup(enforcer) => enforcer,
            Running::UserLevel(enforcer) => enforcer,
        }
    }
}

/// What enforces cpu tickets, if anything does.
pub struct Cpu {
    running: Option<Running>,
    options: Options,
    registry: PathBuf,
    view: EnforcerView,
    drift: VecDeque<String>,
    beside: Beside,
}

impl Cpu {
    /// Start what the options ask for. `registry` is where the guardian's second copy is kept.
    ///
    /// # Errors
    /// When it cannot be started; nothing was touched then.
    pub fn start(options: &Options, registry: &Path) -> Result<Cpu, CpuError> {
        let view = EnforcerView {
            name: "none".to_owned(),
            why: "started with --enforcer none".to_owned(),
            policy: options.policy.to_string(),
            seed: options.seed.unwrap_or_else(a_seed),
            quantum_ns: 0,
            cpus: Vec::new(),
            hold: "none".to_owned(),
            generation: 0,
            drift: Vec::new(),
        };
        let beside = Beside::new(options, view.seed, with_suffix(registry, SHARES));
        let mut cpu = Cpu {
            running: None,
            options: options.clone(),
            registry: registry.to_owned(),
            view,
            drift: VecDeque::new(),
            beside,
        };
        // Whoever comes restores what was left, whichever enforcer that was.
        if !options.user {
            for of in [CGROUPS, SHARES] {
                give_back_leftovers(&with_suffix(registry, of));
            }
        }
        match options.enforcer {
            EnforcerName::None => {}
            EnforcerName::Auto => cpu.take_best(&candidates(options.user), Vec::new())?,
            asked => {
                if options.user && asked != EnforcerName::UserLevel {
                    return Err(CpuError::NotPrivate(asked.as_str()));
                }
                cpu.take(asked)?;
                "asked for with --enforcer".clone_into(&mut cpu.view.why);
            }
        }
        Ok(cpu)
    }

    /// The first of these that can be had, the best first; why not those before it.
    fn take_best(
        &mut self,
        candidates: &[EnforcerName],
        mut refused: Vec<String>,
    ) -> Result<(), CpuError> {
        let mut last = None;
        for name in candidates {
            match self.take(*name) {
                Ok(()) => {
                    let best = match (name, self.options.user) {
                        (EnforcerName::SchedExt, _) => "the kernel draws: the best there is",
                        (_, true) => "a private allotd shares what it is given, from user space",
                        (EnforcerName::Cgroup, false) => "the kernel's own weights",
                        (_, false) => "works on any machine",
                    };
                    self.view.why = match refused.is_empty() {
                        true => best.to_owned(),
                        false => format!("{best}; not {}", refused.join("; not ")),
                    };
                    return Ok(());
                }
                Err(error) => {
                    refused.push(format!("{}: {}", name.as_str(), with_causes(&error)));
                    last = Some(error);
                }
            }
        }
        Err(last.expect("the last of the candidates was refused"))
    }

    fn take(&mut self, name: EnforcerName) -> Result<(), CpuError> {
        let quantum_ns = self.options.quantum_ms.map(|ms| ms * 1_000_000);
        let policy = self.options.policy;
        let seed = self.view.seed;
        let program = || {
            std::env::current_exe().map_err(|source| EnforceError::Os {
                what: "find our own program, to start the guardian",
                source,
            })
        };
        let registry = |of: &str| with_suffix(&self.registry, of);
        let all_cpus = || (0..u32::MAX).take(observe::machine().cpus_online).collect();
        let (running, quantum_ns, cpus) = match name {
            EnforcerName::SchedExt => {
                let mut wanted = ScxOptions { policy, seed, ..ScxOptions::default() };
                wanted.transfers = !self.options.no_transfer;
                wanted.quantum_ns = quantum_ns.unwrap_or(wanted.quantum_ns);
                let quantum_ns = wanted.quantum_ns;
                enforce::scx::available()
                    .map_err(enforce::scx::LoadError::from)
                    .map_err(EnforceError::from)?;
                (Running::SchedExt(Scx::start(wanted)?), quantum_ns, all_cpus())
            }
            EnforcerName::Cgroup => {
                let root = enforce::cgroup::available()?;
                let wanted = CgroupOptions::new(root, program()?, registry(CGROUPS));
                let wanted = with_others(&self.options, seed, wanted);
                // One tree is enough, and two of the same name are none.
                self.beside.end();
                give_back_leftovers(&registry(SHARES));
                let quantum_ns = wanted.period_ns;
                (Running::Cgroup(Cgroup::start(wanted)?), quantum_ns, all_cpus())
            }
            EnforcerName::Auto | EnforcerName::UserLevel | EnforcerName::None => {
                let hold = match self.options.hold {
                    HoldName::Auto => Hold::Auto,
                    HoldName::Idle => Hold::Idle,
                    HoldName::Stop => Hold::Stop,
                };
                let quantum_ns = quantum_ns.unwrap_or(USER_LEVEL_QUANTUM_NS);
                let enforcer = UserLevel::start(UserLevelOptions {
                    quantum_ns,
                    policy,
                    seed,
                    cpus: self.options.cpus.as_ref().map(|list| list.0.clone()),
                    hold,
                    guardian: Guardian::start(&program()?, Some(&registry("")))
                        .map_err(EnforceError::from)?,
                })?;
                let cpus = enforcer.cpus().to_vec();
                (Running::UserLevel(enforcer), quantum_ns, cpus)
            }
        };
        self.running = Some(running);
        name.as_str().clone_into(&mut self.view.name);
        "none".clone_into(&mut self.view.hold);
        (self.view.quantum_ns, self.view.cpus) = (quantum_ns, cpus);
        Ok(())
    }

    /// Where the enforcer has given up, the next best takes its place; answers what happened. It
    /// has to be given a plan then.
    pub fn replace_if_it_gave_up(&mut self) -> Option<String> {
        let Some(Running::SchedExt(scx)) = &self.running else { return None };
        let why = scx.gave_up()?.to_owned();
        let refused = vec![format!("sched-ext: {why}")];
        // Its thread ends, and with it whatever it still had.
        self.running = None;
        let rest = [EnforcerName::Cgroup, EnforcerName::UserLevel];
        let next = match self.take_best(&rest, refused) {
            Ok(()) => format!("{} goes on", self.view.name),
            Err(error) => {
                "none".clone_into(&mut self.view.name);
                self.view.why = with_causes(&error);
                format!("nobody enforces: {}", with_causes(&error))
            }
        };
        Some(format!("sched-ext gave up: {why}; {next}"))
    }

    /// Whether somebody enforces.
    pub fn is_enforced(&self) -> bool {
        self.running.is_some()
    }

    /// Whether it schedules everybody, the kernel's own threads too.
    pub fn has_everybody(&self) -> bool {
        matches!(self.running, Some(Running::SchedExt(_)))
    }

    /// Who draws.
    pub fn policy(&self) -> wire::PolicyView {
        wire::PolicyView { policy: self.view.policy.clone(), enforcer: self.view.name.clone() }
    }

    /// Let another draw from now on.
    ///
    /// # Errors
    /// When the enforcer cannot, in words.
    pub fn set_policy(&mut self, policy: PolicyName) -> Result<(), String> {
        let name = self.view.name.clone();
        let running = self.running.as_mut().ok_or("nobody enforces: there is no policy to set")?;
        running.enforcer().set_policy(policy).map_err(|error| format!("{name}: {error}"))?;
        // What takes its place draws by it too.
        self.options.policy = policy;
        self.view.policy = policy.to_string();
        Ok(())
    }

    /// Every choice from now on.
    ///
    /// # Errors
    /// When the enforcer has no trace, in words.
    pub fn trace(&mut self) -> Result<Trace, String> {
        match &mut self.running {
            Some(Running::SchedExt(scx)) => scx.trace().map_err(|error| error.to_string()),
            _ => Err(format!(
                "the enforcer `{}` has no trace: only sched-ext tells each choice; `allot top` \
                 counts wins",
                self.view.name
            )),
        }
    }

    /// Follow a plan.
    ///
    /// # Errors
    /// When it is refused, in words.
    pub fn apply(&mut self, plan: Plan) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        self.view.generation = plan.generation;
        match running {
            Running::Cgroup(_) => self.beside.leave_to_other(&plan),
            _ => self.drift.extend(self.beside.apply(&plan)),
        }
        running.enforcer().apply(plan).map_err(|error| error.to_string())
    }

    /// How memory and disks are enforced, and who competes for them.
    pub fn enforced_others(&self) -> Vec<OtherResource> {
        let tree = match &self.running {
            Some(Running::Cgroup(tree)) => Some(tree),
            _ => None,
        };
        self.beside.others(tree)
    }

    /// Who enforces tickets of memory and disks.
    pub fn others(&self) -> Vec<DoctorResource> {
        let others = self.enforced_others().into_iter();
        let view = |other: OtherResource| DoctorResource {
            resource: other.resource.to_string(),
            enforcer: other.enforcer.unwrap_or("none").to_owned(),
            why: other.why,
        };
        others.map(view).collect()
    }

    /// A client forked.
    pub fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        if let Some(running) = &mut self.running {
            running.enforcer().note_fork(parent, child);
        }
    }

    /// Who competes now.
    pub fn active(&mut self) -> Vec<CurrencyId> {
        let applied = self.read_back();
        let clients = applied.into_iter().flat_map(|applied| applied.clients);
        let competes = |state| matches!(state, ClientState::Running | ClientState::Waiting);
        clients.filter(|client| competes(client.state)).map(|client| client.id).collect()
    }

    /// Settings and what is not as it should be.
    pub fn view(&mut self) -> EnforcerView {
        let applied = self.read_back();
        let notes = applied.iter().flat_map(|applied| &applied.clients).filter_map(|client| {
            let note = client.note.as_ref()?;
            // Only the kernel's scheduler has those; elsewhere nobody expects it.
            (!client.founder.outlives_boot()).then(|| format!("{}: {note}", client.founder))
        });
        let drift = notes.chain(self.drift.iter().cloned()).collect();
        EnforcerView { drift, ..self.view.clone() }
    }

    /// What drifted since this was asked last, in words.
    pub fn new_drift(&mut self) -> Vec<String> {
        let known = self.drift.clone();
        self.read_back();
        self.drift.iter().filter(|drift| !known.contains(drift)).cloned().collect()
    }

    /// What was measured. Commands are left empty.
    pub fn sample(&mut self) -> Sample {
        let running = self.running.as_mut();
        let measured = running.and_then(|running| running.enforcer().take_sample().ok());
        let Some(measured) = measured else {
            return Sample {
                at_ns: 0,
                seats: 0,
                generation: 0,
                draws: 0,
                late: 0,
                daemon_cpu_ns: own_cpu_ns(),
                clients: Vec::new(),
            };
        };
        let one_seat = policy::ONE_SEAT as f64;
        let quantum_ns = self.view.quantum_ns;
        Sample {
            at_ns: measured.at_ns,
            seats: u32::try_from(measured.seats).unwrap_or(u32::MAX),
            generation: measured.generation,
            draws: measured.draws,
            late: measured.late,
            daemon_cpu_ns: own_cpu_ns(),
            clients: measured
                .clients
                .iter()
                .map(|client| ClientSample {
                    id: client.id.0,
                    pid: client.founder.process().map_or(0, |process| process.pid),
                    command: String::new(),
                    state: state(client.state),
                    value: part(client.value),
                    promised_share: client.promised as f64 / one_seat / measured.seats as f64,
                    promised_ns: client.promised_ns,
                    used_ns: client.used_ns,
                    wins: client.wins,
                    draws: client.draws,
                    slice_used: (client.wins > 0)
                        .then(|| client.used_ns as f64 / client.wins as f64 / quantum_ns as f64),
                })
                .collect(),
        }
    }

    /// Give everything back and end.
    pub fn end(&mut self) {
        self.beside.end();
        if let Some(mut running) = self.running.take()
            && let Err(error) = running.enforcer().revert()
        {
            tracing::warn!("while giving everything back: {error}");
        }
    }

    fn read_back(&mut self) -> Option<Applied> {
        self.drift.extend(self.beside.drift());
        let applied = self.running.as_mut()?.enforcer().read_back();
        match applied {
            Ok(applied) => {
                if matches!(self.running, Some(Running::UserLevel(_))) {
                    self.view.hold = applied.hold.to_string();
                }
                self.drift.extend(applied.drift.iter().map(ToString::to_string));
                let excess = self.drift.len().saturating_sub(DRIFTS_SHOWN);
                self.drift.drain(..excess);
                Some(applied)
            }
            Err(error) => {
                let error = error.to_string();
                if self.drift.back() != Some(&error) {
                    self.drift.push_back(error);
                }
                None
            }
        }
    }
}

/// Of a record that an allotd and its guardian, both killed, have left.
fn give_back_leftovers(record: &Path) {
    match enforce::cgroup::restore_cgroup_leftovers(record) {
        Ok(restored) => {
            for what in restored.failed {
                tracing::error!("{what}");
            }
        }
        Err(error) => tracing::error!("{}: {error}", record.display()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(path);
    path.push(suffix);
    PathBuf::from(path)
}

/// What `auto` tries, the best first.
fn candidates(is_private: bool) -> Vec<EnforcerName> {
    match is_private {
        true => vec![EnforcerName::UserLevel],
        false => vec![EnforcerName::SchedExt, EnforcerName::Cgroup, EnforcerName::UserLevel],
    }
}

/// An error with all its causes, where the innermost is what the kernel said.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn state(state: ClientState) -> wire::ClientState {
    match state {
        ClientState::Running => wire::ClientState::Running,
        ClientState::Waiting => wire::ClientState::Waiting,
        ClientState::Sleeping => wire::ClientState::Sleeping,
        ClientState::Frozen => wire::ClientState::Frozen,
        ClientState::Stopped => wire::ClientState::Stopped,
        ClientState::Unmanaged => wire::ClientState::Unmanaged,
    }
}

/// CPU time used by this process, all threads.
fn own_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// From the kernel's random numbers.
fn a_seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => u64::from(std::process::id()),
    }
}
