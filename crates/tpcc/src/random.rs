//! The specification's random values: non-uniform numbers (clause 2.1.6), last names made of syllables (4.3.2.3), and
//! texts.

use crate::rng::Rng;
use crate::rows::{Address, Text};
use memchr::memmem::Finder;
use std::sync::LazyLock;

const SYLLABLES: [&[u8]; 10] =
    [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
/// The number of last names.
pub(crate) const NAMES_MAX: u32 = 1000;

/// Returns the last name of a number below 1000.
pub(crate) fn last_name(number: u16) -> Text<16> {
    debug_assert!(u32::from(number) < NAMES_MAX);
    let mut bytes = [0; 16];
    let mut length = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[usize::from(digit)];
        bytes[length..length + syllable.len()].copy_from_slice(syllable);
        length += syllable.len();
    }
    Text::new(&bytes[..length])
}

/// Draws a number from `low` to `high`, both included.
#[inline(always)]
pub(crate) fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    debug_assert!(low <= high);
    low + rng.below(high - low + 1)
}

/// NURand(A, first, last): non-uniform numbers in a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonUniform {
    a: u64,
    c: u64,
    first: u64,
    last: u64,
}

impl NonUniform {
    /// `share` says how many times A + 1 fits into the power of two that covers the range. In the specification it is
    /// 4 (customers and names) or 16 (items). A scaled-down range keeps its share.
    fn new(first: u64, last: u64, share: u64, c: u64) -> Self {
        debug_assert!(first <= last);
        let a = ((last - first + 1).next_power_of_two() / share).max(1) - 1;
        NonUniform { a, c: c & a, first, last }
    }

    #[inline(always)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        let mixed = rng.below(self.a + 1) | between(rng, self.first, self.last);
        (mixed + self.c) % (self.last - self.first + 1) + self.first
    }
}

/// The constants of the non-uniform numbers: C-load and C-run differ as clause 2.1.6.1 requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    name_load: u64,
    name_run: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7063_7470);
        let name_load = rng.below(256);
        let distance = loop {
            match between(&mut rng, 65, 119) {
                96 | 112 => {}
                distance => break distance,
            }
        };
        let name_run = if name_load + distance < 256 { name_load + distance } else { name_load - distance };
        Constants { name_load, name_run, customer: rng.below(1024), item: rng.below(8192) }
    }

    /// The numbers of last names when customers are loaded.
    pub(crate) fn names_loaded(&self, customers: u32) -> NonUniform {
        NonUniform::new(0, u64::from(names(customers)) - 1, 4, self.name_load)
    }
    /// The numbers of last names when customers are looked up.
    pub(crate) fn names(&self, customers: u32) -> NonUniform {
        NonUniform::new(0, u64::from(names(customers)) - 1, 4, self.name_run)
    }
    pub(crate) fn customers(&self, customers: u32) -> NonUniform {
        NonUniform::new(1, u64::from(customers), 4, self.customer)
    }
    pub(crate) fn items(&self, items: u32) -> NonUniform {
        NonUniform::new(1, u64::from(items), 16, self.item)
    }
}

/// The number of last names among the customers of a district: 1,000 of 3,000. The first customers have different
/// names, in order.
pub(crate) fn names(customers: u32) -> u32 {
    customers.div_ceil(3).min(NAMES_MAX)
}

/// Fills bytes with letters and digits.
pub(crate) fn letters(rng: &mut Rng, bytes: &mut [u8]) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab";
    for piece in bytes.chunks_mut(10) {
        let mut bits = rng.next_u64();
        for byte in piece {
            *byte = LETTERS[(bits % 64) as usize];
            bits /= 64;
        }
    }
}

/// Draws digits.
pub(crate) fn digits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| b'0' + rng.below(10) as u8)
}

/// Draws a text of letters and digits, of a length from `low` to N.
pub(crate) fn text<const N: usize>(rng: &mut Rng, low: usize) -> Text<N> {
    let mut bytes = [0; N];
    let length = between(rng, low as u64, N as u64) as usize;
    letters(rng, &mut bytes[..length]);
    Text::new(&bytes[..length])
}

