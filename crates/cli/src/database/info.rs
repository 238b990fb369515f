//! `braid info`: describes a database.

use super::look::count;
use super::open::{Failure, existing, read};
use braid_bench::text::grouped;
use braiddb::Database;
use braiddb::checkpoint::Identity;
use braiddb::recovery::Recovery;
use braiddb::storage::{OpenMode, Storage};
use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `braid info`.
#[derive(Args, Debug)]
pub struct InfoArgs {
    /// The database's directory; it is only read, and no process may have it open
    path: PathBuf,
    #[command(flatten)]
    form: Form,
}

/// The output format.
#[derive(Args, Debug)]
pub struct Form {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The files of one kind, and the space that they take.
#[derive(Clone, Copy, Default)]
struct Files {
    count: u64,
    bytes: u64,
}

impl Files {
    /// The files whose names begin with `prefix`.
    fn of(storage: &dyn Storage, prefix: &str) -> Result<Files, Failure> {
        let mut files = Files::default();
        for name in storage.list()?.iter().filter(|name| name.starts_with(prefix)) {
            files.count += 1;
            files.bytes += storage.open(name, OpenMode::Read)?.disk_bytes()?;
        }
        Ok(files)
    }
}

/// The description of a database.
struct Info {
    database: u128,
    recovery: Recovery,
    log: Files,
    rows: Files,
    tables: usize,
    indexes: usize,
    records: u64,
    memory_bytes: u64,
}

/// Runs `braid info`.
pub fn info(args: &InfoArgs) -> Result<(), Failure> {
    existing(&args.path)?;
    let db = read(&args.path)?;
    write(&db, &args.path, &args.form, &mut io::stdout().lock())?;
    Ok(db.close()?)
}

/// Writes the description of a database that is open in this directory.
pub fn write(db: &Database, path: &Path, form: &Form, to: &mut dyn Write) -> Result<(), Failure> {
    let storage = existing(path)?;
    let (log, rows) = (Files::of(&storage, "log-")?, Files::of(&storage, "rows-")?);
    let identity = Identity::read(&storage)?.ok_or("the database has no identity file")?;
    let info = Info::of(db, identity.database.0, log, rows)?;
    match form.json {
        true => writeln!(to, "{}", info.json())?,
        false => info.lines().iter().try_for_each(|(what, text)| writeln!(to, "{what:<12}{text}"))?,
    }
    Ok(())
}

impl Info {
    fn of(db: &Database, database: u128, log: Files, rows: Files) -> Result<Info, Failure> {
        let (tables, memory) = (db.tables(), db.statistics().memory);
        let counts: Vec<u64> = tables.iter().map(|table| count(db, table)).collect::<Result<_, _>>()?;
        Ok(Info {
            database,
            recovery: db.recovery().unwrap_or_default(),
            log,
            rows,
            tables: tables.len(),
            indexes: tables.iter().map(|table| table.indexes.len()).sum(),
            records: counts.iter().sum(),
            memory_bytes: memory.index_bytes + memory.records_bytes + memory.versions_bytes,
        })
    }

    fn lines(&self) -> [(&'static str, String); 8] {
        let Info { recovery, log, rows, .. } = self;
        let ms = |ns: u64| ns as f64 / 1e6;
        let checkpoint = match recovery.checkpoint {
            Some(number) => {
                let (rows, ms) = (grouped(recovery.rows), ms(recovery.load_ns));
                format!("{number}, {rows} rows, loaded in {ms:.1} ms")
            }
            None => "none".into(),
        };
        let closed =
            if recovery.was_closed { "in order" } else { "not in order: its process was killed or crashed" };
        let files = |files: &Files| format!("{} in {} files", HumanBytes(files.bytes), grouped(files.count));
        let replayed = format!(
            "{} transactions, {} in {:.1} ms",
            grouped(recovery.transactions),
            HumanBytes(recovery.log_bytes),
            ms(recovery.replay_ns)
        );
        [
            ("identity", format!("{:032x}", self.database)),
            ("closed", closed.into()),
            (
                "tables",
                format!(
                    "{} with {} rows, {} in memory",
                    self.tables,
                    grouped(self.records),
                    HumanBytes(self.memory_bytes)
                ),
            ),
            ("indexes", format!("{} by columns", self.indexes)),
            ("checkpoint", checkpoint),
            ("row files", files(rows)),
            ("log", files(log)),
            ("replayed", replayed),
        ]
    }

    fn json(&self) -> serde_json::Value {
        let Info { recovery, log, rows, .. } = self;
        json!({
            "identity": format!("{:032x}", self.database),
            "closed_in_order": recovery.was_closed,
            "tables": self.tables, "indexes": self.indexes, "rows": self.records, "memory_bytes": self.memory_bytes,
            "checkpoint": recovery.checkpoint, "checkpoint_rows": recovery.rows, "load_ns": recovery.load_ns,
            "rows_files": rows.count, "rows_bytes": rows.bytes,
            "log_files": log.count, "log_bytes": log.bytes,
            "replayed_transactions": recovery.transactions, "replayed_bytes": recovery.log_bytes,
            "replay_ns": recovery.replay_ns,
        })
    }
}
