//! The records that a transaction has accessed, and what it is going to write to them.
//!
//! Invariants:
//! - A record has one entry.
//! - `Entry::write` names the last write of its record, and `Write::previous` the write before.

use super::record::SingleRecord;
use crate::cc::Target;
use crate::memory::{Charge, Memory, OutOfMemory};
use crate::record::{Record, Version};
use std::cell::Cell;
use std::sync::Arc;

/// No write, or no entry.
const NONE: u32 = u32::MAX;
/// Initial room, and room that is kept for the next transaction.
const ENTRIES_FIRST: usize = 16;
const ENTRIES_KEPT: usize = 4096;
/// The number of places of the hash table for each entry when it is made, or grows.
const PLACES_PER_ENTRY: usize = 8;

/// A record that the transaction has accessed.
#[derive(Clone, Copy, Debug)]
pub(in crate::cc) struct Entry {
    pub(in crate::cc) record: *const Record,
    /// When the value that the transaction has read was committed; `None`: it has read nothing.
    pub(in crate::cc) seen: Option<u64>,
    /// What the transaction has read holds as of this time, if the scheme notes that.
    pub(in crate::cc) until: u64,
    /// How the transaction has locked the record.
    pub(in crate::cc) held: Held,
    /// The path by which the transaction has come to the record, if the scheme notes that; otherwise 0.
    pub(in crate::cc) path: u16,
    write: u32,
}

/// How a transaction has locked a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Not,
    Shared,
    Alone,
}

/// A write, which is made when the transaction commits.
#[derive(Clone, Copy, Debug)]
pub(in crate::cc) struct Write {
    entry: u32,
    previous: u32,
    /// The value; `None`: the record is removed.
    pub(in crate::cc) new: Option<*mut Version>,
    pub(in crate::cc) target: Target,
    /// The transaction has made the record.
    pub(in crate::cc) is_new: bool,
}

/// The accesses of a transaction. One per transaction, reused.
#[derive(Debug)]
pub(in crate::cc) struct Accesses {
    pub(in crate::cc) entries: Vec<Entry>,
    pub(in crate::cc) writes: Vec<Write>,
    /// A hash table of the numbers of all entries. A number is in the first free place from the hash of its record's
    /// address on. The length is a power of two, and at most half of the places are full. Empty until there is room
    /// for an entry.
    table: Vec<u32>,
    /// The record that was last looked for, and its entry, or `NONE`. An operation asks several times.
    last: Cell<(*const Record, u32)>,
    /// The room in all of these.
    charge: Charge,
}
// SAFETY: the pointers lead to records, values and indexes of the database, under the rules of the scheme.
unsafe impl Send for Accesses {}

