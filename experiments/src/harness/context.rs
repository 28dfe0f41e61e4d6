//! The context of a running experiment.

use crate::about::About;
use crate::error::ExperimentError;
use crate::harness::cgroups::KernelBaseline;
use crate::harness::daemon::{Daemon, DaemonSettings};
use crate::harness::machine;
use crate::harness::options::RunOptions;
use crate::harness::progress::{Progress, ProgressRow};
use crate::harness::workers::{Job, Workers};
use crate::report::bound::formula;
use crate::report::findings::Findings;
use crate::report::machine::MachineDescription;
use crate::report::outcome::{Log, Outcome, Plot, Title};
use crate::report::setting::{Drawing, Selection, Setting};
use crate::scheduling_policy::Policy;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::time::Duration;
use tempfile::TempDir;

/// Milliseconds between samples where the enforcer has no quantum.
const QUANTUM_MS: u64 = 10;

/// The context of a running experiment.
pub(crate) struct ExperimentContext<'a> {
    pub name: &'static str,
    pub about: About,
    pub options: &'a RunOptions,
    pub cpus: Vec<u32>,
    /// The kernel's default, with which allot is compared.
    pub kernel: KernelBaseline,
    pub dir: TempDir,
    pub stop: &'a dyn Fn() -> bool,
    /// Seconds of the experiment that have passed.
    pub elapsed: f64,
    /// Seconds of the experiment in all.
    pub total: f64,
    machine: MachineDescription,
    progress: &'a mut dyn FnMut(&Progress),
    /// The enforcer of the first allotd, which the report names.
    in_force: OnceCell<InForce>,
}

/// The enforcer in force.
struct InForce {
    name: String,
    seed: u64,
    selection: Selection,
}

