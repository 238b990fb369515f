//! Errors that tests plant, to show that the checks find them. Each error is a scheme of its own,
//! [`PlantedMultiVersion`](super::PlantedMultiVersion), with another form of one of the steps. Only databases of
//! tests ever run one.

use super::ReadSet;
use super::steps::{Open, Proven, Rules, Scope, Verdict, is_read_later, judge, leave_and_look};
use crate::cc::mistake::{Mistake, has};
use crate::cc::{Scanned, Target};
use crate::record::{Slot, Timestamp, Version};

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
    /// A read leaves no time at the record.
    READ_TIMES_FORGOTTEN = 1;
    /// A read leaves its time only after it has looked for what is about to be written.
    READ_TIMES_LATE = 2;
    /// A write checks whether the record was read only before the write's version is there.
    WRITES_UNSEEN = 3;
    /// A read does not wait for what is about to be written as of an earlier time.
    EARLIER_IGNORED = 4;
    /// A read of an absent key leaves nothing in the index.
    ABSENCE_FORGOTTEN = 5;
    /// A scan leaves nothing in the index.
    RANGES_FORGOTTEN = 6;
    /// An insert does not check whether a later transaction has read the key as absent.
    KEYS_COME_UNASKED = 7;
    /// Ranges in which keys came while they were gone through are not looked at again.
    NO_RESCAN = 8;
    /// A split of an index node does not take the stamp along.
    SPLITS_LOSE_STAMPS = 9;
    /// A row that was locked and not changed counts as never read.
    LOCKS_FORGOTTEN = 10;
    /// A read takes the version that it has met, whatever the version's transaction has put before it until it
    /// committed.
    EARLY_VALUES_SEEN = 11;
    /// A read that is not tracked does not wait for a commit that is under way.
    COMMITS_IGNORED = 12;
}

/// The steps with one error.
#[derive(Clone, Copy, Debug)]
pub struct Erring<const BUG: u32>;

impl<const BUG: u32> Rules for Erring<BUG> {
    fn makes(mistake: Mistake) -> bool {
        match mistake {
            Mistake::LostStamps => has::<BUG>(SPLITS_LOSE_STAMPS),
            Mistake::TornCommits => has::<BUG>(COMMITS_IGNORED),
            Mistake::EarlyValues => has::<BUG>(EARLY_VALUES_SEEN),
            _ => false,
        }
    }

    fn head_of_read(slot: &Slot, at: Timestamp) -> *const Version {
        if has::<BUG>(READ_TIMES_FORGOTTEN) {
            slot.head()
        } else if has::<BUG>(READ_TIMES_LATE) {
            let head = slot.head();
            slot.raise_read_until(at);
            head
        } else {
            leave_and_look(slot, at)
        }
    }

    fn is_read_later(slot: &Slot, at: Timestamp, is_there: bool) -> bool {
        !(has::<BUG>(WRITES_UNSEEN) && is_there) && is_read_later(slot, at, is_there)
    }

    fn locked(slot: &Slot, at: Timestamp) {
        if !has::<BUG>(LOCKS_FORGOTTEN) {
            Proven::locked(slot, at);
        }
    }

    fn is_awaited(writer: Timestamp, reader: Timestamp) -> bool {
        !has::<BUG>(EARLIER_IGNORED) && Proven::is_awaited(writer, reader)
    }

    fn read_range(reads: &mut ReadSet, scanned: &Scanned<'_>) {
        if !has::<BUG>(RANGES_FORGOTTEN) {
            Proven::read_range(reads, scanned);
        }
    }

    fn read_absent(reads: &mut ReadSet, slot: *const Slot, target: &Target) {
        if !has::<BUG>(ABSENCE_FORGOTTEN) {
            Proven::read_absent(reads, slot, target);
        }
    }

    fn is_missed_later(target: &Target, at: Timestamp) -> bool {
        !has::<BUG>(KEYS_COME_UNASKED) && Proven::is_missed_later(target, at)
    }

    fn judge(env: Scope<'_, Self>, txn: &mut Open<Self>) -> Verdict {
        if has::<BUG>(NO_RESCAN) { Verdict::Fits } else { judge(env, txn) }
    }
}
