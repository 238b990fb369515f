//! Splits a line of a script into words, numbers and symbols.

/// The fault, without the place.
pub(super) type Reason = String;

/// A word, a number or a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'l> {
    Word(&'l str),
    Number(i64),
    Symbol(&'l str),
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(text) | Token::Symbol(text) => write!(f, "`{text}`"),
            Token::Number(number) => write!(f, "`{number}`"),
        }
    }
}

/// The symbols, longer ones first.
const SYMBOLS: &[&str] =
    &["..", "==", "!=", "<=", ">=", "<", ">", "=", "+", "-", "*", "%", "[", "]", "(", ")", ";"];

/// Returns the tokens of a line, without what follows a `#`.
pub(super) fn tokens(line: &str) -> Result<Vec<Token<'_>>, Reason> {
    let mut rest = line.split('#').next().unwrap_or_default().trim_start();
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let length = if is_number || is_of_word(first) {
            rest.find(|c| if is_number { !char::is_ascii_digit(&c) } else { !is_of_word(c) })
                .unwrap_or(rest.len())
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            symbol.ok_or_else(|| format!("`{first}` begins nothing"))?.len()
        };
        let (text, after) = rest.split_at(length);
        found.push(if is_number {
            Token::Number(text.parse().map_err(|_| format!("the number {text} is too large"))?)
        } else if is_of_word(first) {
            Token::Word(text)
        } else {
            Token::Symbol(text)
        });
        rest = after.trim_start();
    }
    Ok(found)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
