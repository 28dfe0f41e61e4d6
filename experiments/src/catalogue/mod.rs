//! The experiments. Each is a folder with one registration, `E`, which is one line of
//! [`EXPERIMENTS`]: there is no other list.

mod compile;
mod cpu_hierarchy;
mod disk_queue_depth;
mod disk_shares;
mod exchange_cpu_disk;
mod exchange_database;
mod guest_memory;
mod insulation;
mod inversion;
mod latency;
mod market;
mod memory_policies;
mod memory_shares;
mod mtr_ls;
mod negotiators;
mod nice;
mod real_programs;
mod rre;
mod spawn;

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
pub static EXPERIMENTS: [&Experiment; 19] = [
    &cpu_hierarchy::E,
    &rre::E,
    &insulation::E,
    &nice::E,
    &latency::E,
    &compile::E,
    &spawn::E,
    &inversion::E,
    &mtr_ls::E,
    &real_programs::E,
    &memory_shares::E,
    &memory_policies::E,
    &guest_memory::E,
    &disk_shares::E,
    &disk_queue_depth::E,
    &exchange_cpu_disk::E,
    &exchange_database::E,
    &negotiators::E,
    &market::E,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_is_listed() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/catalogue");
        let entries = std::fs::read_dir(dir).unwrap().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let names = folders.map(|entry| entry.file_name().to_string_lossy().replace('_', "-"));
        let mut names: Vec<String> = names.collect();
        let mut listed = EXPERIMENTS.map(|experiment| experiment.name);
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }
}
