//! How a worker works: how many futures are open, and how their operations run.

use std::fmt;

/// How many transactions a worker keeps open at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchSize {
    /// The number that measures best on the present workload, from one at a time up to `batch_max` at once. The worker
    /// finds it out while it works, and again when the workload changes.
    #[default]
    Auto,
    /// This number, at least 1.
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
    /// Operations are posted, and the worker's policy steps them.
    Interleaved,
    /// Operations run in place, with prefetching.
    Prefetching,
    /// Operations run in place, without prefetching.
    Sequential,
}

/// How a worker works: how many futures are open at once, and how the operations of the futures that are let in run.
/// Only interleaved futures can be several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// How their operations run.
    pub style: Execution,
    /// How many futures are open at once.
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

    /// Returns the level in one word that is not 0.
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

/// What a worker leaves to the next worker of its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The best level.
    pub(crate) level: Level,
    /// How many series of trials in a row have found nothing better, at most [`Known::IN_VAIN_MAX`].
    pub(crate) in_vain: u32,
}

impl Known {
    pub(crate) const IN_VAIN_MAX: u32 = 3;
    const IN_VAIN_SHIFT: u32 = 30;

    /// Returns the value in one word that is not 0.
    pub(crate) fn to_bits(self) -> u32 {
        debug_assert!(self.in_vain <= Known::IN_VAIN_MAX);
        self.in_vain << Known::IN_VAIN_SHIFT | self.level.to_bits()
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Known> {
        let level = Level::from_bits(bits & !(u32::MAX << Known::IN_VAIN_SHIFT))?;
        Some(Known { level, in_vain: bits >> Known::IN_VAIN_SHIFT })
    }
}
