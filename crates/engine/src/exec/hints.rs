//! What is known of a future before it starts, and who may be open beside whom.
//!
//! Invariants of `Turns`:
//! - The sets of those that are let in are disjoint; `taken` is their union.
//! - Of two that overlap, the one offered first is let in first.
//! - At most `longs_max` long ones are in.
//! - With nobody in, the first of those that wait can be let in: so nobody waits for ever.

use std::collections::VecDeque;

const WORDS: usize = 4;
const BITS: u32 = WORDS as u32 * 64;

/// What a worker should know of a transaction before it starts. A wrong hint costs speed, not
/// correctness.
///
/// ```
/// use braiddb::Hint;
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

    fn overlaps(&self, keys: &[u64; WORDS]) -> bool {
        self.keys.iter().zip(keys).any(|(mine, theirs)| mine & theirs != 0)
    }
}

fn add(to: &mut [u64; WORDS], keys: &[u64; WORDS]) {
    to.iter_mut().zip(keys).for_each(|(to, word)| *to |= word);
}

/// Lets in who overlaps with nobody that is in, or that has come before.
pub(crate) struct Turns<T> {
    taken: [u64; WORDS],
    longs: usize,
    longs_max: usize,
    waiting: VecDeque<(Hint, T)>,
    /// The union of those that wait.
    wanted: [u64; WORDS],
    /// Somebody has left since all that wait were looked at.
    may_go: bool,
}

impl<T> Turns<T> {
    /// With memory for so many that wait.
    pub(crate) fn new(waiting: usize) -> Turns<T> {
        Turns {
            taken: [0; WORDS],
            longs: 0,
            longs_max: 1,
            waiting: VecDeque::with_capacity(waiting),
            wanted: [0; WORDS],
            may_go: false,
        }
    }

    /// Long ones that may be in at once: a quarter of so many places.
    pub(crate) fn set_places(&mut self, places: usize) {
        self.longs_max = (places / 4).max(1);
    }

    /// Those that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Lets one in, which is given back, or has it wait.
    pub(crate) fn offer(&mut self, hint: Hint, one: T) -> Option<T> {
        let has_place = !hint.is_long || self.longs < self.longs_max;
        if has_place && !hint.overlaps(&self.taken) && !hint.overlaps(&self.wanted) {
            self.enter(&hint);
            return Some(one);
        }
        add(&mut self.wanted, &hint.keys);
        self.waiting.push_back((hint, one));
        None
    }

    /// Lets in the first of those that wait and may go.
    pub(crate) fn next(&mut self) -> Option<(Hint, T)> {
        if !std::mem::take(&mut self.may_go) {
            return None;
        }
        let mut ahead = self.taken;
        let has_place = self.longs < self.longs_max;
        let at = self.waiting.iter().position(|(hint, _)| {
            let may_go = (!hint.is_long || has_place) && !hint.overlaps(&ahead);
            add(&mut ahead, &hint.keys);
            may_go
        })?;
        let (hint, one) = self.waiting.remove(at).expect("its position was found");
        self.enter(&hint);
        self.count_wanted();
        self.may_go = true; // perhaps another
        Some((hint, one))
    }

    /// One that was let in has gone.
    pub(crate) fn leave(&mut self, hint: &Hint) {
        debug_assert!(hint.keys.iter().zip(&self.taken).all(|(mine, taken)| mine & !taken == 0));
        self.taken.iter_mut().zip(&hint.keys).for_each(|(taken, mine)| *taken &= !mine);
        self.longs -= usize::from(hint.is_long);
        self.may_go = true;
    }

    /// Forgets those that wait for which `gone` is true.
    pub(crate) fn forget(&mut self, gone: impl Fn(&T) -> bool) {
        self.waiting.retain(|(_, one)| !gone(one));
        self.count_wanted();
        self.may_go = true;
    }

    fn enter(&mut self, hint: &Hint) {
        debug_assert!(!hint.overlaps(&self.taken));
        add(&mut self.taken, &hint.keys);
        self.longs += usize::from(hint.is_long);
        debug_assert!(self.longs <= self.longs_max || !hint.is_long);
    }

    fn count_wanted(&mut self) {
        self.wanted = [0; WORDS];
        self.waiting.iter().for_each(|(hint, _)| add(&mut self.wanted, &hint.keys));
    }
}
