//! [`Charge`]: one transaction's part of the account, for memory that it gets from elsewhere.
//!
//! Invariant: the account counts `bytes` for the owner, from `add` to `give_back` or the drop.

use super::account::{Kind, Memory, OutOfMemory};
use std::sync::Arc;

/// The bytes of one transaction, or of a part of it, in the account. They are given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<Memory>,
    bytes: u64,
}

/// The bytes that each transaction may have at the limit. A transaction that deletes some rows needs less.
const SMALL_BYTES: u64 = 16 << 10;

impl Charge {
    /// Makes a charge of nothing.
    pub fn new(memory: &Arc<Memory>) -> Charge {
        Charge { memory: Arc::clone(memory), bytes: 0 }
    }

    /// Charges the bytes that an open transaction takes by itself.
    pub fn of_transaction(memory: &Arc<Memory>, bytes: usize) -> Result<Charge, OutOfMemory> {
        let bytes = bytes as u64;
        memory.charge_transaction(bytes, false)?;
        Ok(Charge { memory: Arc::clone(memory), bytes })
    }

    /// Counts `bytes` more, or fails and counts nothing.
    pub fn add(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let bytes = bytes as u64;
        self.memory.charge_transaction(bytes, self.bytes + bytes <= SMALL_BYTES)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Counts `bytes` more, whatever the limit is. It is for the little that an operation cannot do without; the
    /// operation is refused where it goes on.
    pub fn add_anyway(&mut self, bytes: usize) {
        self.memory.charge_anyway(Kind::Transactions, bytes as u64);
        self.bytes += bytes as u64;
    }

    /// Counts `bytes` less.
    pub fn give_back(&mut self, bytes: usize) {
        debug_assert!(self.bytes >= bytes as u64, "given back more than there was");
        self.bytes -= bytes as u64;
        self.memory.release(Kind::Transactions, bytes as u64);
    }

    /// Makes room in `list` for at least `more` elements, and counts it. The new capacity is at least twice the old
    /// one, and at least `first` elements.
    #[cold]
    pub fn grow<T>(&mut self, list: &mut Vec<T>, more: usize, first: usize) -> Result<(), OutOfMemory> {
        let before = list.capacity();
        let wanted = (list.len() + more).max(2 * before).max(first);
        // The old and the new memory both exist while the elements move.
        self.add(wanted * size_of::<T>())?;
        list.reserve_exact(wanted - list.len());
        debug_assert_eq!(list.capacity(), wanted);
        self.give_back(before * size_of::<T>());
        Ok(())
    }

    /// Empties `list`, which `grow` has made room in, and keeps room for at most `kept` elements.
    #[inline(always)]
    pub fn clear<T>(&mut self, list: &mut Vec<T>, kept: usize) {
        list.clear();
        if list.capacity() > kept {
            self.shrink(list, kept);
        }
    }

    #[cold]
    fn shrink<T>(&mut self, list: &mut Vec<T>, kept: usize) {
        let before = list.capacity();
        list.shrink_to(kept);
        self.give_back((before - list.capacity()) * size_of::<T>());
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.release(Kind::Transactions, self.bytes);
    }
}
