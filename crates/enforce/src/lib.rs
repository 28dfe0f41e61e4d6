//! Enforcers: they make the machine give what a plan says, and decide no share.

mod plan;

pub use plan::{Plan, PlannedClient};
