//! How an attempt begins and commits, as step machines. A commit has three steps:
//! 1. The scheme decides whether and when the transaction commits (`prepare`).
//! 2. The log takes what has changed. If it has no room just now, the commit is suspended (`unprepare`).
//! 3. The scheme publishes the changes (`finish`).
//!
//! When a transaction's changes are appended, no other transaction has seen them. A transaction that reads or
//! overwrites them, or finds a key gone or there because of them, comes later in the log. Every prefix of the log is
//! therefore closed under dependencies.

use super::bounded_wait::{BoundedWait, WAITS_FOR_COMMIT};
use super::commit::Commit;
use super::inline::UnderPolicy;
use super::state::{BEGIN, COMMIT, LATE, SLOTS_MASK, TxnState};
use crate::cc::{Abort, ConcurrencyControl, Declared, NotBegun, Unlogged};
use crate::error::{Error, Result};
use crate::index::DERIVED;
use crate::options::Durability;
use crate::profile::Activity;
use crate::suspend::{PrefetchOnly, Suspend};
use crate::table::Fault;
use crate::wal::{self, Change, Lsn, Writer};

/// The most flushes of the log that a commit in place waits for because it may want room.
const FLUSHES_MAX: u32 = 1000;

struct CommitStep<'d, C: ConcurrencyControl>(&'d TxnState<C>, &'d mut Commit<C>);

