//! A record with one value: 32 bytes, which include a value of up to eight bytes.
//!
//! Invariants:
//! - `value` and `inline` change only while `word` is latched, by the thread that has latched it. A latch is held
//!   within one step of a commit.
//! - A value that lies elsewhere is overwritten by a value of the same length, or replaced. If it is replaced, its
//!   memory is retired.
//! - A record that is gone stays gone until its memory is used for another record.

use super::age::{AWAITED, SHARES_MAX, is_older, oldest_of, share, shares_of};
use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::record::{RECORD_BYTES, Record, Tag, Timestamp, Version, VersionKind};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Backoff, ExactU64};

/// The length of the longest value that lies in the record itself.
pub(super) const INLINE_BYTES_MAX: usize = 8;

/// The length of the longest value that is overwritten in place.
const OVERWRITTEN_BYTES_MAX: usize = 1024;

/// In `word`, beside the time of the last commit: the value is being changed. In `lock`: a transaction has the record
/// alone.
const LATCH: u64 = 1 << 63;

/// The values of `value` that are not an address.
const NOTHING: u64 = 0;
const GONE: u64 = 2;
/// The value is in the record itself. Its length is in the bits above.
const INLINE: u64 = 1;
const INLINE_LENGTH_SHIFT: u32 = 8;

/// A record.
#[repr(C, align(32))]
#[derive(Debug)]
pub(in crate::cc) struct SingleRecord {
    /// When the record's value was committed; and [`LATCH`].
    word: ExactU64,
    /// 0: free. A tag: that transaction has the record alone. Otherwise a word of shares: see `age.rs`.
    lock: ExactU64,
    value: ExactU64,
    /// A short value. Under schemes that do not use this field for values: until when the value has been read.
    inline: ExactU64,
}

const _: () = assert!(size_of::<SingleRecord>() == RECORD_BYTES);

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Content {
    /// No value (yet).
    Nothing,
    /// The record is removed.
    Gone,
    /// This value, and its length in bytes.
    Inline([u8; INLINE_BYTES_MAX], usize),
    /// The value at this place.
    At(*const Version),
}

/// A record's content and when it was committed.
#[derive(Clone, Copy, Debug)]
pub(in crate::cc) struct Read {
    pub(in crate::cc) at: u64,
    pub(in crate::cc) content: Content,
}

/// Returns a record's memory as schemes with one value use it. It is never unmapped.
#[inline(always)]
pub(in crate::cc) fn record_of<'r>(record: *const Record) -> &'r SingleRecord {
    // SAFETY: records are memory of a slab, which is never unmapped while the database lives, and any bytes are a
    // record.
    unsafe { &*record.cast::<SingleRecord>() }
}

impl SingleRecord {
    /// Makes a record with no value from memory that may have been a record before.
    pub(super) fn reset(&self, lock: u64) {
        self.value.store(NOTHING, Ordering::Relaxed);
        self.inline.store(0, Ordering::Relaxed);
        self.lock.store(lock, Ordering::Relaxed);
        self.word.store(0, Ordering::Release); // a thread that finds it in the index sees all of it
    }

    /// Returns what is committed; `None`: it is being changed.
    #[inline(always)]
    pub(in crate::cc) fn read(&self) -> Option<Read> {
        let at = self.word.load(Ordering::Acquire); // pairs with the Release in `unlatch`
        // Acquire: pairs with the Release in `install`, so the second look at the word comes later.
        let content = self.content();
        fence(Ordering::Acquire);
        let is_stable = at & LATCH == 0 && self.word.load(Ordering::Relaxed) == at;
        is_stable.then_some(Read { at, content })
    }

    /// Returns true if nothing has changed since the record was read as of `at`. What was copied meanwhile is then
    /// what was there.
    #[inline(always)]
    pub(super) fn is_still(&self, at: u64) -> bool {
        fence(Ordering::Acquire); // pairs with the fence in `overwrite`
        self.word.load(Ordering::Relaxed) == at
    }

