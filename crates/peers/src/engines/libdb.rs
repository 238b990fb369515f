//! A safe interface to Berkeley DB's library, limited to what the peer `berkeleydb` needs: an environment with its
//! tables, transactions, and their cursors. Keys and values have 8 bytes.
//!
//! - A handle is used only between its creation and the call that ends it. One type here owns each handle, and its
//!   `Drop` or its consuming method is that call.
//! - Transactions and cursors borrow the store, and cursors borrow a transaction, so the borrowers end first.
//! - The environment and its tables are opened for several threads. A transaction and a cursor stay on one thread.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, null_mut};

#[allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated from the library's header"
)]
mod library {
    include!(concat!(env!("OUT_DIR"), "/libdb.rs"));
}

use library::{DB, DB_ENV, DB_TXN, DBC, DBT};

/// Calls a method of a handle. The method is a function pointer in the handle.
macro_rules! call {
    ($handle:expr, $method:ident $(, $argument:expr)*) => {{
        let handle = $handle;
        let method = (*handle).$method.expect("the library fills in all methods of its handles");
        method(handle $(, $argument)*)
    }};
}

/// Bytes of a page, which is the unit of locking. The library would choose this size on most file systems.
const PAGE_BYTES: u32 = 4096;
/// The limit of locks, of lockers and of locked objects. A scan of everything, and a group of records that are loaded,
/// lock each of their pages.
const LOCKS_MAX: u32 = 1 << 18;
/// Slots of the table in which locks are found. Most transactions have few locks, so few slots suffice. By default the
/// library would make a table for [`LOCKS_MAX`], of which little would stay in the processor's caches.
const LOCK_SLOTS: u32 = 1 << 12;
/// Bytes of a log in memory, which is a ring. The records of all open transactions must fit.
const MEMORY_LOG_BYTES: u32 = 32 << 20;
/// Bytes of the log that are buffered before they are written, and bytes of each log file.
const LOG_BUFFER_BYTES: u32 = 4 << 20;
const LOG_FILE_BYTES: u32 = 64 << 20;

/// The options of a store.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// A directory for its files, used by no other store.
    pub directory: &'a Path,
    /// The names of its tables.
    pub tables: &'a [&'a str],
    /// True if tables and log are in memory, without files. False if a commit is on the disk when it returns.
    pub in_memory: bool,
    /// The size of the cache. Tables in memory must fit into it.
    pub cache_bytes: u64,
    /// The most transactions that are open at once.
    pub transactions: u32,
}

/// An error code of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(c_int);

impl Error {
    /// Returns true if the transaction must be retried because it conflicted with others.
    pub fn is_conflict(self) -> bool {
        [library::DB_LOCK_DEADLOCK, library::DB_LOCK_NOTGRANTED].contains(&self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 {
            return std::io::Error::from_raw_os_error(self.0).fmt(f);
        }
        // SAFETY: the function takes any number, and returns a static text of its own that ends with a zero.
        let text = unsafe { CStr::from_ptr(library::db_strerror(self.0)) };
        text.to_string_lossy().fmt(f)
    }
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The system's error number.
const INVALID_ARGUMENT: c_int = 22;

fn checked(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error(code)) }
}

/// Returns whether a record was found.
fn found(code: c_int) -> Result<bool> {
    match code {
        0 => Ok(true),
        library::DB_NOTFOUND | library::DB_KEYEMPTY => Ok(false),
        code => Err(Error(code)),
    }
}

fn value_if(is_there: bool, data: &DBT, value: [u8; 8]) -> Result<Option<[u8; 8]>> {
    if is_there {
        assert_eq!(data.size, 8, "values have 8 bytes");
    }
    Ok(is_there.then_some(value))
}

/// An environment and its tables.
pub struct Store {
    /// Not null. Open, except in a store that could not be opened.
    environment: *mut DB_ENV,
    /// Not null.
    tables: Vec<*mut DB>,
}

// SAFETY: the library lets any thread use the handles of an environment that is opened with `DB_THREAD`.
unsafe impl Send for Store {}
// SAFETY: the library lets several threads use them at once, as above.
unsafe impl Sync for Store {}

