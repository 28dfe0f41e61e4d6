//! A funding graph in the ledger of an allotd: its currencies, its clients, and their changes.

use crate::error::ExperimentError;
use crate::funding::graph::{BASE, Edit, Funding, Graph};
use crate::harness::daemon::Daemon;
use crate::harness::workers::Workers;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Amount, CurrencyRef, Operation, Sample};

/// Interval between tries to remove currencies, and the most tries.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);
const SWEEPS_MAX: u32 = 100;

/// A funding graph in the ledger of an allotd.
pub(crate) struct GraphLedger<'a> {
    graph: &'a Graph,
    /// Currencies and clients by name.
    ids: BTreeMap<String, CurrencyRef>,
}

impl<'a> GraphLedger<'a> {
    /// Prepares a graph; nothing of it is in a ledger yet.
    pub fn new(graph: &'a Graph) -> GraphLedger<'a> {
        GraphLedger { graph, ids: BTreeMap::new() }
    }

    fn reference(&self, name: &str) -> CurrencyRef {
        if name == BASE {
            return CurrencyRef::from(BASE);
        }
        self.ids.get(name).cloned().expect("it was created")
    }

    /// Creates the currencies, and funds them.
    pub fn create_currencies(&mut self, daemon: &Daemon) -> Result<(), ExperimentError> {
        let own = daemon.is_own();
        let currencies = self.graph.currencies_in_order();
        let create = |name: &str, owner: Option<u32>| Operation::CreateCurrency {
            // In somebody else's allotd the plain names may be taken.
            name: if own { name.to_owned() } else { format!("{name}-{}", std::process::id()) },
            owner,
            group: owner,
            mode: None,
        };
        let made = daemon.operate(
            "creating the currencies",
            currencies.iter().map(|c| create(&c.name, c.owner)).collect(),
        )?;
        let named: Vec<_> = currencies
            .iter()
            .zip(made)
            .map(|(currency, id)| {
                let id = id.expect("a created currency has an id");
                (currency.name.clone(), CurrencyRef(format!("#{id}")))
            })
            .collect();
        self.ids.extend(named);
        let funding: Vec<_> = currencies
            .iter()
            .flat_map(|currency| currency.funding.iter().map(move |f| (&currency.name, f)))
            .map(|(name, funding)| self.fund(self.reference(name), funding))
            .collect();
        daemon.operate("funding the currencies", funding)?;
        Ok(())
    }

    fn fund(&self, holder: CurrencyRef, funding: &Funding) -> Operation {
        Operation::Fund {
            currency: holder,
            from: self.reference(&funding.from),
            amount: amount(funding),
        }
    }

    /// Makes every process a client, with the funding of the graph.
    pub fn adopt(&mut self, daemon: &Daemon, workers: &Workers) -> Result<(), ExperimentError> {
        let mut adopt = Vec::new();
        for (client, worker) in self.graph.clients.iter().zip(workers.list()) {
            let first = client.funding.first().map_or(BASE, |funding| funding.from.as_str());
            let of_first = client.funding.iter().filter(|funding| funding.from == first);
            adopt.push(Operation::Adopt {
                pid: Some(worker.pid),
                start_time_ticks: Some(worker.start_time_ticks),
                from: Some(self.reference(first)),
                funding: Some(of_first.map(amount).collect()),
            });
        }
        let made = daemon.operate("adopting the workloads", adopt)?;
        let mut rest = Vec::new();
        for (client, id) in self.graph.clients.iter().zip(made) {
            let id = CurrencyRef(format!("#{}", id.expect("an adopted client has an id")));
            let first = client.funding.first().map_or(BASE, |funding| funding.from.as_str());
            let others = client.funding.iter().filter(|funding| funding.from != first);
            rest.extend(others.map(|funding| self.fund(id.clone(), funding)));
            self.ids.insert(client.name.clone(), id);
        }
        if !rest.is_empty() {
            daemon.operate("funding the clients", rest)?;
        }
        Ok(())
    }

    /// Releases every process.
    pub fn release(&self, daemon: &Daemon) -> Result<(), ExperimentError> {
        let clients = self.graph.clients.iter();
        let release = clients
            .map(|client| Operation::Release { client: self.reference(&client.name) })
            .collect();
        daemon.operate("releasing the workloads", release)?;
        Ok(())
    }

    /// Makes a change of funding.
    pub fn edit(
        &self,
        daemon: &Daemon,
        workers: &Workers,
        edit: &Edit,
    ) -> Result<(), ExperimentError> {
        let operation = match edit {
            Edit::Fund { holder, funding } => self.fund(self.reference(holder), funding),
            Edit::Nice { client, amount, .. } => {
                let clients = self.graph.clients.iter();
                let mut pairs = clients.zip(workers.list());
                let worker = pairs.find(|(of, _)| of.name == *client).map(|(_, worker)| worker);
                let pid = worker.expect("the graph was checked").pid;
                Operation::Nice { pid: Some(pid), resource: None, amount: *amount }
            }
        };
        daemon.operate("changing the funding", vec![operation])?;
        Ok(())
    }

    /// Returns the guaranteed parts of the CPU, by name.
    pub fn guaranteed(&self, daemon: &Daemon) -> Result<BTreeMap<String, f64>, ExperimentError> {
        let values = daemon.guaranteed()?;
        let value = |id: &CurrencyRef| {
            let id = id.0.strip_prefix('#').and_then(|id| id.parse::<u64>().ok());
            id.and_then(|id| values.get(&id)).copied().unwrap_or(0.0)
        };
        Ok(self.ids.iter().map(|(name, id)| (name.clone(), value(id))).collect())
    }

    /// Returns the CPU time that allotd promised so far to each process, in ns; 0 for one that it
    /// does not show (yet).
    pub fn promised(&self, workers: &Workers, sample: &Sample) -> Vec<u64> {
        let of = |pid: u32| sample.clients.iter().find(|client| client.pid == pid);
        let workers = workers.list().iter();
        workers.map(|worker| of(worker.pid).map_or(0, |client| client.promised_ns)).collect()
    }

    /// Removes the currencies. The clients went with their processes, but allotd may need a moment
    /// to notice.
    pub fn sweep(&self, daemon: &Daemon) -> Result<(), ExperimentError> {
        let mut currencies = self.graph.currencies_in_order();
        currencies.reverse();
        let destroy: Vec<_> = currencies
            .iter()
            .filter_map(|currency| self.ids.get(&currency.name))
            .map(|currency| Operation::DestroyCurrency { currency: currency.clone() })
            .collect();
        if destroy.is_empty() {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            match daemon.operate("taking away the currencies", destroy.clone()) {
                Err(_) if tries < SWEEPS_MAX => tries += 1,
                done => return done.map(drop),
            }
            std::thread::sleep(SWEEP_INTERVAL);
        }
    }
}

fn amount(funding: &Funding) -> Amount {
    Amount { resource: "cpu".to_owned(), kind: funding.kind, amount: funding.amount }
}
