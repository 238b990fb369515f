//! Runs tidy with the ordinary tests, so that nobody needs to remember it.
#![forbid(unsafe_code)]

/// Proves that the workspace as it stands keeps the habits that tidy checks.
#[test]
fn the_workspace_is_tidy() {
    let tree = xtask::Tree::load(&xtask::workspace_root()).expect("the workspace is readable");
    let violations = xtask::violations(&tree);
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}
