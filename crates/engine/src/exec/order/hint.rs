//! What is known of a future before it starts.

const WORDS: usize = 4;
pub(crate) const BITS: usize = WORDS * 64;

/// What a worker should know of a transaction before it starts. A wrong hint costs speed, not
/// correctness.
///
/// ```
/// use braiddb::worker::Hint;
///
/// let transfer = Hint::default().touches(17).touches(4);
/// let report = Hint::default().long();
/// # assert_ne!(transfer, report);
/// ```
///
/// A transaction keeps its turn until it ends. So one with a hint must not wait for another one with a hint, by awaiting
/// its handle, say: that one may be waiting for its turn, of keys that share a bit of the set or of a place for long ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a hint is changed by value"]
pub struct Hint {
    keys: [u64; WORDS],
    is_long: bool,
}

impl Hint {
    /// Adds a key that transactions conflict on: two that share one are not open together on one worker, but run in
    /// the order in which they came. Any number that tells what conflicts from what does not will do, a warehouse's
    /// or an account's. It is a set of 256 bits by hash: a few dozen keys at most, or it overlaps with all others.
    pub fn touches(mut self, key: u64) -> Hint {
        // The upper bits of a product by an odd number depend on all of the factor's.
        let bit = (key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS.ilog2())) as usize;
        self.keys[bit / 64] |= 1 << (bit % 64);
        self
    }

    /// Puts the transaction into the class of long ones, a quarter of a worker's places at most: short ones are not
    /// held up behind it.
    pub fn long(mut self) -> Hint {
        self.is_long = true;
        self
    }

    /// It is one of the long ones.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long
    }

    /// A number by which equal sets of keys find the same worker; `None` where there is no key.
    pub(crate) fn home(&self) -> Option<usize> {
        let mixed = self
            .keys
            .iter()
            .fold(0_u64, |all, word| (all ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        (self.keys != [0; WORDS]).then_some((mixed >> 32) as usize)
    }

    /// The bits of its keys, ascending.
    pub(crate) fn bits(self) -> impl Iterator<Item = usize> {
        self.keys.into_iter().enumerate().flat_map(|(word, keys)| {
            let rest = |keys: &u64| Some(keys & (keys - 1)).filter(|rest| *rest != 0);
            let ones = std::iter::successors(Some(keys).filter(|keys| *keys != 0), rest);
            ones.map(move |ones| word * 64 + ones.trailing_zeros() as usize)
        })
    }
}
