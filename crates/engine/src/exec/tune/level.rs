//! How a worker works: how many futures are open, and how the operations of those that are let in run.

use std::fmt;

/// How many transactions a worker keeps open at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchSize {
    /// What measures best on the work at hand, from one after the other to `batch_max` at once; found out while
    /// the worker works, and again when the work changes.
    #[default]
    Auto,
    /// So many, 1 or more.
    Fixed(usize),
}

impl From<usize> for BatchSize {
    fn from(batch: usize) -> Self {
        BatchSize::Fixed(batch)
    }
}

/// How the operations of a future run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Posted, and stepped by the worker's policy.
    Interleaved,
    /// Where they stand, with prefetching.
    Prefetching,
    /// Where they stand, without.
    Sequential,
}

/// How a worker works: futures open at once, and how those that are let in run. Interleaved ones alone can be
/// several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// How their operations run.
    pub style: Execution,
    /// Futures open at once.
    pub batch: usize,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Execution::Interleaved => write!(f, "interleaved, {} open", self.batch),
            Execution::Prefetching => f.write_str("one at a time, prefetching"),
            Execution::Sequential => f.write_str("one at a time"),
        }
    }
}

impl Level {
    pub(crate) const fn interleaved(batch: usize) -> Level {
        Level { style: Execution::Interleaved, batch }
    }

    pub(crate) fn is_sequential(self) -> bool {
        self.style != Execution::Interleaved
    }

    /// In one word, not 0.
    pub(crate) fn to_bits(self) -> u32 {
        let style = match self.style {
            Execution::Interleaved => 1,
            Execution::Prefetching => 2,
            Execution::Sequential => 3,
        };
        (self.batch as u32) << 2 | style
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Level> {
        let style = match bits & 3 {
            1 => Execution::Interleaved,
            2 => Execution::Prefetching,
            3 => Execution::Sequential,
            _ => return None,
        };
        Some(Level { style, batch: (bits >> 2) as usize })
    }
}

/// What a worker leaves to the next one of its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The best level.
    pub(crate) level: Level,
    /// Series of trials in a row that have found nothing better, [`Known::IN_VAIN_MAX`] at most.
    pub(crate) in_vain: u32,
}

impl Known {
    pub(crate) const IN_VAIN_MAX: u32 = 3;
    const IN_VAIN_SHIFT: u32 = 30;

    /// In one word, not 0.
    pub(crate) fn to_bits(self) -> u32 {
        debug_assert!(self.in_vain <= Known::IN_VAIN_MAX);
        self.in_vain << Known::IN_VAIN_SHIFT | self.level.to_bits()
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Known> {
        let level = Level::from_bits(bits & !(u32::MAX << Known::IN_VAIN_SHIFT))?;
        Some(Known { level, in_vain: bits >> Known::IN_VAIN_SHIFT })
    }
}
