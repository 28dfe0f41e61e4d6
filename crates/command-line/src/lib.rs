//! Parts that `allot` and the programs of its commands share: the choice of an allotd, reading of
//! arguments, errors, tables, and how programs find and describe each other.

pub mod argument_parsing;
pub mod connection;
mod definition;
pub mod error;
pub mod output;
pub mod programs;
pub mod style;
pub mod users;

pub use connection::GlobalOptions;
pub use definition::Definition;
pub use error::CliError;
