//! Kills processes while they commit: real threads, real files, SIGKILL.
//!
//! A child process opens a database. Several clients write to it, one transaction after another, and the child prints a
//! line for each acknowledged transaction. The parent process kills the child after some milliseconds, opens the
//! database itself, checks its contents, and starts the next child on the same directory.

use braid_bench::temporary::Directory;
use braid_sim::{Kind, Random};
use braiddb::metrics::SystemClock;
use braiddb::storage::FileStorage;
use braiddb::{AnyScheme, Database, Error, IndexKind, Options, SchemeName, Table, Transaction, Txn};
use clap::Args;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

const CLIENTS: u64 = 6;
const ACCOUNTS: u64 = 20;
/// The number of kills in one directory before the next directory is used: a grown database takes long to check.
const KILLS_PER_DIRECTORY: u64 = 50;
/// The time within which a process must acknowledge something.
const PATIENCE: Duration = Duration::from_secs(20);

/// The results of the kills.
#[derive(Clone, Debug, Default)]
pub struct Kills {
    /// True if this system can kill processes.
    pub is_possible: bool,
    /// Processes killed.
    pub kills: u64,
    /// The kills that left an unfinished checkpoint.
    pub in_checkpoints: u64,
    /// The kills after the directory was renamed, with another database at its old path.
    pub renamed: u64,
    /// Transactions that the processes acknowledged.
    pub acknowledged: u64,
    /// Everything that is wrong, in words, and how to reproduce it.
    pub lost: Vec<(String, String)>,
}

/// Kills `kills` processes. Stops at the first loss, and keeps the directory that shows it. The `kinds` take turns from
/// one directory to the next.
pub fn kill(
    directory: Option<&Path>,
    kills: u64,
    seed: u64,
    kinds: &[Kind],
    bar: &ProgressBar,
) -> io::Result<Kills> {
    let mut all = Kills { is_possible: cfg!(unix), ..Kills::default() };
    if !all.is_possible {
        return Ok(all);
    }
    bar.set_message("kills");
    let root = directory.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let mut random = Random::new(seed);
    // Each kind has its turn.
    let of_each = kills.div_ceil(kinds.len() as u64).clamp(1, KILLS_PER_DIRECTORY);
    for round in 0..kills.div_ceil(of_each) {
        let kind = kinds[round as usize % kinds.len()];
        let directory = Directory::at(root.join(format!("braid-crash-{}-{round}", std::process::id())));
        let count = of_each.min(kills - round * of_each);
        match kill_some(directory.path(), count, kind, &mut random, &mut all, bar) {
            Ok(()) if all.lost.is_empty() => {}
            ended => {
                let path = directory.path().display().to_string();
                directory.keep();
                for (_, again) in &mut all.lost {
                    *again = format!(
                        "kills depend on time; the directory is {path}; braid-lab check crash --states 0 --corruptions 0 --kills {kills} --seed {seed} --cc {} --index {}",
                        kind.scheme,
                        kind.index.name()
                    );
                }
                return ended.map(|()| all).map_err(|error| {
                    io::Error::new(error.kind(), format!("{error} (the directory is {path})"))
                });
            }
        }
    }
    Ok(all)
}

/// Kills processes one after another in one directory, up to the first loss.
fn kill_some(
    directory: &Path,
    count: u64,
    kind: Kind,
    random: &mut Random,
    all: &mut Kills,
    bar: &ProgressBar,
) -> io::Result<()> {
    let mut last = BTreeMap::new();
    for _ in 0..count {
        let (acknowledged, renamed) = kill_one(directory, kind, random)?;
        all.kills += 1;
        all.renamed += u64::from(renamed.is_some());
        let judged = renamed.map_or(Ok(()), Renamed::judge);
        all.in_checkpoints += u64::from(has_unfinished_checkpoint(directory)?);
        all.acknowledged += acknowledged.values().map(|(_, count)| count).sum::<u64>();
        bar.inc(1);
        if let Err(what) = judged.and_then(|()| judge(directory, kind, &acknowledged, &mut last)) {
            all.lost.push((format!("after kill {}: {what}", all.kills), String::new()));
            break;
        }
    }
    Ok(())
}

/// For each client, the last acknowledged transaction and the number of acknowledged transactions.
type Acknowledged = BTreeMap<u64, (u64, u64)>;

