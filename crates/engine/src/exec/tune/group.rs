//! Workers that conflict with each other search for their level together: one leads, and the others take over its
//! level, whatever it is. If each worker searched by itself, each would find that more open futures get it a larger
//! share of what all compete for.
//!
//! Invariant: only the worker whose number is in the word changes the word. Any worker may take the lead while the word
//! has no number.

use crate::exec::tune::level::Level;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The part that the workers of a database share. Relaxed throughout, because levels order nothing.
#[derive(Debug, Default)]
pub(crate) struct SharedLevel {
    /// The leader's number, from 1 on, above the bits of its level. 0 means that no worker leads.
    word: AtomicU64,
    members: AtomicU32,
}

/// One worker's part.
#[derive(Debug)]
pub(crate) struct Member {
    shared_level: Arc<SharedLevel>,
    number: u64,
}

impl Member {
    pub(crate) fn new(shared_level: Arc<SharedLevel>) -> Member {
        let number = u64::from(shared_level.members.fetch_add(1, Relaxed)) + 1;
        Member { shared_level, number }
    }

    /// For a worker at `level`: returns the level to take over, if the worker conflicts with others and another worker
    /// leads.
    pub(crate) fn follow(&self, level: Level, is_contended: bool) -> Option<Level> {
        if !is_contended {
            self.resign();
            return None;
        }
        let word = &self.shared_level.word;
        let seen = word.load(Relaxed);
        match seen >> 32 {
            0 => {
                let _ = word.compare_exchange(0, self.word_at(level), Relaxed, Relaxed); // or another was first
                None
            }
            leader if leader == self.number => {
                word.store(self.word_at(level), Relaxed);
                None
            }
            _ => Level::from_bits(seen as u32),
        }
    }

    /// Stops leading, so that others need not follow any longer.
    pub(crate) fn resign(&self) {
        if self.shared_level.word.load(Relaxed) >> 32 == self.number {
            self.shared_level.word.store(0, Relaxed);
        }
    }

    fn word_at(&self, level: Level) -> u64 {
        self.number << 32 | u64::from(level.to_bits())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.resign();
    }
}
