//! Those who try to break allot's theorems: a naive [model](crate::model) of the papers' rules,
//! an [auditor](crate::auditor) that holds ledger and valuation to it, [all small
//! graphs](crate::small), [random large ones](crate::large), and an
//! [adversary](crate::adversary): users with rights who do what they can.
//!
//! `docs/theorems.md` states each theorem and lists the tests that attack it.

pub mod adversary;
pub mod auditor;
pub mod due;
pub mod fraction;
pub mod large;
pub mod machine;
pub mod model;
pub mod small;
pub mod world;
