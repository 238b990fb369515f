//! SQLite with prepared statements, over one connection per thread: one writer at a time. The database is in memory
//! (SQLite's `memdb`, which connections share), or in a file with a write-ahead log.

use crate::peer::{self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, perform, retry};
use crate::work::{Outcome, Table, Task, Work};
use braid_bench::Result;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Statement};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A database, in a file if `FILE` is true, otherwise in memory.
pub struct Sqlite<const FILE: bool> {
    name: String,
    class: Class,
    records: u64,
    /// Keeps the database in memory alive, which needs at least one connection.
    _keeper: Mutex<Connection>,
    /// A queue for writers. If they polled for the lock of the database, many would starve.
    line: Mutex<()>,
}

fn failed(error: rusqlite::Error) -> braid_bench::Failure {
    peer::failed("sqlite", error)
}

fn fault(error: rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::Conflict,
        _ => Fault::Failed(failed(error)),
    }
}

/// SQLite's integers are signed. This conversion keeps the order of keys.
fn signed(key: u64) -> i64 {
    (key ^ (1 << 63)) as i64
}

/// Waits for a lock. The first tries follow each other quickly, because locks are short. Returns false after enough
/// tries.
fn wait_for_lock(tries: i32) -> bool {
    match tries {
        0..64 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(50)),
    }
    tries < 1_000_000
}

/// Opens a connection. All connections, to a file or to memory, are set up alike.
fn connect(name: &str, is_file: bool, class: Class, records: u64) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    flags |= OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(name, flags)?;
    connection.busy_handler(Some(wait_for_lock))?;
    if is_file {
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        let synchronous = if class == Class::Sync { "FULL" } else { "OFF" };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // The map is larger than the file, so pages are read in place.
        connection.pragma_update_and_check(None, "mmap_size", 1i64 << 36, |_| Ok(()))?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 10_000, |_| Ok(()))?;
    } else {
        connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    }
    // In KiB if negative: room for all records.
    connection.pragma_update(None, "cache_size", -(records as i64 * 64 / 1024 + 65_536))?;
    Ok(connection)
}

const INSERT: &str = "INSERT INTO TABLE VALUES (?1, ?2)";

impl<const FILE: bool> Peer for Sqlite<FILE> {
    const FACTS: Facts = Facts {
        name: if FILE { "sqlite" } else { "sqlite-memory" },
        isolation: "serializable, one writer",
        transactional: true,
        ordered: true,
        classes: if FILE { &[Class::Memory, Class::Sync] } else { &[Class::Memory] },
        multiplexes: false,
        server: false,
    };

    type Session<'a> = Connected<'a>;

    fn open(setting: &Setting) -> Result<Self> {
        std::fs::create_dir_all(&setting.directory).map_err(|error| peer::failed("sqlite", error))?;
        let name = setting.directory.display();
        let name = if FILE { format!("{name}/sqlite") } else { format!("file:{name}?vfs=memdb") };
        let keeper = connect(&name, FILE, setting.class, setting.records).map_err(failed)?;
        for table in Table::ALL {
            let name = table.name();
            let sql = format!("CREATE TABLE {name} (key INTEGER PRIMARY KEY, value INTEGER NOT NULL)");
            keeper.execute_batch(&sql).map_err(failed)?;
        }
        let (class, records) = (setting.class, setting.records);
        Ok(Sqlite { name, class, records, _keeper: Mutex::new(keeper), line: Mutex::new(()) })
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let connection = connect(&self.name, FILE, self.class, self.records).map_err(failed)?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let mut statement = connection.prepare(&INSERT.replace("TABLE", table.name())).map_err(failed)?;
        for (key, value) in rows {
            statement.execute((signed(key), value as i64)).map_err(failed)?;
        }
        connection.execute_batch("COMMIT").map_err(failed)
    }

    fn session(&self, _: Option<usize>) -> Result<Connected<'_>> {
        let connection = connect(&self.name, FILE, self.class, self.records).map_err(failed)?;
        Ok(Connected(connection, &self.line))
    }
}

/// One thread's connection.
pub struct Connected<'a>(Connection, &'a Mutex<()>);

