//! The rules that are tried on a disk, and the file of its speed that each needs.

use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::test_disk::{DiskRule, TestDisk};
use std::path::{Path, PathBuf};

const RULES: [DiskRule; 3] = [DiskRule::Bfq, DiskRule::Iocost, DiskRule::Default];

/// The rules that can be tried on a disk.
pub(crate) struct DiskRules {
    pub rules: Vec<DiskRule>,
    /// Reasons why other rules are left out.
    pub notes: Vec<String>,
    /// The file of the disk's speed, if it was measured.
    measured: Option<PathBuf>,
    /// A file of no speeds, which does not exist.
    nothing: PathBuf,
}

impl DiskRules {
    /// Measures the disk in a part of the run's time, and starts an allotd for a moment, which the
    /// report names.
    pub fn find(
        context: &mut ExperimentContext,
        disk: &TestDisk,
        of_measuring: f64,
    ) -> Result<DiskRules, ExperimentError> {
        let measured = disk.measure(context, context.total * of_measuring)?;
        context.elapsed += context.total * of_measuring;
        let nothing = context.dir.path().join("no-disks.toml");
        drop(context.disk_daemon(disk, &nothing)?);
        let (rules, left_out): (Vec<DiskRule>, Vec<DiskRule>) =
            RULES.into_iter().partition(|rule| disk.lacks(*rule, &measured).is_none());
        let notes = left_out.iter().filter_map(|rule| disk.lacks(*rule, &measured)).collect();
        Ok(DiskRules { rules, notes, measured: measured.ok(), nothing })
    }

    /// Returns the file of speeds for a rule.
    pub fn disks(&self, rule: DiskRule) -> &Path {
        match (rule, &self.measured) {
            (DiskRule::Iocost, Some(file)) => file,
            _ => &self.nothing,
        }
    }
}

impl TestDisk {
    /// Describes the disk, and its default, for a report.
    pub fn describe(&self) -> String {
        format!(
            "{}: it takes {} requests at a time, and was found with the scheduler {}; the kernel's \
             default is that, with each client in a control group of its share's weight",
            self.name, self.depth, self.scheduler
        )
    }
}
