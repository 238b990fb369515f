//! What a terminal would show, as a number: so that nothing that a transaction computes is left out.

/// Takes in numbers and texts.
#[derive(Default)]
pub(crate) struct Digest(u64);

impl Digest {
    #[inline(always)]
    pub(crate) fn add(&mut self, number: u64) -> &mut Self {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self
    }

    /// Takes in the text's length and what is in its first bytes.
    #[inline(always)]
    pub(crate) fn add_text(&mut self, text: &[u8]) -> &mut Self {
        let head = text.first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head));
        self.add(text.len() as u64 ^ head)
    }

    pub(crate) fn value(&self) -> u64 {
        self.0
    }
}
