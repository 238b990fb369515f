//! The examples run to their ends: each checks what it shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/columns.rs"]
mod columns;
#[path = "../examples/embedded.rs"]
mod embedded;
#[path = "../examples/leaderboard.rs"]
mod leaderboard;
#[path = "../examples/ledger.rs"]
mod ledger;
#[path = "../examples/queue.rs"]
mod queue;
#[path = "../examples/sessions.rs"]
mod sessions;

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
