//! The executor under toy operations: no transactions.

#[cfg(not(braid_shuttle))]
mod adapt;
#[cfg(not(braid_shuttle))]
mod allocations;
#[cfg(not(braid_shuttle))]
mod auto;
#[cfg(not(braid_shuttle))]
mod epochs;
#[cfg(not(braid_shuttle))]
mod erased;
#[cfg(not(braid_shuttle))]
mod hints;
#[cfg(not(braid_shuttle))]
mod pending_output;
#[cfg(not(braid_shuttle))]
mod pending_submitted;
#[cfg(not(braid_shuttle))]
mod shared_level;
#[cfg(braid_shuttle)]
mod shuttle_tests;
#[cfg(all(unix, not(any(braid_shuttle, braid_loom))))] // models and Windows have no descriptors
mod sleep;
#[cfg(not(braid_shuttle))]
mod spawned;
#[cfg(not(braid_shuttle))]
mod stream;
#[cfg(not(braid_shuttle))]
mod submitted;
mod toy;
mod toy_log;
