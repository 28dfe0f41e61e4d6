//! Those who try to break allot's theorems: a naive [model](crate::model) of the papers' rules,
//! an [auditor](crate::auditor) that holds ledger and valuation to it, [all small
//! graphs](crate::small), [random large ones](crate::large), and an
//! [adversary](crate::adversary): users with rights who do what they can.
//!
//! And [a machine in virtual time](crate::machine) under the ledger, the valuation and the policies themselves, for
//! experiments (`docs/simulator.md`).
//!
//! And [a floor](crate::trading) on which negotiators and the dealer meet, with a model economy.
//!
//! `docs/theorems.md` states each theorem and lists the tests that attack it.

pub mod adversary;
pub mod auditor;
pub mod covers;
pub mod due;
pub mod fraction;
pub mod large;
pub mod machine;
mod market;
pub mod model;
pub mod orders;
pub mod small;
pub mod trading;
pub mod world;

/// The example in the documentation is run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/simulator.md")]
struct Documentation;
