//! The engine's generic code, compiled once for every scheme.
//!
//! The engine is generic over the scheme of concurrency control, so a test that goes through all schemes would compile the engine's
//! operations for each of them again. A crate that is compiled with `opt-level` 0 or 1 uses the functions which a crate that it
//! depends on has compiled for the same types. So the tests of this crate, and the benchmark, say `use braid_schemes as _;`, and compile little more
//! than themselves. Nothing here is ever run, and nothing depends on what is here: what is not, a test compiles itself.
//!
//! (Release builds do not share: there this crate is empty.)

#![forbid(unsafe_code)]

#[cfg(debug_assertions)]
mod operations;
#[cfg(debug_assertions)]
pub use operations::*;
