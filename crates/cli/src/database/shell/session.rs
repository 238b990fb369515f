//! An open database, its open transaction, and the commands that use them.

use super::commands::{Command, NewRow, OldRow, Read, read};
use crate::database::info;
use crate::database::look::{find, no_row, read_key, write_row, write_some, write_tables};
use crate::database::open::Failure;
use crate::database::text::Column;
use braiddb::{Database, Error, Transaction, Txn};
use std::io::Write;
use std::path::PathBuf;

/// The transaction that commands belong to.
#[derive(Debug)]
pub enum Progress {
    /// Each command is its own transaction.
    None,
    /// All commands belong to this transaction.
    Open(Transaction),
    /// The transaction was rolled back because of an error. `rollback` or `commit` must come next.
    Failed,
}

/// Says whether the shell reads another line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Line,
    End,
}

/// An open database and the state of its commands.
#[derive(Debug)]
pub struct Session {
    db: Database,
    path: PathBuf,
    is_read_only: bool,
    progress: Progress,
}

/// The end of an error message if the error has rolled back the transaction.
pub const UNDONE: &str = "; the transaction was rolled back";

const IS_UNDONE: &str = "the transaction was rolled back because of an earlier error: `rollback` ends it";

impl Session {
    /// A session for the database that was opened in this directory.
    pub fn new(db: Database, path: PathBuf, is_read_only: bool) -> Session {
        Session { db, path, is_read_only, progress: Progress::None }
    }

    pub fn db(&self) -> &Database {
        &self.db
    }

    /// The transaction that commands belong to now.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Runs a line. An error after which the transaction cannot continue rolls it back.
    pub fn run(&mut self, line: &str, to: &mut dyn Write) -> Result<Next, Failure> {
        let done = match read(line)? {
            Read::Nothing => return Ok(Next::Line),
            Read::Help(text) => to.write_all(text.as_bytes()).map_err(Failure::from),
            Read::Command(Command::Exit) => return Ok(Next::End),
            Read::Command(command) => self.execute(&command, to),
        };
        match done {
            Err(error) if error.downcast_ref().is_some_and(undoes) && self.fail() => {
                Err(format!("{error}{UNDONE}").into())
            }
            done => done.and_then(|()| Ok(to.flush()?)).map(|()| Next::Line),
        }
    }

    /// Rolls back the open transaction, if there is one. Commands are then refused until it is ended. Returns false if
    /// none is open.
    pub fn fail(&mut self) -> bool {
        let is_open = matches!(self.progress, Progress::Open(_));
        if is_open {
            self.progress = Progress::Failed;
        }
        is_open
    }

    /// Rolls back the open transaction, if there is one, and ends it.
    pub fn abandon(&mut self) {
        self.progress = Progress::None;
    }

    /// Closes the database. Returns an error if a transaction was open.
    pub fn close(self) -> Result<(), Failure> {
        let was_open = !matches!(self.progress, Progress::None);
        drop(self.progress);
        self.db.close()?;
        match was_open {
            true => Err("the transaction was not committed, and was rolled back".into()),
            false => Ok(()),
        }
    }

    fn execute(&mut self, command: &Command, to: &mut dyn Write) -> Result<(), Failure> {
        match command {
            Command::Tables(listing) => write_tables(&self.db, listing, to),
            Command::Get(row) => self.reading(|db, transaction| write_row(db, transaction, row, to)),
            Command::Scan(rows) => self.reading(|db, transaction| write_some(db, transaction, rows, to)),
            Command::Insert(row) => self.write(row, true),
            Command::Put(row) => self.write(row, false),
            Command::Delete(row) => self.delete(row),
            Command::Begin => self.begin(),
            Command::Commit => self.commit(),
            Command::Rollback => self.rollback(),
            Command::Stats(form) => form.write(&self.db.statistics(), to),
            Command::Info(form) => info::write(&self.db, &self.path, form, to),
            Command::Exit => unreachable!("the caller ends"),
        }
    }

    /// Reads in the open transaction, or in a transaction for this read alone.
    fn reading(
        &self,
        read: impl FnOnce(&Database, &Transaction) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match &self.progress {
            Progress::Open(transaction) => read(&self.db, transaction),
            Progress::None => {
                let snapshot = self.db.begin()?;
                snapshot.declare_read_only();
                read(&self.db, &snapshot)
            }
            Progress::Failed => Err(IS_UNDONE.into()),
        }
    }

    /// Writes in the open transaction, or in a transaction for this write alone, which runs again after a conflict.
    fn writing<R>(&self, write: impl AsyncFn(&Txn) -> braiddb::Result<R>) -> Result<R, Failure> {
        match &self.progress {
            Progress::Open(transaction) => Ok(transaction.with(&write)?),
            Progress::None => Ok(self.db.transact(|transaction| transaction.with(&write))?),
            Progress::Failed => Err(IS_UNDONE.into()),
        }
    }

    fn write(&self, row: &NewRow, is_new: bool) -> Result<(), Failure> {
        let (info, table) = find(&self.db, &row.table)?;
        let key = read_key(&info, &row.key)?;
        let value = Column::values(&info).read_cell(&row.value).map_err(|why| format!("the value: {why}"))?;
        self.writing(async |tx: &Txn| match is_new {
            true => table.insert(tx, &key, &value).await,
            false => table.put(tx, &key, &value).await,
        })
    }

    fn delete(&self, row: &OldRow) -> Result<(), Failure> {
        let (info, table) = find(&self.db, &row.table)?;
        let key = read_key(&info, &row.key)?;
        let was_there = self.writing(async |tx: &Txn| table.delete(tx, &key).await)?;
        if was_there { Ok(()) } else { Err(no_row(&info, &row.key).into()) }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        match &self.progress {
            Progress::None => {}
            Progress::Open(_) => {
                return Err("a transaction is already open: `commit` or `rollback` ends it".into());
            }
            Progress::Failed => return Err(IS_UNDONE.into()),
        }
        let transaction = self.db.begin()?;
        if self.is_read_only {
            transaction.declare_read_only();
        }
        self.progress = Progress::Open(transaction);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.progress, Progress::None) {
            Progress::None => Err(NONE_OPEN.into()),
            Progress::Open(transaction) => Ok(transaction.commit()?),
            Progress::Failed => {
                Err("nothing was committed: the transaction was rolled back because of an earlier error"
                    .into())
            }
        }
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.progress, Progress::None) {
            Progress::None => Err(NONE_OPEN.into()),
            Progress::Open(_) | Progress::Failed => Ok(()),
        }
    }
}

const NONE_OPEN: &str = "no transaction is open: `begin` starts one";

/// Returns true if a transaction cannot continue after this error.
fn undoes(error: &Error) -> bool {
    !matches!(
        error,
        Error::KeyExists
            | Error::UniqueViolation { .. }
            | Error::KeyTooLong { .. }
            | Error::ValueTooLong { .. }
            | Error::Malformed { .. }
            | Error::NoOrder { .. }
            | Error::ReadOnly
            | Error::Frozen { .. }
    )
}
