//! Errors that tests plant, to show that the checks find them. Each error is a scheme of its own,
//! [`Planted`](super::Planted), with another form of one of the steps. Only databases of tests ever run one.

use super::ReadSet;
use super::reads::ReadRecord;
use super::steps::{Open, Order, Proven, Rules, Scope, is_undisturbed};
use crate::cc::mistake::{Mistake, has};
use crate::cc::mvcc::Overwritten;
use crate::cc::{Abort, Copies, Scanned};
use crate::memory::OutOfMemory;
use crate::record::{Slot, Timestamp};
use crate::sync::Arc;

/// Nothing is planted.
pub const NONE: u32 = 0;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        $($(#[$doc])* pub const $name: u32 = $number;)*
        /// The errors, with their names.
        pub const ALL: &[(u32, &str)] = &[$(($name, stringify!($name))),*];
    };
}

bugs! {
    /// The early order of a commit is lost: its versions say that it is ordered where it committed.
    STAMP_LOST = 1;
    /// A record that a scan or a read meets, but in which it sees nothing, leaves no trace.
    INVISIBLE_UNTRACKED = 2;
    /// An insertion does not ask which transactions have read that the key was absent.
    GAP_READERS_FORGOTTEN = 3;
    /// A declared read-only transaction is not tracked, and its snapshot is not announced.
    READ_ONLY_UNANNOUNCED = 4;
    /// A reader takes a committing transaction for one that has not begun to commit.
    TORN_COMMIT = 5;
    /// Readers are noted on a copy that is never looked at.
    READERS_ON_A_COPY = 6;
    /// What was read is not looked at again when a transaction commits.
    NO_VALIDATION = 7;
    /// Ranges are not gone through again when a transaction commits.
    NO_RESCAN = 8;
    /// The commit timestamp is drawn before the reader is entered into the log.
    DRAWN_TOO_EARLY = 9;
    /// A reader is removed from the log when it has committed.
    READER_CLEARED_EARLY = 10;
    /// A transaction that has overwritten a read, and is about to commit earlier, is not waited for.
    NO_WAIT = 11;
    /// A transaction may be ordered before a transaction that had ended when it began.
    NO_REAL_TIME = 12;
    /// Only transactions that have written are validated.
    READERS_NOT_VALIDATED = 13;
    /// The version that superseded what a transaction has read is unlinked between two other versions.
    SUCCESSOR_UNLINKED = 14;
    /// A read that found nothing under its key leaves no trace.
    ABSENCE_UNTRACKED = 15;
    /// A split of an index node does not take the stamp along.
    SPLIT_LOSES_STAMP = 16;
    /// A transaction's own order counts as its commit's, even if it has read what was overwritten before.
    OVERWRITER_NOT_FOLLOWED = 17;
    /// A transaction that has changed what was committed after its snapshot is ordered before that commit.
    LATE_ORDERED_EARLY = 18;
    /// Reads of copies of rows leave no trace.
    COPIES_UNTRACKED = 19;
    /// A row that an update at the commit has looked at and left unchanged leaves no trace.
    LEFT_ROWS_UNTRACKED = 20;
    /// A snapshot that is opened just after a version was created does not hold it.
    INTERVAL_LATE = 21;
    /// A key that has left its index since a transaction began is taken for a key that was never there.
    DEPARTED_FORGOTTEN = 22;
}

/// Not an error: the logs are small, so that they wrap around in a test.
pub const SMALL_LOGS: u32 = 100;

/// The rules with one error.
#[derive(Clone, Copy, Debug)]
pub struct Erring<const BUG: u32>;

impl<const BUG: u32> Rules for Erring<BUG> {
    fn makes(mistake: Mistake) -> bool {
        let error = match mistake {
            Mistake::TornCommits => TORN_COMMIT,
            Mistake::LostSuccessors => SUCCESSOR_UNLINKED,
            Mistake::LateIntervals => INTERVAL_LATE,
            Mistake::ForgottenDepartures => DEPARTED_FORGOTTEN,
            Mistake::LostStamps => SPLIT_LOSES_STAMP,
            Mistake::EarlyValues => return false,
        };
        has::<BUG>(error)
    }

