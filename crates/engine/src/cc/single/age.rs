//! The word of a lock that transactions share: how many do, and how old the oldest is that has come since it was free.
//!
//! Ages are compared on a circle: of two that lie less than half of it apart, the one drawn first is the older. (A transaction
//! would have to stay open while 2^41 others begin to be taken for a young one; then it waits, or gives way, where it should not.)

/// How many share the lock.
const SHARES_BITS: u32 = 20;
/// As many as can share it.
pub(super) const SHARES_MAX: u64 = (1 << SHARES_BITS) - 1;
/// An older transaction waits for it.
pub(super) const AWAITED: u64 = 1 << SHARES_BITS;
const AGE_SHIFT: u32 = SHARES_BITS + 1;
/// Above is the mark of a tag.
const AGE_BITS: u32 = u64::BITS - 1 - AGE_SHIFT;

/// How many share the lock.
#[inline(always)]
pub(in crate::cc) fn shares_of(lock: u64) -> u64 {
    lock & SHARES_MAX
}

/// The age of the oldest that has shared it.
#[inline(always)]
pub(in crate::cc) fn oldest_of(lock: u64) -> u64 {
    lock >> AGE_SHIFT
}

/// The first has been drawn before the second.
#[inline(always)]
pub(in crate::cc) fn is_older(age: u64, than: u64) -> bool {
    const UNUSED: u32 = u64::BITS - AGE_BITS;
    (age.wrapping_sub(than) << UNUSED).cast_signed() < 0
}

/// The word with one more share, for a transaction of this age.
#[inline(always)]
pub(super) fn share(lock: u64, age: u64) -> u64 {
    let is_oldest = shares_of(lock) == 0 || is_older(age, oldest_of(lock));
    let oldest = if is_oldest { age << (u64::BITS - AGE_BITS) >> 1 } else { lock >> AGE_SHIFT << AGE_SHIFT };
    oldest | ((lock & (AWAITED | SHARES_MAX)) + 1)
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// The oldest is kept, however many share the lock.
    #[test]
    fn oldest_is_kept() {
        let lock = [7, 5, 9].into_iter().fold(0, share);
        assert_eq!((shares_of(lock), oldest_of(lock)), (3, 5));
        assert_eq!(share(lock | AWAITED, 4) & AWAITED, AWAITED);
        let full = share(SHARES_MAX - 1, 0);
        assert_eq!(shares_of(full), SHARES_MAX);
    }

    /// Ages go round.
    #[test]
    fn ages_go_round() {
        let last = (1 << AGE_BITS) - 1;
        assert!(is_older(last, last + 1) && !is_older(last + 1, last) && !is_older(last, last));
        let lock = share(share(0, last + 3), last);
        assert_eq!(oldest_of(lock), last);
        assert!(lock >> (u64::BITS - 1) == 0, "it is no tag");
        assert!(is_older(oldest_of(lock), last + 1));
    }
}
