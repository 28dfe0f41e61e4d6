//! Weights on disks of cgroups that are not ours, and of systemd's units.

use crate::cgroups::Cgroups;
use crate::placement::{Client, portions, scaled};
use disk::IoController;
use std::collections::BTreeMap;
use valuation::Graph;

/// Greatest weight for BFQ that systemd passes on as it is. It squeezes greater ones into what is left: of 200 and 300
/// it makes 109 and 118.
const SYSTEMD_BFQ_MOST: u32 = 100;

/// Returns the weights of cgroups that are not ours, each by what the clients in it are worth now, among its siblings.
pub(super) fn foreign_weights(
    graph: &mut Graph,
    controller: IoController,
    clients: &[Client],
    cgroups: &Cgroups,
) -> Vec<(String, u32)> {
    let top = cgroups.path_of(&cgroups.top);
    let mut is_foreign = false;
    let mut worths: BTreeMap<String, u64> = BTreeMap::new();
    for client in clients {
        let mut places = client.foreign();
        is_foreign |= !places.is_empty();
        if client.has_leaf() && !client.is_guest {
            places.push(&top);
        }
        let worth = graph.guaranteed(client.id).max(graph.value(client.id));
        for path in places.iter().flat_map(|place| cgroups.around(place)) {
            *worths.entry(path).or_default() += worth / places.len() as u64;
        }
    }
    if !is_foreign {
        return Vec::new();
    }
    let mut siblings: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for (path, worth) in worths {
        let outer = path.rsplit_once('/').map_or("", |(outer, _)| outer).to_owned();
        siblings.entry(outer).or_default().push((path, worth));
    }
    let mut weights = Vec::new();
    for members in siblings.into_values() {
        let values: Vec<u64> = members.iter().map(|(_, worth)| *worth).collect();
        // On average as much as neighbours without clients.
        let portions = match (cgroups.systemd.is_some(), controller) {
            (true, IoController::Bfq) => scaled(&values, SYSTEMD_BFQ_MOST),
            _ => portions(&values, 100 * members.len() as u64),
        };
        let portions = portions.into_iter().map(|weight| weight.min(*controller.weights().end()));
        weights.extend(members.into_iter().map(|(path, _)| path).zip(portions));
    }
    weights
}
