//! The plan: all that an enforcer has to know.

use ledger::{Class, CurrencyId, DiskLimit, KindName, Ledger, Member, Resource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use valuation::Graph;

/// All that an enforcer has to know, whole: a later generation replaces an earlier one and nothing of that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Grows with every plan.
    pub generation: u64,
    /// The funding graph of each resource: the CPU's always, those of others where anybody has tickets. The enforcer,
    /// who sees who competes, values them.
    #[serde(with = "graphs_as_list")]
    pub graphs: BTreeMap<Resource, Graph>,
    /// Every client, in order of id.
    pub clients: Vec<PlannedClient>,
    /// Hard caps on disks, in order of currency and disk.
    pub limits: Vec<PlannedLimit>,
}

impl Plan {
    /// The graph of a resource, where anybody has tickets of it.
    pub fn graph(&self, resource: &Resource) -> Option<&Graph> {
        self.graphs.get(resource)
    }

    /// The graphs of all instances of a kind.
    pub fn graphs_of(&self, kind: KindName) -> impl Iterator<Item = (&Resource, &Graph)> {
        self.graphs.iter().filter(move |(resource, _)| resource.kind() == kind)
    }

    /// The CPU's graph.
    pub fn cpu(&self) -> &Graph {
        self.graph(&Resource::CPU).expect("every plan has the CPU's graph")
    }

    /// The CPU's graph, to note who competes.
    pub fn cpu_mut(&mut self) -> &mut Graph {
        self.graphs.get_mut(&Resource::CPU).expect("every plan has the CPU's graph")
    }

    /// Lists every client as one that is not managed, for one reason.
    pub fn all_unmanaged(&self, why: &str) -> Vec<(PlannedClient, String)> {
        self.clients.iter().map(|client| (client.clone(), why.to_owned())).collect()
    }

    /// Whether anybody has tickets of an instance of this kind, or a limit on it.
    pub fn wants(&self, kind: KindName) -> bool {
        self.graphs_of(kind).next().is_some() || (kind == KindName::DISK && !self.limits.is_empty())
    }
}

/// One client of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedClient {
    /// Its currency.
    pub id: CurrencyId,
    /// The member that founded it. It may be away: in the `members` of another client.
    pub founder: Member,
    /// Those that have joined it, its own founder never among them. Each is in one client's list at most; that goes
    /// before what it has founded.
    pub members: Vec<Member>,
    /// The real uids that its processes and threads may have; anybody's where there are none. An enforcer asks again
    /// ([`may_hold`](Self::may_hold)) before it stops, moves or weighs one: it may have become another user's since.
    #[serde(default)]
    pub owners: Vec<u32>,
    /// A guest gets only what no host wants (paper 4). The graph knows of it: it is worth 0.
    pub class: Class,
    /// Whether it has no tickets: it stays stopped until it gets some (paper 3, future work).
    pub frozen: bool,
    /// Whether it waits for another and has lent that its tickets. The graph knows of it: it is worth 0, and like a
    /// guest it gets only what nobody else wants.
    pub lent: bool,
}

impl PlannedClient {
    /// A host with one member and tickets of its own.
    pub fn of(id: CurrencyId, founder: Member) -> PlannedClient {
        let (members, owners, class) = (Vec::new(), Vec::new(), Class::Host);
        PlannedClient { id, founder, members, owners, class, frozen: false, lent: false }
    }

    /// Whether a process that has this real uid now may be held as the client's.
    pub fn may_hold(&self, uid: u32) -> bool {
        self.owners.is_empty() || self.owners.contains(&uid)
    }
}

/// A hard cap on what the clients of a currency do on a disk, together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLimit {
    /// The currency, or client.
    pub id: CurrencyId,
    /// The disk's kernel name.
    pub disk: String,
    /// The caps.
    #[serde(with = "all_caps")]
    pub limits: DiskLimit,
}

impl PlannedLimit {
    /// All that a ledger has.
    pub fn all(ledger: &Ledger) -> Vec<PlannedLimit> {
        let of_one = |currency: &ledger::Currency| {
            let id = currency.id;
            let limits = currency.record.limits.iter().filter_map(move |(resource, set)| {
                let disk = resource.disk_name()?.to_owned();
                Some(PlannedLimit { id, disk, limits: set.limit })
            });
            limits.collect::<Vec<_>>()
        };
        ledger.currencies().flat_map(of_one).collect()
    }
}

/// Each cap, whether there is one or not: a journal leaves out those that are not, and only a format that names fields can.
mod all_caps {
    use super::{Deserialize, DiskLimit, Serialize};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(limit: &DiskLimit, to: S) -> Result<S::Ok, S::Error> {
        let DiskLimit { read_bytes, written_bytes, reads, writes } = *limit;
        [read_bytes, written_bytes, reads, writes].serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DiskLimit, D::Error> {
        let [read_bytes, written_bytes, reads, writes] = Deserialize::deserialize(from)?;
        Ok(DiskLimit { read_bytes, written_bytes, reads, writes })
    }
}

/// A list of graphs, each of which names its resource: JSON has no maps with other keys than text.
mod graphs_as_list {
    use super::{BTreeMap, Deserialize, Graph, Resource, Serialize};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        graphs: &BTreeMap<Resource, Graph>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        graphs.values().collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Resource, Graph>, D::Error> {
        let graphs = Vec::<Graph>::deserialize(from)?.into_iter();
        let graphs: BTreeMap<_, _> =
            graphs.map(|graph| (graph.resource().clone(), graph)).collect();
        match graphs.contains_key(&Resource::CPU) {
            true => Ok(graphs),
            false => Err(serde::de::Error::custom("a plan has the CPU's graph")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_without_the_graph_of_the_cpu_is_refused() {
        let memory = Graph::of(&Ledger::new(0, 0), Resource::MEMORY);
        let graphs = [(Resource::MEMORY, memory)].into();
        let plan = Plan { generation: 1, graphs, clients: vec![], limits: vec![] };
        let text = serde_json::to_string(&plan).expect("it can be written");
        let refused = serde_json::from_str::<Plan>(&text).expect_err("nothing to enforce");
        assert!(refused.to_string().contains("the CPU's graph"), "{refused}");
    }

    #[test]
    fn caps_that_are_not_there_do_not_spoil_a_plan_in_binary() {
        let graphs = [(Resource::CPU, Graph::of(&Ledger::new(0, 0), Resource::CPU))].into();
        let limits = DiskLimit { reads: Some(100), ..DiskLimit::default() };
        let limits = vec![PlannedLimit { id: CurrencyId(1), disk: "sda".to_owned(), limits }];
        let plan = Plan { generation: 1, graphs, clients: vec![], limits };
        let bytes = postcard::to_stdvec(&plan).expect("it can be written");
        let back: Plan = postcard::from_bytes(&bytes).expect("and read");
        assert_eq!(back.limits, plan.limits);
    }
}
