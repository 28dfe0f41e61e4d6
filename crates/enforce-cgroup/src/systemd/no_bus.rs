//! systemd in a build without D-Bus: it cannot be asked, so a tree that it owns is refused.

use super::units::Scope;
use std::convert::Infallible;
use std::path::Path;

/// The reason for the refusal.
#[derive(Debug, thiserror::Error)]
#[error("this build has no D-Bus (cargo feature `systemd`)")]
pub(crate) struct BusError;

impl BusError {
    /// Returns whether the unit is gone.
    pub fn is_gone(&self) -> bool {
        false
    }
}

/// The manager of the system's units. There is none in this build.
#[derive(Debug)]
pub(crate) struct Manager(Infallible);

impl Manager {
    /// Refuses.
    pub fn connect() -> Result<Manager, BusError> {
        Err(BusError)
    }

    /// Refuses.
    pub fn connect_user(_socket: &Path) -> Result<Manager, BusError> {
        Err(BusError)
    }

    pub fn control_group(&self) -> Result<String, BusError> {
        match self.0 {}
    }

    pub fn start_scope(&self, _scope: &Scope, _pid: u32) -> Result<(), BusError> {
        match self.0 {}
    }

    pub fn attach(&self, _unit: &str, _below: &str, _pid: u32) -> Result<(), BusError> {
        match self.0 {}
    }

    pub fn get(&self, _unit: &str, _property: &str) -> Result<u64, BusError> {
        match self.0 {}
    }

    pub fn set(&self, _unit: &str, _property: &str, _value: u64) -> Result<(), BusError> {
        match self.0 {}
    }

    pub fn disk_weights(&self, _unit: &str) -> Result<Vec<(String, u64)>, BusError> {
        match self.0 {}
    }

    pub fn set_disk_weights(
        &self,
        _unit: &str,
        _weights: &[(String, u64)],
    ) -> Result<(), BusError> {
        match self.0 {}
    }

    pub fn restore_disk_weights(
        &self,
        _unit: &str,
        _weights: &[(String, u64)],
    ) -> Result<(), BusError> {
        match self.0 {}
    }
}
