//! The file with the lines of earlier shells.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The path of the history file in the user's state directory, or `None` if that directory is unknown.
pub fn file() -> Option<PathBuf> {
    file_of(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))
}

fn file_of(state: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The XDG specification says that paths which are not absolute are ignored.
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute(state).or_else(|| Some(absolute(home)?.join(".local/state")))?;
    Some(state.join("braid").join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_where_the_user_wants_it() {
        // Proves the order of the variables, and that relative paths are ignored.
        let root = env::temp_dir();
        let path = |name: &str| Some(root.join(name).into_os_string());
        let expected = |name: &str| Some(root.join(name).join("braid").join("history"));
        assert_eq!(file_of(path("state"), path("home")), expected("state"));
        assert_eq!(file_of(None, path("home")), expected("home/.local/state"));
        assert_eq!(file_of(Some("state".into()), path("home")), expected("home/.local/state"));
        assert_eq!(file_of(Some("".into()), None), None);
    }
}
