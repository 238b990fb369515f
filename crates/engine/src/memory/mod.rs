//! Memory that the database owns: reserved regions of equal blocks addressed by 32-bit ids ([`Slab`]), and size-class
//! pools for each worker ([`Pool`]). Everything is counted per [`Kind`] against one limit ([`Memory`]), and freed at
//! once when the database is dropped.

mod account;
mod arena;
mod charge;
mod chunks;
mod classes;
mod freed;
mod os;
mod pool;
mod rest;
mod slab;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;

pub use account::{Kind, Memory, OutOfMemory};
pub use arena::Arena;
pub use charge::Charge;
pub use pool::Pool;
pub use slab::Slab;