/// The word that one row in ten has somewhere in its data.
pub(crate) const ORIGINAL: &[u8] = b"ORIGINAL";

/// Draws a text of 26 to 50 bytes. One row in ten has `ORIGINAL` in it.
pub(crate) fn data(rng: &mut Rng) -> Text<50> {
    let mut data: Text<50> = text(rng, 26);
    if rng.below(10) == 0 {
        let at = rng.below((data.len() - ORIGINAL.len() + 1) as u64) as usize;
        data.overwrite(at, ORIGINAL);
    }
    data
}

/// Returns true if the data contains `ORIGINAL`. Each line of an order calls this twice.
pub(crate) fn is_original(data: &[u8]) -> bool {
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(ORIGINAL));
    WORD.find(data).is_some()
}

pub(crate) fn address(rng: &mut Rng) -> Address {
    let mut zip = *b"000011111";
    zip[..4].copy_from_slice(&digits::<4>(rng));
    let mut state = [0; 2];
    letters(rng, &mut state);
    Address { street_1: text(rng, 10), street_2: text(rng, 10), city: text(rng, 10), state, zip }
}

/// Draws a tax rate of up to 20 %.
pub(crate) fn tax(rng: &mut Rng) -> u32 {
    rng.below(2001) as u32
}

/// The numbers from 1 to `count` in random order.
pub(crate) fn permutation(rng: &mut Rng, count: u32) -> Vec<u16> {
    let mut numbers: Vec<u16> = (1..=count as u16).collect();
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, rng.below(i as u64 + 1) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_uniform_numbers_have_the_constants_of_the_specification() {
        // Proves that full-size ranges get A = 255, 1023 and 8191, and that C-run is as far from C-load as required.
        for seed in 0..1000 {
            let constants = Constants::new(seed);
            assert_eq!(constants.names(3000).a, 255);
            assert_eq!(constants.customers(3000).a, 1023);
            assert_eq!(constants.items(100_000).a, 8191);
            let distance = constants.name_load.abs_diff(constants.name_run);
            assert!((65..=119).contains(&distance), "seed {seed}: {constants:?}");
            assert!(![96, 112].contains(&distance), "seed {seed}: {constants:?}");
            assert!(constants.name_run < 256, "seed {seed}: {constants:?}");
        }
    }

    #[test]
    fn non_uniform_numbers_stay_in_their_range_and_are_skewed() {
        // Proves the range at every scale, and that some numbers are drawn several times as often as the average
        // number.
        for customers in [1, 2, 7, 60, 3000] {
            let mut rng = Rng::new(1);
            let numbers = Constants::new(1).customers(customers);
            let mut counts = vec![0u32; customers as usize];
            for _ in 0..customers * 100 {
                counts[numbers.draw(&mut rng) as usize - 1] += 1;
            }
            if customers == 3000 {
                assert!(*counts.iter().max().unwrap() > 400, "{:?}", counts.iter().max());
            }
        }
    }

    #[test]
    fn last_names_are_made_of_syllables() {
        // Proves the example of the specification, the longest name, and that no two numbers share a name.
        assert_eq!(last_name(371).as_bytes(), b"PRICALLYOUGHT");
        assert_eq!(last_name(777).as_bytes(), b"CALLYCALLYCALLY");
        let mut names: Vec<_> = (0..1000).map(|number| *last_name(number).padded()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 1000);
    }

    #[test]
    fn one_row_of_ten_is_original() {
        // Proves the share of `ORIGINAL`, that the search finds exactly these texts, and that a permutation has each
        // number once.
        let mut rng = Rng::new(5);
        let mut originals = 0;
        for data in std::iter::repeat_with(|| data(&mut rng)).take(10_000) {
            let is_there = data.as_bytes().windows(ORIGINAL.len()).any(|window| window == ORIGINAL);
            assert_eq!(is_original(data.as_bytes()), is_there);
            originals += u32::from(is_there);
        }
        assert!((900..1100).contains(&originals), "{originals}");
        let mut numbers = permutation(&mut rng, 3000);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=3000));
    }
}
