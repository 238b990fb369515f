//! The word of a lock that transactions share: how many transactions share it, and the age of the oldest that has
//! shared it since it was free.
//!
//! Ages are compared on a circle. If two ages lie less than half of the circle apart, the one drawn first is the
//! older. A transaction would have to stay open while 2^41 others begin to be taken for a young one. It would then
//! wait, or abort, where it should not.

/// The number of bits for the number of shares.
const SHARES_BITS: u32 = 20;
/// The number of transactions that can share the lock.
pub(super) const SHARES_MAX: u64 = (1 << SHARES_BITS) - 1;
/// Set if an older transaction waits for the lock.
pub(super) const AWAITED: u64 = 1 << SHARES_BITS;
const AGE_SHIFT: u32 = SHARES_BITS + 1;
/// The bits of an age. The bit above marks a tag.
const AGE_BITS: u32 = u64::BITS - 1 - AGE_SHIFT;

/// Returns how many transactions share the lock.
#[inline(always)]
pub(in crate::cc) fn shares_of(lock: u64) -> u64 {
    lock & SHARES_MAX
}

/// Returns the age of the oldest transaction that has shared the lock.
#[inline(always)]
pub(in crate::cc) fn oldest_of(lock: u64) -> u64 {
    lock >> AGE_SHIFT
}

/// Returns true if the first age was drawn before the second.
#[inline(always)]
pub(in crate::cc) fn is_older(age: u64, than: u64) -> bool {
    const UNUSED: u32 = u64::BITS - AGE_BITS;
    (age.wrapping_sub(than) << UNUSED).cast_signed() < 0
}

/// Returns the word with one more share, for a transaction of this age.
#[inline(always)]
pub(super) fn share(lock: u64, age: u64) -> u64 {
    let is_oldest = shares_of(lock) == 0 || is_older(age, oldest_of(lock));
    let oldest = if is_oldest { age << (u64::BITS - AGE_BITS) >> 1 } else { lock >> AGE_SHIFT << AGE_SHIFT };
    oldest | ((lock & (AWAITED | SHARES_MAX)) + 1)
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// The oldest age is kept, however many share the lock.
    #[test]
    fn oldest_is_kept() {
        let lock = [7, 5, 9].into_iter().fold(0, share);
        assert_eq!((shares_of(lock), oldest_of(lock)), (3, 5));
        assert_eq!(share(lock | AWAITED, 4) & AWAITED, AWAITED);
        let full = share(SHARES_MAX - 1, 0);
        assert_eq!(shares_of(full), SHARES_MAX);
    }

    /// Ages wrap around.
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
