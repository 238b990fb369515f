//! The size classes of pools: multiples of 16 bytes up to 256, then four classes per power of two up to 32 KiB.

/// The largest size that is found by a shift.
pub(super) const SMALL_BYTES_MAX: usize = 256;
/// The largest size that has a class.
pub(super) const POOLED_BYTES_MAX: usize = 32 << 10;
/// The number of classes. Class 0 serves objects of no bytes, which still need an address.
pub(super) const CLASSES: usize = 45;

/// The objects of one batch. A pool keeps two batches of a small class, and pools exchange whole batches.
pub(super) const BATCH_OBJECTS: u32 = 512;
const BATCH_BYTES: usize = 128 << 10;
/// The least number of objects in a batch. It is small for big objects, because a pool holds two batches of a class and
/// some workers have many pools.
const BATCH_OBJECTS_MIN: u32 = 4;

const FIRST_BIG_CLASS: usize = SMALL_BYTES_MAX / 16 + 1;

/// Returns the class of objects of `bytes <= SMALL_BYTES_MAX`.
#[inline(always)]
pub(super) const fn small_class(bytes: usize) -> usize {
    (bytes + 15) >> 4
}

/// Returns the class of objects of `bytes <= POOLED_BYTES_MAX`.
#[inline]
pub(super) const fn class_of(bytes: usize) -> usize {
    if bytes <= SMALL_BYTES_MAX {
        return small_class(bytes);
    }
    let last = bytes - 1;
    let log = last.ilog2() as usize;
    FIRST_BIG_CLASS + (log - 8) * 4 + ((last >> (log - 2)) & 3)
}

/// Returns the bytes of an object of `class`.
#[inline]
pub(super) const fn class_bytes(class: usize) -> usize {
    if class == 0 {
        16
    } else if class < FIRST_BIG_CLASS {
        class * 16
    } else {
        let (log, quarter) = ((class - FIRST_BIG_CLASS) / 4 + 8, (class - FIRST_BIG_CLASS) % 4);
        (5 + quarter) << (log - 2)
    }
}

/// Returns the largest class whose objects fit in `bytes`, which is at least 16 and a multiple of 16.
pub(super) const fn class_within(bytes: usize) -> usize {
    if bytes >= POOLED_BYTES_MAX {
        return CLASSES - 1;
    }
    let class = class_of(bytes);
    if class_bytes(class) > bytes { class - 1 } else { class }
}

/// Returns how many objects of `class` make a batch.
#[inline(always)]
pub(super) fn batch_objects(class: usize) -> u32 {
    /// A table, because a division for each freed object would take longer than the rest.
    const OBJECTS: [u32; CLASSES] = {
        let (mut objects, mut class) = ([0; CLASSES], 0);
        while class < CLASSES {
            objects[class] = objects_of(class);
            class += 1;
        }
        objects
    };
    OBJECTS[class]
}

const fn objects_of(class: usize) -> u32 {
    let objects = (BATCH_BYTES / class_bytes(class)) as u32;
    if objects > BATCH_OBJECTS {
        BATCH_OBJECTS
    } else if objects < BATCH_OBJECTS_MIN {
        BATCH_OBJECTS_MIN
    } else {
        objects
    }
}
