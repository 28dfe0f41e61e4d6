//! A sample enforcer: licence tokens, `token:NAME`, in this one file.
//!
//! A site owns a few seats of each licence; turn by turn the policy draws who holds one, in proportion to tickets. The
//! holders stand in a file, a line `currency wins` each, from which a licence server serves. This program is allotd with
//! that enforcer: `token --user --set token.seats=1`.

use enforcer::*;
use ledger::{CurrencyId, KindName, Resource, ResourceKind};
use policy::Policy;
use std::{collections::BTreeMap, process::ExitCode, sync::Arc};
use undo::{Guardian, LogEntry, RecordOptions, Restored, Restorer};

const TOKEN: KindName = KindName::literal("token");

const REGISTRATION: Registration = Registration {
    name: "token-queue",
    kinds: || vec![ResourceKind::shared_by_thousandths(TOKEN, "turns", Some("NAME"))],
    serves_private: true,
    summary: "A queue of licence tokens",
    merit: |_| "licences are drawn for, turn by turn",
    available: |settings, _| Ok(format!("{} seats of each licence", seats(settings))),
    start: |settings, _| Ok(Box::new(Licences::start(settings)?)),
    needs: |_| Needs::NOTHING,
    helper: None,
    records: &[".tokens"],
    restorer: Some(&Holders),
    survey: Registration::no_survey,
};

fn main() -> ExitCode {
    allotd::run(&[REGISTRATION])
}

fn seats(settings: &Settings) -> usize {
    settings.own(TOKEN, "seats").and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Removes the files of holders, of which the key of each entry on record is one.
struct Holders;

impl Restorer for Holders {
    fn name(&self) -> &'static str {
        "token"
    }

    fn restore(&self, entries: &[LogEntry], restored: &mut Restored) {
        let removed = entries.iter().filter(|entry| std::fs::remove_file(&entry.key).is_ok());
        restored.count("licences withdrawn", removed.count());
    }
}

/// The queue of one licence.
struct Queue {
    policy: Box<dyn Policy>,
    /// Each client's value, and how often it has won.
    clients: BTreeMap<CurrencyId, ResourceUse>,
}

struct Licences {
    settings: Settings,
    guardian: Guardian,
    generation: Option<u64>,
    queues: BTreeMap<Resource, Queue>,
}

impl Licences {
    fn start(settings: &Settings) -> Result<Licences, EnforceError> {
        let (record, program) = (settings.record(".tokens"), &settings.program);
        let options = RecordOptions { writer: "token", processes: 0, standing: Vec::new() };
        let guardian = Guardian::start(program, Some(&record), &options, &[&Holders])
            .map_err(EnforceError::refused)?;
        let (settings, queues) = (settings.clone(), BTreeMap::new());
        Ok(Licences { settings, guardian, generation: None, queues })
    }

    /// Draws who holds a seat of each licence until the next turn, and says so in its file.
    fn turn(&mut self) -> std::io::Result<()> {
        for (resource, queue) in &mut self.queues {
            let (mut winners, mut text) = (Vec::new(), String::new());
            queue.policy.draw(seats(&self.settings), &mut winners);
            for winner in winners {
                let client = queue.clients.get_mut(&CurrencyId(winner)).expect("a client");
                client.used += 1;
                queue.policy.charge(winner, 1, 1);
                text.push_str(&format!("{winner} {}\n", client.used));
            }
            let suffix = format!(".token-{}", resource.instance().unwrap_or_default());
            let key = self.settings.record(&suffix).display().to_string();
            let entry = LogEntry { undo: "token".to_owned(), key: key.clone(), was: ().into() };
            self.guardian.record.note(entry)?;
            std::fs::write(key, text)?;
        }
        Ok(())
    }
}

impl Enforcer for Licences {
    fn apply(&mut self, plan: &Arc<Plan>) -> Result<(), EnforceError> {
        let (mut before, cpu) = (std::mem::take(&mut self.queues), &self.settings.cpu);
        for (resource, mut graph) in plan.graphs_of(TOKEN).map(|(of, it)| (of, it.clone())) {
            let mut queue = before.remove(resource).unwrap_or_else(|| Queue {
                policy: policy::build(cpu.algorithm, self.settings.seed),
                clients: BTreeMap::new(),
            });
            plan.clients.iter().for_each(|client| _ = graph.set_active(client.id, true));
            // Clients that left are forgotten, new ones join, and all have the values of this plan.
            let earlier = std::mem::take(&mut queue.clients);
            for id in plan.clients.iter().map(|client| client.id) {
                let (value, known) = (graph.value(id), earlier.get(&id));
                let used = known.map_or(0, |known| known.used);
                queue.clients.insert(id, ResourceUse { id, value, promised: None, used });
                match known {
                    Some(_) => queue.policy.reweigh(id.0, value),
                    None => queue.policy.join(id.0, value),
                }
            }
            let is_there = |id: &&CurrencyId| queue.clients.contains_key(id);
            earlier.keys().filter(|id| !is_there(id)).for_each(|id| queue.policy.forget(id.0));
            self.queues.insert(resource.clone(), queue);
        }
        self.generation = Some(plan.generation);
        self.turn().map_err(EnforceError::os("write who holds a licence"))
    }

    fn status(&mut self) -> Result<Status, EnforceError> {
        self.turn().map_err(EnforceError::os("write who holds a licence"))?;
        let why = format!("{} seats, drawn for turn by turn", seats(&self.settings));
        let resources = self.queues.iter().map(|(resource, queue)| {
            let active = queue.clients.keys().copied().collect();
            let (resource, by) = (resource.clone(), Some("token-queue".to_owned()));
            ResourceStatus { resource, by, why: why.clone(), active }
        });
        let (generation, resources) = (self.generation, resources.collect());
        Ok(Status { generation, guarded: true, resources, ..Status::default() })
    }

    fn sample(&mut self) -> Result<Sample, EnforceError> {
        let each = self.queues.iter().map(|(resource, queue)| ResourceSample {
            resource: resource.clone(),
            clients: queue.clients.values().copied().collect(),
        });
        Ok(Sample { resources: each.collect(), cpu: None })
    }

    fn revert(&mut self) -> Result<(), EnforceError> {
        (self.queues, self.generation) = (BTreeMap::new(), None);
        self.guardian.restore().failed.iter().for_each(|what| tracing::error!("{what}"));
        Ok(())
    }
}
