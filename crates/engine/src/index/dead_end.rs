//! The dead ends of an index. A dead end is a range of keys at the beginning or the end of the index that are all
//! deleted, and that exist only for old transactions.
//!
//! A queue beside an old transaction has a dead end: each row that was taken and that the old transaction could read
//! stays, deleted. A walk for a transaction that began later than all these deletions skips the dead keys at its start.
//!
//! # Steps
//! 1. *Claim.* A transaction that has met many dead keys goes through them, and claims that all keys before a bound are
//!    dead. An operation that brings such a key to life from then on finds the claim, or is over when the next step is
//!    made.
//! 2. *Prove.* When all operations that were in flight at the claim are over, a transaction goes through these keys
//!    again. If all are still dead and the claim stands, walks that read as of the latest deletion or later skip them.
//! 3. *Shrink.* An operation that inserts a key, or writes a value over its deletion, ends the claim of that key. No
//!    walk skips the key from then on. The operation's transaction commits later. A transaction that sees the value
//!    therefore began after that, and finds the key.
//!
//! # Ranges that were read
//! A walk that skips leaves a mark, as it would in each node that it skips. The mark has the end's number in place of
//! the node's, and the end's version, which changes when the end shrinks. When a transaction that has skipped a key
//! commits, it therefore finds out that the key may be there, or else the transaction that brings the key finds the
//! stamp left here.
//!
//! # Invariants, whenever the lock is free
//! - `reach` is the first slice of one of two bounds, the claim's and that of the skipped keys, whichever is farther.
//! - All keys before the bound of the skipped keys are dead. The exceptions are keys whose operation has not shrunk the
//!   end yet; it does so before its transaction commits.

use super::{Key, Mark, slice_of};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use std::ops::Bound;

/// The longest bound in bytes.
pub const BOUND_BYTES_MAX: usize = 64;
/// The numbers of the two ends in marks, in place of a node's number: the beginning and the end.
const NODES: [u32; 2] = [u32::MAX - 1, u32::MAX];

/// Both ends of an index.
#[derive(Debug)]
pub struct DeadEnds([DeadEnd; 2]);

/// One end of an index.
#[derive(Debug)]
pub struct DeadEnd {
    is_reverse: bool,
    /// Operations that bring keys up to this slice to life have to look at the rest.
    reach: AtomicU64,
    /// The same bound over everything that was ever skipped: the keys that `stamp` is about.
    skipped: AtomicU64,
    is_skipping: AtomicBool,
    version: AtomicU64,
    /// The latest commit of a transaction that has skipped keys here.
    stamp: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    skip: Option<Skip>,
    claim: Option<Claim>,
    claims: u64,
}

/// Walks that read as of `as_of` or later skip the keys before the bound.
#[derive(Debug)]
struct Skip {
    bound: Vec<u8>,
    as_of: u64,
}

/// All keys before the bound were dead at this moment of the epochs.
#[derive(Debug)]
struct Claim {
    number: u64,
    bound: Vec<u8>,
    moment: u64,
}

/// The next step for a transaction that has met dead keys.
#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    /// Nothing: there is a claim that cannot be proven yet.
    Nothing,
    /// Go through the keys from this bound on, and claim.
    Claim { from: Option<Vec<u8>> },
    /// Go through the keys from `from` on and before `to`, and prove the claim of this number.
    Prove { number: u64, from: Option<Vec<u8>>, to: Vec<u8> },
}

impl Default for DeadEnds {
    fn default() -> Self {
        DeadEnds([false, true].map(DeadEnd::new))
    }
}

impl DeadEnds {
    /// Returns the end at which walks in this direction begin.
    #[inline(always)]
    pub fn of(&self, is_reverse: bool) -> &DeadEnd {
        &self.0[usize::from(is_reverse)]
    }

    /// Returns the end that this mark is about, if the mark is about an end.
    #[inline(always)]
    pub(super) fn marked(&self, mark: &Mark) -> Option<&DeadEnd> {
        (mark.node >= NODES[0]).then(|| self.of(mark.node == NODES[1]))
    }

    /// Tells both ends that an operation has brought this key to life.
    #[inline(always)]
    pub(super) fn came(&self, key: &Key) {
        for end in &self.0 {
            if end.is_within(&end.reach, key) {
                end.shrink(key);
            }
        }
    }

    /// Returns the latest commit of a transaction that may have skipped this key.
    pub(super) fn stamp_of(&self, key: &Key) -> u64 {
        let skipped = self.0.iter().filter(|end| end.is_within(&end.skipped, key));
        skipped.map(|end| end.stamp.load(Ordering::Acquire)).max().unwrap_or(0)
    }
}

