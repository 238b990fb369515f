//! Checks the module law: which module of the engine may use which, as the table in ARCHITECTURE.md says.
//!
//! The argument is a chain of facts: the table has no cycle, and every use in the code is in the table. Therefore the
//! code has no cycle. This conclusion is also checked directly, so that a mistake in reading the table cannot hide a
//! cycle.

use crate::{File, Tree, rust};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEAD: &str = "| module | may use |";
const SOURCES: &str = "crates/engine/src/";

type Names = Vec<String>;
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Finds violations of the law, in the document and in the code.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    let law = parse_table(tree.text(DOCUMENT).unwrap_or_default(), &mut violations);
    if let Some(cycle) = find_cycle(&law) {
        violations.push(format!("{DOCUMENT}: the module table has a cycle: {}", cycle.join(" -> ")));
    }
    let mut code = Graph::new();
    for file in tree.with_extension("rs") {
        let Some(module) = module_of(&file.path) else { continue };
        if module != "lib" && !rust::is_test_path(&file.path) {
            check_file(file, &module, &law, &mut code, &mut violations);
        }
    }
    if let Some(cycle) = find_cycle(&code) {
        violations.push(format!("{SOURCES}: the modules use each other in a cycle: {}", cycle.join(" -> ")));
    }
    for module in law.keys().filter(|module| *module != "lib" && !code.contains_key(*module)) {
        violations.push(format!("{DOCUMENT}: module `{module}` is in the table but not in {SOURCES}"));
    }
    violations
}

fn check_file(file: &File, module: &str, law: &Graph, code: &mut Graph, violations: &mut Vec<String>) {
    let used_so_far = code.entry(module.to_string()).or_default();
    let Some(allowed) = law.get(module) else {
        violations.push(format!("{}:1: module `{module}` has no row in {DOCUMENT}", file.path));
        return;
    };
    for (used, line) in uses(file) {
        let place = format!("{}:{line}", file.path);
        if used == module {
            continue;
        }
        if !law.contains_key(&used) {
            violations.push(format!(
                "{place}: `crate::{used}` is no module of the table in {DOCUMENT}; name the module that defines it"
            ));
            continue;
        }
        if !allowed.contains(&used) {
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            let allowed = if allowed.is_empty() { "nothing".to_string() } else { allowed.join(", ") };
            violations
                .push(format!("{place}: `{module}` may not use `{used}` ({DOCUMENT} allows {allowed})"));
        }
        used_so_far.insert(used);
    }
}

/// Parses the rows below [`HEAD`]. `all` stands for every module in the rows below its own, so rows with `all` cannot
/// make a cycle.
fn parse_table(document: &str, violations: &mut Vec<String>) -> Graph {
    let mut rows: Vec<(String, Names, usize)> = Vec::new();
    let lines = document.lines().enumerate().skip_while(|(_, line)| line.trim() != HEAD);
    for (at, line) in lines.skip(2).take_while(|(_, line)| line.starts_with('|')) {
        let mut cells = line.trim_matches(['|', ' ']).split('|');
        let modules = names(cells.next().unwrap_or_default());
        let used = names(cells.next().unwrap_or_default());
        rows.extend(modules.into_iter().map(|module| (module, used.clone(), at + 1)));
    }
    if rows.is_empty() {
        violations.push(format!("{DOCUMENT}: there is no table that begins with `{HEAD}`"));
    }
    let mut law = Graph::new();
    for (at, (module, used, line)) in rows.iter().enumerate() {
        let used: BTreeSet<String> = match used.first().map(String::as_str) {
            Some("nothing") => BTreeSet::new(),
            Some("all") => rows[at + 1..].iter().map(|(below, ..)| below.clone()).collect(),
            _ => used.iter().cloned().collect(),
        };
        for unknown in used.iter().filter(|name| rows.iter().all(|(module, ..)| module != *name)) {
            violations
                .push(format!("{DOCUMENT}:{line}: `{unknown}` has no row of its own in the module table"));
        }
        if law.insert(module.clone(), used).is_some() {
            violations.push(format!("{DOCUMENT}:{line}: module `{module}` has two rows in the module table"));
        }
    }
    law
}

fn names(cell: &str) -> Names {
    let separators = |c: char| c == ',' || c == '`' || c.is_whitespace();
    cell.split(separators).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

/// `crates/engine/src/cc/mod.rs` and `crates/engine/src/cc.rs` both belong to `cc`.
fn module_of(path: &str) -> Option<String> {
    let inside = path.strip_prefix(SOURCES)?;
    let first = inside.split('/').next()?;
    Some(first.trim_end_matches(".rs").to_string())
}

/// The modules in the crate's root that `file` names outside its tests, with lines.
fn uses(file: &File) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let Some(parsed) = rust::parse(file) else { return found };
    let inside = file.path.trim_start_matches(SOURCES).trim_end_matches(".rs").trim_end_matches("/mod");
    scan_items(&parsed.items, inside.split('/').count(), &mut found);
    found
}

/// Scans items. `depth` is the number of modules from the root to here, and so the number of `super`s that lead to the
/// root.
fn scan_items(items: &[syn::Item], depth: usize, found: &mut Vec<(String, usize)>) {
    for item in items.iter().filter(|item| !rust::is_test(rust::attributes(item))) {
        match item {
            syn::Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    scan_items(items, depth + 1, found);
                }
            }
            _ => scan_tokens(item.to_token_stream(), depth, found),
        }
    }
}

/// Scans tokens instead of paths, because the arguments of macros are only tokens.
fn scan_tokens(tokens: TokenStream, depth: usize, found: &mut Vec<(String, usize)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        at += 1;
        if let TokenTree::Group(group) = &rest[0] {
            scan_tokens(group.stream(), depth, found);
        }
        if is_word(&rest[0], "crate") {
            scan_path(&rest[1..], found);
        }
        if is_word(&rest[0], "super") {
            let supers = rest.chunks(3).take_while(|chunk| is_word(&chunk[0], "super")).count();
            if supers >= depth {
                scan_path(&rest[3 * supers - 2..], found);
            }
            at += 3 * (supers - 1);
        }
    }
}

/// Scans the tokens after `crate`: `::name` or `::{name, name::…}`.
fn scan_path(rest: &[TokenTree], found: &mut Vec<(String, usize)>) {
    let [TokenTree::Punct(one), TokenTree::Punct(two), next, ..] = rest else { return };
    if one.as_char() != ':' || two.as_char() != ':' {
        return;
    }
    match next {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
            found.extend(tokens.split(is_comma).filter_map(|tokens| first_name(tokens.first()?)));
        }
        token => found.extend(first_name(token)),
    }
}

fn first_name(token: &TokenTree) -> Option<(String, usize)> {
    let name = token.to_string();
    (name != "self").then(|| (name, token.span().start().line))
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Finds a cycle of `graph`, with its first module repeated at the end.
pub(crate) fn find_cycle(graph: &Graph) -> Option<Names> {
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| visit(graph, start, &mut Names::new(), &mut done))
}

fn visit(graph: &Graph, at: &str, path: &mut Names, done: &mut BTreeSet<String>) -> Option<Names> {
    if let Some(first) = path.iter().position(|seen| seen == at) {
        path.push(at.to_string());
        return Some(path[first..].to_vec());
    }
    if !done.contains(at) {
        path.push(at.to_string());
        let found =
            graph.get(at).and_then(|next| next.iter().find_map(|next| visit(graph, next, path, done)));
        if found.is_some() {
            return found;
        }
        path.pop();
        done.insert(at.to_string());
    }
    None
}

#[cfg(test)]
#[path = "law_tests.rs"]
mod tests;
