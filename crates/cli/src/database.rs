//! The commands for a database on disk: what they share is how one is opened.

pub mod backup;
pub mod changes;
pub mod drop;
pub mod dump;
pub mod info;
pub mod load;
pub mod look;
pub mod open;
pub mod restore;
pub mod salvage;
pub mod shell;
pub mod stats;

pub mod progress;
mod text;
mod types;
