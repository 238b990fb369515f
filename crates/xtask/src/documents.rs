//! Checks that the links in documents lead somewhere, and that decision records have one form.

use crate::{File, Tree};

const DECISIONS: &str = "docs/decisions/";
/// The headings of a decision record, in order.
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Rejected", "## Consequences"];

/// Finds broken links and ill-formed decision records.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut violations: Vec<String> =
        tree.with_extension("md").flat_map(|file| broken_links(tree, file)).collect();
    let records = tree.with_extension("md").filter(|file| file.path.starts_with(DECISIONS));
    let mut number_expected = 1;
    for file in records.filter(|file| !file.path.ends_with("/README.md")) {
        check_number(file, &mut number_expected, &mut violations);
        check_headings(file, &mut violations);
    }
    violations
}

fn check_number(file: &File, expected: &mut u32, violations: &mut Vec<String>) {
    let name = &file.path[DECISIONS.len()..];
    let number = name.split_once('-').filter(|(digits, _)| digits.len() == 4);
    match number.and_then(|(digits, _)| digits.parse::<u32>().ok()) {
        Some(number) if number == *expected => *expected += 1,
        Some(number) => {
            violations.push(format!("{}:1: number {number:04} where {expected:04} comes next", file.path));
            *expected = number + 1;
        }
        None => {
            violations.push(format!("{}:1: its name does not begin with four digits and a dash", file.path))
        }
    }
}

fn check_headings(file: &File, violations: &mut Vec<String>) {
    let mut rest = file.text.lines();
    for heading in HEADINGS {
        if !rest.any(|line| line.trim_end() == heading) {
            violations.push(format!("{}:1: lacks `{heading}`, or has it out of order", file.path));
            return;
        }
    }
}

fn broken_links(tree: &Tree, file: &File) -> Vec<String> {
    let mut violations = Vec::new();
    let mut is_code = false;
    for (at, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for target in targets(line) {
            let outside = target.contains("://") || target.starts_with("mailto:");
            let path = target.split('#').next().unwrap_or_default();
            if outside || path.is_empty() {
                continue;
            }
            if resolve(&file.path, path).is_none_or(|path| !tree.contains(&path)) {
                violations.push(format!("{}:{}: the link to `{target}` leads nowhere", file.path, at + 1));
            }
        }
    }
    violations
}

/// The targets of `[text](target)` and `[text]: target`, outside `code`.
fn targets(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut found: Vec<String> = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let rest = &prose[at + 2..];
        found.extend(rest.find(')').map(|end| rest[..end].split(' ').next().unwrap_or_default().to_string()));
    }
    if let Some((_, target)) = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        found.push(target.trim().to_string());
    }
    found
}

/// Resolves `target`, seen from the file `from`, to a path from the root. Returns `None` if it leaves the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# 1. A\n## Context\n## Decision\n## Rejected\n## Consequences\n";

    fn found(files: &[(&str, &str)]) -> String {
        check(&Tree::of(files)).join("\n")
    }

    /// Proves that links to files, folders, headings and other sites pass.
    #[test]
    fn good_links_pass() {
        let text = "[a](../b.md#x) [c](d/e.rs 'title') [d](d) [f](#g) [h](https://i.j/k) `[l](m)`\n\
                    ```\n[n](o)\n```\n[p]: ../b.md\n[root](..)";
        assert_eq!(found(&[("docs/a.md", text), ("b.md", ""), ("docs/d/e.rs", "")]), "");
    }

    /// Proves that broken links are found, with their lines.
    #[test]
    fn broken_links_are_found() {
        for text in ["[a](b.md)", "[a](../c.md)", "[a](../../docs/a.md)", "[a]: b.md", "`x` [a](b.md) `y`"] {
            let found = found(&[("docs/a.md", &format!("\n{text}\n"))]);
            assert!(found.starts_with("docs/a.md:2: the link to"), "{text}: {found}");
        }
    }

    /// Proves that records are numbered without gaps.
    #[test]
    fn gaps_in_the_numbers_are_found() {
        let of = |names: &[&str]| {
            let files: Vec<(String, &str)> =
                names.iter().map(|name| (format!("{DECISIONS}{name}"), RECORD)).collect();
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            found(&files)
        };
        assert_eq!(of(&["0001-a.md", "0002-b.md"]), "");
        assert!(of(&["0001-a.md", "0003-b.md"]).contains("number 0003 where 0002 comes next"));
        assert!(of(&["0001-a.md", "0001-b.md"]).contains("number 0001 where 0002 comes next"));
        assert!(of(&["a.md"]).contains("does not begin with four digits"));
        assert!(of(&["1-a.md"]).contains("does not begin with four digits"));
    }

    /// Proves that a record must have every heading, in order.
    #[test]
    fn missing_headings_are_found() {
        for heading in HEADINGS {
            let text = RECORD.replace(heading, "");
            assert!(found(&[("docs/decisions/0001-a.md", &text)]).contains("lacks `## "), "{heading}");
        }
        let swapped = RECORD.replace("Context", "x").replace("Rejected", "Context").replace("x", "Rejected");
        assert!(found(&[("docs/decisions/0001-a.md", &swapped)]).contains("out of order"));
    }
}
