//! What the engine tells subscribers of the crate `tracing`, which is there with the feature of that name. Any module may emit
//! an event; what that takes without the feature, and under a model checker, is nothing.
//!
//! Invariants:
//! - No event lies in the path of an operation or of a transaction that commits at once.
//! - None is emitted under a lock: a subscriber may call the database.
//! - The arguments of an event are evaluated if somebody listens to it, and change nothing.
//!
//! Targets, levels and fields are a part of the public interface: the guide's page on operating lists them.

// Each of the two forms is everything that depends on the feature.
#[cfg(all(feature = "tracing", not(any(braid_shuttle, braid_loom))))]
mod told {
    /// Emits an event: its level, its target (one of the constants of `events`), what has happened, and its fields, whose values
    /// are numbers, texts, truth values, or what `text` makes.
    macro_rules! event {
        ($level:ident, $target:ident, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {
            ::tracing::event!(
                target: $crate::events::$target,
                ::tracing::Level::$level,
                $($field = $value,)*
                $message
            )
        };
    }
    pub(crate) use event;

    /// Whether events can be told at all.
    pub(crate) const IS_ON: bool = true;

    /// A field with the text of this value, which is made if somebody listens.
    pub(crate) use ::tracing::field::display as text;
}

#[cfg(not(all(feature = "tracing", not(any(braid_shuttle, braid_loom)))))]
mod told {
    // (The arguments are checked by the compiler, and never evaluated.)
    macro_rules! event {
        ($level:ident, $target:ident, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {
            if $crate::events::IS_ON {
                let _: (&str, &str) = ($crate::events::$target, $message);
                $(let _ = &$value;)*
            }
        };
    }
    pub(crate) use event;

    pub(crate) const IS_ON: bool = false;

    pub(crate) fn text<T: std::fmt::Display>(value: T) -> T {
        value
    }
}

pub(crate) use told::{IS_ON, event, text};

/// A database is opened and closed; it is copied.
pub(crate) const DATABASE: &str = "braiddb::database";
/// What opening a database has found.
pub(crate) const RECOVERY: &str = "braiddb::recovery";
/// Checkpoints.
pub(crate) const CHECKPOINT: &str = "braiddb::checkpoint";
/// The log, its files, and the room on the device.
pub(crate) const LOG: &str = "braiddb::log";
/// Tables, their indexes and projections.
pub(crate) const TABLE: &str = "braiddb::table";
/// Transactions that meet others, and memory that is used up.
pub(crate) const TRANSACTION: &str = "braiddb::transaction";
/// How workers run transactions, and where they lock rows.
pub(crate) const WORKER: &str = "braiddb::worker";
/// Threads beside the workers: expiry, published statistics, the archive.
pub(crate) const BACKGROUND: &str = "braiddb::background";

/// A duration as events tell it.
pub(crate) fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}
