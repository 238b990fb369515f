//! Text keys made on the stack, so that a lookup allocates nothing.

use braiddb::AsKey;

/// Text of N bytes that stands in for a `String` in a lookup.
#[derive(Clone, Copy)]
pub(crate) struct Text<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Text<N> {
    /// Returns the text, whose bytes are ASCII.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the bytes are ASCII")
    }

    /// Writes a number over the bytes from `at` to `end`, in decimal digits with leading zeros.
    pub(crate) fn set_digits(&mut self, at: usize, end: usize, number: u64) {
        let mut rest = number;
        for byte in self.0[at..end].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        debug_assert_eq!(rest, 0, "the number fits");
    }
}

impl<const N: usize> AsKey<String> for Text<N> {
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        self.as_str().encode_as(last, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braiddb::Key;

    #[test]
    fn it_is_the_key_that_the_string_is() {
        // Proves that text on the stack finds what was stored under the same string.
        let mut text = Text(*b"name ????");
        text.set_digits(5, 9, 42);
        assert_eq!(text.as_str(), "name 0042");
        for last in [true, false] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            text.encode_as(last, &mut a);
            Key::encode(&"name 0042".to_owned(), last, &mut b);
            assert_eq!(a, b);
        }
    }
}