    fn log_max() -> (usize, usize) {
        if has::<BUG>(SMALL_LOGS) { (4, 8) } else { Proven::log_max() }
    }

    fn read_nothing(reads: &mut ReadSet, slot: *const Slot) {
        if !has::<BUG>(INVISIBLE_UNTRACKED) {
            reads.push(slot, std::ptr::null());
        }
    }

    fn read_present(reads: &mut ReadSet, slot: *const Slot, committed: Timestamp) {
        if !has::<BUG>(LEFT_ROWS_UNTRACKED) {
            Proven::read_present(reads, slot, committed);
        }
    }

    fn read_range(reads: &mut ReadSet, scanned: &Scanned<'_>) -> bool {
        (has::<BUG>(ABSENCE_UNTRACKED) && scanned.marks.is_empty()) || reads.push_range(scanned)
    }

    fn read_copies(reads: &mut ReadSet, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) {
        if !has::<BUG>(COPIES_UNTRACKED) {
            reads.push_copies(scanned, copies);
        }
    }

    fn open_untracked(env: Scope<'_, Self>, txn: &mut Open<Self>) {
        if !has::<BUG>(READ_ONLY_UNANNOUNCED) {
            env.worker.tracker.open_untracked(|| txn.begin_again(env.shared));
        }
    }

    fn is_undisturbed(env: Scope<'_, Self>, txn: &Open<Self>) -> bool {
        !has::<BUG>(DRAWN_TOO_EARLY) && is_undisturbed(env, txn)
    }

    fn enter(order: &mut Order, env: Scope<'_, Self>, txn: &mut Open<Self>) {
        if has::<BUG>(DRAWN_TOO_EARLY) { order.draw(env, txn) } else { Order::enter(env, txn) }
    }

    fn draw(order: &mut Order, env: Scope<'_, Self>, txn: &mut Open<Self>) {
        if has::<BUG>(DRAWN_TOO_EARLY) { Order::enter(env, txn) } else { order.draw(env, txn) }
    }

    fn publish(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Result<bool, OutOfMemory> {
        let kept = has::<BUG>(NO_RESCAN) || order.publish_ranges(env, txn)?;
        let kept = order.publish_reads(env, txn) && kept;
        if has::<BUG>(READER_CLEARED_EARLY) {
            env.worker.tracker.retract(txn.reads.entry.expect("entered before"));
        }
        Ok(kept)
    }

    fn validate(order: &mut Order, env: Scope<'_, Self>, txn: &Open<Self>) -> bool {
        let is_skipped =
            has::<BUG>(NO_VALIDATION) || (has::<BUG>(READERS_NOT_VALIDATED) && txn.writes().is_empty());
        is_skipped || order.validate(env, txn)
    }

    fn overwriter(order: &Order, env: Scope<'_, Self>, txn: &Open<Self>, read: &ReadRecord) -> Overwritten {
        match order.overwriter(env, txn, read) {
            Overwritten::Wait if has::<BUG>(NO_WAIT) => Overwritten::No,
            Overwritten::By(_) if has::<BUG>(OVERWRITER_NOT_FOLLOWED) => Overwritten::No,
            overwritten => overwritten,
        }
    }

    fn judge(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Option<bool> {
        if has::<BUG>(NO_REAL_TIME) && order.sstamp < order.at {
            return order.judge_by_readers(env, txn);
        }
        if has::<BUG>(LATE_ORDERED_EARLY) && txn.begin() < order.sstamp && order.sstamp < order.at {
            return order.judge_by_readers(env, txn);
        }
        order.judge(env, txn)
    }

    fn last_reader(order: &Order, env: Scope<'_, Self>, txn: &mut Open<Self>) -> Option<Timestamp> {
        let (logs, gaps) = (order.last_in_logs(env, txn)?, Order::last_in_gaps(txn));
        Some(if has::<BUG>(READERS_ON_A_COPY) {
            gaps
        } else if has::<BUG>(GAP_READERS_FORGOTTEN) {
            logs
        } else {
            logs.max(gaps)
        })
    }

    fn conclude(order: &Order, txn: &mut Open<Self>, has_order: bool) -> Result<Timestamp, Abort> {
        let at = order.conclude(txn, has_order)?;
        Ok(if has::<BUG>(STAMP_LOST) { order.at } else { at })
    }
}
