//! Checks the lengths of files and functions against hard limits, and computes the medians for STYLE.md's scoreboard.

use crate::{File, Tree, rust};
use syn::visit::Visit;

/// The maximum number of lines of a Rust file.
pub const FILE_LINES_MAX: usize = 800;
/// The maximum number of lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;
/// The maximum number of lines of a test function.
pub const TEST_FUNCTION_LINES_MAX: usize = 120;

/// Finds files and functions over the limits.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree.with_extension("rs") {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            violations.push(format!("{}:1: {lines} lines, more than {FILE_LINES_MAX}", file.path));
        }
        for function in functions(file) {
            let max = if function.is_test { TEST_FUNCTION_LINES_MAX } else { FUNCTION_LINES_MAX };
            if function.lines > max {
                violations.push(format!(
                    "{}:{}: function `{}` has {} lines, more than {max}",
                    file.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    violations
}

/// The engine's measures that have an aim in STYLE.md's scoreboard.
pub fn summary(tree: &Tree) -> String {
    let engine = |file: &&File| file.path.starts_with("crates/engine/src/");
    let files = tree.with_extension("rs").filter(engine).map(|file| file.text.lines().count()).collect();
    let functions = tree.with_extension("rs").filter(engine).flat_map(functions);
    let functions = functions.filter(|function| !function.is_test).map(|function| function.lines).collect();
    format!(
        "engine, lines at median/p90/most: files {} (aim 200/500/800), functions {} (aim 8/25/70); \
         assertions per 1,000 lines: {} (aim 40)",
        percentiles(files),
        percentiles(functions),
        assertions_per_1000_lines(tree.with_extension("rs").filter(engine)),
    )
}

fn assertions_per_1000_lines<'a>(files: impl Iterator<Item = &'a File>) -> usize {
    let (mut assertions, mut lines) = (0, 0);
    for line in files.flat_map(|file| file.text.lines()) {
        let line = line.trim_start();
        lines += 1;
        let is_assertion = line.starts_with("assert") || line.starts_with("debug_assert");
        assertions += usize::from(is_assertion && line.contains('!'));
    }
    1000 * assertions / usize::max(lines, 1)
}

fn percentiles(mut lines: Vec<usize>) -> String {
    lines.sort_unstable();
    let Some(last) = lines.len().checked_sub(1) else { return "none".to_string() };
    format!("{}/{}/{}", lines[last / 2], lines[last * 9 / 10], lines[last])
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
    is_test: bool,
}

fn functions(file: &File) -> Vec<Function> {
    let mut visitor = Functions { found: Vec::new(), is_test: rust::is_test_path(&file.path) };
    if let Some(parsed) = rust::parse(file) {
        visitor.visit_file(&parsed);
    }
    visitor.found
}

struct Functions {
    found: Vec<Function>,
    is_test: bool,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block, is_test: bool) {
        let line = signature.fn_token.span.start().line;
        let end = block.brace_token.span.close().end().line;
        let name = signature.ident.to_string();
        self.found.push(Function { name, line, lines: end - line + 1, is_test });
    }

    fn within(&mut self, attributes: &[syn::Attribute], visit: impl FnOnce(&mut Self)) {
        let outside = self.is_test;
        self.is_test |= rust::is_test(attributes);
        visit(self);
        self.is_test = outside;
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(&item.attrs, |this| syn::visit::visit_item_mod(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.within(&item.attrs, |this| syn::visit::visit_item_impl(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(&item.attrs, |this| {
            this.add(&item.sig, &item.block, this.is_test);
            syn::visit::visit_item_fn(this, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(&item.attrs, |this| {
            this.add(&item.sig, &item.block, this.is_test);
            syn::visit::visit_impl_item_fn(this, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block, self.is_test);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(head: &str, lines: usize) -> String {
        format!("{head} {{\n{}}}\n", "    f();\n".repeat(lines - 2))
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
    }

    /// Proves that a file is a violation exactly if it has more lines than the limit.
    #[test]
    fn long_files_are_found() {
        assert!(found("a.rs", &"\n".repeat(FILE_LINES_MAX)).is_empty());
        assert_eq!(found("a.rs", &"\n".repeat(FILE_LINES_MAX + 1)), ["a.rs:1: 801 lines, more than 800"]);
        assert!(found("a.md", &"\n".repeat(5000)).is_empty());
    }

    /// Proves that long functions are found wherever a function can stand.
    #[test]
    fn long_functions_are_found() {
        let long = function("fn g()", FUNCTION_LINES_MAX + 1);
        assert!(found("a.rs", &function("fn g()", FUNCTION_LINES_MAX)).is_empty());
        assert_eq!(found("a.rs", &long), ["a.rs:1: function `g` has 71 lines, more than 70"]);
        for (head, tail) in [("impl A {", "}"), ("trait A {", "}"), ("mod m {", "}"), ("fn f() { }", "")] {
            assert_eq!(found("a.rs", &format!("{head}\n{long}{tail}")).len(), 1, "{head}");
        }
    }

    /// Proves that tests have their own limit.
    #[test]
    fn tests_may_be_longer() {
        let long = function("fn g()", TEST_FUNCTION_LINES_MAX);
        assert!(found("a.rs", &format!("#[test]\n{long}")).is_empty());
        assert!(found("a.rs", &format!("#[cfg(test)]\nmod m {{\n{long}}}")).is_empty());
        assert!(found("crates/a/tests/b.rs", &long).is_empty());
        assert_eq!(found("a/tests.rs", &function("fn g()", TEST_FUNCTION_LINES_MAX + 1)).len(), 1);
    }

    /// Proves that the summary covers only the engine.
    #[test]
    fn the_summary_is_of_the_engine() {
        let tree = Tree::of(&[("crates/engine/src/a.rs", "fn f() {\n}\n"), ("b.rs", "\n\n\n\n")]);
        assert!(summary(&tree).contains("files 2/2/2"), "{}", summary(&tree));
        assert!(summary(&tree).contains("functions 2/2/2"), "{}", summary(&tree));
        assert!(summary(&Tree::of(&[])).contains("none"));
    }
}
