//! Choices, all from one seed.

use braiddb::Front;
use braiddb::suspend::Seeded;

/// Returns the kind of front that tables have in a run from this seed.
pub(crate) fn front_of(seed: u64) -> Front {
    *Random::new(seed ^ 0xf0a7).one_of(Front::ALL)
}

/// A source of choices. Equal seeds make equal choices.
#[derive(Clone, Debug)]
pub struct Random(Seeded);

impl Random {
    /// Makes the source of this seed.
    pub fn new(seed: u64) -> Random {
        let mut seeded = Seeded::new(seed ^ 0x5bd1_e995_9d1b_87a5);
        seeded.next_u64(); // separates seeds that are close to each other
        Random(seeded)
    }

    /// Returns any number. It can also seed another source.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is something to choose from");
        self.any() % n
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Returns true this often in a hundred.
    pub fn chance(&mut self, per_cent: u64) -> bool {
        self.below(100) < per_cent
    }

    /// Returns one of `all`.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