impl<C: ConcurrencyControl> UnderPolicy for CommitStep<'_, C> {
    type Output = Option<Result<(), Abort>>;

    #[inline(always)]
    fn call<S: Suspend>(self, s: &mut S) -> Self::Output {
        self.0.step_commit(self.1, s)
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// Begins an attempt in place. `None`: it has to wait.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn begin_now(&self) -> Option<Result<(), NotBegun>> {
        self.step_begin(&mut PrefetchOnly)
    }

    /// Steps the beginning of an attempt. `None`: suspended.
    #[inline(always)]
    pub(crate) fn step_begin<S: Suspend>(&self, s: &mut S) -> Option<Result<(), NotBegun>> {
        let (is_read_only, is_retry) = (self.read_only.get(), self.is_retry.get());
        let declared = Declared { is_read_only, is_retry, restores: false };
        // SAFETY: not borrowed outside of single calls.
        let begun = C::begin(self.context().env(), unsafe { &mut *self.scheme.get() }, declared, s);
        if begun.is_none() {
            s.was(Activity::Waiting);
        }
        begun
    }

    /// Lets the worker begin the attempt.
    pub(crate) fn post_begin(&self) {
        self.begun.set(None);
        self.todo.set(self.todo.get() | BEGIN);
    }

    /// Steps the commit in place. `None`: it has to wait.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn commit_now(&self, commit: &mut Commit<C>) -> Option<Result<(), Abort>> {
        self.with_policy(&mut PrefetchOnly, Activity::Control, CommitStep(self, commit))
    }

    /// Steps the commit. `None`: suspended.
    #[inline(always)]
    pub(crate) fn step_commit<S: Suspend>(
        &self,
        commit: &mut Commit<C>,
        s: &mut S,
    ) -> Option<Result<(), Abort>> {
        s.enter(Activity::Control);
        let result = self.go_on_with(commit, s);
        if result.is_none() {
            s.was(Activity::Waiting);
        }
        if result == Some(Err(Abort::Unserializable)) {
            self.context().metrics.aborts_unserializable.add(1);
        }
        result
    }

    #[inline(always)]
    fn go_on_with<S: Suspend>(&self, commit: &mut Commit<C>, s: &mut S) -> Option<Result<(), Abort>> {
        let context = self.context();
        let env = context.env();
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        let at = match commit.at {
            Some(at) => at,
            None => match C::prepare(&mut commit.prepare, env, txn, s)? {
                Ok(at) => at,
                Err(abort) => {
                    self.note_obstacle();
                    return Some(Err(abort));
                }
            },
        };
        if commit.is_trial {
            C::unprepare(env, txn, &mut commit.prepare);
            return Some(Ok(()));
        }
        let mut end_lsn = Lsn(0);
        if C::has_changes(txn) {
            end_lsn = match context.engine.log.get() {
                Some(log) => match self.append(txn, at, &log.writer) {
                    Some(Ok(end_lsn)) => end_lsn,
                    Some(Err(why)) => return Some(Err(Abort::Unlogged(why))),
                    None => {
                        let is_undecided = C::unprepare(env, txn, &mut commit.prepare);
                        commit.at = if is_undecided { None } else { Some(at) };
                        return None;
                    }
                },
                // This is read after the time was drawn: see `Engine::close`.
                None if context.engine.is_closed() => {
                    return Some(Err(Abort::Unlogged(Unlogged::Stopped)));
                }
                None => Lsn(0),
            };
        }
        C::finish(env, txn, at);
        context.last_commit.set(at);
        self.end_lsn.set(end_lsn);
        Some(Ok(()))
    }

    /// Appends what the transaction, which commits at `at`, has changed. Returns the end of its record in the log, 0 if
    /// it has no record. `None`: there is no room just now.
    #[inline]
    fn append(&self, txn: &C::Txn, at: u64, log: &Writer) -> Option<Result<Lsn, Unlogged>> {
        let context = self.context();
        debug_assert!(context.local.is_entered(), "marks are set and changes appended within one epoch");
        let mut changes = context.changes.borrow_mut();
        changes.clear();
        // SAFETY: prepared; inside an epoch.
        unsafe {
            C::changes(txn, |changed| {
                // SAFETY: indexes live as long as the database.
                let index = &*changed.target.index;
                let table = index.number();
                if table == DERIVED {
                    return; // what follows from other changes is not logged
                }
                let mut short = [0; 8];
                let key = changed.target.key.bytes(&mut short);
                // SAFETY: inside an epoch.
                index.touch(key);
                changes.push(Change { table, key, value: changed.value });
            });
        }
        if changes.is_empty() || self.durability.get() == Durability::None {
            return Some(Ok(Lsn(0))); // the marks are set nevertheless
        }
        match log.try_append(at, &changes) {
            Ok(end) => Some(Ok(end)),
            Err(wal::Error::WouldBlock) => None,
            Err(error) => Some(Err(match error {
                wal::Error::RecordTooLarge { .. } => Unlogged::TooLong,
                wal::Error::Full(_) => Unlogged::Full,
                _ => Unlogged::Stopped,
            })),
        }
    }

    /// Lets the worker step the commit.
    pub(crate) fn post_commit(&self, commit: Commit<C>) {
        assert!(self.todo.get() & (SLOTS_MASK | LATE) == 0, "operations end with the closure");
        self.commit.set(commit);
        self.committed.set(None);
        self.todo.set(self.todo.get() | COMMIT);
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// Begins an attempt. `None`: it has suspended, and the rest of it is posted.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn begin_or_post(&self) -> Option<Result<()>> {
        self.operations.set(0);
        self.reliefs.set(0);
        if self.pauses {
            self.post_begin();
            return None;
        }
        self.enter(Activity::Timestamps);
        let begun = self.begin_now();
        self.enter(Activity::Useful);
        match begun {
            Some(begun) => Some(self.begun(begun)),
            None if self.is_interactive.get() => Some(self.begin_in_place()),
            None => {
                self.post_begin();
                self.give_core_away();
                None
            }
        }
    }

    #[inline(always)]
    pub(crate) fn begun(&self, begun: Result<(), NotBegun>) -> Result<()> {
        begun.map_err(|why| self.context().engine.not_begun(why))
    }

    /// Goes on with a beginning that waits for transactions on other threads.
    #[cold]
    fn begin_in_place(&self) -> Result<()> {
        let mut patience = BoundedWait::default();
        while patience.wait(&self.context().engine, || None) {
            if let Some(begun) = self.begin_now() {
                return self.begun(begun);
            }
        }
        Err(Error::Conflict)
    }

    /// Commits. `None`: the commit has suspended and the rest of it is posted, or it follows the updates that are left
    /// for the commit.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn commit_or_post(&self) -> Option<Result<(), Fault>> {
        if self.has_at_commits() { None } else { self.commit_updated() }
    }

    /// Commits like `commit_or_post`, after the updates have been made.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn commit_updated(&self) -> Option<Result<(), Fault>> {
        match self.doomed.get() {
            Some(fault) => Some(Err(fault)),
            None => self.decide_or_post(Commit::default()),
        }
    }

    /// Makes a commit or a trial commit, like `commit_or_post`.
    pub(crate) fn decide_or_post(&self, mut commit: Commit<C>) -> Option<Result<(), Fault>> {
        if self.pauses {
            self.post_commit(commit);
            return None;
        }
        match self.commit_now(&mut commit) {
            Some(result) => Some(result.map_err(Fault::Abort)),
            None if self.is_interactive.get() => Some(self.commit_in_place(commit)),
            None => {
                self.post_commit(commit);
                self.give_core_away();
                None
            }
        }
    }

    /// Goes on with a commit that waits for another thread's commit, or for room in the log.
    #[cold]
    fn commit_in_place(&self, mut commit: Commit<C>) -> Result<(), Fault> {
        let engine = &self.context().engine;
        let (mut patience, mut flushes) = (BoundedWait::default(), 0);
        loop {
            let may_want_room = patience.waits() >= WAITS_FOR_COMMIT && flushes < FLUSHES_MAX;
            match may_want_room && engine.await_flush() {
                true => flushes += 1,
                false if patience.wait(engine, || self.open_obstacle()) => {}
                false => break,
            }
            if let Some(result) = self.commit_now(&mut commit) {
                return result.map_err(Fault::Abort);
            }
        }
        self.note_obstacle();
        Err(Fault::Abort(Abort::WaitTimeout))
    }
}
