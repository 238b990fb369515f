//! The updates that a transaction has left for its commit. They are made after its closure has ended and before it is
//! decided whether it commits:
//! 1. They are sorted by table and key.
//! 2. Under the schemes with snapshots the transaction comes to the present ([`ConcurrencyControl::see_newest`]).
//!    Therefore no update of another transaction is a conflict, however late it came.
//! 3. For each update, the row is locked, in its queue, and read as it is now. Then its new value is written. From the
//!    lock until the transaction commits no other transaction changes the row.

use super::at_commit::{AtCommit, RowUpdate};
use super::get_for_update::GetForUpdate;
use super::point_futures::{Insert, Put};
use super::point_lookup::PointLookup;
use super::state::{TxnState, UPDATES};
use crate::cc::{Abort, ConcurrencyControl};
use crate::error::{Error, Result};
use crate::table::{AsKey, Fault, Key, Table, Value};

impl<C: ConcurrencyControl> TxnState<C> {
    /// Leaves an update for the commit.
    pub(crate) fn update_at_commit<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: &impl AsKey<K>,
        update: RowUpdate,
    ) -> Result<()> {
        let inner = table.inner(self.database).map_err(|fault| self.doom(fault))?;
        let key = self.index_key(key)?;
        if self.read_only.get() {
            return Err(Error::ReadOnly);
        }
        inner.check_writable()?;
        let pushed = self.at_commits.borrow_mut().push(AtCommit { table: inner, key, update });
        pushed.map_err(|full| self.refuse(full.into()))?;
        self.mark(UPDATES);
        Ok(())
    }

    /// Makes the updates that were left.
    pub(crate) async fn make_updates(&self) -> Result<()> {
        self.at_commits.borrow_mut().sort();
        // SAFETY: not borrowed outside of single calls.
        C::see_newest(unsafe { &mut *self.scheme.get() });
        self.recent.clear(); // these rows were read as of the snapshot
        self.is_at_end.set(true);
        loop {
            let next = self.at_commits.borrow_mut().pop();
            let Some(AtCommit { table, key, update }) = next else { return Ok(()) };
            let locate = || PointLookup::new(self, table, key);
            let old = GetForUpdate::<[u8], C>::new(locate()).await?;
            let (is_there, mut new) = (old.is_some(), Vec::new());
            if !update(old, &mut new)? {
                continue;
            }
            if is_there {
                Put::<[u8], C>::new(locate(), Ok(&new)).await?;
                continue;
            }
            // Nothing was locked, so another transaction may have made the row since.
            match Insert::<[u8], C>::new(locate(), Ok(&new)).await {
                Err(Error::KeyExists) => {
                    return Err(self.doom(Fault::Abort(Abort::WriteConflict)).into());
                }
                inserted => inserted?,
            }
        }
    }

    /// Keeps the error of an update. The commit fails with it.
    pub(crate) fn fail_updates(&self, error: Error) -> Fault {
        self.at_commits.borrow_mut().error = Some(error);
        Fault::Update
    }
}
