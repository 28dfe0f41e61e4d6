//! The baseline of comparisons: the kernel's own proportional shares of the CPU, by `cpu.weight` in
//! nested control groups (version 2).
//!
//! Only a tree that is ours is written to: the root where no systemd runs, or a group that was
//! delegated to us (`systemd-run --scope -p Delegate=yes`).

use crate::funding::graph::{BASE, Graph};
use crate::funding::independent_valuation::expected_shares;
use crate::funding::phases::{FundingKind, Tickets};
use std::collections::BTreeMap;
use std::fs::{self, read_to_string};
use std::io;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";
/// The most that `cpu.weight` takes.
const WEIGHT_MAX: f64 = 10_000.0;
const PREFIX: &str = "allot-exp-";

/// A group with a weight among its siblings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WeightNode {
    pub name: String,
    /// The node around it; none at the top.
    pub parent: Option<String>,
    /// Its weight, in proportion to its siblings'.
    pub weight: f64,
}

/// The kernel's default on this machine.
pub(crate) enum KernelBaseline {
    /// Weights can be set below this group.
    Weights(PathBuf),
    /// Weights cannot be set, for this reason: all processes are equal.
    Plain(String),
}

impl KernelBaseline {
    /// Finds the default of this machine.
    pub fn look() -> KernelBaseline {
        match base() {
            Ok(path) => KernelBaseline::Weights(path),
            Err(why) => KernelBaseline::Plain(why),
        }
    }

    /// Returns its description for reports.
    pub fn describe(&self) -> String {
        match self {
            KernelBaseline::Weights(_) => {
                "the fair class with cpu.weight in the tickets' ratio".to_owned()
            }
            KernelBaseline::Plain(why) => {
                format!("the fair class without weights, since {why}")
            }
        }
    }

    /// Makes groups, each after its parent. Returns none where there are no weights.
    pub fn tree(&self, nodes: &[WeightNode]) -> io::Result<Option<WeightTree>> {
        match self {
            KernelBaseline::Weights(base) => WeightTree::make(base, nodes).map(Some),
            KernelBaseline::Plain(_) => Ok(None),
        }
    }
}

/// Returns our own group, if we may make others in it.
fn base() -> Result<PathBuf, String> {
    let groups = read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let path = Path::new(MOUNT).join(own.unwrap_or("/").trim_start_matches('/'));
    let controllers = read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|name| name == "cpu") {
        return Err("there is no cgroup v2 with the cpu controller here".to_owned());
    }
    if path == Path::new(MOUNT) && !Path::new("/run/systemd/system").exists() {
        return Ok(path);
    }
    let mut value = [0; 1];
    let delegated = ["trusted.delegate", "user.delegate"]
        .iter()
        .any(|name| rustix::fs::getxattr(&path, *name, &mut value).is_ok_and(|_| value[0] == b'1'));
    match delegated {
        true => Ok(path),
        false => Err("the control groups here are not ours; systemd-run --scope -p Delegate=yes \
                      allot exp run ... gives it some"
            .to_owned()),
    }
}

/// A tree of groups. Dropping it moves its processes back, and removes the groups.
pub(crate) struct WeightTree {
    base: PathBuf,
    top: PathBuf,
    made: Vec<(String, PathBuf)>,
    /// The group of our other processes meanwhile: a group with groups in it has none.
    aside: Option<PathBuf>,
    /// Whether our group had no weights before.
    disable: bool,
}

impl WeightTree {
    fn make(base: &Path, nodes: &[WeightNode]) -> io::Result<WeightTree> {
        sweep(base);
        let top = base.join(format!("{PREFIX}{}", std::process::id()));
        let mut tree = WeightTree {
            base: base.to_owned(),
            top: top.clone(),
            made: Vec::new(),
            aside: None,
            disable: false,
        };
        if base != Path::new(MOUNT) {
            let aside = base.join(format!("{PREFIX}{}-aside", std::process::id()));
            tree.aside = Some(aside.clone());
            make_dir(&aside)?;
            move_all(base, &aside)?;
        }
        let enabled = read_to_string(base.join("cgroup.subtree_control"))?;
        tree.disable = !enabled.split_whitespace().any(|name| name == "cpu");
        enable(base)?;
        make_dir(&top)?;
        let has_children =
            |name: &str| nodes.iter().any(|node| node.parent.as_deref() == Some(name));
        enable(&top)?;
        for node in nodes {
            let within = match &node.parent {
                Some(parent) => tree.path(parent).expect("parents come first"),
                None => &top,
            };
            // A prefix: no file of the kernel has such a name.
            let path = within.join(format!("of-{}", node.name));
            let siblings = nodes.iter().filter(|other| other.parent == node.parent);
            let greatest = siblings.map(|other| other.weight).fold(f64::MIN_POSITIVE, f64::max);
            let weight = (node.weight / greatest * WEIGHT_MAX).round().clamp(1.0, WEIGHT_MAX);
            make_dir(&path)?;
            tree.made.push((node.name.clone(), path.clone()));
            fs::write(path.join("cpu.weight"), format!("{weight}"))?;
            if has_children(&node.name) {
                enable(&path)?;
            }
        }
        Ok(tree)
    }

