//! `braid bench commit`: the latency of a single client's commits, compared with plain writes and syncs of the disk.
//!
//! The three ways take turns of a few commits each, so that other load on the disk affects all of them equally.

use crate::Result;
use crate::args::{parse_count, parse_value_bytes};
use crate::engine::{self, Database, Directory, Options, Serializable};
use crate::report::environment::Environment;
use crate::report::grid::Grid;
use crate::report::write_json;
use braiddb::Table;
use braiddb::storage::{File, FileStorage, OpenMode, Storage};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// `braid bench commit`.
#[derive(Args, Clone, Debug)]
pub struct CommitArgs {
    /// Commits measured in each way
    #[arg(long, default_value = "1000", value_parser = parse_count)]
    pub commits: u64,
    /// Bytes that a transaction writes
    #[arg(long, default_value = "8", value_parser = parse_value_bytes)]
    pub value_bytes: usize,
    /// Directory in which the database is made; it is removed afterwards [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Commits in one way before it is the next way's turn.
const TURN: u64 = 20;
/// Length of the file that is written by hand. Like a segment of the log, it is reserved ahead.
const FILE_BYTES: u64 = 64 << 20;
/// Bytes of a log record without its value: header, table, key and lengths.
const RECORD_BYTES: usize = 43;

/// A way to make a value durable.
struct Way<'a> {
    name: &'static str,
    commit: Box<dyn FnMut(u64) -> Result<()> + 'a>,
    ns: Histogram<u64>,
}

/// A line of the results.
#[derive(Serialize)]
struct Line {
    way: &'static str,
    commits: u64,
    value_bytes: usize,
    p50_us: f64,
    p99_us: f64,
    mean_us: f64,
    /// The median, divided by that of writing to the disk by hand.
    ratio: f64,
}

#[derive(Serialize)]
struct Json {
    environment: Environment,
    rows: Vec<Line>,
}

/// Runs `braid bench commit`.
pub(crate) fn run(args: &CommitArgs) -> Result<()> {
    let parent = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let (of_hand, of_engine) = (Directory::new(&parent)?, Directory::new(&parent)?);
    let db: Database<Serializable> =
        engine::open_in(&of_engine, Options { workers: 1, pin_workers: true, ..Options::default() })?;
    let table: Table<u64, [u8]> = db.table("t").map_err(engine::failure)?;
    let mut ways =
        [by_hand(&of_hand, args.value_bytes)?, interactive(&db, table, args), submitted(&db, table, args)];
    let mut done = 0;
    while done < args.commits {
        for way in &mut ways {
            for i in done..done + TURN {
                let begin = Instant::now();
                (way.commit)(i)?;
                way.ns.saturating_record(begin.elapsed().as_nanos() as u64);
            }
        }
        done += TURN;
    }
    show(lines(&ways, args), args)
}

fn way<'a>(name: &'static str, commit: impl FnMut(u64) -> Result<()> + 'a) -> Way<'a> {
    let ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
    Way { name, commit: Box::new(commit), ns }
}

/// Appends as many bytes as the engine's record has, and syncs them.
fn by_hand<'a>(directory: &Directory, value_bytes: usize) -> Result<Way<'a>> {
    let failed = |error: braiddb::storage::StorageError| engine::failure(error.into());
    let storage = FileStorage::open(directory.path()).map_err(failed)?;
    let file: Box<dyn File> = storage.open("by-hand", OpenMode::CreateNew).map_err(failed)?;
    file.preallocate(0, FILE_BYTES).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    let (bytes, mut offset) = (vec![7; RECORD_BYTES + value_bytes], 0);
    Ok(way("write and sync by hand", move |_| {
        if offset + bytes.len() as u64 > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(offset, &bytes).map_err(failed)?;
        offset += bytes.len() as u64;
        file.sync_data().map_err(failed)
    }))
}

fn interactive<'a>(db: &'a Database<Serializable>, table: Table<u64, [u8]>, args: &CommitArgs) -> Way<'a> {
    let value = vec![1; args.value_bytes];
    way("interactive transaction", move |key| {
        let tx = db.begin().map_err(engine::failure)?;
        tx.put(table, key, &value).map_err(engine::failure)?;
        tx.commit().map_err(engine::failure)
    })
}

fn submitted<'a>(db: &'a Database<Serializable>, table: Table<u64, [u8]>, args: &CommitArgs) -> Way<'a> {
    let value = vec![2; args.value_bytes];
    way("submitted transaction", move |key| {
        let value = value.clone();
        db.run(async move |tx| tx.put(table, key, &value).await).wait().map_err(engine::failure)
    })
}

fn lines(ways: &[Way<'_>], args: &CommitArgs) -> Vec<Line> {
    let us = |way: &Way<'_>, quantile| way.ns.value_at_quantile(quantile) as f64 / 1e3;
    let base = us(&ways[0], 0.5);
    let line = |way: &Way<'_>| Line {
        way: way.name,
        commits: way.ns.len(),
        value_bytes: args.value_bytes,
        p50_us: us(way, 0.5),
        p99_us: us(way, 0.99),
        mean_us: way.ns.mean() / 1e3,
        ratio: us(way, 0.5) / base,
    };
    ways.iter().map(line).collect()
}

fn show(lines: Vec<Line>, args: &CommitArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let columns = ["commits", "p50 us", "p99 us", "mean us", "ratio"].map(|name| (name, true));
    let mut grid = Grid::new([("way", false)].into_iter().chain(columns));
    for line in &lines {
        let figures = [line.p50_us, line.p99_us, line.mean_us].map(|us| format!("{us:.1}"));
        let cells = [line.way.to_owned(), line.commits.to_string()].into_iter().chain(figures);
        grid.push(cells.chain([format!("{:.2}", line.ratio)]));
    }
    let summary = environment.summary();
    println!("{summary}\n\n{}\n\nratio: of the medians, to the disk by hand", grid.text());
    args.json.as_ref().map_or(Ok(()), |path| write_json(path, &Json { environment, rows: lines }))
}
