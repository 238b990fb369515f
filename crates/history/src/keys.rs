//! Numbers the keys densely. Registers come first, in the order of their keys, so a range of keys is a range of
//! numbers. Lists follow.

use crate::model::{History, Key, Op};
use std::ops::Range;

/// The keys of a history, each once.
pub(crate) struct Keys<'h> {
    registers: Side<'h>,
    lists: Side<'h>,
}

/// The sorted numeric and textual keys of one kind of item.
#[derive(Default)]
struct Side<'h> {
    numbers: Vec<u64>,
    /// `direct[n - numbers[0]]` is the place of n. In use if the numbers lie close enough together for a table.
    direct: Vec<u32>,
    texts: Vec<&'h str>,
}

impl<'h> Keys<'h> {
    pub fn of(history: &'h History) -> Self {
        let (mut registers, mut lists) = (Side::default(), Side::default());
        for op in history.transactions().iter().flat_map(|transaction| &transaction.ops) {
            match op {
                Op::Read { key, .. } | Op::Write { key, .. } => registers.add(key),
                Op::Append { key, .. } | Op::List { key, .. } => lists.add(key),
                Op::Scan { rows, .. } => rows.iter().for_each(|(key, _)| registers.add(key)),
            }
        }
        registers.seal();
        lists.seal();
        Self { registers, lists }
    }

    pub fn len(&self) -> usize {
        self.registers.len() + self.lists.len()
    }

    pub fn is_list(&self, id: u32) -> bool {
        id as usize >= self.registers.len()
    }

    pub fn register(&self, key: &Key) -> u32 {
        self.registers.place(key) as u32
    }

    pub fn list(&self, key: &Key) -> u32 {
        (self.registers.len() + self.lists.place(key)) as u32
    }

    /// The registers with keys from `from` to `to`, both included.
    pub fn range(&self, from: &Key, to: &Key) -> Range<u32> {
        let start = self.registers.place(from);
        let end = self.registers.place(to) + usize::from(self.registers.contains(to));
        start as u32..end.max(start) as u32
    }

    pub fn key(&self, id: u32) -> Key {
        let id = id as usize;
        match id.checked_sub(self.registers.len()) {
            None => self.registers.key(id),
            Some(list) => self.lists.key(list),
        }
    }
}

impl<'h> Side<'h> {
    fn add(&mut self, key: &'h Key) {
        match key {
            Key::Number(number) => self.numbers.push(*number),
            Key::Text(text) => self.texts.push(text),
        }
    }

    fn seal(&mut self) {
        let added = self.numbers.len();
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.texts.sort_unstable();
        self.texts.dedup();
        let (Some(&first), Some(&last)) = (self.numbers.first(), self.numbers.last()) else { return };
        if last - first <= 4 * added as u64 {
            self.direct = vec![0; (last - first) as usize + 1];
            for (place, number) in self.numbers.iter().enumerate() {
                self.direct[(number - first) as usize] = place as u32;
            }
        }
    }

    fn len(&self) -> usize {
        self.numbers.len() + self.texts.len()
    }

    /// The place of a key, or the place where the key would be.
    fn place(&self, key: &Key) -> usize {
        match key {
            Key::Number(number) => {
                let offset = number.checked_sub(self.numbers.first().copied().unwrap_or(0));
                let direct = offset.and_then(|offset| self.direct.get(usize::try_from(offset).ok()?));
                match direct {
                    Some(&place) if self.numbers[place as usize] == *number => place as usize,
                    _ => self.numbers.partition_point(|other| other < number),
                }
            }
            Key::Text(text) => self.numbers.len() + self.texts.partition_point(|other| *other < &**text),
        }
    }

    fn contains(&self, key: &Key) -> bool {
        let place = self.place(key);
        place < self.len() && self.key(place) == *key
    }

    fn key(&self, place: usize) -> Key {
        match place.checked_sub(self.numbers.len()) {
            None => Key::Number(self.numbers[place]),
            Some(text) => Key::Text(self.texts[text].into()),
        }
    }
}
