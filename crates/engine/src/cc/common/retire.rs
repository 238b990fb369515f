//! Gives back the memory of records that no index names any more.

use crate::cc::Target;
use crate::epoch::Local;
use crate::index::TableIndex;
use crate::memory::Slab;
use crate::record::RecordId;

/// Gives back the memory of the record of `target`, which is one of `records`, when every operation that has found it
/// has ended. The memory goes to the record's table if ids of the table's records are noted elsewhere, and otherwise
/// to all tables.
///
/// # Safety
/// The index no longer names the record, and no open transaction will go back to it. The slab and the index outlive
/// the participants of the epochs.
pub(in crate::cc) unsafe fn retire_record(records: &Slab, target: &Target, local: &Local) {
    let id = u64::from(target.id.0);
    // SAFETY: the index lives as long as the database.
    if unsafe { &*target.index }.kept().is_on() {
        // SAFETY: the caller has promised that the index no longer names the record, that no open transaction goes
        // back to it, and that the index outlives the epochs' participants. So the id is unused, and the index is
        // alive, when `give_to_table` runs.
        unsafe { local.retire(target.index.cast_mut().cast(), id, give_to_table) };
    } else {
        let records = std::ptr::from_ref(records).cast_mut().cast();
        // SAFETY: as above, with the slab in place of the index.
        unsafe { local.retire(records, id, give_to_all) };
    }
}

/// # Safety
/// Called by `Local` with what `retire_record` gave it.
unsafe fn give_to_all(_: &Local, records: *mut u8, id: u64) {
    // SAFETY: the slab outlives the epochs' participants.
    let records = unsafe { &*records.cast::<Slab>() };
    // SAFETY: no operation can reach the record any more.
    unsafe { records.free(id as u32) };
}

/// # Safety
/// Called by `Local` with what `retire_record` gave it.
unsafe fn give_to_table(_: &Local, index: *mut u8, id: u64) {
    // SAFETY: indexes outlive the epochs' participants.
    unsafe { &*index.cast::<TableIndex>() }.kept().give(RecordId(id as u32));
}
