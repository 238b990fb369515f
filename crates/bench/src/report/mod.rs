//! Presentation of results: tables, charts, pages, the machine, and where the time went.

pub(crate) mod breakdown;
pub(crate) mod chart;
pub mod environment;
pub(crate) mod grid;
pub(crate) mod hardware;
pub(crate) mod page;
mod text;

pub(crate) use text::{distinct, size, write_json};
pub use text::{short, write};
