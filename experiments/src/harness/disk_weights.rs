//! Weights for the kernel's default on a disk.

use crate::harness::disk_client::DiskClient;
use crate::harness::workers::Workers;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Control groups for the kernel's default: one for each client, with its share as a weight
/// wherever the kernel has a file for that now. Dropping them removes them.
pub(crate) struct DiskWeights {
    groups: Vec<PathBuf>,
    /// Whether the controller was off.
    disable: bool,
}

const MOUNT: &str = "/sys/fs/cgroup";
/// The most that BFQ takes; iocost takes it too.
const WEIGHT_MAX: f64 = 1000.0;

impl DiskWeights {
    /// Makes a group for each client, and moves the clients there.
    pub fn make(clients: &[DiskClient], workers: &Workers) -> io::Result<DiskWeights> {
        let control = Path::new(MOUNT).join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&control)?;
        let disable = !enabled.split_whitespace().any(|name| name == "io");
        let mut weights = DiskWeights { groups: Vec::new(), disable };
        fs::write(&control, "+io")?;
        let most = clients.iter().map(|client| client.promised).fold(f64::MIN_POSITIVE, f64::max);
        for (number, (client, worker)) in clients.iter().zip(workers.list()).enumerate() {
            let name = format!("allot-exp-disk-{}-{number}", std::process::id());
            let group = Path::new(MOUNT).join(name);
            fs::create_dir(&group)?;
            weights.groups.push(group.clone());
            let weight = (client.promised / most * WEIGHT_MAX).round().max(1.0);
            for file in ["io.weight", "io.bfq.weight"] {
                let file = group.join(file);
                if file.exists() {
                    fs::write(file, format!("default {weight}"))?;
                }
            }
            fs::write(group.join("cgroup.procs"), worker.pid.to_string())?;
        }
        Ok(weights)
    }
}

impl Drop for DiskWeights {
    fn drop(&mut self) {
        // Failures leave empty groups. A process that was killed is in its group until it is
        // reaped.
        for group in &self.groups {
            for _ in 0..100 {
                if fs::remove_dir(group).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if self.disable {
            let _ = fs::write(Path::new(MOUNT).join("cgroup.subtree_control"), "-io");
        }
    }
}
