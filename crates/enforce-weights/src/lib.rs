//! The enforcer of the CPU by the kernel's own weights where there is no cgroup v2 controller: `cpu.shares` of cgroup v1,
//! else nice values of autogroups and of threads.
//!
//! Nobody is stopped and no quantum is drawn for: the kernel divides, among those that want the CPU, at every moment. So
//! no CPU idles while somebody would use it, and who wakes runs at once. Every half second what clients used is
//! compared with what they were due, and weights are corrected. See docs/weights.md.
//!
//! - `houses`, `steering` and `short_lives` are pure: who competes as one, with which weight, how that is corrected, and
//!   whose processes end too soon to be given one.
//! - `carriers` bring weights to processes: one file for each of the ways.
//! - `record` has all that was changed, before it is changed.

mod answers;
mod carriers;
mod client;
mod handle;
mod houses;
mod newborn;
mod nice_steps;
mod record;
mod registration;
mod short_lives;
mod state;
mod steering;

pub use carriers::{CarrierName, available};
pub use handle::{Weights, WeightsOptions};
pub use record::WeightsRestorer;
pub use registration::REGISTRATION;