    /// Returns the content, for a reader that knows that it does not change meanwhile, or finds out.
    #[inline(always)]
    pub(in crate::cc) fn content(&self) -> Content {
        let value = self.value.load(Ordering::Acquire);
        let inline = self.inline.load(Ordering::Acquire);
        match value {
            NOTHING => Content::Nothing,
            GONE => Content::Gone,
            inside if inside & INLINE != 0 => {
                Content::Inline(inline.to_ne_bytes(), (inside >> INLINE_LENGTH_SHIFT) as usize)
            }
            address => Content::At(std::ptr::with_exposed_provenance(address as usize)),
        }
    }

    /// Returns the bytes of the value, which the caller keeps from changing.
    #[inline(always)]
    pub(in crate::cc) fn stable_bytes(&self) -> Option<*const [u8]> {
        match self.content() {
            Content::Nothing | Content::Gone => None,
            Content::Inline(_, length) => {
                Some(std::ptr::slice_from_raw_parts(self.inline.as_ptr().cast_const().cast(), length))
            }
            // SAFETY: the value is not replaced, so it is not reclaimed.
            Content::At(version) => Some(unsafe { Version::value(version) }),
        }
    }

    /// Returns when the value was committed, and whether the value is being changed.
    #[inline(always)]
    pub(in crate::cc) fn at(&self) -> (u64, bool) {
        let word = self.word.load(Ordering::Acquire); // pairs with the Release in `unlatch`
        (word & !LATCH, word & LATCH != 0)
    }

    /// Returns until when the value has been read, under a scheme that notes that.
    #[inline(always)]
    pub(in crate::cc) fn read_until(&self) -> u64 {
        self.inline.load(Ordering::SeqCst)
    }