impl Session for Connected<'_> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        Held::prepare(self).map_err(failed)?.execute(work, task)
    }

    /// Statements are prepared once for the whole stream, because looking one up takes as long as a read.
    fn stream(
        &mut self,
        work: &Work,
        tasks: impl Iterator<Item = Task>,
        mut ended: impl FnMut(u64, Outcome),
    ) -> Result<()> {
        let mut held = Held::prepare(self).map_err(failed)?;
        for task in tasks {
            let outcome = held.execute(work, &task)?;
            ended(task.started_ns, outcome);
        }
        Ok(())
    }
}

/// A connection and all its statements.
struct Held<'c> {
    connection: &'c Connection,
    line: &'c Mutex<()>,
    begin: Statement<'c>,
    begin_immediate: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    /// Indexed by table.
    tables: [Statements<'c>; 5],
}

/// The statements of a table.
struct Statements<'c> {
    get: Statement<'c>,
    update: Statement<'c>,
    add: Statement<'c>,
    insert: Statement<'c>,
    scan: Statement<'c>,
}

impl<'c> Held<'c> {
    fn prepare(Connected(connection, line): &'c Connected<'_>) -> rusqlite::Result<Self> {
        let mut tables = Vec::new();
        for table in Table::ALL {
            let prepare = |sql: &str| connection.prepare(&sql.replace("TABLE", table.name()));
            tables.push(Statements {
                get: prepare("SELECT value FROM TABLE WHERE key = ?1")?,
                update: prepare("UPDATE TABLE SET value = ?2 WHERE key = ?1")?,
                add: prepare("UPDATE TABLE SET value = value + ?2 WHERE key = ?1 RETURNING value")?,
                insert: prepare(INSERT)?,
                scan: prepare("SELECT value FROM TABLE WHERE key >= ?1 ORDER BY key LIMIT ?2")?,
            });
        }
        Ok(Held {
            connection,
            line,
            begin: connection.prepare("BEGIN")?,
            begin_immediate: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            tables: tables.try_into().unwrap_or_else(|_| unreachable!("statements for each table")),
        })
    }

    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        // A single statement is a transaction by itself.
        let is_bracketed = !work.is_single(task);
        let only_reads = work.only_reads(task);
        let line = self.line;
        let _place = (!only_reads).then(|| line.lock().unwrap_or_else(PoisonError::into_inner));
        retry(|| {
            if is_bracketed {
                let begin = if only_reads { &mut self.begin } else { &mut self.begin_immediate };
                begin.execute(()).map_err(fault)?;
            }
            let result = perform(&mut *self, work.operations(task)).and_then(|outcome| {
                if is_bracketed {
                    self.commit.execute(()).map_err(fault)?;
                }
                Ok(outcome)
            });
            if result.is_err() && !self.connection.is_autocommit() {
                self.rollback.execute(()).map_err(fault)?;
            }
            result
        })
    }

    fn of(&mut self, table: Table) -> &mut Statements<'c> {
        &mut self.tables[table.index()]
    }
}

/// Returns the value of the only row, if there is one.
fn value_of(statement: &mut Statement<'_>, params: impl Params) -> Tried<Option<u64>> {
    let value = statement.query_row(params, |row| row.get::<_, i64>(0)).optional();
    Ok(value.map_err(fault)?.map(|value| value as u64))
}

impl Attempt for Held<'_> {
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        value_of(&mut self.of(table).get, [signed(key)])
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.of(table).update.execute((signed(key), value as i64)).map(drop).map_err(fault)
    }

    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        value_of(&mut self.of(table).add, (signed(key), delta as i64))
    }

    fn insert(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.of(table).insert.execute((signed(key), value as i64)).map(drop).map_err(fault)
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, mut seen: impl FnMut(u64)) -> Tried<()> {
        let mut rows = self.of(table).scan.query((signed(from), rows as i64)).map_err(fault)?;
        while let Some(row) = rows.next().map_err(fault)? {
            seen(row.get::<_, i64>(0).map_err(fault)? as u64);
        }
        Ok(())
    }
}