impl DeadEnd {
    fn new(is_reverse: bool) -> DeadEnd {
        let none = if is_reverse { u64::MAX } else { 0 };
        DeadEnd {
            is_reverse,
            reach: AtomicU64::new(none),
            skipped: AtomicU64::new(none),
            is_skipping: AtomicBool::new(false),
            version: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    #[inline(always)]
    fn is_within(&self, slice: &AtomicU64, key: &Key) -> bool {
        // Relaxed: an operation that does not yet see a claim is in flight at the claim's moment.
        let slice = slice.load(Ordering::Relaxed);
        if self.is_reverse { key.slice >= slice } else { key.slice <= slice }
    }

    fn is_before(&self, key: &[u8], bound: &[u8]) -> bool {
        if self.is_reverse { key > bound } else { key < bound }
    }

    /// Returns the bound behind which walks begin.
    #[cfg(test)]
    pub fn bound(&self) -> Option<Vec<u8>> {
        lock(&self.state).skip.as_ref().map(|skip| skip.bound.clone())
    }

    /// Returns whether walks skip keys here.
    #[inline(always)]
    pub(super) fn is_skipping(&self) -> bool {
        self.is_skipping.load(Ordering::Relaxed)
    }

    /// Finds the key at which a walk from `from`, as of this time, begins instead. Writes the key to `bound`, and
    /// returns its length and the mark to leave. Returns `None` if the walk skips nothing.
    pub(super) fn skip(
        &self,
        from: Bound<&Key>,
        as_of: u64,
        bound: &mut [u8; BOUND_BYTES_MAX],
    ) -> Option<(usize, Mark)> {
        let state = lock(&self.state);
        let skip = state.skip.as_ref().filter(|skip| skip.as_of <= as_of)?;
        let skips = match from {
            Bound::Included(key) | Bound::Excluded(key) => {
                self.is_before(key.bytes(&mut [0; 8]), &skip.bound)
            }
            Bound::Unbounded => true,
        };
        bound[..skip.bound.len()].copy_from_slice(&skip.bound);
        let mark = Mark { node: NODES[usize::from(self.is_reverse)], head: self.version() };
        skips.then_some((skip.bound.len(), mark))
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns whether every key that the walk of this mark skipped is still dead.
    pub(super) fn is_as_marked(&self, mark: &Mark) -> bool {
        self.version() == mark.head
    }

    /// Raises the stamp, like [`Index::raise_stamp`](super::Index::raise_stamp).
    pub(super) fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        if self.is_as_marked(mark) {
            self.stamp.fetch_max(stamp, Ordering::AcqRel);
        }
    }

    /// Returns the next step. `is_past` says whether a moment of the epochs is past: see
    /// [`Epochs::is_past`](crate::epoch::Epochs::is_past).
    pub fn task(&self, is_past: impl FnOnce(u64) -> bool) -> Task {
        let state = lock(&self.state);
        let from = state.skip.as_ref().map(|skip| skip.bound.clone());
        match &state.claim {
            None => Task::Claim { from },
            Some(claim) if is_past(claim.moment) => {
                Task::Prove { number: claim.number, from, to: claim.bound.clone() }
            }
            Some(_) => Task::Nothing,
        }
    }

    /// Claims that the keys before this bound are dead. `moment` reads the epochs' moment. It is called when others can
    /// already find the claim.
    pub fn claim(&self, bound: Vec<u8>, moment: impl FnOnce() -> u64) {
        let mut state = lock(&self.state);
        if state.claim.is_some() || bound.len() > BOUND_BYTES_MAX {
            return;
        }
        state.claims += 1;
        let number = state.claims;
        self.reach.store(slice_of(&bound), Ordering::Relaxed);
        state.claim = Some(Claim { number, bound, moment: moment() });
    }

    /// Proves the claim of this number. The keys before its bound are dead, and the latest deletion was at `as_of`, or
    /// earlier than those of the keys already skipped. If the claim stands, walks skip the keys from now on.
    pub fn prove(&self, number: u64, as_of: u64) {
        let mut state = lock(&self.state);
        let Some(claim) = state.claim.take_if(|claim| claim.number == number) else { return };
        let before = state.skip.as_ref().map_or(0, |skip| skip.as_of);
        let slice = slice_of(&claim.bound);
        match self.is_reverse {
            true => self.skipped.fetch_min(slice, Ordering::AcqRel),
            false => self.skipped.fetch_max(slice, Ordering::AcqRel),
        };
        state.skip = Some(Skip { bound: claim.bound, as_of: as_of.max(before) });
        self.is_skipping.store(true, Ordering::Release);
    }

    /// Gives up the claim of this number, which does not hold.
    pub fn give_up(&self, number: u64) {
        let mut state = lock(&self.state);
        state.claim.take_if(|claim| claim.number == number);
        self.set_reach(&state);
    }

    /// Shrinks the end before this key, which is alive, or will be when its transaction commits.
    #[cold]
    #[inline(never)]
    fn shrink(&self, key: &Key) {
        let (mut state, mut short) = (lock(&self.state), [0; 8]);
        let key = key.bytes(&mut short);
        state.claim.take_if(|claim| self.is_before(key, &claim.bound));
        if state.skip.as_ref().is_some_and(|skip| self.is_before(key, &skip.bound)) {
            state.skip.take_if(|_| key.len() > BOUND_BYTES_MAX);
            if let Some(skip) = &mut state.skip {
                skip.bound.clear();
                skip.bound.extend_from_slice(key);
            }
            self.is_skipping.store(state.skip.is_some(), Ordering::Release);
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        self.set_reach(&state);
    }

    fn set_reach(&self, state: &State) {
        let bounds =
            [state.claim.as_ref().map(|claim| &claim.bound), state.skip.as_ref().map(|skip| &skip.bound)];
        let slices = bounds.into_iter().flatten().map(|bound| slice_of(bound));
        let reach = if self.is_reverse { slices.min() } else { slices.max() };
        let none = if self.is_reverse { u64::MAX } else { 0 };
        self.reach.store(reach.unwrap_or(none), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes)
    }

    /// Returns the key at which a walk begins, and its mark.
    fn skip(end: &DeadEnd, from: Bound<&Key>, as_of: u64) -> Option<(Vec<u8>, Mark)> {
        let mut bound = [0; BOUND_BYTES_MAX];
        end.skip(from, as_of, &mut bound).map(|(len, mark)| (bound[..len].to_vec(), mark))
    }

    /// Makes an end at which this bound has been proven, as of time 10.
    fn proven(is_reverse: bool, bound: &[u8]) -> DeadEnds {
        let ends = DeadEnds::default();
        let end = ends.of(is_reverse);
        assert_eq!(end.task(|_| true), Task::Claim { from: None });
        end.claim(bound.to_vec(), || 7);
        assert_eq!(end.task(|moment| moment != 7), Task::Nothing);
        assert!(skip(end, Bound::Unbounded, 10).is_none(), "only claimed");
        assert_eq!(end.task(|_| true), Task::Prove { number: 1, from: None, to: bound.to_vec() });
        end.prove(1, 10);
        ends
    }

    /// Proves that walks that read as of the latest deletion or later skip, if they would begin before the bound.
    #[test]
    fn walks_skip() {
        for (is_reverse, before, behind) in [(false, b"c", b"x"), (true, b"x", b"c")] {
            let ends = proven(is_reverse, b"m");
            let end = ends.of(is_reverse);
            assert!(skip(end, Bound::Unbounded, 9).is_none());
            let [before, behind, bound] = [before, behind, b"m"].map(|bytes| key(bytes));
            for as_of in [10, 11] {
                let at = |from| skip(end, from, as_of).map(|(bound, _)| bound);
                assert_eq!(at(Bound::Unbounded), Some(b"m".to_vec()));
                assert_eq!(at(Bound::Included(&before)), Some(b"m".to_vec()));
                assert_eq!(at(Bound::Excluded(&behind)), None);
                assert_eq!(at(Bound::Included(&bound)), None);
            }
            assert!(!ends.of(!is_reverse).is_skipping());
        }
    }

    /// Proves that a key that comes to life is not skipped, that marks say so, that keys before it are still skipped,
    /// and that keys behind the bound change nothing.
    #[test]
    fn ends_shrink() {
        let ends = proven(false, b"m");
        let end = ends.of(false);
        let (_, mark) = skip(end, Bound::Unbounded, 10).expect("proven");
        ends.came(&key(b"m"));
        ends.came(&key(b"x"));
        assert!(ends.marked(&mark).expect("an end's").is_as_marked(&mark));
        ends.came(&key(b"k"));
        assert!(!end.is_as_marked(&mark));
        assert_eq!(skip(end, Bound::Unbounded, 10).map(|(bound, _)| bound), Some(b"k".to_vec()));
        ends.came(&key(&[b'a'; BOUND_BYTES_MAX + 1]));
        assert!(skip(end, Bound::Unbounded, 10).is_none() && !end.is_skipping());
    }

    /// Proves that a claim does not stand if one of its keys has come to life, and that the proof of an earlier claim
    /// does not prove a later one.
    #[test]
    fn claims_end() {
        let ends = proven(false, b"c");
        let end = ends.of(false);
        end.claim(b"m".to_vec(), || 8);
        ends.came(&key(b"k"));
        end.prove(2, 20);
        assert_eq!(skip(end, Bound::Unbounded, 20).map(|(bound, _)| bound), Some(b"c".to_vec()));
        end.claim(b"m".to_vec(), || 9);
        end.prove(2, 20);
        assert_eq!(end.task(|_| false), Task::Nothing, "the third claim stands");
        end.give_up(3);
        assert_eq!(end.task(|_| false), Task::Claim { from: Some(b"c".to_vec()) });
        assert_eq!(skip(end, Bound::Unbounded, 10).map(|(bound, _)| bound), Some(b"c".to_vec()));
    }

    /// Proves that the stamp of the transactions that have skipped a key is found for that key, even if the key is no
    /// longer skipped, and for no other key; and that a mark older than a shrinking leaves no stamp.
    #[test]
    fn stamps() {
        let ends = proven(false, b"m");
        let end = ends.of(false);
        let (_, mark) = skip(end, Bound::Unbounded, 10).expect("proven");
        end.raise_stamp(&mark, 30);
        ends.came(&key(b"b"));
        assert_eq!([b"a", b"k", b"x"].map(|bytes| ends.stamp_of(&key(bytes))), [30, 30, 0]);
        end.raise_stamp(&mark, 40);
        assert_eq!(ends.stamp_of(&key(b"a")), 30);
    }
}
