//! The files that a process can still open, by landlock(7).
//!
//! A process that landlock restricts may also no longer look into processes that it does not restrict: `/proc/PID/maps`,
//! `/proc/PID/ns` and the like of others are closed to it, and all of `/proc/PID` where `/proc` hides processes.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The newest version of landlock whose rights are known here.
const KNOWN: ABI = ABI::V6;

/// The files that a process keeps. Of a directory, all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Files to read.
    pub read: Vec<PathBuf>,
    /// Files to read, write, make and remove.
    pub write: Vec<PathBuf>,
    /// Programs to run.
    pub run: Vec<PathBuf>,
    /// Whether signals to other processes than itself and those that it makes are given up too.
    pub signals_own_only: bool,
}

/// How far a restriction to files goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restriction {
    /// All that is known here is enforced.
    Full,
    /// The kernel enforces a part: it is older.
    Partial,
    /// The kernel enforces nothing: it has no landlock.
    No,
}

impl Files {
    /// This program and what loads it, to run it anew.
    pub fn own_program() -> Vec<PathBuf> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mapped = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let loaders = mapped.filter(|path| name(path).starts_with("ld")).map(PathBuf::from);
        let mut run: Vec<PathBuf> = std::env::current_exe().into_iter().chain(loaders).collect();
        run.sort();
        run.dedup();
        run
    }

    /// Gives up all other files, and networks over TCP, for this thread and those that it makes. What is open stays so.
    ///
    /// # Errors
    /// When the kernel refuses what it says that it can do.
    pub fn keep_only(&self) -> Result<Restriction, RulesetError> {
        let mut ruleset = nothing()?;
        if self.signals_own_only {
            ruleset = ruleset.scope(Scope::Signal)?;
        }
        let ruleset = ruleset.create()?;
        let all = AccessFs::from_all(KNOWN) & !AccessFs::Execute;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let ruleset = add(ruleset, &self.read, read)?;
        let ruleset = add(ruleset, &self.write, all)?;
        let ruleset = add(ruleset, &self.run, AccessFs::Execute | AccessFs::ReadFile)?;
        restrict(ruleset)
    }

    /// Gives up all files, networks over TCP, and signals and abstract sockets of others, for this thread and those that
    /// it makes. What is open stays so.
    ///
    /// # Errors
    /// When the kernel refuses what it says that it can do.
    pub fn keep_none() -> Result<Restriction, RulesetError> {
        restrict(nothing()?.scope(Scope::from_all(KNOWN))?.create()?)
    }
}

/// Rules by which nothing can be opened, as far as the kernel has them.
fn nothing() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))
}

fn restrict(ruleset: RulesetCreated) -> Result<Restriction, RulesetError> {
    Ok(match ruleset.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Restriction::Full,
        RulesetStatus::PartiallyEnforced => Restriction::Partial,
        RulesetStatus::NotEnforced => Restriction::No,
    })
}

/// Adds those that are there. Of a file, what only directories have is left out.
fn add(
    mut ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = match path.is_dir() {
            true => access,
            false => access & AccessFs::from_file(KNOWN),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
    }
    Ok(ruleset)
}
