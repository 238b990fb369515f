//! Generates a correct history of a million transactions and measures the checker: the analysis (all passes over the
//! operations) and each verdict (the graph and its components). No JSON is involved.
//!
//! `cargo run --release -p braid-history --example million -- [TRANSACTIONS]`

use braid_history::generate::{Execution, Shape, generate};
use braid_history::{Checker, Model, Order};
use std::time::Instant;

fn main() {
    let transactions = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let shape = Shape {
        transactions,
        sessions: 16,
        registers: (transactions / 4).max(1),
        lists: (transactions / 4).max(1),
        ops_max: 7,
        scan_length: 0,
        ..Shape::default()
    };
    let history = generate(1, &shape, Execution::Strict);
    let ops: usize = history.transactions().iter().map(|transaction| transaction.ops.len()).sum();
    println!("{} transactions, {ops} operations", history.len());
    for order in [Order::Stamps, Order::Values] {
        let start = Instant::now();
        let checker = Checker::new(&history, order);
        println!("order by {order}: analysis {:.2} s", start.elapsed().as_secs_f64());
        for model in [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation] {
            let start = Instant::now();
            let verdict = checker.verdict(model);
            println!("  {:.2} s: {verdict}", start.elapsed().as_secs_f64());
        }
    }
}
