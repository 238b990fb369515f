//! Databases that were closed and whose files were then corrupted: deleted, truncated, overwritten, or exchanged with
//! an older file of the same kind or with a file of another database. A corrupted database either has everything that
//! was acknowledged, or does not open and says what is damaged.
//!
//! The mark of an orderly close is one of these files. It is corrupted only alone, because without it nothing tells
//! what is missing at the end of the log.

use super::{Failure, Mistake, Place};
use crate::Random;
use crate::scheduler::Ticks;
use braiddb::checkpoint::{Closed, Identity};
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::testing::Stepped;
use braiddb::wal::DatabaseId;
use braiddb::{Database, Durability, IndexKind, Options, Result, Serializable, Table, TableOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Corruptions per seed, all of one database.
pub const CORRUPTIONS_PER_SEED: u64 = 40;

const TABLES: u64 = 3;
const KEYS: u64 = 40;
/// The maximum number of changes between two flushes, checkpoints or closes.
const CHANGES: u64 = 12;
/// One in this many corruptions is of two files.
const PER_DOUBLE: u64 = 4;

/// A corruption of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Deleted,
    Truncated,
    Zeroed,
    ZeroedPart,
    Noise,
    Flipped,
    /// Another file of the same kind replaces the file.
    Exchanged,
    /// The file is replaced by its state at an earlier close of the database.
    Stale,
    /// A file of the same kind from another database replaces the file.
    Foreign,
}

const KINDS: [Kind; 9] = [
    Kind::Deleted,
    Kind::Truncated,
    Kind::Zeroed,
    Kind::ZeroedPart,
    Kind::Noise,
    Kind::Flipped,
    Kind::Exchanged,
    Kind::Stale,
    Kind::Foreign,
];

/// Counts of corruptions, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corruptions {
    /// All corruptions.
    pub corruptions: u64,
    /// Corruptions of databases with a log. The other databases were open without one.
    pub logged: u64,
    /// Cases in which the database opened and had everything.
    pub whole: u64,
    /// Cases among `whole` in which an older checkpoint than the newest was used.
    pub replaced: u64,
    /// Cases in which the database did not open and named a damaged file.
    pub refused: u64,
}

impl Corruptions {
    /// Returns the sums of both counts.
    pub fn plus(self, other: Corruptions) -> Corruptions {
        Corruptions {
            corruptions: self.corruptions + other.corruptions,
            logged: self.logged + other.logged,
            whole: self.whole + other.whole,
            replaced: self.replaced + other.replaced,
            refused: self.refused + other.refused,
        }
    }
}

/// All rows, by table and key.
type Contents = BTreeMap<(u64, u64), Vec<u8>>;
type Files = BTreeMap<String, Vec<u8>>;

/// Makes and closes a database by seed, and corrupts copies of it, `corruptions` times. Stops at the first loss.
pub fn check_corruptions(seed: u64, corruptions: u64, mistake: Mistake) -> Result<Corruptions, Box<Failure>> {
    let fails =
        |what: String| Box::new(Failure { seed, place: Place::default(), after: String::new(), what });
    let made = |result: Result<Made>| result.map_err(|error| fails(format!("it cannot be made: {error}")));
    let (own, foreign) = (made(make(seed, DatabaseId(1)))?, made(make(seed ^ 1 << 40, DatabaseId(2)))?);
    let (mut random, mut report) = (Random::new(seed ^ 0xc0_44), Corruptions::default());
    for at in 0..corruptions {
        let (storage, changes) = corrupted(&own, &foreign, &mut random, at % PER_DOUBLE == PER_DOUBLE - 1);
        report.corruptions += 1;
        report.logged += u64::from(own.is_logged);
        look(&own, &storage, &changes, mistake, &mut report)
            .map_err(|what| fails(format!("corruption {at}, {changes:?}: {what}")))?;
    }
    Ok(report)
}

/// A database that was closed.
struct Made {
    files: Files,
    /// The files at each close, the last close last.
    earlier: Vec<Files>,
    contents: Contents,
    is_logged: bool,
}

