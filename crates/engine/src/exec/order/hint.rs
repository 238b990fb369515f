//! Hints: what is known of a future before it starts.

const WORDS: usize = 4;
pub(crate) const BITS: usize = WORDS * 64;

/// What a worker should know of a transaction before it starts. A wrong hint costs speed, not correctness.
///
/// ```
/// use braiddb::worker::Hint;
///
/// let transfer = Hint::default().touches(17).touches(4);
/// let report = Hint::default().long();
/// # assert_ne!(transfer, report);
/// ```
///
/// A transaction keeps its turn until it ends. Therefore a transaction with a hint must not wait for another
/// transaction with a hint, for example by awaiting its handle. The other transaction may be waiting for its own turn,
/// because the two share a bit of the key set or because all places for long transactions are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a hint is changed by value"]
pub struct Hint {
    keys: [u64; WORDS],
    is_long: bool,
}

impl Hint {
    /// Adds a key that transactions conflict on. Two transactions that share a key are not open together on one worker.
    /// They run in the order in which they came. The key is any number that tells conflicting transactions apart from
    /// others, for example a warehouse's or an account's. The keys are a set of 256 bits by hash: with more than a few
    /// dozen keys, the set overlaps with all others.
    pub fn touches(mut self, key: u64) -> Hint {
        // The upper bits of a product by an odd number depend on all bits of the factor.
        let bit = (key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS.ilog2())) as usize;
        self.keys[bit / 64] |= 1 << (bit % 64);
        self
    }

    /// Puts the transaction into the class of long ones, which get at most a quarter of a worker's places. Short
    /// transactions do not have to wait behind it.
    pub fn long(mut self) -> Hint {
        self.is_long = true;
        self
    }

    /// Returns true for a long transaction.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long
    }

    /// Returns a number by which equal sets of keys find the same worker. `None` if there is no key.
    pub(crate) fn home(&self) -> Option<usize> {
        let mixed = self
            .keys
            .iter()
            .fold(0_u64, |all, word| (all ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        (self.keys != [0; WORDS]).then_some((mixed >> 32) as usize)
    }

    /// Returns the bits of the keys, ascending.
    pub(crate) fn bits(self) -> impl Iterator<Item = usize> {
        self.keys.into_iter().enumerate().flat_map(|(word, keys)| {
            let rest = |keys: &u64| Some(keys & (keys - 1)).filter(|rest| *rest != 0);
            let ones = std::iter::successors(Some(keys).filter(|keys| *keys != 0), rest);
            ones.map(move |ones| word * 64 + ones.trailing_zeros() as usize)
        })
    }
}
