//! systemd over D-Bus: weights and shares of its units.
//!
//! They are set for this boot only (`runtime`). systemd keeps such a setting in /run, also when the unit is started
//! anew, until it is set back.

use super::units::Scope;
use std::path::Path;
use std::time::Duration;
use zbus::Message;
use zbus::blocking::{Connection, connection};
use zbus::zvariant::{DynamicType, OwnedObjectPath, Value};

const SERVICE: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// systemd's property of weights on single devices.
const DISK_WEIGHTS: &str = "IODeviceWeight";

/// Timeout of a call to a user's manager, which is the user's to stop.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A refusal of systemd.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct BusError(#[from] zbus::Error);

impl BusError {
    /// Returns whether the unit is gone.
    pub fn is_gone(&self) -> bool {
        matches!(&self.0, zbus::Error::MethodError(name, _, _)
            if name.as_str() == "org.freedesktop.systemd1.NoSuchUnit"
                || name.as_str() == "org.freedesktop.DBus.Error.UnknownObject")
    }
}

/// Properties of a unit, as `StartTransientUnit` takes them.
type Properties<'a> = Vec<(&'a str, Value<'a>)>;

/// The manager of the system's units, or of a user's.
#[derive(Debug)]
pub(crate) struct Manager {
    bus: Connection,
}

impl Manager {
    /// Connects, and makes sure that systemd answers.
    pub fn connect() -> Result<Manager, BusError> {
        let manager = Manager { bus: apart(Connection::system)? };
        manager.property(PATH, MANAGER, "Version")?;
        Ok(manager)
    }

    /// Connects to a user's manager by that user's bus, and makes sure that it answers.
    pub fn connect_user(socket: &Path) -> Result<Manager, BusError> {
        let address = format!("unix:path={}", socket.display());
        let builder = || connection::Builder::address(address.as_str());
        let connect = || builder()?.method_timeout(TIMEOUT).build();
        let manager = Manager { bus: apart(connect)? };
        manager.property(PATH, MANAGER, "Version")?;
        Ok(manager)
    }

    /// Returns the cgroup of the manager itself, as a path from `/`.
    pub fn control_group(&self) -> Result<String, BusError> {
        let path = self.property(PATH, MANAGER, "ControlGroup")?;
        Ok(path.try_into().map_err(zbus::Error::from)?)
    }

    /// Makes a scope with one process in it; what is below it is ours (`Delegate`).
    pub fn start_scope(&self, scope: &Scope, pid: u32) -> Result<(), BusError> {
        let properties: Properties = vec![
            ("Description", Value::from("Clients of allotd")),
            ("Slice", Value::from(scope.slice)),
            ("Delegate", Value::from(true)),
            ("CPUWeight", Value::from(scope.weight)),
            ("PIDs", Value::from(vec![pid])),
        ];
        let others: Vec<(&str, Properties)> = Vec::new();
        let body = (scope.name.as_str(), "fail", properties, others);
        self.call(PATH, MANAGER, "StartTransientUnit", &body)?;
        Ok(())
    }

    /// Moves a process into a cgroup below that of a unit which is delegated.
    pub fn attach(&self, unit: &str, below: &str, pid: u32) -> Result<(), BusError> {
        let pids: &[u32] = &[pid];
        self.call(PATH, MANAGER, "AttachProcessesToUnit", &(unit, below, pids))?;
        Ok(())
    }

    fn property(
        &self,
        path: &str,
        interface: &str,
        name: &str,
    ) -> Result<zbus::zvariant::OwnedValue, BusError> {
        let properties = "org.freedesktop.DBus.Properties";
        let answer = self.call(path, properties, "Get", &(interface, name))?;
        Ok(answer.body().deserialize()?)
    }

    /// Reads a setting of a unit that is a number; [`UNSET`](super::UNSET) for a weight that it does not have.
    pub fn get(&self, unit: &str, property: &str) -> Result<u64, BusError> {
        let answer = self.call(PATH, MANAGER, "GetUnit", &(unit,))?;
        let path: OwnedObjectPath = answer.body().deserialize()?;
        let value = self.property(path.as_str(), &interface_of(unit), property)?;
        Ok(u64::try_from(value).map_err(zbus::Error::from)?)
    }

    /// Sets a number of a unit, for this boot.
    pub fn set(&self, unit: &str, property: &str, value: u64) -> Result<(), BusError> {
        let properties = [(property, Value::from(value))];
        let body = (unit, true, &properties[..]);
        self.call(PATH, MANAGER, "SetUnitProperties", &body)?;
        Ok(())
    }

    /// Reads the weights of a unit on single devices, as they were named.
    pub fn disk_weights(&self, unit: &str) -> Result<Vec<(String, u64)>, BusError> {
        let answer = self.call(PATH, MANAGER, "GetUnit", &(unit,))?;
        let path: OwnedObjectPath = answer.body().deserialize()?;
        let weights = self.property(path.as_str(), &interface_of(unit), DISK_WEIGHTS)?;
        Ok(weights.try_into().map_err(zbus::Error::from)?)
    }

    /// Sets weights of a unit on these devices, for this boot; without any, takes all of them away.
    pub fn set_disk_weights(&self, unit: &str, weights: &[(String, u64)]) -> Result<(), BusError> {
        let properties = [(DISK_WEIGHTS, Value::from(weights.to_vec()))];
        let body = (unit, true, &properties[..]);
        self.call(PATH, MANAGER, "SetUnitProperties", &body)?;
        Ok(())
    }

    /// Brings weights on devices back to what they were: systemd adds to what there is, so that goes first.
    pub fn restore_disk_weights(
        &self,
        unit: &str,
        weights: &[(String, u64)],
    ) -> Result<(), BusError> {
        self.set_disk_weights(unit, &[])?;
        if weights.is_empty() { Ok(()) } else { self.set_disk_weights(unit, weights) }
    }

    fn call<B: serde::Serialize + DynamicType + Sync>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<Message, BusError> {
        let call = || self.bus.call_method(Some(SERVICE), path, Some(interface), method, body);
        Ok(apart(call)?)
    }
}

/// Runs work on a thread of its own: the library's blocking calls may not be made where an asynchronous runtime runs,
/// and the caller may be in one.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the D-Bus interface with a unit's settings: that of its kind.
fn interface_of(unit: &str) -> String {
    let kind = unit.rsplit_once('.').map_or("", |(_, kind)| kind);
    let mut letters = kind.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{SERVICE}.{}{}", first.map(String::from).unwrap_or_default(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_interface_of_the_kind() {
        assert_eq!(interface_of("user-1000.slice"), "org.freedesktop.systemd1.Slice");
        assert_eq!(interface_of("a.b.service"), "org.freedesktop.systemd1.Service");
    }
}