/// Makes a database and closes it several times: always with a log, always without one, or sometimes with a log and
/// sometimes without.
fn make(seed: u64, database: DatabaseId) -> Result<Made> {
    let (mut random, storage) = (Random::new(seed), Arc::new(MemoryStorage::new(1 << 26)));
    Identity::create(&*storage, database)?;
    let mode = random.below(4);
    let (mut contents, mut earlier, mut files) = (Contents::new(), Vec::new(), Files::new());
    for _ in 0..random.between(2, 4) {
        let is_logged = mode < 2 || (mode == 3 && random.chance(50));
        let durability = if is_logged { Durability::Sync } else { Durability::None };
        let (db, mut stepped) = open(storage.clone(), durability, Mistake::None)?;
        for _ in 0..random.between(1, 5) {
            change(&db, &mut stepped, &mut random, &mut contents)?;
            if random.chance(40) {
                checkpoint(&mut stepped)?;
            }
        }
        if !is_logged {
            checkpoint(&mut stepped)?;
        }
        stepped.close()?;
        drop(db);
        earlier.push(std::mem::replace(&mut files, files_of(&*storage)));
    }
    Ok(Made { files, earlier, contents, is_logged: mode < 2 })
}

fn open(
    storage: Arc<dyn Storage>,
    durability: Durability,
    mistake: Mistake,
) -> Result<(Database, Stepped<Serializable>)> {
    let options = Options {
        workers: 0,
        durability,
        log_segment_bytes: 4096,
        log_buffer_bytes: 1 << 16,
        log_lag_ms: u64::MAX,
        ..Options::default()
    };
    Database::open_stepped(storage, options, Arc::new(Ticks::default()), mistake.of_engine())
}

fn table(db: &Database, number: u64) -> Result<Table<u64, [u8]>> {
    // All index kinds that can be scanned take turns, so that the catalog entries of tables differ.
    let index = IndexKind::ordered().cycle().nth(number as usize).expect("without end");
    db.table_with(&format!("table {number}"), TableOptions { index, ..TableOptions::default() })
}

/// Commits some changes of single rows and flushes after each, because nothing else would make room in the log.
fn change(
    db: &Database,
    stepped: &mut Stepped<Serializable>,
    random: &mut Random,
    contents: &mut Contents,
) -> Result<()> {
    for _ in 0..random.between(1, CHANGES) {
        let (number, key) = (random.below(TABLES), random.below(KEYS));
        let bytes = *random.one_of(&[0, 20, 20, 200, 1000]);
        let value = (random.chance(80)).then(|| vec![random.any() as u8; bytes]);
        let (table, tx) = (table(db, number)?, db.begin()?);
        match &value {
            Some(value) => tx.put(table, key, value)?,
            None => _ = tx.delete(table, key)?,
        }
        tx.set_durability(Durability::Async)?; // a flush follows
        tx.commit()?;
        stepped.flush()?;
        match value {
            Some(value) => contents.insert((number, key), value),
            None => contents.remove(&(number, key)),
        };
    }
    Ok(())
}

fn checkpoint(stepped: &mut Stepped<Serializable>) -> Result<()> {
    while !stepped.checkpoint_step()? {
        stepped.flush()?;
    }
    Ok(())
}

fn contents_of(db: &Database) -> Result<Contents> {
    let (tx, mut contents) = (db.begin()?, Contents::new());
    for number in 0..TABLES {
        let mut rows = tx.scan::<_, _, u64>(table(db, number)?, ..);
        while let Some((key, value)) = rows.next()? {
            contents.insert((number, key), value.to_vec());
        }
    }
    Ok(contents)
}

fn files_of(storage: &dyn Storage) -> Files {
    let names = storage.list().expect("memory lists");
    let read = |name: &String| {
        let file = storage.open(name, OpenMode::Read).expect("it is there");
        let mut bytes = vec![0; file.len_bytes().expect("memory has lengths") as usize];
        file.read_exact_at(0, &mut bytes).expect("memory is read");
        bytes
    };
    names.iter().map(|name| (name.clone(), read(name))).collect()
}

/// A file's name, what was done to it, and what has replaced it.
type Change = (String, Kind, String);

