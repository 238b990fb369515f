//! Helpers for the checks of Rust sources: parsing, and distinguishing tests from other code.

use crate::{File, Tree};
use quote::ToTokens;

/// The syntax tree, or `None` if [`unparsable`] reports a violation for the file.
pub(crate) fn parse(file: &File) -> Option<syn::File> {
    syn::parse_file(&file.text).ok()
}

/// Finds sources that do not parse. The other checks cannot see into them.
pub(crate) fn unparsable(tree: &Tree) -> Vec<String> {
    let error = |file: &File| {
        let error = syn::parse_file(&file.text).err()?;
        Some(format!("{}:{}: does not parse: {error}", file.path, error.span().start().line))
    };
    tree.with_extension("rs").filter_map(error).collect()
}

/// Returns true for files that contain only tests: files below `tests`, `benches`, `examples` or `fuzz`, and files
/// named `tests….rs` or `…_tests.rs`.
pub(crate) fn is_test_path(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    stem.starts_with("tests")
        || stem.ends_with("_tests")
        || folders.split('/').any(|folder| matches!(folder, "tests" | "benches" | "examples" | "fuzz"))
}

/// Returns true if `attributes` have `#[test]` or a `#[cfg(…)]` that holds only under test.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.segments.last().is_some_and(|last| last.ident == "test") {
            return true;
        }
        if !path.is_ident("cfg") {
            return false;
        }
        let condition = attribute.meta.to_token_stream().to_string().replace(' ', "");
        let names_test =
            condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "test");
        names_test && !condition.contains("not(test)") && !condition.contains("any(")
    })
}

/// The attributes of an item.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a source that does not parse is a violation, with its line.
    #[test]
    fn a_broken_source_is_reported() {
        let tree = Tree::of(&[("a.rs", "fn f() {}\nfn {"), ("b.rs", "fn f() {}")]);
        let found = unparsable(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:2: does not parse"), "{}", found[0]);
    }

    /// Proves which attributes and paths mark a test.
    #[test]
    fn tests_are_told_from_the_rest() {
        let is = |text: &str| is_test(attributes(&syn::parse_str(text).unwrap()));
        assert!(is("#[test] fn f() {}"));
        assert!(is("#[cfg(test)] mod tests;"));
        assert!(is("#[cfg(all(test, braid_shuttle))] mod tests;"));
        assert!(!is("#[cfg(not(test))] mod m;"));
        assert!(!is("#[cfg(any(test, unix))] mod m;"));
        assert!(!is("#[inline] fn test() {}"));
        assert!(is_test_path("crates/engine/src/cc/tests.rs"));
        assert!(is_test_path("crates/engine/src/sync/shuttle_tests.rs"));
        assert!(is_test_path("crates/engine/tests/api.rs"));
        assert!(!is_test_path("crates/engine/src/cc/contests.rs"));
    }
}
