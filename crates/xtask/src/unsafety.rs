//! Checks that unsafe code stands only where it may, and that each piece of it gives its reason.

use crate::{File, Tree};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

const DOCUMENT: &str = "STYLE.md";
/// The beginning of the line of [`DOCUMENT`] that lists the places. Each place is a prefix of a path.
const PLACES: &str = "Unsafe code lives only in ";
/// The maximum distance in lines from a piece of unsafe code up to the beginning of its reason.
const REASON_LINES_MAX: usize = 6;

/// Finds unsafe code out of place or without a reason, and crates that do not forbid or deny it.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    let document = tree.text(DOCUMENT).unwrap_or_default();
    let places: Vec<&str> = match document.lines().find_map(|line| line.trim().strip_prefix(PLACES)) {
        Some(list) => list.split('`').skip(1).step_by(2).collect(),
        None => {
            violations.push(format!("{DOCUMENT}: no line begins with `{PLACES}`"));
            Vec::new()
        }
    };
    for file in tree.with_extension("rs") {
        check_file(file, &places, &mut violations);
        if is_crate_root(&file.path) {
            check_root(file, &places, &mut violations);
        }
    }
    violations
}

fn check_file(file: &File, places: &[&str], violations: &mut Vec<String>) {
    let mut found = Vec::new();
    if let Ok(tokens) = file.text.parse() {
        scan(tokens, &mut found);
    }
    let permitted = places.iter().any(|place| file.path.starts_with(place));
    let lines: Vec<&str> = file.text.lines().collect();
    for Unsafe { what, line, needs_reason } in found {
        let place = format!("{}:{line}", file.path);
        if !permitted {
            violations.push(format!("{place}: {what} outside of the places that {DOCUMENT} lists"));
        }
        let above = &lines[line.saturating_sub(1 + REASON_LINES_MAX)..line];
        if needs_reason && !above.iter().any(|line| line.contains("// SAFETY:")) {
            violations.push(format!("{place}: {what} without a `// SAFETY:` comment just above"));
        }
    }
}

struct Unsafe {
    what: &'static str,
    line: usize,
    needs_reason: bool,
}

/// Scans tokens, so that unsafe code in the arguments of macros counts too.
fn scan(tokens: TokenStream, found: &mut Vec<Unsafe>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => scan(group.stream(), found),
            TokenTree::Ident(ident) if ident == "unsafe" => {
                let line = ident.span().start().line;
                if let Some((what, needs_reason)) = classify(&tokens[at + 1..]) {
                    found.push(Unsafe { what, line, needs_reason });
                }
            }
            _ => {}
        }
    }
}

/// Classifies unsafe code by the tokens after the word `unsafe`. A function gives its contract in its documentation,
/// which clippy demands. The type of an unsafe function is not unsafe code.
fn classify(rest: &[TokenTree]) -> Option<(&'static str, bool)> {
    match rest.first()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(("unsafe block", true)),
        TokenTree::Group(_) => Some(("unsafe attribute", true)),
        TokenTree::Ident(word) if word == "impl" => Some(("unsafe impl", true)),
        TokenTree::Ident(word) if word == "trait" => Some(("unsafe trait", false)),
        TokenTree::Ident(word) if word == "extern" => match rest.iter().take(3).find(|token| is_fn(token)) {
            Some(_) if is_type(&rest[1..]) => None,
            Some(_) => Some(("unsafe fn", false)),
            None => Some(("unsafe extern block", true)),
        },
        word if is_fn(word) && !is_type(rest) => Some(("unsafe fn", false)),
        _ => None,
    }
}

fn is_fn(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word == "fn")
}

/// `fn(…)` is a type, `fn name(…)` a function.
fn is_type(tokens: &[TokenTree]) -> bool {
    let after = tokens.iter().skip_while(|token| !is_fn(token)).nth(1);
    matches!(after, Some(TokenTree::Group(_)))
}

/// Returns true for the roots of all crates except the engine, whose modules are checked one by one.
fn is_crate_root(path: &str) -> bool {
    let Some((crate_name, inside)) = path.strip_prefix("crates/").and_then(|path| path.split_once('/'))
    else {
        return false;
    };
    let is_binary = inside.strip_prefix("src/bin/").is_some_and(|rest| !rest.contains('/'));
    crate_name != "engine" && (inside == "src/lib.rs" || inside == "src/main.rs" || is_binary)
}

