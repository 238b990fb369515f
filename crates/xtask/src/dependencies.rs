//! Checks that each dependency of the engine has a decision record that names it.

use crate::Tree;

const MANIFEST: &str = "crates/engine/Cargo.toml";
const DECISIONS: &str = "docs/decisions/";

/// Finds dependencies of the engine that no record names in backticks.
pub fn check(tree: &Tree) -> Vec<String> {
    let manifest = tree.text(MANIFEST).unwrap_or_default();
    let is_recorded = |name: &str| {
        let mut records = tree.files().filter(|file| file.path.starts_with(DECISIONS));
        records.any(|record| record.text.contains(&format!("`{name}`")))
    };
    let unrecorded = dependencies(manifest).into_iter().filter(|(name, _)| !is_recorded(name));
    let message = |(name, line)| format!("{MANIFEST}:{line}: no record in {DECISIONS} names `{name}`");
    unrecorded.map(message).collect()
}

/// The names in every `[…dependencies]` table and in every `[…dependencies.name]` heading, with their lines.
fn dependencies(manifest: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (at, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            is_inside = table.ends_with("dependencies");
            if let Some((_, name)) = table.split_once("dependencies.") {
                found.push((name.to_string(), at + 1));
            }
        } else if let Some((key, _)) = line.split_once('=').filter(|_| is_inside) {
            let name = key.trim().split('.').next().unwrap_or_default();
            found.push((name.trim_matches('"').to_string(), at + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[package]\nname = \"x\"\n[dependencies]\na = \"1\" # why\nb.workspace = true\n\
                        [target.'cfg(unix)'.dev-dependencies]\nc = { version = \"1\" }\n[dependencies.d]\n\
                        version = \"1\"\n[features]\ne = []\n";

    /// Proves that every form of dependency is read, and nothing else.
    #[test]
    fn dependencies_are_read() {
        let names: Vec<String> = dependencies(TEXT).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    /// Proves that a dependency without a record is found.
    #[test]
    fn unrecorded_dependencies_are_found() {
        let tree = Tree::of(&[(MANIFEST, TEXT), ("docs/decisions/0001-a.md", "`a`, `b` and `d`, not abc")]);
        assert_eq!(check(&tree), ["crates/engine/Cargo.toml:7: no record in docs/decisions/ names `c`"]);
    }
}
