//! From funding graphs, which need not be trees, to one tree of cgroups. Pure.
//!
//! Every resource has its own tickets, and a process is in one cgroup: all resources share the tree. A currency stands
//! under its only issuer, where all resources agree on it; one with several issuers stands at the top, and so does one
//! with none. Every client is a leaf.

use ledger::{BASE, CurrencyId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use valuation::Graph;

/// The position of a currency in the tree.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub id: CurrencyId,
    pub is_client: bool,
    /// Below the top.
    pub path: PathBuf,
    pub parent: Option<usize>,
    pub children: Vec<usize>,
}

/// The tree of cgroups of one plan.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Issuers before holders.
    pub(super) positions: Vec<Position>,
    pub(super) by_id: BTreeMap<CurrencyId, usize>,
    pub(super) tops: Vec<usize>,
}

/// Returns the name of a currency's cgroup.
pub(crate) fn name(id: CurrencyId) -> String {
    format!("c{}", id.0)
}

/// A currency with all that fund it, by tickets of any resource.
#[derive(Default)]
struct Node {
    is_client: bool,
    issuers: BTreeSet<CurrencyId>,
}

impl Layout {
    /// Lays out the tree for the clients for which `is_leaf` holds; others (guests, and processes that are left where
    /// they are) take their value elsewhere.
    pub fn of(graphs: &[&Graph], is_leaf: impl Fn(CurrencyId) -> bool) -> Layout {
        let mut nodes: BTreeMap<CurrencyId, Node> = BTreeMap::new();
        for found in graphs.iter().flat_map(|graph| graph.nodes()).filter(|node| node.id != BASE) {
            let node = nodes.entry(found.id).or_default();
            node.is_client = found.is_client;
            let funding = found.backing().filter(|ticket| ticket.amount > 0);
            node.issuers.extend(funding.map(|ticket| ticket.issuer));
        }
        let mut layout = Layout { positions: Vec::new(), by_id: BTreeMap::new(), tops: Vec::new() };
        for id in nodes.keys() {
            layout.place(*id, &nodes, &is_leaf);
        }
        layout
    }

    /// Gives a currency its position, and its only issuer one before it. Returns the index.
    fn place(
        &mut self,
        id: CurrencyId,
        nodes: &BTreeMap<CurrencyId, Node>,
        is_leaf: &impl Fn(CurrencyId) -> bool,
    ) -> Option<usize> {
        if let Some(index) = self.by_id.get(&id) {
            return Some(*index);
        }
        let node = nodes.get(&id)?;
        if node.is_client && !is_leaf(id) {
            return None;
        }
        // Invariant: no deeper than the ledger's paths, which are bounded.
        let only = if node.issuers.len() == 1 { node.issuers.first() } else { None };
        let parent = only.and_then(|issuer| self.place(*issuer, nodes, is_leaf));
        let outer = parent.map_or_else(PathBuf::new, |parent| self.positions[parent].path.clone());
        let index = self.positions.len();
        self.positions.push(Position {
            id,
            is_client: node.is_client,
            path: outer.join(name(id)),
            parent,
            children: Vec::new(),
        });
        self.by_id.insert(id, index);
        match parent {
            Some(parent) => self.positions[parent].children.push(index),
            None => self.tops.push(index),
        }
        Some(index)
    }

    /// Returns the path of a currency's cgroup, below the top.
    pub fn path(&self, id: CurrencyId) -> Option<&Path> {
        self.by_id.get(&id).map(|index| self.positions[*index].path.as_path())
    }
}