impl Accesses {
    /// Makes an empty set. The room for accesses is charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> Accesses {
        let charge = Charge::new(memory);
        let last = Cell::new((std::ptr::null(), NONE));
        Accesses { entries: Vec::new(), writes: Vec::new(), table: Vec::new(), last, charge }
    }

    /// Returns the number of the record's entry.
    #[inline(always)]
    pub(in crate::cc) fn find(&self, record: *const Record) -> Option<usize> {
        let (last, number) = self.last.get();
        let number = if std::ptr::eq(last, record) { number } else { self.look_for(record) };
        (number != NONE).then_some(number as usize)
    }

    /// Returns the number of the entry of a record that was not the last to be looked for.
    #[inline(always)]
    fn look_for(&self, record: *const Record) -> u32 {
        debug_assert!(
            self.entries.is_empty() || !self.table.is_empty(),
            "the scheme finds its entries by itself"
        );
        let number = if self.table.is_empty() { NONE } else { self.table[self.place_of(record)] };
        self.last.set((record, number));
        number
    }

    /// Returns the number of the record's entry. Makes an entry if there is none.
    pub(in crate::cc) fn enter(&mut self, record: *const Record) -> Result<usize, OutOfMemory> {
        if let Some(number) = self.found_last(record) {
            return Ok(number);
        }
        self.reserve_entry()?;
        Ok(self.enter_in_table(record))
    }

    /// Enters a record, as `enter` does, with room reserved.
    #[inline(always)]
    pub(super) fn enter_reserved(&mut self, record: *const Record) -> usize {
        self.found_last(record).unwrap_or_else(|| self.enter_in_table(record))
    }

    /// Returns the number of the record's entry, if the record was the last to be looked for.
    #[inline(always)]
    fn found_last(&self, record: *const Record) -> Option<usize> {
        let (last, number) = self.last.get();
        (std::ptr::eq(last, record) && number != NONE).then_some(number as usize)
    }

    #[inline(always)]
    fn enter_in_table(&mut self, record: *const Record) -> usize {
        let place = self.place_of(record);
        let number = self.table[place];
        if number != NONE {
            self.last.set((record, number));
            return number as usize;
        }
        self.table[place] = self.entries.len() as u32;
        self.add(record)
    }

    /// Adds an entry for a record that has none, for a scheme that finds entries by itself. Room for it has been
    /// reserved.
    #[inline(always)]
    pub(in crate::cc) fn add(&mut self, record: *const Record) -> usize {
        let number = self.entries.len();
        debug_assert!(number < self.entries.capacity());
        self.entries.push(Entry { record, seen: None, until: 0, held: Held::Not, path: 0, write: NONE });
        self.last.set((record, number as u32));
        number
    }

    /// Returns the place in the table of the record's entry, or the free place for the next entry. There are free
    /// places.
    #[inline(always)]
    fn place_of(&self, record: *const Record) -> usize {
        const FACTOR: usize = 0x9e37_79b9_7f4a_7c15;
        let mask = self.table.len() - 1;
        let mut place = ((record.addr() / size_of::<SingleRecord>()).wrapping_mul(FACTOR) >> 32) & mask;
        loop {
            let number = self.table[place];
            if number == NONE || std::ptr::eq(self.entries[number as usize].record, record) {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// Makes room for one more entry.
    fn reserve_entry(&mut self) -> Result<(), OutOfMemory> {
        let number = self.entries.len();
        if number == self.entries.capacity() {
            self.charge.grow(&mut self.entries, 1, ENTRIES_FIRST)?;
        }
        if 2 * number >= self.table.len() { self.grow_table() } else { Ok(()) }
    }

    #[cold]
    fn grow_table(&mut self) -> Result<(), OutOfMemory> {
        let places = (PLACES_PER_ENTRY * self.entries.len().max(ENTRIES_FIRST)).next_power_of_two();
        if places > self.table.capacity() {
            self.charge.grow(&mut self.table, places, places)?;
        }
        self.table.clear();
        self.table.resize(places, NONE);
        for number in 0..self.entries.len() {
            let place = self.place_of(self.entries[number].record);
            self.table[place] = number as u32;
        }
        Ok(())
    }

    /// Makes room for one more write, and an entry for it.
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.writes.len() == self.writes.capacity() {
            self.charge.grow(&mut self.writes, 1, ENTRIES_FIRST)?;
        }
        self.reserve_entry()
    }

    /// Makes the same room as `reserve`, for a scheme that finds entries by itself.
    #[inline(always)]
    pub(in crate::cc) fn reserve_untabled(&mut self) -> Result<(), OutOfMemory> {
        if self.writes.len() == self.writes.capacity() {
            self.charge.grow(&mut self.writes, 1, ENTRIES_FIRST)?;
        }
        if self.entries.len() == self.entries.capacity() {
            self.charge.grow(&mut self.entries, 1, ENTRIES_FIRST)?;
        }
        Ok(())
    }

    /// Adds a write of the record of this entry. Room for it has been reserved.
    pub(in crate::cc) fn push(
        &mut self,
        entry: usize,
        new: Option<*mut Version>,
        target: &Target,
        is_new: bool,
    ) {
        debug_assert!(self.writes.len() < self.writes.capacity());
        let last = &mut self.entries[entry].write;
        let previous = std::mem::replace(last, self.writes.len() as u32);
        self.writes.push(Write { entry: entry as u32, previous, new, target: *target, is_new });
    }

    /// Takes the last write back.
    pub(in crate::cc) fn pop(&mut self) -> Option<Write> {
        let write = self.writes.pop()?;
        self.entries[write.entry as usize].write = write.previous;
        Some(write)
    }

    /// Returns the last write of the record of this entry.
    pub(in crate::cc) fn last_write(&self, entry: usize) -> Option<&Write> {
        self.writes.get(self.entries[entry].write as usize)
    }

    /// Returns the writes that are the last of their records, with these records.
    pub(in crate::cc) fn last_writes(&self) -> impl Iterator<Item = (*const Record, &Write)> {
        let writes = self.writes.iter().zip(0..);
        let is_last = |(write, at): &(&Write, u32)| self.entries[write.entry as usize].write == *at;
        writes.filter(is_last).map(|(write, _)| (self.entries[write.entry as usize].record, write))
    }

    /// Returns how the transaction has locked the record of a write.
    #[inline(always)]
    pub(in crate::cc) fn held(&self, write: &Write) -> Held {
        self.entries[write.entry as usize].held
    }

    /// Returns the number of the entry of a write's record.
    pub(super) fn entry_of(&self, write: &Write) -> usize {
        write.entry as usize
    }

    /// Returns the record of a write.
    pub(super) fn record_of(&self, write: &Write) -> *const Record {
        self.entries[write.entry as usize].record
    }

    /// Forgets the writes. The last write of each record has been made; the values of the others go to `drop`.
    /// Everything is cleared next.
    pub(super) fn drain_writes(&mut self, drop: impl FnMut(*mut Version)) {
        let entries = &self.entries;
        let overwritten = |(write, at): (Write, u32)| {
            if entries[write.entry as usize].write == at { None } else { write.new }
        };
        self.writes.drain(..).zip(0..).filter_map(overwritten).for_each(drop);
    }

    /// Forgets everything. The writes have been made or taken back.
    pub(super) fn clear(&mut self) {
        debug_assert!(self.writes.is_empty());
        self.last.set((std::ptr::null(), NONE));
        self.charge.clear(&mut self.entries, ENTRIES_KEPT);
        self.charge.clear(&mut self.writes, ENTRIES_KEPT);
        if !self.table.is_empty() {
            self.charge.clear(&mut self.table, PLACES_PER_ENTRY * ENTRIES_KEPT);
        }
    }
}
