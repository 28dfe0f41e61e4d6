//! The enforcer of cpu tickets, in the words of the interface.

use crate::options::{EnforcerName, HoldName, Options};
use crate::view::part;
use enforce::{
    Applied, ClientState, EnforceError, Enforcer, Guardian, Hold, Plan, UserLevel, UserLevelOptions,
};
use ledger::{CurrencyId, ProcessIdentity};
use std::collections::VecDeque;
use std::path::Path;
use wire::{ClientSample, EnforcerView, Sample};

/// How many of the latest drifts are shown.
const DRIFTS_SHOWN: usize = 20;

/// What enforces cpu tickets, if anything does.
pub struct Cpu {
    enforcer: Option<Box<dyn Enforcer>>,
    view: EnforcerView,
    drift: VecDeque<String>,
}

impl Cpu {
    /// Start what the options ask for. `registry` is where the guardian's second copy is kept.
    ///
    /// # Errors
    /// When it cannot be started; nothing was touched then.
    pub fn start(options: &Options, registry: &Path) -> Result<Cpu, EnforceError> {
        let seed = options.seed.unwrap_or_else(a_seed);
        let view = EnforcerView {
            name: "none".to_owned(),
            why: "started with --enforcer none".to_owned(),
            policy: options.policy.to_string(),
            seed,
            quantum_ns: options.quantum_ms * 1_000_000,
            cpus: Vec::new(),
            hold: "none".to_owned(),
            generation: 0,
            drift: Vec::new(),
        };
        if options.enforcer == EnforcerName::None {
            return Ok(Cpu { enforcer: None, view, drift: VecDeque::new() });
        }
        let hold = match options.hold {
            HoldName::Auto => Hold::Auto,
            HoldName::Idle => Hold::Idle,
            HoldName::Stop => Hold::Stop,
        };
        let cpus = options.cpus.as_ref().map(|list| list.0.clone());
        let program = std::env::current_exe().map_err(|source| EnforceError::Os {
            what: "find our own program, to start the guardian",
            source,
        })?;
        let enforcer = UserLevel::start(UserLevelOptions {
            quantum_ns: view.quantum_ns,
            policy: options.policy,
            seed,
            cpus,
            hold,
            guardian: Guardian::start(&program, Some(registry))?,
        })?;
        let view = EnforcerView {
            name: enforcer.name().to_owned(),
            why: match options.enforcer {
                EnforcerName::UserLevel => "asked for with --enforcer".to_owned(),
                _ => "works on any machine; the best that this version has".to_owned(),
            },
            cpus: enforcer.cpus().to_vec(),
            ..view
        };
        Ok(Cpu { enforcer: Some(Box::new(enforcer)), view, drift: VecDeque::new() })
    }

    /// Whether somebody enforces.
    pub fn is_enforced(&self) -> bool {
        self.enforcer.is_some()
    }

    /// Follow a plan.
    ///
    /// # Errors
    /// When it is refused, in words.
    pub fn apply(&mut self, plan: Plan) -> Result<(), String> {
        let Some(enforcer) = &mut self.enforcer else { return Ok(()) };
        self.view.generation = plan.generation;
        enforcer.apply(plan).map_err(|error| error.to_string())
    }

    /// A client forked.
    pub fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        if let Some(enforcer) = &mut self.enforcer {
            enforcer.note_fork(parent, child);
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
            Some(format!("{}: {note}", client.founder))
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
        let measured = self.enforcer.as_mut().and_then(|enforcer| enforcer.take_sample().ok());
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
                })
                .collect(),
        }
    }

    /// Give everything back and end.
    pub fn end(&mut self) {
        if let Some(mut enforcer) = self.enforcer.take()
            && let Err(error) = enforcer.revert()
        {
            tracing::warn!("while giving everything back: {error}");
        }
    }

    fn read_back(&mut self) -> Option<Applied> {
        let applied = self.enforcer.as_mut()?.read_back();
        match applied {
            Ok(applied) => {
                self.view.hold = applied.hold.to_string();
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
