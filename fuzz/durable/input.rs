//! Turns the fuzzer's bytes into choices.

/// Takes numbers and byte strings from the input. At its end, it gives zeros. Most choices are harmless, so inputs get
/// past the first check.
pub struct Input<'b> {
    rest: &'b [u8],
    /// Bytes from this one on make a rare choice.
    rare_from: u8,
    /// True if a number was drawn that no log and no checkpoint will ever reach.
    pub is_extreme: bool,
}

impl<'b> Input<'b> {
    pub fn new(bytes: &'b [u8]) -> Input<'b> {
        let mut input = Input { rest: bytes, rare_from: 0, is_extreme: false };
        input.rare_from = if input.byte().is_multiple_of(2) { 255 } else { 248 };
        input
    }

    pub fn byte(&mut self) -> u8 {
        let (&first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        first
    }

    pub fn below(&mut self, end: u64) -> u64 {
        u64::from(self.byte()) % end
    }

    pub fn is_rare(&mut self) -> bool {
        self.byte() >= self.rare_from
    }

    /// Takes at most this many bytes.
    pub fn bytes(&mut self, bytes_max: usize) -> &'b [u8] {
        let len = (usize::from(self.byte()) % (bytes_max + 1)).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    /// Takes any number: small numbers, numbers near a power of two, and the largest.
    pub fn number(&mut self) -> u64 {
        let (shift, low) = (self.byte() % 64, u64::from(self.byte()));
        match self.byte() % 4 {
            0 => low,
            1 => (1 << shift) + low,
            2 => (1u64 << shift).wrapping_sub(low),
            _ => u64::MAX - low,
        }
    }

    /// Takes usually this number, rarely any other.
    pub fn mostly(&mut self, usual: u64) -> u64 {
        if self.is_rare() { self.number() } else { usual }
    }

    /// Takes zero, a small number or, rarely, a number close to the end of all numbers.
    pub fn position(&mut self) -> u64 {
        match self.byte() % 16 {
            0..12 => 0,
            12..14 => u64::from(self.byte()) << 3,
            14 => {
                self.is_extreme = true;
                u64::MAX - (u64::from(self.byte()) << 2)
            }
            _ => {
                self.is_extreme = true;
                (1 << 62) - u64::from(self.byte())
            }
        }
    }
}
