//! Interfaces for experiments, which applications do not need. The benchmark compares the engine with them.
//!
//! [`get_nested`], [`get_many_coroutines`], [`get_many_nested`] and [`probe`] run the engine's operations by the
//! schedules of the CoroBase paper. [`Structures`] reads the index and the records below transactions. No other module
//! uses this one, and its interface may change at any time.

mod point_read;
mod schedules;
mod structures;

pub use point_read::Probe;
pub use schedules::{get_many_coroutines, get_many_nested, get_nested, probe};
#[doc(hidden)]
pub use structures::Structures;
