//! Runs a number of TPC-C transactions of one kind on a few small warehouses. `cargo xtask cache --check` runs this
//! example and counts its instructions.
//!
//! `counted_tpcc MIX MODE TRANSACTIONS`: a mix as `braid bench tpcc` names it, and `naive`, `interleaved` or `teams`.
//! The transactions are a stream on one worker. As in the benchmark, hints keep interleaved transactions apart that
//! would conflict.

use braid_tpcc::{Input, Mix, Scale, Settings, Tpcc, UnusedItem};
use braiddb::suspend::{Never, OnMiss, Teams};
use braiddb::worker::{Hint, WorkerOptions};
use braiddb::{Database, Error, Options, Result, Txn};

const SEED: u64 = 1;
/// Small enough that hardly one order in ten meets another order's stock, because the work is to be counted and not
/// retries.
const BATCH: usize = 8;
/// Enough warehouses that the Deliveries of a batch need not wait for each other. Each warehouse is so small that all
/// are loaded in a moment. Each district has 27 new orders, which is enough for a few hundred Deliveries.
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
