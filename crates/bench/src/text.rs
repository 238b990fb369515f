//! Text as the commands print it: numbers in groups of digits, and no control characters that a terminal would obey.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns text for a terminal. Control characters except ends of lines are escaped as in JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |char| char.is_control() && char != '\n')
}

/// Returns text for one line of a terminal. Ends of lines are escaped as well.
pub fn line_of(text: &str) -> Cow<'_, str> {
    escape(text, char::is_control)
}

/// Returns JSON whose strings have no control characters. Those that JSON itself forbids in strings are escaped
/// already.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    escape(json, |char| char.is_control() && !char.is_ascii_whitespace())
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    // All other control characters begin with other bytes.
    if !text.bytes().any(|byte| byte < b' ' || byte == 0x7f || byte == 0xc2) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            char if !is_escaped(char) => out.push(char),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char => write!(out, "\\u{:04x}", u32::from(char)).expect("a string takes everything"),
        }
    }
    Cow::Owned(out)
}

/// Formats a number with a comma before every third digit from the right.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that commas stand at every third digit from the right.
    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