    fn path(&self, name: &str) -> Option<&PathBuf> {
        self.made.iter().find(|(made, _)| made == name).map(|(_, path)| path)
    }

    /// Moves a process, which must be our own child or a descendant, into a group.
    pub fn put(&self, name: &str, pid: u32) -> io::Result<()> {
        let path = self.path(name).ok_or(io::ErrorKind::NotFound)?;
        fs::write(path.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for WeightTree {
    fn drop(&mut self) {
        // Failures leave empty groups, which the next run removes.
        let home = self.aside.clone().unwrap_or_else(|| self.base.clone());
        for (_, path) in self.made.iter().rev() {
            let _ = move_all(path, &home);
            let _ = fs::remove_dir(path);
        }
        let _ = fs::remove_dir(&self.top);
        if self.disable {
            let _ = fs::write(self.base.join("cgroup.subtree_control"), "-cpu");
        }
        if let Some(aside) = &self.aside {
            let _ = move_all(aside, &self.base);
            let _ = fs::remove_dir(aside);
        }
    }
}

fn enable(path: &Path) -> io::Result<()> {
    fs::write(path.join("cgroup.subtree_control"), "+cpu")
}

fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Moves processes until none is left. Zombies stay where they are.
fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    for _ in 0..100 {
        let list = read_to_string(from.join("cgroup.procs"))?;
        if list.is_empty() {
            break;
        }
        for pid in list.lines() {
            let _ = fs::write(to.join("cgroup.procs"), pid);
        }
    }
    Ok(())
}

/// Removes the empty groups that killed experiments left behind.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let dead = owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if dead {
            remove_tree(&entry.path());
        }
    }
}

fn remove_tree(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    // Fails where a process is in it.
    let _ = fs::remove_dir(path);
}

/// Returns the groups that come nearest to a funding graph: nested like its currencies where each
/// holder has one soft ticket, else one for each client, weighted with its promise while these
/// clients are active. Control groups know neither hard tickets nor several backers.
pub(crate) fn weight_nodes(graph: &Graph, tickets: &Tickets, active: &[bool]) -> Vec<WeightNode> {
    nested(graph, tickets).unwrap_or_else(|| {
        let clients: Vec<(&str, bool)> = graph
            .clients
            .iter()
            .zip(active)
            .map(|(client, on)| (client.name.as_str(), *on))
            .collect();
        let shares = expected_shares(tickets, &clients, 1).shares();
        clients
            .iter()
            .zip(shares)
            .map(|((name, _), weight)| WeightNode {
                name: (*name).to_owned(),
                parent: None,
                weight,
            })
            .collect()
    })
}

fn nested(graph: &Graph, tickets: &Tickets) -> Option<Vec<WeightNode>> {
    let mut backing: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
    for ((holder, issuer, kind), amount) in tickets {
        let doubled = backing.insert(holder, (issuer, *amount)).is_some();
        if doubled || *kind == FundingKind::Hard || *amount == 0 {
            return None;
        }
    }
    if graph.clients.iter().any(|client| !backing.contains_key(client.name.as_str())) {
        return None;
    }
    // Issuers first: in each round those whose issuer is there.
    let mut nodes: Vec<WeightNode> = Vec::new();
    while nodes.len() < backing.len() {
        let before = nodes.len();
        for (holder, (issuer, amount)) in &backing {
            let known = |name: &str| nodes.iter().any(|node| node.name == name);
            if !known(holder) && (*issuer == BASE || known(issuer)) {
                let parent = (*issuer != BASE).then(|| (*issuer).to_owned());
                nodes.push(WeightNode {
                    name: (*holder).to_owned(),
                    parent,
                    weight: *amount as f64,
                });
            }
        }
        if nodes.len() == before {
            return None;
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::funding::phases::phases;

    fn of(text: &str) -> Vec<WeightNode> {
        let graph = Graph::parse("g", text).unwrap();
        let phases = phases(&graph, 10.0).unwrap();
        weight_nodes(&graph, &phases[0].tickets, &phases[0].active)
    }

    #[test]
    fn currencies_become_nested_groups() {
        let nodes = of(include_str!("../../graphs/figure-7.toml"));
        let node = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
        assert_eq!(node("B3").parent.as_deref(), Some("B"));
        assert_eq!(node("A").parent, None);
        assert!((node("B3").weight / node("B1").weight - 3.0).abs() < 1e-9);
        let place = |name: &str| nodes.iter().position(|node| node.name == name).unwrap();
        assert!(place("B") < place("B2"));
    }

    #[test]
    fn several_backers_are_flattened() {
        let nodes = of(include_str!("../../graphs/pooled.toml"));
        assert!(nodes.iter().all(|node| node.parent.is_none()), "{nodes:?}");
        let total: f64 = nodes.iter().map(|node| node.weight).sum();
        assert!((total - 1.0).abs() < 1e-9, "{nodes:?}");
    }
}