/// Runs a process for a while, and kills it.
fn kill_one(
    directory: &Path,
    kind: Kind,
    random: &mut Random,
) -> io::Result<(Acknowledged, Option<Renamed>)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["check", "crash-child", "--seed", &random.any().to_string()]);
    command.args(["--cc", kind.scheme.name(), "--index", kind.index.name(), "--directory"]).arg(directory);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (first, has_begun) = channel();
    let lines = process.stdout.take().expect("it is piped");
    let reader = thread::spawn(move || read(lines, &first));
    // Kill some processes during recovery, and most while they commit.
    let has_begun = random.chance(80) && has_begun.recv_timeout(PATIENCE).is_ok();
    let renamed = (has_begun && random.chance(20)).then(|| Renamed::make(directory, kind)).transpose()?;
    thread::sleep(Duration::from_micros(random.below(40_000)));
    end(&mut process)?;
    let acknowledged = reader.join().expect("reading does not panic");
    Ok((acknowledged, renamed))
}

/// A directory that was renamed while a process has it open, and another database in its place.
struct Renamed {
    path: PathBuf,
    moved: PathBuf,
    other: Database<AnyScheme>,
    kind: Kind,
}

impl Renamed {
    /// Rows of the other database.
    const ROWS: u64 = 500;

    /// Renames the directory and creates the other database, whose checkpoints and segments come and go as well.
    fn make(path: &Path, kind: Kind) -> io::Result<Renamed> {
        let moved = path.with_extension("moved");
        std::fs::rename(path, &moved)?;
        let other = open(path, kind).and_then(|other| {
            let table: Table<u64, [u8]> = other.table("other")?;
            for part in 0..5 {
                let put = async move |tx: &Txn<AnyScheme>| {
                    for key in (0..Renamed::ROWS).filter(|key| key % 5 == part) {
                        tx.put(table, key, &filler_of(key, part)).await?;
                    }
                    Ok(())
                };
                other.run(put).wait()?;
                other.checkpoint()?;
            }
            Ok(other)
        });
        Ok(Renamed { path: path.into(), moved, other: other.map_err(io::Error::other)?, kind })
    }

    /// Called after the process was killed. Checks that the other database is complete, and moves the renamed directory
    /// back to its path.
    fn judge(self) -> Result<(), String> {
        let Renamed { path, moved, other, kind } = self;
        let judged = other.close().and_then(|()| {
            let other = open(&path, kind)?;
            let table: Table<u64, [u8]> = other.table("other")?;
            let snapshot = other.begin()?;
            for key in 0..Renamed::ROWS {
                let value = snapshot.get(table, key)?;
                if value != Some(&filler_of(key, key % 5)[..]) {
                    return Err(Error::user(format!("its row {key} is wrong")));
                }
            }
            Ok(())
        });
        judged.map_err(|error| format!("of the database at the path of a renamed one: {error}"))?;
        std::fs::remove_dir_all(&path)
            .and_then(|()| std::fs::rename(&moved, &path))
            .map_err(|error| format!("{} cannot be put back: {error}", moved.display()))
    }
}

/// Kills a process. Fails if the process has ended before.
fn end(process: &mut Child) -> io::Result<()> {
    if let Some(status) = process.try_wait()? {
        return Err(io::Error::other(format!("a process to be killed has ended before: {status}")));
    }
    process.kill()?;
    process.wait().map(drop)
}

/// The transactions that a process has acknowledged, up to its last complete line.
fn read(lines: ChildStdout, first: &Sender<()>) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    let (mut lines, mut line) = (BufReader::new(lines), String::new());
    while lines.read_line(&mut line).is_ok() && line.ends_with('\n') {
        let numbers = line.trim_end().split_once(' ');
        let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (client, number): (u64, u64) = numbers.expect("a client and a number");
        let (last, count) = acknowledged.entry(client).or_default();
        (*last, *count) = (number, *count + 1);
        let _ = first.send(());
        line.clear();
    }
    acknowledged
}

/// Returns true if there is a checkpoint that was begun and not published.
fn has_unfinished_checkpoint(directory: &Path) -> io::Result<bool> {
    if !directory.is_dir() {
        return Ok(false);
    }
    let names: Result<Vec<_>, _> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.file_name())).collect();
    let names: Vec<String> = names?.into_iter().filter_map(|name| name.into_string().ok()).collect();
    let number = |name: &String, prefix: &str| name.strip_prefix(prefix)?.get(..20).map(String::from);
    let newest = |prefix: &str| names.iter().filter_map(|name| number(name, prefix)).max();
    let is_published = |name: &&String| !name.ends_with(".new");
    let published = names.iter().filter(is_published).filter_map(|name| number(name, "checkpoint-")).max();
    Ok(newest("rows-") > published || newest("checkpoint-") > published)
}