/// A crate with a permitted place cannot forbid unsafe code, because nothing below could then allow it. It denies
/// instead.
fn check_root(file: &File, places: &[&str], violations: &mut Vec<String>) {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let has_place = places.iter().any(|place| place.starts_with(folder));
    let wanted = if has_place { "deny" } else { "forbid" };
    let has = |level: &str| file.text.contains(&format!("#![{level}(unsafe_code)]"));
    if !has("forbid") && !has(wanted) {
        violations.push(format!("{}:1: lacks `#![{wanted}(unsafe_code)]`", file.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: &str =
        "  Unsafe code lives only in `crates/engine/src/record`, `crates/bench/src/hand`, and nowhere else";

    fn found(path: &str, text: &str) -> String {
        check(&Tree::of(&[(DOCUMENT, STYLE), (path, text)])).join("\n")
    }

    /// Proves that unsafe code in its place with its reason passes, comments of several lines included.
    #[test]
    fn reasoned_unsafe_code_passes() {
        for text in [
            "// SAFETY: it lives.\nunsafe impl Send for A {}",
            "fn f() {\n    // SAFETY: it lives,\n    // and long.\n    unsafe { g() }\n}",
            "/// # Safety\n/// It lives.\npub unsafe fn f() {}",
            "type F = unsafe fn(u8);\ntype G = unsafe extern \"C\" fn(u8);",
            "// unsafe { g() }\nconst A: &str = \"unsafe { }\";",
        ] {
            assert_eq!(found("crates/engine/src/record/mod.rs", text), "", "{text}");
        }
    }

    /// Proves that unsafe code without a reason is found, in macros too.
    #[test]
    fn unreasoned_unsafe_code_is_found() {
        for text in [
            "fn f() {\n    unsafe { g() }\n}",
            "fn f() {\n    assert!(unsafe { g() });\n}",
            "\nunsafe impl Send for A {}",
            "// SAFETY: too far away.\n\n\n\n\n\n\n\nfn f() { unsafe { g() } }",
        ] {
            let found = found("crates/engine/src/record/mod.rs", text);
            assert!(found.contains("without a `// SAFETY:`"), "{text}: {found}");
        }
        let line = found("crates/engine/src/record/a.rs", "\n\nunsafe impl Send for A {}");
        assert!(line.starts_with("crates/engine/src/record/a.rs:3: unsafe impl"), "{line}");
    }

    /// Proves that unsafe code out of its place is found whatever its form.
    #[test]
    fn unsafe_code_out_of_place_is_found() {
        for what in ["unsafe { g() }", "unsafe fn g() {}", "unsafe extern \"C\" fn g() {}"] {
            let found = found("crates/engine/src/db.rs", &format!("// SAFETY: fine.\nfn f() {{ {what} }}"));
            assert!(found.contains("outside of the places"), "{what}: {found}");
        }
    }

    /// Proves that every other crate must forbid unsafe code, or deny it where it has a place.
    #[test]
    fn crates_forbid_unsafe_code() {
        assert!(found("crates/sim/src/lib.rs", "").contains("lacks `#![forbid(unsafe_code)]`"));
        assert!(found("crates/sim/src/lib.rs", "#![deny(unsafe_code)]").contains("lacks `#![forbid"));
        assert!(found("crates/bench/src/lib.rs", "").contains("lacks `#![deny(unsafe_code)]`"));
        assert!(found("crates/cli/src/bin/a.rs", "").contains("lacks"));
        assert_eq!(found("crates/sim/src/lib.rs", "#![forbid(unsafe_code)]"), "");
        assert_eq!(found("crates/bench/src/lib.rs", "#![deny(unsafe_code)]"), "");
        assert_eq!(found("crates/sim/src/other.rs", ""), "");
    }

    /// Proves that the list of places cannot silently disappear.
    #[test]
    fn a_missing_list_is_found() {
        assert!(check(&Tree::of(&[(DOCUMENT, "")])).join("\n").contains("no line begins with"));
    }
}
