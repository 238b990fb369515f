//! Each test plants one violation of the module law and expects it to be found.

use super::*;

const TABLE: &str = "| module | may use |\n|---|---|\n| lib, db | all |\n| cc | record, sync |\n\
                     | record | sync |\n| `sync` | nothing |\n";

/// The violations of an engine that has a good file in every module, with `path` and `text` instead of one or in
/// addition.
fn check_with(table: &str, path: &str, text: &str) -> Vec<String> {
    let path = format!("{SOURCES}{path}");
    let mut files = vec![(DOCUMENT.to_string(), table.to_string())];
    for module in ["lib.rs", "db.rs", "cc/mod.rs", "record/mod.rs", "sync/mod.rs"] {
        files.push((format!("{SOURCES}{module}"), String::new()));
    }
    files.retain(|(existing, _)| *existing != path);
    files.push((path, text.to_string()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check(&Tree::of(&files))
}

#[track_caller]
fn finds(path: &str, text: &str, expected: &str) {
    let found = check_with(TABLE, path, text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(expected), "{}", found[0]);
}

#[track_caller]
fn finds_nothing(path: &str, text: &str) {
    assert_eq!(check_with(TABLE, path, text), Vec::<String>::new());
}

/// Proves that what the table allows passes, and that `all` means the rows below.
#[test]
fn allowed_uses_pass() {
    finds_nothing("cc/snapshot.rs", "use crate::{record::A, sync};\nfn f() { crate::cc::g() }");
    finds_nothing("db.rs", "use crate::cc::A; use crate::record::B;");
    finds_nothing("cc/mod.rs", "pub(crate) fn f() {}\nuse super::record::A; mod m { use super::g; }");
}

/// Proves that a forbidden use is found in every form of a path.
#[test]
fn forbidden_uses_are_found() {
    let expected = "`record` may not use `cc` (ARCHITECTURE.md allows sync)";
    for text in [
        "use crate::cc::A;",
        "use crate::{sync::B, cc::A};",
        "fn f() -> crate::cc::A { loop {} }",
        "fn f() { assert!(crate::cc::OK); }",
        "macro_rules! m { () => { $crate::cc::f() } }",
        "use super::cc::A;",
        "mod inner { use super::super::cc::A; }",
        "mod inner { fn f() { crate::cc::f() } }",
        "#[cfg(not(test))] use crate::cc::A;",
    ] {
        finds("record/mod.rs", text, expected);
    }
    finds(
        "record/chain.rs",
        "\n\nuse crate::cc::A;",
        "crates/engine/src/record/chain.rs:3: `record` may not",
    );
    finds("record/chain.rs", "use super::super::cc::A;", expected);
    finds("sync/mod.rs", "use crate::cc::A;", "allows nothing");
    finds("cc/mod.rs", "use crate::db::A;", "`cc` may not use `db`");
}

/// Proves that tests may use anything, and that documentation does not count as a use.
#[test]
fn tests_are_exempt() {
    finds_nothing("record/mod.rs", "#[cfg(test)]\nmod tests { use crate::cc::A; }");
    finds_nothing("record/mod.rs", "#[cfg(test)]\nuse crate::cc::A;");
    finds_nothing("record/tests_model.rs", "use crate::cc::A;");
    finds_nothing("record/shuttle_tests.rs", "use crate::cc::A;");
    finds_nothing("record/mod.rs", "/// See [`crate::cc`].\nfn f() {}");
}

/// Proves that modules missing from the table, or from the code, are violations.
#[test]
fn unknown_modules_are_found() {
    finds("log.rs", "", "crates/engine/src/log.rs:1: module `log` has no row");
    finds("cc/mod.rs", "use crate::Error;", "`crate::Error` is no module of the table");
    finds("cc/mod.rs", "use crate::*;", "`crate::*` is no module of the table");
    let found = check_with(&TABLE.replace("| `sync`", "| sync, log"), "db.rs", "");
    assert_eq!(found, ["ARCHITECTURE.md: module `log` is in the table but not in crates/engine/src/"]);
}

/// Proves that mistakes in the table itself are violations.
#[test]
fn bad_tables_are_found() {
    let of = |table: &str| check_with(table, "db.rs", "").join("\n");
    assert!(of("").contains("there is no table"));
    assert!(
        of(&TABLE.replace("| record | sync |", "| record | log |")).contains("`log` has no row of its own")
    );
    assert!(of(&format!("{TABLE}| sync | nothing |\n")).contains("module `sync` has two rows"));
    let cyclic = TABLE.replace("nothing", "cc");
    assert!(
        of(&cyclic).contains("the module table has a cycle: cc -> record -> sync -> cc"),
        "{}",
        of(&cyclic)
    );
}

/// Proves that a cycle in the code is found by itself, even when the table would allow it.
#[test]
fn a_cycle_in_the_code_is_found() {
    let table = TABLE.replace("| record | sync |", "| record | sync cc |");
    let tree = Tree::of(&[
        (DOCUMENT, table.as_str()),
        ("crates/engine/src/cc/mod.rs", "use crate::record::A;"),
        ("crates/engine/src/record/mod.rs", "use crate::cc::A;"),
    ]);
    let found = check(&tree).join("\n");
    assert!(found.contains("use each other in a cycle: cc -> record -> cc"), "{found}");
}
