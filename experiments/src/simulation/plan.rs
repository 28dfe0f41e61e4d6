//! The plan of a simulated experiment.

use crate::about::About;
use crate::report::findings::Findings;
use crate::report::machine::MachineDescription;
use crate::report::outcome::{Outcome, Plot, Title};
use crate::report::plot::Panel;
use crate::report::setting::{SIMULATED, Setting};

/// The plan of a simulated experiment.
pub(crate) struct Plan {
    pub name: &'static str,
    pub about: About,
    /// Seconds of virtual time, for each run.
    pub seconds: f64,
    pub seed: u64,
}

/// The words of a simulated experiment's report.
pub(crate) struct Words {
    /// The policies at work.
    pub policy: String,
    /// The meaning of the column `default`.
    pub default: &'static str,
    /// The meaning of the numbers.
    pub units: &'static str,
}

impl Plan {
    /// Ends the experiment. Plots are given by their files' names.
    pub fn finish(
        &self,
        words: Words,
        findings: Findings,
        plots: Vec<(&str, Vec<Panel>)>,
    ) -> Outcome {
        let About { title, paper, .. } = self.about;
        let setting = Setting {
            machine: MachineDescription::simulated(),
            enforcer: SIMULATED.to_owned(),
            policy: words.policy,
            seed: self.seed,
            seconds: self.seconds,
            quantum_ns: 0,
            kernel_default: words.default.to_owned(),
            units: words.units.to_owned(),
            bound_formula: "5 % of what is promised".to_owned(),
        };
        let plot_title = format!("{title} (simulated)");
        let plots = plots.into_iter().map(|(file, panels)| Plot::new(file, &plot_title, panels));
        let title =
            Title { name: self.name.to_owned(), title: title.to_owned(), paper: paper.to_owned() };
        Outcome::of(&title, setting, findings, plots.collect(), Vec::new())
    }
}
