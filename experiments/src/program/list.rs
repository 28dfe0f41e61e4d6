//! `allot exp list`.

use crate::arguments::Global;
use crate::failure::Failure;
use allot_experiments::{EXPERIMENTS, Experiment, Machine, Need};
use command_line::output;
use command_line::style::{Style, Table, Tone};
use std::process::ExitCode;

/// Lists the experiments, with what each needs and what this machine lacks.
pub fn list(global: &Global) -> Result<ExitCode, Failure> {
    let machine = Machine::look();
    if global.json {
        let json = EXPERIMENTS.map(|experiment| as_json(experiment, &machine));
        output::json(&json.as_slice())?;
    } else {
        output::text(&as_text(&machine, Style::of_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the ways to run an experiment: `live`, `simulated`, or both.
fn ways(experiment: &Experiment) -> Vec<&'static str> {
    let ways =
        [("live", experiment.live().is_some()), ("simulated", experiment.simulated().is_some())];
    ways.into_iter().filter(|(_, can)| *can).map(|(way, _)| way).collect()
}

fn needs(experiment: &Experiment) -> &'static [Need] {
    experiment.live().map_or(&[], |live| live.needs)
}

fn as_json(experiment: &Experiment, machine: &Machine) -> serde_json::Value {
    let (about, seconds) = (experiment.about(), experiment.seconds());
    let needs = needs(experiment);
    let lacks: Vec<String> = needs.iter().filter_map(|need| need.lacking(machine)).collect();
    serde_json::json!({
        "name": experiment.name,
        "title": about.title,
        "paper": about.paper,
        "what": about.summary,
        "runs": ways(experiment),
        "needs": needs.iter().map(Need::to_string).collect::<Vec<_>>(),
        "lacks": lacks,
        "least_seconds": seconds.least,
        "usual_seconds": seconds.usual,
        "usual_seconds_simulated": experiment.simulated().map(|it| it.seconds.usual),
    })
}

fn as_text(machine: &Machine, style: Style) -> String {
    let mut table =
        Table::new(&["NAME", "RUNS", "NEEDS", "REPEATS", "WHAT"].map(|text| (text, false)));
    let mut lacking: Vec<(Need, String)> = Vec::new();
    for experiment in EXPERIMENTS {
        let mut is_complete = true;
        let mut words = Vec::new();
        for need in needs(experiment) {
            let lacks = need.lacking(machine);
            words.push(format!("{}{need}", if lacks.is_some() { "!" } else { "" }));
            is_complete &= lacks.is_none();
            let known = lacking.iter().any(|(known, _)| known == need);
            lacking.extend(lacks.filter(|_| !known).map(|what| (*need, what)));
        }
        table.row(vec![
            (Tone::Strong, experiment.name.to_owned()),
            (Tone::Plain, ways(experiment).join(", ")),
            (if is_complete { Tone::Plain } else { Tone::Warning }, words.join(", ")),
            (Tone::Plain, experiment.about().paper.to_owned()),
            (Tone::Plain, experiment.about().title.to_owned()),
        ]);
    }
    let mut text = table.render(style);
    if !lacking.is_empty() {
        text += "\nThis machine lacks (!) for live runs; --simulate needs nothing:\n";
    }
    for (need, what) in lacking {
        text += &format!("  {}: {what}\n", style.paint(Tone::Warning, &need.to_string()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_is_named_and_explained() {
        let text = as_text(&Machine::default(), Style::PLAIN);
        for words in ["!root, !cgroup memory", "!spare disk", "lab/with-disk", "sudo"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
