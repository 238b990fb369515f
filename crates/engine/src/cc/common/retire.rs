//! Gives back the memory of records that no index names any more.

use crate::cc::Target;
use crate::epoch::Local;
use crate::index::TableIndex;
use crate::memory::Slab;
use crate::record::RecordId;

/// Gives the memory of the record of `target`, one of `records`, back when no operation is left that has found it: to its
/// table if ids of that table's records are noted elsewhere, else to all.
///
/// # Safety
/// The index does not name the record any more, and no transaction that is open goes back to it. The slab and the index
/// outlive the participants of the epochs.
pub(in crate::cc) unsafe fn retire_record(records: &Slab, target: &Target, local: &Local) {
    let id = u64::from(target.id.0);
    // SAFETY: the index lives as long as the database.
    if unsafe { &*target.index }.kept().is_on() {
        // SAFETY: by the caller's promise.
        unsafe { local.retire(target.index.cast_mut().cast(), id, give_to_table) };
    } else {
        let records = std::ptr::from_ref(records).cast_mut().cast();
        // SAFETY: as above.
        unsafe { local.retire(records, id, give_to_all) };
    }
}

/// # Safety
/// Called by `Local` with what `retire_record` gave it.
unsafe fn give_to_all(_: &Local, records: *mut u8, id: u64) {
    // SAFETY: the slab outlives the epochs' participants.
    let records = unsafe { &*records.cast::<Slab>() };
    // SAFETY: unreachable by now.
    unsafe { records.free(id as u32) };
}

/// # Safety
/// Called by `Local` with what `retire_record` gave it.
unsafe fn give_to_table(_: &Local, index: *mut u8, id: u64) {
    // SAFETY: indexes outlive the epochs' participants.
    unsafe { &*index.cast::<TableIndex>() }.kept().give(RecordId(id as u32));
}
