//! The encoded keys of a block's rows, in ascending order.

use super::ends::Ends;
use std::cmp::Ordering;

/// Keys of eight bytes as numbers that sort in the same way, other keys one after another.
#[derive(Debug)]
pub(super) enum Keys {
    Words(Vec<u64>),
    Bytes {
        /// The end of each key in `bytes`.
        ends: Ends,
        bytes: Vec<u8>,
    },
}

impl Keys {
    pub(super) fn new(are_words: bool) -> Keys {
        match are_words {
            true => Keys::Words(Vec::new()),
            false => Keys::Bytes { ends: Ends::default(), bytes: Vec::new() },
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Keys::Words(words) => words.len(),
            Keys::Bytes { ends, .. } => ends.len(),
        }
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        match self {
            Keys::Words(words) => words.push(word(key)),
            Keys::Bytes { ends, bytes } => {
                bytes.extend_from_slice(key);
                ends.push(key.len());
            }
        }
    }

    /// Returns the key of a row. `buffer` holds it if it is a number.
    pub(super) fn get<'k>(&'k self, row: usize, buffer: &'k mut [u8; 8]) -> &'k [u8] {
        match self {
            Keys::Words(words) => {
                *buffer = words[row].to_be_bytes();
                buffer
            }
            Keys::Bytes { ends, bytes } => &bytes[ends.span(row)],
        }
    }

    /// Returns how many keys are less than this one.
    pub(super) fn below(&self, key: &[u8]) -> usize {
        match self {
            Keys::Words(words) if key.len() == 8 => words.partition_point(|&other| other < word(key)),
            Keys::Words(words) => words.partition_point(|other| other.to_be_bytes().as_slice() < key),
            Keys::Bytes { ends, bytes } => {
                let (mut from, mut to) = (0, ends.len());
                while from < to {
                    let middle = from.midpoint(to);
                    match bytes[ends.span(middle)].cmp(key) {
                        Ordering::Less => from = middle + 1,
                        _ => to = middle,
                    }
                }
                from
            }
        }
    }

    /// Returns true if there is such a row and this is its key.
    pub(super) fn is(&self, row: usize, key: &[u8]) -> bool {
        row < self.len() && self.get(row, &mut [0; 8]) == key
    }

    pub(super) fn clear(&mut self) {
        match self {
            Keys::Words(words) => words.clear(),
            Keys::Bytes { ends, bytes } => {
                ends.clear();
                bytes.clear();
            }
        }
    }

    /// Frees unused room. Returns the number of bytes that are left.
    pub(super) fn shrink(&mut self) -> usize {
        match self {
            Keys::Words(words) => {
                words.shrink_to_fit();
                words.capacity() * size_of::<u64>()
            }
            Keys::Bytes { ends, bytes } => {
                bytes.shrink_to_fit();
                ends.shrink() + bytes.capacity()
            }
        }
    }
}

fn word(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("a table's keys have eight bytes, or it is no such table"))
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;

    /// Proves that both forms keep and find keys in the same way.
    #[test]
    fn both_forms() {
        let numbers = [3u64, 5, 1 << 40, u64::MAX];
        for are_words in [true, false] {
            let mut keys = Keys::new(are_words);
            numbers.iter().for_each(|number| keys.push(&number.to_be_bytes()));
            for (row, number) in numbers.iter().enumerate() {
                assert_eq!(keys.get(row, &mut [0; 8]), number.to_be_bytes());
                assert_eq!(keys.below(&number.to_be_bytes()), row);
                assert!(keys.is(row, &number.to_be_bytes()) && !keys.is(row, &4u64.to_be_bytes()));
            }
            assert_eq!([keys.below(&4u64.to_be_bytes()), keys.below(b""), keys.below(&[0xff; 9])], [1, 0, 4]);
            assert!(!keys.is(4, b""));
            keys.clear();
            assert_eq!((keys.len(), keys.below(b"x")), (0, 0));
        }
    }
}
