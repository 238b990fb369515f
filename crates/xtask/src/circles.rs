//! Checks that the files and subfolders of a folder do not use each other in a circle.
//!
//! `mod.rs`, `lib.rs`, `main.rs` and a file beside a folder with the same name do not count as files of the folder.
//! Such a file is the folder's face: it names what the other files define. A use of a re-exported item counts as a use
//! of the file that defines the item.

use crate::law::find_cycle;
use crate::{Tree, rust};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};

const ENGINE: &str = "crates/engine/src/";

/// The folders where the rule holds. The module law covers the root folder of the engine.
const SOURCES: &[&str] = &[
    ENGINE,
    "crates/bench/src/",
    "crates/cli/src/",
    "crates/derive/src/",
    "crates/history/src/",
    "crates/lab-cli/src/",
    "crates/sim/src/",
    "crates/tpcc/src/",
    "crates/xtask/src/",
];

type Graph = BTreeMap<String, BTreeSet<String>>;

/// A file, named by the modules that lead to it.
struct Source {
    names: Vec<String>,
    /// True if the file is the face of a folder.
    is_face: bool,
    /// The paths that the file uses, from the crate's root on.
    uses: Vec<Vec<String>>,
}

/// Finds folders whose files use each other in a circle.
pub fn check(tree: &Tree) -> Vec<String> {
    SOURCES.iter().flat_map(|sources| check_in(tree, sources)).collect()
}

fn check_in(tree: &Tree, root: &str) -> Vec<String> {
    let (sources, has_law) = (read(tree, root), root == ENGINE);
    let mut folders: BTreeMap<&[String], Graph> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_face) {
        for used in &source.uses {
            let Some(target) = resolve(used, &sources) else { continue };
            let common = source.names.iter().zip(&target).take_while(|(a, b)| a == b).count();
            let is_of_law = has_law && common == 0;
            if !is_of_law && common < source.names.len().min(target.len()) {
                let graph = folders.entry(&source.names[..common]).or_default();
                graph.entry(source.names[common].clone()).or_default().insert(target[common].clone());
            }
        }
    }
    let cycles = folders.iter().filter_map(|(folder, graph)| Some((folder.join("/"), find_cycle(graph)?)));
    cycles
        .map(|(folder, cycle)| {
            format!("{root}{folder}: files use each other in a circle: {}", cycle.join(" -> "))
        })
        .collect()
}

fn read(tree: &Tree, root: &str) -> Vec<Source> {
    let files = tree.with_extension("rs").filter(|file| !rust::is_test_path(&file.path));
    let mut sources: Vec<Source> = files
        .filter_map(|file| {
            let inside = file.path.strip_prefix(root)?.strip_suffix(".rs")?;
            let mut names: Vec<String> = inside.split('/').map(str::to_string).collect();
            let is_root = matches!(inside, "lib" | "main");
            let is_face = is_root || names.last().is_some_and(|name| name == "mod");
            if is_face {
                names.pop();
            }
            let mut uses = Vec::new();
            scan_items(&rust::parse(file)?.items, &names, &mut uses);
            Some(Source { names, is_face, uses })
        })
        .collect();
    let folders: BTreeSet<Vec<String>> = sources
        .iter()
        .flat_map(|source| (0..source.names.len()).map(|len| source.names[..len].to_vec()))
        .collect();
    sources.iter_mut().for_each(|source| source.is_face |= folders.contains(&source.names));
    sources
}

/// Finds the file that a path leads to. For a face, finds the file that defines the re-exported item.
fn resolve(used: &[String], sources: &[Source]) -> Option<Vec<String>> {
    let leads_to = |path: &[String]| {
        let on_the_way = sources.iter().filter(|source| path.starts_with(&source.names));
        on_the_way.max_by_key(|source| source.names.len())
    };
    let file = leads_to(used)?;
    if !file.is_face {
        return Some(file.names.clone());
    }
    let len = file.names.len();
    let passed_on = file.uses.iter().find(|path| path.len() > len + 1 && path.last() == used.get(len))?;
    leads_to(passed_on).filter(|file| !file.is_face).map(|file| file.names.clone())
}

fn scan_items(items: &[syn::Item], module: &[String], uses: &mut Vec<Vec<String>>) {
    for item in items.iter().filter(|item| !rust::is_test(rust::attributes(item))) {
        match item {
            syn::Item::Mod(inner) => {
                if let Some((_, items)) = &inner.content {
                    scan_items(items, &[module, &[inner.ident.to_string()]].concat(), uses);
                }
            }
            // A path that begins with a name leads into this module or another crate.
            syn::Item::Use(used) => scan_path(&tokens_of(used.tree.to_token_stream()), module, uses),
            _ => scan_tokens(item.to_token_stream(), module, uses),
        }
    }
}

