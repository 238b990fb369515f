//! Checks for words that no file may contain: paths of someone's machine, unfinished code, silenced checks.

use crate::{File, Tree};

// Split in two, so that this file does not find itself.
const PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/tmp", "/h/"),
    concat!("/fa", "rm/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
];
const WORDS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];
const MACROS: [&str; 3] = [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!(")];
const IGNORE: &str = concat!("#[", "ignore]");
const ALLOWS: [&str; 2] = [concat!("#[", "allow("), concat!("#![", "allow(")];

/// Generated files, which need not keep the habits.
const GENERATED: [&str; 1] = ["Cargo.lock"];

/// Finds every forbidden word, with its line.
pub fn check(tree: &Tree) -> Vec<String> {
    let written = tree.files().filter(|file| !GENERATED.contains(&file.path.as_str()));
    written.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<String> {
    let is_rust = file.path.ends_with(".rs");
    let mut violations = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let mut report = |message: String| violations.push(format!("{}:{}: {message}", file.path, at + 1));
        for path in PATHS.iter().filter(|path| has_absolute(line, path)) {
            report(format!("absolute path `{path}`"));
        }
        for word in WORDS.iter().filter(|word| has_word(line, word)) {
            report(format!("`{word}`: do it now, or describe what is missing in words"));
        }
        for word in MACROS.iter().filter(|word| is_rust && has_macro(line, word)) {
            report(format!("`{word}…)`"));
        }
        if is_rust && line.contains(IGNORE) {
            report(format!("`{IGNORE}` without a reason"));
        }
        if is_rust && ALLOWS.iter().any(|allow| line.contains(allow)) && !has_reason(&file.text, at) {
            report("an `allow` without `reason = \"…\"`".to_string());
        }
    }
    violations
}

/// Returns true if `path` stands at the start of a path, not in the middle of a relative one.
fn has_absolute(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | ')' | '*');
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(inside))
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(inside) && !line[at + word.len()..].starts_with(inside)
    })
}

fn has_macro(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Returns true if the attribute that begins on line number `at` has a reason before it ends.
fn has_reason(text: &str, at: usize) -> bool {
    let rest: Vec<&str> = text.lines().skip(at).collect();
    let rest = rest.join("\n");
    let start = ALLOWS.iter().filter_map(|allow| rest.find(allow)).min().unwrap_or_default();
    let end = rest[start..].find(")]").map_or(rest.len(), |end| start + end);
    rest[start..end].contains("reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
    }

    /// Proves that every forbidden word is found, with its line.
    #[test]
    fn forbidden_words_are_found() {
        for word in PATHS.iter().chain(&WORDS).chain(&MACROS).chain(&[IGNORE]).chain(&ALLOWS) {
            let violations = found("a.rs", &format!("\n// {word}\n"));
            assert_eq!(violations.len(), 1, "{word}: {violations:?}");
            assert!(violations[0].starts_with("a.rs:2: "), "{}", violations[0]);
        }
        for word in PATHS.iter().chain(&WORDS) {
            assert_eq!(found("a.md", word).len(), 1, "{word}");
            assert_eq!(found(".ci/run", &format!("cd {word}")).len(), 1, "{word}");
        }
    }

    /// Proves that text that only resembles a forbidden word passes.
    #[test]
    fn similar_words_pass() {
        let ignore = IGNORE.replace(']', " = \"slow\"]");
        let allow = format!("{}\n    unused,\n    reason = \"why\"\n)]", ALLOWS[0]);
        for text in
            [&ignore, &allow, &format!("A{}A", WORDS[1]), &format!("docs{}a", PATHS[0]), "my_debug!(x)"]
        {
            assert_eq!(found("a.rs", text), Vec::<String>::new(), "{text}");
        }
        assert!(found("Cargo.lock", WORDS[1]).is_empty());
        assert!(found("a.md", MACROS[0]).is_empty());
    }
}
