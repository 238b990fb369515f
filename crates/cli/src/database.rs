//! The commands for a database on disk, and the code that they share, such as opening a database.

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
