//! The word of a mapping entry. It says where a node's block is, and which record of the chain is the newest.

/// The address of the block (16-byte aligned, below 2^48), the number of the newest record above it, and flags below
/// it. Within an epoch that has seen a word, the same address and record never come back after another. An exchange
/// that succeeds has therefore met the state that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// No word: none has been read.
    pub(super) const NONE: Word = Word(0);
    /// The content does not change any more: the node is being merged into its left neighbor, or has been.
    pub(super) const FROZEN: u64 = 1;
    /// Children are being merged: the node may be neither split nor frozen.
    pub(super) const HELD: u64 = 2;
    /// Marks do not hold: the stamp is about to be handed on.
    pub(super) const BARRED: u64 = 4;

    const ADDRESS: u64 = (1 << 48) - 16;
    const NEWEST_SHIFT: u32 = 48;

    /// Makes the word of a block that has no record yet.
    pub(super) fn of(block: *mut u8, flags: u64) -> Word {
        let address = block.expose_provenance() as u64;
        assert!(address & !Word::ADDRESS == 0, "addresses have 48 bits, and blocks are aligned");
        Word(address | flags)
    }

    #[inline(always)]
    pub(super) fn block(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.0 & Word::ADDRESS) as usize)
    }

    /// Returns the newest record's number, or 0 if there is none.
    #[inline(always)]
    pub(super) fn newest(self) -> u8 {
        (self.0 >> Word::NEWEST_SHIFT) as u8
    }

    /// Returns the word of the same block with a newer record.
    pub(super) fn with_newest(self, record: u8) -> Word {
        debug_assert!(!self.has(Word::FROZEN));
        Word(self.0 & ((1 << Word::NEWEST_SHIFT) - 1) | u64::from(record) << Word::NEWEST_SHIFT)
    }

    #[inline(always)]
    pub(super) fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    pub(super) fn with(self, flag: u64) -> Word {
        Word(self.0 | flag)
    }

    pub(super) fn without(self, flag: u64) -> Word {
        Word(self.0 & !flag)
    }

    pub(super) fn is_same_block(self, other: Word) -> bool {
        (self.0 ^ other.0) & Word::ADDRESS == 0
    }
}
