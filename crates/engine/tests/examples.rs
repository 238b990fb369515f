//! The examples run to their ends: each checks what it shows.
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

/// Money is neither made nor lost, and what is refused leaves nothing behind.
#[test]
fn the_ledger() {
    ledger::main().unwrap();
}

/// What is added up by columns is what the table has.
#[test]
fn the_columns() {
    columns::main().unwrap();
}

/// Each job is done once, by whichever thread.
#[test]
fn the_queue() {
    queue::main().unwrap();
}

/// Sessions that have expired are refused and deleted, and no others.
#[test]
fn the_sessions() {
    sessions::main().unwrap();
}

/// The best come first.
#[test]
fn the_leaderboard() {
    leaderboard::main().unwrap();
}

/// What was written down is there after the database has been closed.
#[test]
fn the_embedded_program() {
    embedded::main().unwrap();
}

/// Documents are found by their present words.
#[test]
fn the_full_text() {
    full_text::main().unwrap();
}

/// Rows of the first version are read, and rewritten.
#[test]
fn the_migration() {
    migration::main().unwrap();
}

/// Measurements expire; what they add up to does not.
#[test]
fn the_time_series() {
    time_series::main().unwrap();
}

/// Requests are answered by transactions.
#[test]
fn the_web_service() {
    web_service::main().unwrap();
}
