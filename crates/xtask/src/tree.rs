//! The files of the workspace in memory, which every check reads.

use std::io;
use std::path::Path;

/// One file: its path from the root with `/` between the parts, and its text.
pub struct File {
    /// Relative to the workspace's root.
    pub path: String,
    /// Empty if the file is not UTF-8.
    pub text: String,
}

/// All files of the workspace, sorted by path.
pub struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads everything below `root` except build outputs, links, paths that `.gitignore` names, and hidden folders
    /// that do not belong to the project.
    pub fn load(root: &Path) -> io::Result<Tree> {
        let ignored = match std::fs::read_to_string(root.join(".gitignore")) {
            Ok(text) => text.lines().map(|line| line.trim().trim_matches('/').to_string()).collect(),
            Err(_) => Vec::new(),
        };
        let mut files = Vec::new();
        read_folder(root, "", &ignored, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// Makes a tree of `(path, text)` pairs.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        Tree { files: files.iter().map(file).collect() }
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Every file whose path ends in `.` and `extension`.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| {
            Path::new(&file.path).extension().is_some_and(|found| found.to_str() == Some(extension))
        })
    }

    /// The text of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Returns true if `path` is a file or a folder with a file in it. The root is `""`.
    pub fn contains(&self, path: &str) -> bool {
        let below = |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        path.is_empty() || self.files.iter().any(|file| file.path == path || below(file))
    }
}

/// Hidden folders that belong to the project.
const HIDDEN: [&str; 3] = [".ci", ".cargo", ".github"];

fn read_folder(root: &Path, folder: &str, ignored: &[String], files: &mut Vec<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        // In a linked working tree, `.git` is a file.
        if name == ".git" || ignored.iter().any(|ignored| *ignored == name || *ignored == path) {
            continue;
        }
        if kind.is_file() {
            // A file that is not text can still be the target of a link.
            let text = String::from_utf8(std::fs::read(entry.path())?).unwrap_or_default();
            files.push(File { path, text });
        } else if kind.is_dir() && name != "target" && (!name.starts_with('.') || HIDDEN.contains(&&*name)) {
            read_folder(root, &path, ignored, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that files and folders are found only by their whole names.
    #[test]
    fn contains_files_and_folders() {
        let tree = Tree::of(&[("docs/a.md", ""), ("b.rs", "text")]);
        assert!(tree.contains("docs") && tree.contains("docs/a.md") && tree.contains(""));
        assert!(!tree.contains("doc") && !tree.contains("docs/a") && !tree.contains("a.md"));
        assert_eq!(tree.text("b.rs"), Some("text"));
        assert_eq!(tree.with_extension("md").count(), 1);
    }

    /// Proves that the loader finds this very file and leaves out build outputs.
    #[test]
    fn loads_the_workspace() {
        let tree = Tree::load(&crate::workspace_root()).unwrap();
        assert!(tree.text("crates/xtask/src/tree.rs").unwrap().contains("loads_the_workspace"));
        assert!(
            tree.files().all(|file| !file.path.starts_with("target/") && !file.path.contains("/target/"))
        );
    }
}