impl Store {
    /// Opens a new store.
    pub fn open(options: &Options<'_>) -> Result<Self> {
        let mut environment = null_mut();
        // SAFETY: the library writes a handle there, or returns an error.
        checked(unsafe { library::db_env_create(&mut environment, 0) })?;
        let mut store = Store { environment, tables: Vec::new() };
        store.configure(options)?;
        store.open_environment(options.directory)?;
        for name in options.tables {
            store.open_table(name, options.in_memory)?;
        }
        Ok(store)
    }

    fn configure(&self, options: &Options<'_>) -> Result<()> {
        let environment = self.environment;
        let cache = options.cache_bytes;
        let (cache_gib, cache_rest) = ((cache >> 30) as u32, (cache & ((1 << 30) - 1)) as u32);
        // SAFETY: the handle is valid and not yet open, which is when these calls are allowed. They take numbers.
        unsafe {
            checked(call!(environment, set_cachesize, cache_gib, cache_rest, 1))?;
            checked(call!(environment, set_lk_detect, library::DB_LOCK_DEFAULT))?;
            checked(call!(environment, set_lk_max_locks, LOCKS_MAX))?;
            checked(call!(environment, set_lk_max_lockers, LOCKS_MAX))?;
            checked(call!(environment, set_lk_max_objects, LOCKS_MAX))?;
            checked(call!(environment, set_lk_tablesize, LOCK_SLOTS))?;
            checked(call!(environment, set_tx_max, options.transactions))?;
        }
        let (buffer_bytes, file_bytes) = match options.in_memory {
            true => (MEMORY_LOG_BYTES, MEMORY_LOG_BYTES / 4),
            false => (LOG_BUFFER_BYTES, LOG_FILE_BYTES),
        };
        // SAFETY: as above.
        unsafe {
            checked(call!(environment, log_set_config, library::DB_LOG_IN_MEMORY, options.in_memory.into()))?;
            checked(call!(environment, set_lg_bsize, buffer_bytes))?;
            checked(call!(environment, set_lg_max, file_bytes))
        }
    }

    fn open_environment(&self, directory: &Path) -> Result<()> {
        let flags = library::DB_CREATE
            | library::DB_INIT_LOCK
            | library::DB_INIT_LOG
            | library::DB_INIT_MPOOL
            | library::DB_INIT_TXN
            | library::DB_PRIVATE
            | library::DB_THREAD;
        let directory = c_string(directory.as_os_str().as_bytes())?;
        // SAFETY: the handle is valid and not yet open; the library copies the name.
        checked(unsafe { call!(self.environment, open, directory.as_ptr(), flags, 0) })
    }

    fn open_table(&mut self, name: &str, in_memory: bool) -> Result<()> {
        let mut table = null_mut();
        // SAFETY: the environment is open; the library writes a handle there, or returns an error.
        checked(unsafe { library::db_create(&mut table, self.environment, 0) })?;
        // From here on, the table is closed together with the store.
        self.tables.push(table);
        let name = c_string(name.as_bytes())?;
        let none: *const c_char = ptr::null();
        let (file, database) = if in_memory { (none, name.as_ptr()) } else { (name.as_ptr(), none) };
        let flags = library::DB_CREATE | library::DB_AUTO_COMMIT | library::DB_THREAD;
        // SAFETY: the handle is valid and not yet open; the library copies the names.
        unsafe {
            checked(call!(table, set_pagesize, PAGE_BYTES))?;
            checked(call!(table, open, null_mut(), file, database, library::DB_BTREE, flags, 0))
        }
    }

    /// Reads in a transaction of its own.
    pub fn get(&self, table: usize, key: [u8; 8]) -> Result<Option<[u8; 8]>> {
        self.get_in(null_mut(), table, key)
    }

    /// Puts in a transaction of its own.
    pub fn put(&self, table: usize, key: [u8; 8], value: [u8; 8]) -> Result<()> {
        self.put_in(null_mut(), table, key, value)
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        let mut handle = null_mut();
        // SAFETY: the environment is open; the library writes a handle there, or returns an error.
        checked(unsafe { call!(self.environment, txn_begin, null_mut(), &mut handle, 0) })?;
        Ok(Transaction { store: self, handle })
    }

