//! A disk that keeps the log waiting.

/// From this duration on the disk counts as slow. It is several times what a sync takes that has to wait for others.
pub(super) const SLOW_NS: u64 = 1_000_000_000;

/// Why nothing waits for the log any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// There is no room for what was appended.
    NoRoom,
    /// A write or a sync does not return.
    Slow,
}

impl Stall {
    /// Returns the code for an atomic; 0 for none.
    pub(super) fn code(stall: Option<Stall>) -> u32 {
        match stall {
            None => 0,
            Some(Stall::NoRoom) => 1,
            Some(Stall::Slow) => 2,
        }
    }

    #[inline(always)]
    pub(super) fn of_code(code: u32) -> Option<Stall> {
        match code {
            0 => None,
            1 => Some(Stall::NoRoom),
            _ => Some(Stall::Slow),
        }
    }
}