/// Returns a copy of the files with one or two of them corrupted.
fn corrupted(
    own: &Made,
    foreign: &Made,
    random: &mut Random,
    is_double: bool,
) -> (Arc<MemoryStorage>, Vec<Change>) {
    let (mut files, mut changes) = (own.files.clone(), Vec::<Change>::new());
    // Files are chosen by kind first, because segments outnumber the other files.
    let mut kinds: Vec<&str> = own.files.keys().map(|name| kind_of(name)).collect();
    kinds.dedup();
    while changes.len() < 1 + usize::from(is_double) {
        let kind = *random.one_of(&kinds);
        let names: Vec<&String> = own.files.keys().filter(|name| kind_of(name) == kind).collect();
        let name = random.one_of(&names).to_string();
        if (is_double && name == Closed::FILE) || changes.iter().any(|(other, ..)| *other == name) {
            continue;
        }
        let what = *random.one_of(&KINDS);
        let Some((bytes, with)) = replacement(&name, what, own, foreign, random) else { continue };
        if bytes.as_ref() == own.files.get(&name) {
            continue;
        }
        match bytes {
            Some(bytes) => files.insert(name.clone(), bytes),
            None => files.remove(&name),
        };
        changes.push((name, what, with));
    }
    let storage = Arc::new(MemoryStorage::new(1 << 26));
    for (name, bytes) in &files {
        let file = storage.open(name, OpenMode::CreateNew).expect("it is new");
        file.write_all_at(0, bytes).expect("there is room");
    }
    (storage, changes)
}

/// Returns a file's name without its numbers.
fn kind_of(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// Returns what replaces the file, if there is such a thing, and where it comes from.
fn replacement(
    name: &str,
    kind: Kind,
    own: &Made,
    foreign: &Made,
    random: &mut Random,
) -> Option<(Option<Vec<u8>>, String)> {
    let mut bytes = own.files[name].clone();
    let (len, mut with) = (bytes.len() as u64, String::new());
    let (from, to) = (random.below(len.max(1)) as usize, random.below(len + 1) as usize);
    let mut alike = |files: &Files, random: &mut Random| {
        let alike: Vec<_> = files.iter().filter(|(other, _)| kind_of(other) == kind_of(name)).collect();
        let (other, bytes) = if alike.is_empty() { None } else { Some(*random.one_of(&alike)) }?;
        with = other.clone();
        Some(bytes.clone())
    };
    match kind {
        Kind::Deleted => return Some((None, with)),
        Kind::Truncated => bytes.truncate(from),
        Kind::Zeroed => bytes.fill(0),
        Kind::ZeroedPart => bytes[from.min(to)..from.max(to)].fill(0),
        Kind::Noise => bytes.iter_mut().for_each(|byte| *byte = random.any() as u8),
        Kind::Flipped => *bytes.get_mut(from)? ^= 1 << random.below(8),
        Kind::Exchanged => bytes = alike(&own.files, random)?,
        Kind::Stale => bytes = random.one_of(&own.earlier).get(name)?.clone(),
        Kind::Foreign => bytes = alike(&foreign.files, random)?,
    }
    Some((Some(bytes), with))
}

/// Opens the corrupted database. It must have everything, or the error must name a damaged file; verification must
/// agree.
fn look(
    own: &Made,
    storage: &Arc<MemoryStorage>,
    changes: &[Change],
    mistake: Mistake,
    report: &mut Corruptions,
) -> Result<(), String> {
    let verified = braiddb::tools::verify(&**storage, &mut |_| {});
    let before = files_of(&**storage);
    let durability = if own.is_logged { Durability::Sync } else { Durability::None };
    let is_refused = match open(storage.clone(), durability, mistake) {
        Err(error) => {
            let text = error.to_string();
            if !changes.iter().any(|(name, ..)| text.contains(name.as_str())) {
                return Err(format!("the error names none of the damaged files: {text}"));
            }
            if files_of(&**storage) != before {
                return Err("opening fails, and has changed files".into());
            }
            report.refused += 1;
            true
        }
        Ok((db, _stepped)) => {
            let found = contents_of(&db).map_err(|error| format!("it opens and cannot be read: {error}"))?;
            if found != own.contents {
                let (is, was) = (found.len(), own.contents.len());
                return Err(format!("it opens with another state: {is} rows, and there were {was}"));
            }
            report.whole += 1;
            let recovery = db.recovery().expect("it is durable");
            report.replaced += u64::from(!recovery.damaged_checkpoints.is_empty());
            false
        }
    };
    match verified {
        Ok(found) if mistake == Mistake::None && found.would_open() == is_refused => {
            Err(format!("verification says {:?}, and it opens: {}", found.outlook, !is_refused))
        }
        Ok(found) if is_refused && found.damages().next().is_none() => {
            Err("it does not open, and verification finds no damage".into())
        }
        Err(error) if !is_refused => Err(format!("it opens, and cannot be verified: {error}")),
        _ => Ok(()),
    }
}
