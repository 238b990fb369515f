//! The engines, each in its own file, and the only table of them.

#[cfg(feature = "berkeleydb")]
mod berkeleydb;
mod braid;
mod fjall;
#[cfg(feature = "berkeleydb")]
#[allow(unsafe_code, reason = "the library is one of C, and this file is all that calls it")]
mod libdb;
#[allow(unsafe_code, reason = "mapping a file is unsafe by its interface")]
mod lmdb;
mod locked;
mod maps;
mod mdbx;
mod postgres;
mod redb;
mod redis;
mod rocks;
mod sqlite;
mod surreal;
#[cfg(test)]
mod tests;

use crate::peer::{Facts, Peer};
use std::sync::{Mutex, RwLock};

/// A function of a peer, called with the peer as a type.
pub trait Visitor {
    /// The result.
    type Answer;
    /// Runs the function.
    fn visit<P: Peer>(self) -> Self::Answer;
}

/// The table of peers, in the order of reports. It defines both the facts about all peers and the way from a name to a
/// type.
macro_rules! peers {
    ($($(#[$condition:meta])* $peer:ty),+ $(,)?) => {
        /// The facts about each peer, in the order of reports.
        pub const PEERS: &[Facts] = &[$($(#[$condition])* <$peer as Peer>::FACTS),+];

        /// Calls a visitor with the peer of this name. Returns `None` if there is no such peer.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Answer> {
            $($(#[$condition])* if name == <$peer as Peer>::FACTS.name {
                return Some(visitor.visit::<$peer>());
            })+
            None
        }
    };
}

peers![
    braid::Braid<{ braid::BATCH }>,
    braid::Braid<{ braid::SEQUENTIAL }>,
    braid::Braid<{ braid::INTERACTIVE }>,
    surreal::Surreal,
    lmdb::Lmdb,
    mdbx::Mdbx,
    redb::Redb<false>,
    redb::Redb<true>,
    sqlite::Sqlite<false>,
    sqlite::Sqlite<true>,
    #[cfg(feature = "berkeleydb")]
    berkeleydb::BerkeleyDb,
    rocks::Rocks<rocksdb::OptimisticTransactionDB>,
    rocks::Rocks<rocksdb::TransactionDB>,
    fjall::Fjall,
    postgres::Postgres,
    redis::Redis,
    locked::Locked<Mutex<locked::Trees>>,
    locked::Locked<RwLock<locked::Trees>>,
    maps::Maps<congee::Congee<usize, usize>>,
    maps::Maps<crossbeam_skiplist::SkipMap<u64, std::sync::atomic::AtomicU64>>,
    maps::Maps<papaya::HashMap<u64, std::sync::atomic::AtomicU64>>,
];
