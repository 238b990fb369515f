//! A number that stands for what a terminal would show. It uses everything that a transaction computes, so no
//! computation is left out.

/// Takes numbers and texts.
#[derive(Default)]
pub(crate) struct Digest(u64);

impl Digest {
    #[inline(always)]
    pub(crate) fn add(&mut self, number: u64) -> &mut Self {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self
    }

    /// Takes the text's length and its first bytes.
    #[inline(always)]
    pub(crate) fn add_text(&mut self, text: &[u8]) -> &mut Self {
        let head = text.first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head));
        self.add(text.len() as u64 ^ head)
    }

    pub(crate) fn value(&self) -> u64 {
        self.0
    }
}