    /// Writes to the files what is so far only in the log.
    pub fn checkpoint(&self) -> Result<()> {
        // SAFETY: the environment is open.
        checked(unsafe { call!(self.environment, txn_checkpoint, 0, 0, library::DB_FORCE) })
    }

    /// Reads in `txn`, which is null or an open transaction of this environment and of the calling thread.
    fn get_in(&self, txn: *mut DB_TXN, table: usize, mut key: [u8; 8]) -> Result<Option<[u8; 8]>> {
        let mut value = [0; 8];
        let (mut key, mut data) = (entry(&mut key), entry(&mut value));
        // SAFETY: table and transaction are open. The entries state the length of the memory that they point to, and
        // that memory outlives the call.
        let code = unsafe { call!(self.tables[table], get, txn, &mut key, &mut data, 0) };
        value_if(found(code)?, &data, value)
    }

    /// Writes in `txn`, with the same conditions as [`get_in`](Self::get_in).
    fn put_in(&self, txn: *mut DB_TXN, table: usize, mut key: [u8; 8], mut value: [u8; 8]) -> Result<()> {
        let (mut key, mut data) = (entry(&mut key), entry(&mut value));
        // SAFETY: as in `get_in`; the library copies what it stores.
        checked(unsafe { call!(self.tables[table], put, txn, &mut key, &mut data, 0) })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for table in self.tables.drain(..) {
            // SAFETY: the table is valid, and it is not used after this call, whatever the call returns.
            unsafe { call!(table, close, 0) };
        }
        // SAFETY: the environment is valid and not used after this call; its tables are closed.
        unsafe { call!(self.environment, close, 0) };
    }
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error(INVALID_ARGUMENT))
}

/// Tells the library where 8 bytes to be read or written are. They must outlive its use.
fn entry(bytes: &mut [u8; 8]) -> DBT {
    memory(bytes.as_mut_ptr().cast(), 8)
}

/// Does the same for any length.
fn memory(data: *mut c_void, bytes: u32) -> DBT {
    DBT {
        data,
        size: bytes,
        ulen: bytes,
        dlen: 0,
        doff: 0,
        app_data: null_mut(),
        flags: library::DB_DBT_USERMEM,
    }
}

/// An open transaction. Dropping it rolls it back.
pub struct Transaction<'s> {
    store: &'s Store,
    /// Open. The pointer keeps the type on its thread.
    handle: *mut DB_TXN,
}

impl Transaction<'_> {
    /// Reads.
    pub fn get(&self, table: usize, key: [u8; 8]) -> Result<Option<[u8; 8]>> {
        self.store.get_in(self.handle, table, key)
    }

    /// Puts.
    pub fn put(&self, table: usize, key: [u8; 8], value: [u8; 8]) -> Result<()> {
        self.store.put_in(self.handle, table, key, value)
    }

    /// Opens a cursor, which has no position yet.
    pub fn cursor(&self, table: usize) -> Result<Cursor<'_>> {
        let mut handle = null_mut();
        // SAFETY: table and transaction are open; the library writes a handle there, or returns an error.
        checked(unsafe { call!(self.store.tables[table], cursor, self.handle, &mut handle, 0) })?;
        Ok(Cursor { handle, transaction: PhantomData })
    }

    /// Commits the transaction.
    pub fn commit(self) -> Result<()> {
        let handle = self.handle;
        // The handle is gone after the call, whatever the call returns.
        std::mem::forget(self);
        // SAFETY: the transaction is open. No cursor is open, because cursors borrow the value that is moved here.
        checked(unsafe { call!(handle, commit, 0) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `commit`. An error would be an error of the environment, and the next call reports it.
        unsafe { call!(self.handle, abort) };
    }
}

/// A position in a table.
pub struct Cursor<'t> {
    /// Open.
    handle: *mut DBC,
    transaction: PhantomData<&'t Transaction<'t>>,
}