impl<'a> ExperimentContext<'a> {
    /// Creates the context of an experiment that uses these CPUs.
    pub fn new(
        name: &'static str,
        about: About,
        options: &'a RunOptions,
        cpus: Vec<u32>,
        stop: &'a dyn Fn() -> bool,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Result<ExperimentContext<'a>, ExperimentError> {
        let dir = tempfile::Builder::new()
            .prefix("allot-exp-")
            .tempdir()
            .map_err(ExperimentError::system("make a temporary directory"))?;
        Ok(ExperimentContext {
            name,
            about,
            options,
            machine: machine::describe(&cpus),
            kernel: KernelBaseline::look(),
            cpus,
            dir,
            stop,
            progress,
            elapsed: 0.0,
            total: options.seconds,
            in_force: OnceCell::new(),
        })
    }

    /// Starts an allotd for this experiment.
    pub fn allotd(&self, settings: &DaemonSettings) -> Result<Daemon, ExperimentError> {
        self.start_allotd(self.options, settings)
    }

    /// Starts an allotd for the whole machine.
    pub fn allotd_for_all(&self, settings: &DaemonSettings) -> Result<Daemon, ExperimentError> {
        self.start_allotd(&self.options.sharing_the_machine(), settings)
    }

    fn start_allotd(
        &self,
        options: &RunOptions,
        settings: &DaemonSettings,
    ) -> Result<Daemon, ExperimentError> {
        let daemon = Daemon::start(options, settings, &self.cpus, self.dir.path(), self.stop)?;
        if self.in_force.get().is_none() {
            let _ = self.in_force.set(self.in_force_of(&daemon)?);
        }
        Ok(daemon)
    }

    fn in_force_of(&self, daemon: &Daemon) -> Result<InForce, ExperimentError> {
        let enforcer = daemon.enforcer();
        // Another's allotd has the policy that it has; where weights alone are set it may have
        // none.
        let policy = match enforcer.name.as_str() {
            "cgroup" | "weights" => self.options.policy,
            _ => enforcer.policy.parse()?,
        };
        let drawing = match (policy, enforcer.name.as_str()) {
            (Policy::Lottery, "sched-ext") => Drawing::EachCpu,
            (Policy::Lottery, "user-level") => Drawing::AllCpus,
            _ => Drawing::None,
        };
        let quantum = match enforcer.quantum_ns {
            // Weights have no quantum.
            0 => Duration::from_millis(self.options.quantum_ms.unwrap_or(QUANTUM_MS)),
            quantum_ns => Duration::from_nanos(quantum_ns),
        };
        Ok(InForce {
            name: enforcer.name.clone(),
            seed: enforcer.seed,
            selection: Selection { policy, drawing, quantum },
        })
    }

    /// Returns the selection of the first allotd, which must have been started.
    pub fn selection(&self) -> Selection {
        self.in_force.get().expect("an allotd was started").selection
    }

    /// Starts processes, which wait for their start.
    pub fn workers(&self, jobs: &[Job], seconds: f64) -> Result<Workers, ExperimentError> {
        let command = self.workload_command()?;
        Workers::start(&command, self.dir.path(), jobs, &self.cpus, seconds, self.stop)
    }

    fn workload_command(&self) -> Result<Vec<OsString>, ExperimentError> {
        if let Some(command) = &self.options.workload {
            return Ok(command.clone());
        }
        let here = std::env::current_exe().map_err(ExperimentError::system("find this program"))?;
        Ok(vec![here.into(), "workload".into()])
    }

    /// Reports the progress: `at` seconds into the current part.
    pub fn report(&mut self, at: f64, phase: &str, rows: Vec<ProgressRow>, note: &str) {
        let progress = Progress {
            elapsed: (self.elapsed + at).min(self.total),
            total: self.total,
            phase: phase.to_owned(),
            rows,
            note: note.to_owned(),
        };
        (self.progress)(&progress);
    }

    /// Ends the experiment with its findings.
    pub fn finish(&self, findings: Findings, plots: Vec<Plot>) -> Outcome {
        let About { title, paper, .. } = self.about;
        self.finish_as(title, paper, findings, plots, Vec::new())
    }

    /// Ends the experiment under a title of its own, and with logs.
    pub fn finish_as(
        &self,
        title: &str,
        paper: &str,
        mut findings: Findings,
        plots: Vec<Plot>,
        logs: Vec<Log>,
    ) -> Outcome {
        let InForce { name, seed, selection } = self.in_force.get().expect("an allotd was started");
        findings.notes.splice(0..0, self.notes(name));
        findings.check_promises();
        let setting = Setting {
            machine: self.machine.clone(),
            enforcer: name.clone(),
            policy: selection.policy.to_string(),
            seed: *seed,
            seconds: self.total,
            quantum_ns: selection.quantum.as_nanos() as u64,
            kernel_default: self.kernel.describe(),
            units: "shares are parts (0 to 1) of the CPU time of all clients together; the first \
                    0.5 s of each phase (a tenth, where that is less) is not measured"
                .to_owned(),
            bound_formula: formula(selection, self.cpus.len()),
        };
        let title =
            Title { name: self.name.to_owned(), title: title.to_owned(), paper: paper.to_owned() };
        Outcome::of(&title, setting, findings, plots, logs)
    }

    /// Returns remarks on this machine that hold for the whole report.
    fn notes(&self, enforcer: &str) -> Vec<String> {
        let (cpus, all) = (self.cpus.len(), self.machine.cpus_online);
        let mut notes = Vec::new();
        if let Some(quota) = self.machine.cpu_quota.filter(|quota| *quota < cpus as f64) {
            notes.push(format!(
                "the control group may use {quota} CPUs of the {cpus} in use: whoever runs when it \
                 is throttled pays for it"
            ));
        }
        if enforcer == "sched-ext" && cpus < all {
            notes.push(format!(
                "the processes may run on {cpus} of {all} CPUs only: the scheduler orders such \
                 threads by start-time fair queueing, whatever the policy; where the machine has \
                 no other CPUs, the policy does"
            ));
        }
        notes
    }
}
