//! What can be asked of the ledger. An operation is one type, with its fields as the journal has
//! them, and one implementation of [`Operation`]: may it be done, what it does, and what it is
//! called. A file holds a family of operations and lists them; adding one to a family touches
//! that file alone.
#![allow(missing_docs)] // The fields say what they are; the operations are described.

use crate::Refusal;
use crate::broker::Broker;
use crate::writer::Writer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// One operation.
pub(crate) trait Operation {
    /// Allows the operation or refuses it (paper 1, 3.2 and table 1).
    ///
    /// Invariant: every check that can fail is made here, so that `apply` cannot.
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal>;

    /// Does what was allowed, as a list of primitive changes.
    fn apply(self, writer: &mut Writer<'_>);

    /// Says in words what was done, for the people who watch.
    fn describe(&self) -> String;
}

/// Makes a family of operations: an enum with one variant for each, under the name that it has in
/// journals.
macro_rules! family {
    ($(#[$attribute:meta])* $family:ident as $variant:ident {
        $($name:literal => $operation:ident,)+
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
        #[serde(tag = "operation")]
        pub enum $family {
            $(#[serde(rename = $name)] $operation($operation),)+
        }

        impl $family {
            /// The names of its operations.
            pub(super) const NAMES: &[&str] = &[$($name),+];

            /// Reads the operation of a name that is among [`NAMES`](Self::NAMES).
            pub(super) fn read<'de, A>(name: &str, fields: A) -> Result<$family, A::Error>
            where
                A: serde::de::MapAccess<'de>,
            {
                let fields = serde::de::value::MapAccessDeserializer::new(fields);
                match name {
                    $($name => serde::Deserialize::deserialize(fields).map($family::$operation),)+
                    _ => Err(serde::de::Error::unknown_variant(name, $family::NAMES)),
                }
            }

            pub(super) fn name(&self) -> &'static str {
                match self { $($family::$operation(_) => $name,)+ }
            }
        }

        impl $crate::operation::Operation for $family {
            fn check(&self, broker: &$crate::broker::Broker<'_>) -> Result<(), $crate::Refusal> {
                match self { $($family::$operation(it) => it.check(broker),)+ }
            }

            fn apply(self, writer: &mut $crate::writer::Writer<'_>) {
                match self { $($family::$operation(it) => it.apply(writer),)+ }
            }

            fn describe(&self) -> String {
                match self { $($family::$operation(it) => it.describe(),)+ }
            }
        }

        $(
            impl From<$operation> for $crate::Intent {
                fn from(operation: $operation) -> Self {
                    $crate::Intent::$variant($family::$operation(operation))
                }
            }

            impl $operation {
                /// The operation, if this is what is wished.
                pub fn of(intent: &$crate::Intent) -> Option<&$operation> {
                    match intent {
                        $crate::Intent::$variant($family::$operation(operation)) => Some(operation),
                        _ => None,
                    }
                }
            }
        )+
    };
}

mod batch;
mod client;
mod currency;
mod exchange;
mod funding;
mod job;
mod lending;
mod limit;
mod membership;
mod offer;
mod placement;
mod process;

pub use client::*;
pub use currency::*;
pub use exchange::*;
pub use funding::*;
pub use job::*;
pub use lending::*;
pub use limit::*;
pub use membership::*;
pub use offer::*;
pub use placement::*;
pub use process::*;

/// Makes [`Intent`] of the families.
macro_rules! families {
    ($($variant:ident($family:ident),)+) => {
        /// A wish. The broker turns it into an [`Authorised`](crate::Authorised) operation or
        /// refuses. Made of any operation; written as the operation's name and fields.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum Intent {
            $($variant($family),)+
        }

        impl Intent {
            /// The operation's name, as journals have it.
            pub fn name(&self) -> &'static str {
                match self { $(Intent::$variant(family) => family.name(),)+ }
            }

            /// The operation in words, for the people who watch.
            pub fn describe(&self) -> String {
                match self { $(Intent::$variant(family) => family.describe(),)+ }
            }

            pub(crate) fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
                match self { $(Intent::$variant(family) => family.check(broker),)+ }
            }

            pub(crate) fn apply(self, writer: &mut Writer<'_>) {
                match self { $(Intent::$variant(family) => family.apply(writer),)+ }
            }

            fn read<'de, A: MapAccess<'de>>(name: &str, fields: A) -> Result<Intent, A::Error> {
                $(
                    if $family::NAMES.contains(&name) {
                        return $family::read(name, fields).map(Intent::$variant);
                    }
                )+
                Err(A::Error::custom(format_args!("`{name}` is no operation of this version")))
            }
        }
    };
}

families! {
    Currency(CurrencyOperation),
    Funding(FundingOperation),
    Client(ClientOperation),
    Membership(MembershipOperation),
    Limit(LimitOperation),
    Lending(LendingOperation),
    Offer(OfferOperation),
    Exchange(ExchangeOperation),
    Job(JobOperation),
    Placement(PlacementOperation),
    Process(ProcessOperation),
}

/// The name comes first, so that the fields are read as they are, by the type that has them.
impl<'de> Deserialize<'de> for Intent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameThenFields;

        impl<'de> Visitor<'de> for NameThenFields {
            type Value = Intent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an operation's name and its fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Intent, A::Error> {
                match map.next_entry::<String, String>()? {
                    Some((key, name)) if key == "operation" => Intent::read(&name, map),
                    _ => Err(A::Error::custom("`operation` is missing, or not the first field")),
                }
            }
        }

        from.deserialize_map(NameThenFields)
    }
}