/// Opens the database that a killed process has left. Checks that each client's transactions are there without a gap,
/// and complete, up to the last acknowledged one or the one after it. `last` has the transactions that were there after
/// the previous kill.
fn judge(
    directory: &Path,
    kind: Kind,
    acknowledged: &Acknowledged,
    last: &mut BTreeMap<u64, u64>,
) -> Result<(), String> {
    let text = |error: Error| format!("the database cannot be opened and read: {error}");
    let database = open(directory, kind).map_err(text)?;
    let tables = Tables::open(&database).map_err(text)?;
    let Rows { journal, present, balances } = tables.rows(&database).map_err(text)?;
    let (mut found, mut expected) = (BTreeMap::new(), BTreeMap::new());
    for ((client, number), transfer) in journal {
        let before = found.insert(client, number).unwrap_or_default();
        if number != before + 1 {
            return Err(format!("of client {client} transaction {} is lost, {number} is there", before + 1));
        }
        transfer_of(transfer).into_iter().for_each(|(account, amount)| {
            *expected.entry(account).or_default() += amount;
        });
    }
    for client in 0..CLIENTS {
        let there = found.get(&client).copied().unwrap_or_default();
        let known = last.get(&client).copied().unwrap_or_default();
        let known = acknowledged.get(&client).map_or(known, |(number, _)| *number);
        if there < known {
            return Err(format!(
                "of client {client} {known} transactions were acknowledged, {there} are there"
            ));
        }
        if there > known + 1 {
            return Err(format!("of client {client} {there} are there, and only {known} were answered"));
        }
    }
    if found != present {
        return Err(format!("the last transactions are {found:?} in one table, {present:?} in another"));
    }
    if balances != expected {
        return Err(format!("the accounts hold {balances:?}, the transfers make {expected:?}"));
    }
    *last = found;
    Ok(())
}

fn open(directory: &Path, kind: Kind) -> Result<Database<AnyScheme>, Error> {
    let storage = Arc::new(FileStorage::create(directory)?);
    Database::open_with(storage, options(kind), Arc::new(SystemClock::default()), &mut |_| {})
}

fn options(kind: Kind) -> Options {
    Options {
        workers: 2,
        pin_workers: false,
        log_segment_bytes: 64 << 10,
        checkpoint_log_bytes: 64 << 10,
        ..kind.options()
    }
}

/// The tables that the clients write.
#[derive(Clone, Copy)]
struct Tables {
    /// The transfer of each transaction, by client and transaction number.
    journal: Table<(u64, u64), u64>,
    /// A long value for the last transaction of each client only, by client and transaction number.
    last: Table<(u64, u64), [u8]>,
    accounts: Table<u64, i64>,
}

/// The contents of the tables.
struct Rows {
    journal: Vec<((u64, u64), u64)>,
    present: BTreeMap<u64, u64>,
    balances: BTreeMap<u64, i64>,
}

fn gone() -> Error {
    Error::user("a row is gone that the same transaction has found")
}

/// The keys of a table, read as tools read them, in any order. A key is `NUMBERS` numbers.
fn keys<const NUMBERS: usize>(
    database: &Database<AnyScheme>,
    snapshot: &Transaction<AnyScheme>,
    table: &str,
) -> Result<Vec<[u64; NUMBERS]>, Error> {
    let raw = database.raw_table(table).ok_or_else(|| Error::user(format!("table {table} is gone")))?;
    let (mut rows, mut keys) = (raw.scan(snapshot), Vec::new());
    while let Some((bytes, _)) = rows.next()? {
        let numbers: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect();
        keys.push(numbers.try_into().map_err(|_| Error::user(format!("a key {bytes:?} of {table}")))?);
    }
    Ok(keys)
}

/// The changes of accounts in a transfer.
fn transfer_of(transfer: u64) -> [(u64, i64); 2] {
    let (from, to, amount) = (transfer % ACCOUNTS, transfer / ACCOUNTS % ACCOUNTS, transfer % 97);
    [(from, -(amount as i64)), (to, amount as i64)]
}

impl Tables {
    fn open(database: &Database<AnyScheme>) -> Result<Tables, Error> {
        let (journal, last) = (database.table("journal")?, database.table("last")?);
        Ok(Tables { journal, last, accounts: database.table("accounts")? })
    }

    fn rows(self, database: &Database<AnyScheme>) -> Result<Rows, Error> {
        let (mut journal, mut present, mut balances) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let snapshot = database.begin()?;
        for [client, number] in keys(database, &snapshot, "journal")? {
            let transfer = snapshot.get(self.journal, (client, number))?.ok_or_else(gone)?;
            journal.push(((client, number), transfer));
        }
        journal.sort_unstable();
        for [client, number] in keys(database, &snapshot, "last")? {
            let filler = snapshot.get(self.last, (client, number))?.ok_or_else(gone)?;
            let is_whole = filler == filler_of(client, number) && present.insert(client, number).is_none();
            if !is_whole {
                return Err(Error::user(format!(
                    "the row of client {client}, transaction {number}, is wrong"
                )));
            }
        }
        for [account] in keys(database, &snapshot, "accounts")? {
            balances.insert(account, snapshot.get(self.accounts, account)?.ok_or_else(gone)?);
        }
        Ok(Rows { journal, present, balances })
    }

