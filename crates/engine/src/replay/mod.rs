//! Fills a database at recovery, past transactions: rows of checkpoints, then the changes of the log.

#[allow(clippy::module_inception, reason = "the file does what the folder is for")]
mod replay;
mod restore;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;

pub(crate) use replay::{Feed, for_each_parallel, replay};
pub(crate) use restore::{Restorer, resume};
