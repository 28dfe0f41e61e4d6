//! The choice of who loses memory when there is too little: the reclaimer follows everybody who holds memory.

use super::super::controller::Context;
use super::protection::{Worth, pages};
use crate::cgroups::Cgroups;
use crate::placement::Client;
use reclaim::{
    MemoryClient, MemoryError, MemorySource, ReclaimOptions, ReclaimPolicy, Reclaimer, SharedLimit,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The choice of losers.
#[derive(Debug, Default)]
pub(super) enum Losers {
    /// By nobody but the kernel, as yet.
    #[default]
    NotChosen,
    /// By the reclaimer's policy.
    Chosen(Reclaimer),
    /// By the kernel: there can be no reclaimer.
    LeftToTheKernel,
}

impl Losers {
    /// Tells the reclaimer who holds memory and what each is guaranteed, and starts it if there is none.
    pub fn follow(
        &mut self,
        policy: &ReclaimPolicy,
        limit_bytes: Option<u64>,
        worth: &mut Worth,
        context: &mut Context,
    ) {
        let Context { cgroups, drift, .. } = context;
        let holders = holders(worth, &context.placement.clients, cgroups);
        if let Losers::NotChosen = self {
            *self = match start(policy, limit_bytes, cgroups) {
                Ok(reclaimer) => Losers::Chosen(reclaimer),
                Err(error) => {
                    drift.tell(format!("who loses memory is left to the kernel: {error}"));
                    Losers::LeftToTheKernel
                }
            };
        }
        if let Losers::Chosen(reclaimer) = self
            && let Err(error) = reclaimer.follow(holders)
        {
            drift.tell(format!("who loses memory: {error}"));
        }
    }

    /// Tells what keeps shares, in words.
    pub fn describe(&self) -> String {
        match self {
            Losers::NotChosen | Losers::LeftToTheKernel => {
                "memory.min and memory.low; the kernel chooses who loses".to_owned()
            }
            Losers::Chosen(reclaimer) => {
                let woken = match reclaimer.woken_by() {
                    Ok(path) => format!("woken by {}", path.display()),
                    Err(why) => format!("looking ten times a second: {why}"),
                };
                format!("memory.min and memory.low; a policy chooses who loses, {woken}")
            }
        }
    }
}

fn start(
    policy: &ReclaimPolicy,
    limit_bytes: Option<u64>,
    cgroups: &Cgroups,
) -> Result<Reclaimer, MemoryError> {
    // Where systemd owns the tree there is no cgroup around all clients but the root.
    let top = Some(cgroups.top.clone()).filter(|top| top.is_dir());
    let headroom_bytes = policy.headroom_bytes;
    // Guests have a cgroup beside the hosts', and both have one limit.
    let folders = vec![cgroups.top.clone(), cgroups.guests.clone()];
    let together = limit_bytes.map(|limit_bytes| SharedLimit { limit_bytes, folders });
    let usual = ReclaimOptions::new(top, policy.build());
    Reclaimer::start(ReclaimOptions { headroom_bytes, together, ..usual })
}

/// Lists everybody who holds memory in a cgroup of its own. Clients that share one cannot be told apart there.
fn holders(worth: &mut Worth, clients: &[Client], cgroups: &Cgroups) -> Vec<MemoryClient> {
    let mount = cgroups.tree.mount();
    let mut taken: BTreeMap<PathBuf, MemoryClient> = BTreeMap::new();
    for client in clients {
        let foreign = client.foreign();
        let folders = foreign.iter().map(|path| cgroups.folder(path));
        let folders = folders.chain(client.leaf.clone());
        let folders: Vec<PathBuf> = folders.filter_map(|folder| holding(&folder, mount)).collect();
        let count = folders.len().max(1) as u64;
        let tickets = worth.graph.value(client.id);
        let guaranteed_bytes = worth.protection(client.id).min_bytes;
        for folder in folders {
            let known = taken.entry(folder.clone()).or_insert_with(|| MemoryClient {
                id: client.id,
                // A folder's inode names it for as long as it exists.
                key: folder.metadata().map_or(0, |found| found.ino()),
                tickets: 0,
                guaranteed_bytes: 0,
                guest: true,
                source: MemorySource::Group(folder),
            });
            known.tickets += tickets / count;
            known.guaranteed_bytes += pages(guaranteed_bytes.div_ceil(count));
            known.guest &= client.is_guest;
        }
    }
    taken.into_values().filter(|holder| holder.key != 0).collect()
}

/// Finds the nearest cgroup that memory can be taken from, the root left out.
fn holding(folder: &Path, mount: &Path) -> Option<PathBuf> {
    let around = folder.ancestors().take_while(|group| *group != mount);
    around.map(Path::to_owned).find(|group| group.join("memory.reclaim").exists())
}
