//! Events for subscribers of the crate `tracing`, which is present with the feature of that name. Any module may emit
//! an event. Without the feature, and under a model checker, an event costs nothing.
//!
//! Invariants:
//! - No event lies in the path of an operation, or of a transaction that commits at once.
//! - No event is emitted under a lock, because a subscriber may call the database.
//! - The arguments of an event are evaluated only if a subscriber listens to it, and they change nothing.
//!
//! Targets, levels and fields are part of the public interface: the guide's page on operating lists them.

// Everything that depends on the feature is in these two forms of the module.
#[cfg(all(feature = "tracing", not(any(braid_shuttle, braid_loom))))]
mod told {
    /// Emits an event with a level, a target (one of the constants of `events`), a message and fields. The fields'
    /// values are numbers, texts, truth values, or what `text` makes.
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

    /// Whether events can be emitted at all.
    pub(crate) const IS_ON: bool = true;

    /// Makes a field with the text of a value. The text is made only if a subscriber listens.
    pub(crate) use ::tracing::field::display as text;
}

#[cfg(not(all(feature = "tracing", not(any(braid_shuttle, braid_loom)))))]
mod told {
    // The compiler checks the arguments, and they are never evaluated.
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

/// Opening, closing and copying a database.
pub(crate) const DATABASE: &str = "braiddb::database";
/// Findings while a database is opened.
pub(crate) const RECOVERY: &str = "braiddb::recovery";
/// Checkpoints.
pub(crate) const CHECKPOINT: &str = "braiddb::checkpoint";
/// The log, its files, and the room on the device.
pub(crate) const LOG: &str = "braiddb::log";
/// Tables, their indexes and projections.
pub(crate) const TABLE: &str = "braiddb::table";
/// Transactions that meet others, and exhausted memory.
pub(crate) const TRANSACTION: &str = "braiddb::transaction";
/// How workers run transactions, and where they lock rows.
pub(crate) const WORKER: &str = "braiddb::worker";
/// Threads other than the workers: expiry, published statistics, the archive.
pub(crate) const BACKGROUND: &str = "braiddb::background";

/// Converts a duration to the unit of events.
pub(crate) fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}