fn tokens_of(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

fn scan_tokens(tokens: TokenStream, module: &[String], uses: &mut Vec<Vec<String>>) {
    let tokens = tokens_of(tokens);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => scan_tokens(group.stream(), module, uses),
            TokenTree::Ident(name) if name == "crate" || name == "super" => {
                let is_first = at < 2 || !is_colon(&tokens[at - 1]);
                if is_first {
                    scan_path(&tokens[at..], module, uses);
                }
            }
            _ => {}
        }
    }
}

/// Scans a path at the beginning of `tokens`, relative to `base`.
fn scan_path(tokens: &[TokenTree], base: &[String], uses: &mut Vec<Vec<String>>) {
    let (mut path, mut rest) = (base.to_vec(), tokens);
    loop {
        match rest {
            [TokenTree::Ident(name), next @ ..] => {
                match name.to_string().as_str() {
                    "crate" => path.clear(),
                    "self" => {}
                    "super" => drop(path.pop()),
                    name => path.push(name.to_string()),
                }
                match next {
                    [one, two, next @ ..] if is_colon(one) && is_colon(two) => rest = next,
                    _ => return uses.push(path),
                }
            }
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                let tokens = tokens_of(group.stream());
                let is_comma =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                tokens.split(is_comma).for_each(|tokens| scan_path(tokens, &path, uses));
                return;
            }
            _ => return uses.push(path),
        }
    }
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(root: &str, files: &[(&str, &str)]) -> String {
        let files: Vec<_> = files.iter().map(|(path, text)| (format!("{root}{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        check_in(&Tree::of(&files), root).join("\n")
    }

    fn check_files(files: &[(&str, &str)]) -> String {
        found_in(ENGINE, files)
    }

    /// Proves that a circle is found in whatever form its uses are written: between files, between a file and a folder,
    /// and through the re-exports of the folder's face.
    #[test]
    fn circles_are_found() {
        let face = ("cc/mod.rs", "mod a; mod b; pub use a::A; pub use b::{inner::B, C};");
        for (a, b) in [
            ("use super::b::B;", "use super::a::A;"),
            ("use crate::cc::b::B;", "fn f() { crate::cc::a::g() }"),
            ("use crate::{sync, cc::{b::{self, B}}};", "impl super::a::A {}"),
            ("use super::C;", "use crate::cc::A;"),
            ("fn f() { debug_assert!(super::b::OK); }", "use super::{A, D};"),
        ] {
            let found = check_files(&[face, ("cc/a.rs", a), ("cc/b.rs", b)]);
            assert_eq!(
                found, "crates/engine/src/cc: files use each other in a circle: a -> b -> a",
                "{a} {b}"
            );
        }
        let files = [
            ("cc/a.rs", "use super::b::c::C;"),
            ("cc/b/mod.rs", "mod c;"),
            ("cc/b/c.rs", "use super::super::a::A;"),
        ];
        assert!(check_files(&files).contains("cc: files use each other in a circle: a -> b -> a"));
    }

    /// Proves that uses in one direction pass, and that tests, faces and other modules are exempt.
    #[test]
    fn one_direction_passes() {
        let files = [
            ("cc/mod.rs", "mod a; mod b; pub use a::A; pub trait T {}"),
            (
                "cc/a.rs",
                "use super::b::B; use super::T; use crate::sync::Latch; #[cfg(test)] mod tests { use super::b; }",
            ),
            ("cc/b.rs", "use super::T; #[cfg(test)] use super::a::A; use std::a::A;"),
            ("cc/tests.rs", "use super::a; use super::b;"),
            ("sync/mod.rs", "use crate::cc::A;"),
        ];
        assert_eq!(check_files(&files), "");
    }

    /// Proves that in a crate without a module law the files beside `lib.rs` are checked too, and that a file can be
    /// the face of the folder with its name.
    #[test]
    fn the_root_of_a_crate_is_a_folder() {
        let bench = "crates/bench/src/";
        let circle =
            [("lib.rs", "pub use b::c::C;"), ("a.rs", "use crate::C;"), ("b/c.rs", "use crate::a::A;")];
        assert_eq!(
            found_in(bench, &circle),
            "crates/bench/src/: files use each other in a circle: a -> b -> a"
        );
        assert_eq!(check_files(&circle), "");
        let face =
            [("a.rs", "pub use c::C; use b::B;"), ("a/b.rs", "use super::c;"), ("a/c.rs", "use super::A;")];
        assert_eq!(found_in(bench, &face), "");
        let inside =
            [("a.rs", "pub use c::C;"), ("a/b.rs", "use super::C;"), ("a/c.rs", "use crate::a::b::B;")];
        assert!(found_in(bench, &inside).contains("src/a: files use each other in a circle: b -> c -> b"));
    }
}