impl Cursor<'_> {
    /// Moves to the record of a key, locks it for writing, and reads it.
    pub fn get_for_update(&mut self, mut key: [u8; 8]) -> Result<Option<[u8; 8]>> {
        let mut value = [0; 8];
        let (mut key, mut data) = (entry(&mut key), entry(&mut value));
        let flags = library::DB_SET | library::DB_RMW;
        // SAFETY: the cursor is open. The entries state the length of the memory that they point to, and that memory
        // outlives the call.
        let code = unsafe { call!(self.handle, get, &mut key, &mut data, flags) };
        value_if(found(code)?, &data, value)
    }

    /// Replaces the value of the current record.
    pub fn put(&mut self, mut value: [u8; 8]) -> Result<()> {
        let mut data = entry(&mut value);
        let mut none = memory(null_mut(), 0);
        // SAFETY: as in `get_for_update`; the key is not read.
        checked(unsafe { call!(self.handle, put, &mut none, &mut data, library::DB_CURRENT) })
    }

    /// Reads as many records as fit into `rows`, starting at the first record whose key is at least `key`. The cursor
    /// stays at the last of them. Returns false if there is no such record.
    pub fn read_from(&mut self, key: [u8; 8], rows: &mut Rows) -> Result<bool> {
        self.read(key, rows, library::DB_SET_RANGE)
    }

    /// Does the same, starting at the next record.
    pub fn read_on(&mut self, rows: &mut Rows) -> Result<bool> {
        self.read([0; 8], rows, library::DB_NEXT)
    }

    fn read(&mut self, mut key: [u8; 8], rows: &mut Rows, to: u32) -> Result<bool> {
        // The library writes the first record's key there.
        let mut key = entry(&mut key);
        let mut data = memory(rows.words.as_mut_ptr().cast(), rows.words.len() as u32 * 4);
        // SAFETY: as in `get_for_update`.
        let code = unsafe { call!(self.handle, get, &mut key, &mut data, to | library::DB_MULTIPLE_KEY) };
        found(code)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, and so is its transaction, which it borrows. After a conflict, the call returns
        // the conflict again.
        unsafe { call!(self.handle, close) };
    }
}

/// The word after the last of [`Rows`].
const END: u32 = u32::MAX;

/// Records that a cursor has read in one call. The last words hold four words per record, from the end down: the offset
/// and the length of its key, then the same of its value.
pub struct Rows {
    words: Vec<u32>,
}

impl Rows {
    /// Makes space for about this many rows, and for at least two pages, because pages are copied as a whole. The space
    /// is no larger, because the library reads as much as fits.
    pub fn with_room_for(rows: usize) -> Self {
        const ROW_BYTES: usize = 32;
        let bytes = (rows * ROW_BYTES).clamp(2 * PAGE_BYTES as usize, 1 << 20).next_multiple_of(1024);
        Rows { words: vec![END; bytes / 4] }
    }

    /// Returns the values of the last read.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.words.rchunks_exact(4).take_while(|row| row[3] != END).map(|row| {
            let (begin, bytes) = (row[1] as usize, row[0] as usize);
            &self.bytes()[begin..begin + bytes]
        })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: all memory of the words consists of bytes that have been written.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn a_deadlock_is_a_conflict_of_one() {
        // Proves that if two transactions wait for each other, the library refuses one, whose put is rolled back, and
        // that the other continues.
        let directory = std::env::temp_dir().join(format!("braid-libdb-test-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (tables, cache_bytes) = (&["left", "right"][..], 1 << 24);
        let options =
            Options { directory: &directory, tables, in_memory: true, cache_bytes, transactions: 8 };
        let store = Store::open(&options).unwrap();
        let key = [7; 8];
        for table in 0..2 {
            store.put(table, key, [0; 8]).unwrap();
        }
        let both_have_one = Barrier::new(2);
        let cross = |number: u8| {
            let (own, other) = (number as usize - 1, 2 - number as usize);
            let txn = store.begin().unwrap();
            txn.put(own, key, [number; 8]).unwrap();
            both_have_one.wait();
            txn.put(other, key, [number; 8])?;
            txn.commit()
        };
        let results = std::thread::scope(|scope| {
            let first = scope.spawn(|| cross(1));
            let second = cross(2);
            [first.join().unwrap(), second]
        });
        let won = results.iter().position(Result::is_ok).expect("one of them commits");
        assert!(results[1 - won].is_err_and(Error::is_conflict), "{results:?}");
        for table in 0..2 {
            assert_eq!(store.get(table, key), Ok(Some([won as u8 + 1; 8])));
        }
        drop(store);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
