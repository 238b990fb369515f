//! A number of TPC-C's transactions of one kind on a few small warehouses, for `cargo xtask cache --check`, which counts their
//! instructions.
//!
//! `counted_tpcc MIX MODE TRANSACTIONS`: a mix as `braid bench tpcc` names it, `naive`, `interleaved` or `teams`, as a stream on one
//! worker. As in the benchmark, interleaved transactions that would conflict are kept apart by hints.

use braid_tpcc::{Input, Mix, Scale, Settings, Tpcc, UnusedItem};
use braiddb::suspend::{Never, OnMiss, Teams};
use braiddb::worker::{Hint, WorkerOptions};
use braiddb::{Database, Error, Options, Result, Txn};

const SEED: u64 = 1;
/// Few enough that hardly an order in ten meets another one's stock: what is to be counted is the work, not retries.
const BATCH: usize = 8;
/// So many warehouses that a batch of Deliveries need not wait for each other, each so small that all are loaded in a moment, and
/// with 27 new orders of each district: enough for a few hundred Deliveries.
const SCALE: Scale = Scale { warehouses: 16, districts: 10, customers: 90, items: 2000, suppliers: 100 };

fn options(batch: usize) -> WorkerOptions {
    WorkerOptions { batch: batch.into(), ..WorkerOptions::default() }
}

fn hint(input: &Input) -> Hint {
    let (keys, count) = input.conflicts();
    keys[..count].iter().fold(Hint::default(), |hint, key| hint.touches(*key))
}

fn main() -> Result<()> {
    let usage = || Error::user("usage: counted_tpcc MIX naive|interleaved|teams TRANSACTIONS");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, mode, transactions] = arguments.as_slice() else { return Err(usage()) };
    let mix = Mix::ALL.into_iter().find(|mix| mix.name() == name).ok_or_else(usage)?;
    let transactions: usize = transactions.parse().map_err(|_| usage())?;
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let tpcc = Tpcc::load(&db, Settings { mix, ..Settings::new(SCALE) }, SEED, 1, &|_, _| {})?;
    let mut source = tpcc.inputs((0, 1), SEED);
    let inputs = std::iter::repeat_with(|| source.next()).take(transactions);
    let transaction = async |tx: &Txn, input: &Input| tpcc.transaction(tx, input, false).await;
    let ended = |result| match result {
        Ok(_) => {}
        Err(Error::User(error)) if error.is::<UnusedItem>() => {}
        Err(error) => panic!("{error}"),
    };
    match mode.as_str() {
        "naive" => db.worker_with(Never, options(1)).run_each(inputs, transaction, ended),
        "interleaved" => {
            db.worker_with(OnMiss, options(BATCH)).run_each_hinted(inputs, hint, transaction, ended);
        }
        "teams" => {
            let loaded = db.statistics();
            db.worker_with(Teams, options(BATCH)).run_each_hinted(inputs, hint, transaction, ended);
            let counts = db.statistics();
            let team = (counts.visits - loaded.visits) as f64 / counts.teams as f64;
            println!("{team:.1} transactions in a team");
        }
        _ => return Err(usage()),
    }
    Ok(())
}
