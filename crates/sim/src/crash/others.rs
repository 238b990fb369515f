//! Other users of the device, which take all its room and give it back.

use braiddb::storage::{OpenMode, Storage};

/// The file that takes the room.
const NAME: &str = "others";

/// Takes all free room except `left_bytes`.
pub(super) fn take_room(storage: &dyn Storage, left_bytes: u64) {
    let free_bytes = storage.space().ok().flatten().map_or(0, |space| space.free_bytes);
    let taken_bytes = free_bytes.saturating_sub(left_bytes);
    let file = storage.open(NAME, OpenMode::ReadWrite).or_else(|_| storage.open(NAME, OpenMode::CreateNew));
    let file = file.expect("the disk does not fail");
    let len_bytes = file.len_bytes().expect("the disk does not fail");
    file.preallocate(len_bytes, taken_bytes).expect("so much is free");
}

/// Gives back the room that was taken, if any.
pub(super) fn give_room(storage: &dyn Storage) {
    let _ = storage.remove(NAME); // there may be nothing to give back
}
