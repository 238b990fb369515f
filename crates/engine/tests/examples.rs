//! Runs the examples to their ends. Each checks what it shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/columns.rs"]
mod columns;
#[path = "../examples/embedded.rs"]
mod embedded;
#[path = "../examples/full_text.rs"]
mod full_text;
#[path = "../examples/leaderboard.rs"]
mod leaderboard;
#[path = "../examples/ledger.rs"]
mod ledger;
#[path = "../examples/migration.rs"]
mod migration;
#[path = "../examples/queue.rs"]
mod queue;
#[path = "../examples/sessions.rs"]
mod sessions;
#[path = "../examples/time_series.rs"]
mod time_series;
#[path = "../examples/web_service.rs"]
mod web_service;

/// Proves that money is neither made nor lost, and that what is refused leaves nothing behind.
#[test]
fn the_ledger() {
    ledger::main().unwrap();
}

/// Proves that the sums by columns are the table's sums.
#[test]
fn the_columns() {
    columns::main().unwrap();
}

/// Proves that each job is done once, by some thread.
#[test]
fn the_queue() {
    queue::main().unwrap();
}

/// Proves that expired sessions, and no others, are refused and deleted.
#[test]
fn the_sessions() {
    sessions::main().unwrap();
}

/// Proves that the best come first.
#[test]
fn the_leaderboard() {
    leaderboard::main().unwrap();
}

/// Proves that what was written is there after the database was closed.
#[test]
fn the_embedded_program() {
    embedded::main().unwrap();
}

/// Proves that documents are found by their present words.
#[test]
fn the_full_text() {
    full_text::main().unwrap();
}

/// Proves that rows of the first version are read and rewritten.
#[test]
fn the_migration() {
    migration::main().unwrap();
}

/// Proves that measurements expire, and that their sums do not.
#[test]
fn the_time_series() {
    time_series::main().unwrap();
}

/// Proves that requests are answered by transactions.
#[test]
fn the_web_service() {
    web_service::main().unwrap();
}