    /// Notes that the value has been read until `at`, instead of `until`. Returns false if `until` has changed.
    pub(in crate::cc) fn extend(&self, until: u64, at: Timestamp) -> bool {
        self.inline.compare_exchange(until, at.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Notes that the value has been read until `at` at least.
    pub(in crate::cc) fn raise_read_until(&self, at: u64) {
        loop {
            let until = self.read_until();
            if until >= at || self.extend(until, Timestamp(at)) {
                return;
            }
        }
    }

    /// Latches the record. Returns false if another thread has latched it.
    #[inline(always)]
    pub(in crate::cc) fn try_latch(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        // SeqCst: either a transaction that locks the record sees this latch, or the thread that latches it sees the
        // lock.
        word & LATCH == 0
            && self.word.compare_exchange(word, word | LATCH, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Latches the record, for the only thread that may do so.
    #[inline(always)]
    pub(in crate::cc) fn latch_alone(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LATCH == 0);
        // Relaxed: a reader that sees the next change also sees this store, by its second look at the word.
        self.word.store(word | LATCH, Ordering::Relaxed);
    }

    /// Latches the record. A latch is held for moments, by a thread that does not wait meanwhile.
    pub(super) fn latch(&self) {
        let mut backoff = Backoff::new();
        while !self.try_latch() {
            backoff.wait();
        }
    }

    /// Releases the latch without a change.
    #[inline(always)]
    pub(in crate::cc) fn unlatch(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & LATCH != 0);
        self.word.store(word & !LATCH, Ordering::Release); // pairs with the Acquire in `read`
    }

    /// Replaces the value, and releases the latch. `new` is from [`new_value`], or `None` for a record that is
    /// removed.
    ///
    /// Short values lie in the record if `inlines`.
    pub(super) fn install(&self, new: Option<*mut Version>, at: Timestamp, inlines: bool, local: &Local) {
        debug_assert!(self.word.load(Ordering::Relaxed) & LATCH != 0, "changed under its latch");
        let old = self.content();
        if !inlines {
            self.inline.store(at.0, Ordering::Release); // pairs with the SeqCst in `read_until`
        }
        let Some(new) = new else {
            self.value.store(GONE, Ordering::Release); // pairs with the Acquire in `content`
            return self.finish_install(old, at, local);
        };
        // SAFETY: the value is the caller's own.
        let bytes = unsafe { &*Version::value(new) };
        if inlines && bytes.len() <= INLINE_BYTES_MAX {
            let mut inline = [0; INLINE_BYTES_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            self.inline.store(u64::from_ne_bytes(inline), Ordering::Release); // as above
            let value = INLINE | (bytes.len() as u64) << INLINE_LENGTH_SHIFT;
            self.value.store(value, Ordering::Release); // as above
            // SAFETY: the value is the caller's own, and was never published.
            unsafe { drop_value(new, local) };
        } else if self.overwrite(old, bytes) {
            // SAFETY: as above.
            unsafe { drop_value(new, local) };
            return self.word.store(at.0, Ordering::Release); // pairs with the Acquire in `read`
        } else {
            self.value.store(new.expose_provenance() as u64, Ordering::Release); // as above
        }
        self.finish_install(old, at, local);
    }

    /// Writes the bytes where the old value lies, if they take as much room: memory that is in the cache is used
    /// again. Returns false if they do not. A long value is replaced, because that is faster and disturbs its readers
    /// for a shorter time.
    fn overwrite(&self, old: Content, bytes: &[u8]) -> bool {
        let Content::At(version) = old else { return false };
        // SAFETY: only the thread that has latched the record replaces the value.
        if bytes.len() > OVERWRITTEN_BYTES_MAX || unsafe { Version::value(version) }.len() != bytes.len() {
            return false;
        }
        fence(Ordering::Release); // pairs with the fence in `is_still`: a reader of a new byte sees the latch
        // SAFETY: as above. Other threads copy the value, or have a lock that keeps it from being replaced.
        unsafe { Version::overwrite(version, bytes) };
        true
    }

    fn finish_install(&self, old: Content, at: Timestamp, local: &Local) {
        self.word.store(at.0, Ordering::Release); // pairs with the Acquire in `read`
        if let Content::At(version) = old {
            // SAFETY: the value was replaced just now, and readers that have found it are inside their epochs.
            let bytes = unsafe { Version::bytes_total(version) };
            // SAFETY: as above.
            unsafe { local.retire_version(version.cast_mut().cast(), bytes as u64) };
        }
    }

    /// Returns the lock word.
    #[inline(always)]
    pub(in crate::cc) fn lock(&self) -> u64 {
        self.lock.load(Ordering::SeqCst) // see `try_latch`
    }

    /// Sets the lock word of a record at which only one transaction looks.
    #[inline(always)]
    pub(in crate::cc) fn set_lock(&self, lock: u64) {
        self.lock.store(lock, Ordering::Relaxed);
    }

    /// Takes the lock for `tag` alone, which may already have a share of it. Returns the lock word if others have the
    /// lock.
    #[inline(always)]
    pub(in crate::cc) fn try_lock(&self, tag: Tag, has_share: bool) -> Result<(), u64> {
        let lock = if has_share { self.lock.load(Ordering::Relaxed) } else { 0 };
        if has_share && (lock & LATCH != 0 || shares_of(lock) != 1) {
            return Err(lock);
        }
        self.lock.compare_exchange(lock, tag.word(), Ordering::SeqCst, Ordering::Relaxed).map(drop)
    }

    /// Takes a share of the lock for a transaction of this age. Returns the lock word if a transaction has the lock
    /// alone, or if an older transaction waits for it.
    #[inline(always)]
    pub(in crate::cc) fn try_share(&self, age: u64) -> Result<(), u64> {
        let mut lock = self.lock.load(Ordering::Relaxed);
        loop {
            let is_kept_out = lock & AWAITED != 0 && !is_older(age, oldest_of(lock));
            if lock & LATCH != 0 || is_kept_out || shares_of(lock) == SHARES_MAX {
                return Err(lock);
            }
            // Acquire: pairs with the Release in `unlock`.
            let shared = share(lock, age);
            match self.lock.compare_exchange_weak(lock, shared, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => lock = now,
            }
        }
    }

    /// Takes a share of the lock for a transaction of any age. Fails if a transaction has the lock alone, or if one
    /// waits for it and must not be overtaken.
    #[inline(always)]
    pub(in crate::cc) fn try_share_in_line(&self, overtakes: bool) -> Result<(), u64> {
        let mut lock = self.lock.load(Ordering::Relaxed);
        loop {
            let is_kept_out = lock & AWAITED != 0 && !overtakes;
            if lock & LATCH != 0 || is_kept_out || shares_of(lock) == SHARES_MAX {
                return Err(lock);
            }
            // Acquire: pairs with the Release in `unlock`.
            match self.lock.compare_exchange_weak(lock, lock + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => lock = now,
            }
        }
    }

    /// Marks the lock as awaited by a transaction that is older than all that share it. Younger transactions do not
    /// get a share before it.
    #[cold]
    pub(super) fn await_shares(&self, lock: u64) {
        if lock & LATCH == 0 && shares_of(lock) != 0 {
            // Otherwise the word has changed, and is looked at again.
            _ = self.lock.compare_exchange(lock, lock | AWAITED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns true if a transaction waits to have the lock that others share.
    #[inline(always)]
    pub(in crate::cc) fn is_awaited(&self) -> bool {
        let lock = self.lock.load(Ordering::Relaxed);
        lock & LATCH == 0 && lock & AWAITED != 0
    }

    /// Gives back the lock that its holder has alone.
    #[inline(always)]
    pub(in crate::cc) fn unlock(&self) {
        debug_assert!(self.lock.load(Ordering::Relaxed) & LATCH != 0, "it is locked");
        self.lock.store(0, Ordering::Release); // pairs with the Acquire in `try_share`, `try_lock`
    }

    /// Clears the mark, because the transaction that waited for the shared lock no longer waits. More transactions
    /// may then share the lock. Returns false if none was kept out.
    #[cold]
    pub(super) fn let_in(&self) -> bool {
        let mut lock = self.lock.load(Ordering::Relaxed);
        while lock & LATCH == 0 && lock & AWAITED != 0 {
            // SeqCst: as in `unshare`.
            match self.lock.compare_exchange(lock, lock & !AWAITED, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => lock = now,
            }
        }
        false
    }

    /// Gives a share back. Returns how many are left.
    #[inline(always)]
    pub(in crate::cc) fn unshare(&self) -> u64 {
        let mut lock = self.lock.load(Ordering::Relaxed);
        loop {
            debug_assert!(shares_of(lock) > 0 && lock & LATCH == 0, "it is shared");
            let rest = if shares_of(lock) == 1 { 0 } else { lock - 1 };
            // Release: pairs with the SeqCst in `try_lock`. SeqCst: a waiting transaction looks at the lock and then
            // sleeps. Of this operation and that look, one sees the other (see `cc/waits/`).
            match self.lock.compare_exchange_weak(lock, rest, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return shares_of(rest),
                Err(now) => lock = now,
            }
        }
    }
}

/// Returns the transaction that has the record alone, according to a lock word.
#[inline(always)]
pub(in crate::cc) fn holder_of_lock(lock: u64) -> Option<Tag> {
    (lock & LATCH != 0).then(|| Tag::from_word(lock))
}

/// Makes a value in memory of its own.
pub(super) fn new_value(local: &Local, value: &[u8]) -> Result<*mut Version, OutOfMemory> {
    let at: *mut Version = local.allocate(Version::bytes_for(value.len()))?.cast();
    // SAFETY: allocated with that size.
    unsafe { Version::write(at, 0, std::ptr::null(), VersionKind::Value, value) };
    Ok(at)
}

/// Gives a value back.
///
/// # Safety
/// The value is from `new_value`, and was never published.
pub(super) unsafe fn drop_value(value: *mut Version, local: &Local) {
    // SAFETY: the caller has promised that the value is from `new_value`, so it is a whole version, and that it was
    // never published, so no other thread uses it.
    let bytes = unsafe { Version::bytes_total(value) };
    // SAFETY: the value is from `allocate` with this size.
    unsafe { local.free(value.cast(), bytes) };
}