    /// Runs a client's next transaction.
    async fn commit(self, tx: &Txn<AnyScheme>, client: u64, number: u64, transfer: u64) -> Result<(), Error> {
        tx.insert(self.journal, (client, number), transfer).await?;
        tx.delete(self.last, (client, number - 1)).await?;
        tx.insert(self.last, (client, number), &filler_of(client, number)).await?;
        for (account, change) in transfer_of(transfer) {
            let amount = tx.get(self.accounts, account).await?.unwrap_or_default();
            tx.put(self.accounts, account, amount + change).await?;
        }
        Ok(())
    }
}

fn filler_of(client: u64, number: u64) -> Vec<u8> {
    vec![(client * 7 + number) as u8; (number * 131 % 1500) as usize]
}

/// Arguments of the child process.
#[derive(Args, Debug)]
pub struct ChildArgs {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    index: IndexKind,
    #[arg(long)]
    cc: SchemeName,
}

/// Runs the child: commits, and prints acknowledged transactions, until it is killed.
pub fn child(args: &ChildArgs) -> Result<(), Box<dyn std::error::Error>> {
    let database = open(&args.directory, Kind { scheme: args.cc, index: args.index })?;
    let tables = Tables::open(&database)?;
    let present = tables.rows(&database)?.present;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let number = present.get(&client).copied().unwrap_or_default();
                let (database, random) = (&database, Random::new(args.seed ^ client << 32));
                scope.spawn(move || commit_for_ever(database, tables, (client, number), random))
            })
            .collect();
        let checkpoints = scope.spawn(|| -> Result<(), Error> {
            loop {
                database.checkpoint()?;
            }
        });
        for thread in clients.into_iter().chain([checkpoints]) {
            thread.join().expect("no client panics")?;
        }
        Ok(())
    })
}

fn commit_for_ever(
    database: &Database<AnyScheme>,
    tables: Tables,
    (client, mut number): (u64, u64),
    mut random: Random,
) -> Result<(), Error> {
    loop {
        number += 1;
        let (next, transfer) = (number, random.any());
        database.run(async move |tx| tables.commit(tx, client, next, transfer).await).wait()?;
        // A single write keeps lines from mixing. If nobody reads them any more, the kill is about to happen.
        let _ = io::stdout().lock().write_all(format!("{client} {number}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// Proves that a missing acknowledged transaction counts as a loss, and so do gaps, torn transactions, more
    /// transactions than were answered, and wrong sums, and that a correct database has no loss.
    #[test]
    fn losses_are_told() {
        let directory = std::env::temp_dir().join(format!("braid-kill-test-{}", std::process::id()));
        let judged = |acknowledged: u64, change: &dyn Fn(&Database<AnyScheme>, Tables)| {
            let _ = std::fs::remove_dir_all(&directory);
            let database = open(&directory, IndexKind::BTree.into()).unwrap();
            let tables = Tables::open(&database).unwrap();
            for number in 1..=3 {
                let done = database.run(async move |tx| tables.commit(tx, 0, number, number * 1001).await);
                done.wait().unwrap();
            }
            change(&database, tables);
            database.close().unwrap();
            let acknowledged = BTreeMap::from([(0, (acknowledged, 1))]);
            judge(&directory, IndexKind::BTree.into(), &acknowledged, &mut BTreeMap::new())
        };
        let nothing = |_: &Database<AnyScheme>, _: Tables| {};
        assert_eq!((judged(3, &nothing), judged(2, &nothing)), (Ok(()), Ok(())));
        let whatever = |what: &str, result: Result<(), String>| {
            assert!(result.as_ref().is_err_and(|error| error.contains(what)), "{result:?}");
        };
        whatever("acknowledged", judged(4, &nothing));
        whatever("only 1 were answered", judged(1, &nothing));
        let changed = |change: fn(&Transaction<AnyScheme>, Tables) -> Result<(), Error>| {
            judged(3, &|database, tables| {
                let transaction = database.begin().unwrap();
                change(&transaction, tables).unwrap();
                transaction.commit().unwrap();
            })
        };
        whatever("transaction 2 is lost", changed(|tx, tables| tx.delete(tables.journal, (0, 2)).map(drop)));
        whatever("in another", changed(|tx, tables| tx.delete(tables.last, (0, 3)).map(drop)));
        whatever("is wrong", changed(|tx, tables| tx.put(tables.last, (0, 3), b"torn")));
        whatever("the transfers make", changed(|tx, tables| tx.put(tables.accounts, 1, 12345)));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
