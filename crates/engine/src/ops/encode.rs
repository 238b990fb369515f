//! Typed keys become keys of the index. Long keys are copied to where they stay.

use super::state::TxnState;
use crate::cc::ConcurrencyControl;
use crate::index;
use crate::table::{AsKey, Fault, Key, encode_sought, encode_whole, index_key};

impl<C: ConcurrencyControl> TxnState<C> {
    /// Returns the index's form of a row's key. Long keys are copied to where they stay.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn index_key<K: Key>(&self, key: &impl AsKey<K>) -> Result<index::Key, Fault> {
        self.form_of::<K, false>(key)
    }

    /// Returns the index's form of a key that is looked for. A key that is longer than any row's becomes a key that no
    /// row has.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn sought_key<K: Key>(&self, key: &impl AsKey<K>) -> Result<index::Key, Fault> {
        self.form_of::<K, true>(key)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn form_of<K: Key, const IS_SOUGHT: bool>(&self, key: &impl AsKey<K>) -> Result<index::Key, Fault> {
        let key = match key.short() {
            Some((slice, 8)) => index::Key { slice, len: 8, bytes: std::ptr::null() },
            Some((slice, len)) if len < 8 => {
                // The bytes beyond the length are zeros in every key of the index, whatever the type's own code says.
                index::Key { slice: slice & !(u64::MAX >> (8 * len)), len, bytes: std::ptr::null() }
            }
            _ => self.long_key::<K, IS_SOUGHT>(key)?,
        };
        match K::FIXED8 && key.len != 8 {
            false => Ok(key),
            true => Err(Fault::KeyNotOfEight { bytes: key.len as usize }),
        }
    }

    fn long_key<K: Key, const IS_SOUGHT: bool>(&self, key: &impl AsKey<K>) -> Result<index::Key, Fault> {
        // The buffer is taken out meanwhile, because encoding is foreign code and may use the transaction itself.
        let mut scratch = self.scratch.take();
        let encoded = match IS_SOUGHT {
            true => encode_sought(key, &mut scratch),
            false => encode_whole(key, &mut scratch),
        };
        let encoded = encoded.and_then(|()| {
            let mut encoded = index_key(&scratch);
            if scratch.len() > 8 {
                // SAFETY: used within this call only, which runs no foreign code.
                let copied = unsafe { (*self.arena.get()).copy(&scratch) };
                encoded.bytes = copied.map_err(|full| self.refuse(full.into()))?;
            }
            Ok(encoded)
        });
        self.scratch.set(scratch);
        encoded
    }

    /// Gives back the copy of a long key, which is not read any more.
    #[cold]
    pub(crate) fn release_key(&self, bytes: *const u8, len: u32) {
        // SAFETY: used within this call only.
        unsafe { (*self.arena.get()).release(bytes, len as usize) };
    }
}
