//! The atomics that nodes are made of, for the trees of this folder. They are those of [`crate::sync::atomic`], but
//! have the exact size of their value under the model checker too, because a node's layout is fixed.

#[cfg(not(braid_shuttle))]
pub(in crate::index) use crate::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(braid_shuttle)]
pub(in crate::index) use modelled::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// The atomics for the model checker, which runs one thread at a time and treats every access as sequentially
/// consistent. To it, a plain atomic with a switch point before each access is the same as one of its own.
#[cfg(braid_shuttle)]
mod modelled {
    pub(in crate::index) use std::sync::atomic::Ordering;

    pub(in crate::index) fn fence(_: Ordering) {}

    /// Lets the model checker run another thread, as any access of its own atomics does.
    fn switch() {
        shuttle::sync::atomic::AtomicU8::new(0).load(Ordering::SeqCst);
    }

    macro_rules! modelled {
        ($name:ident, $value:ty $(, $parameter:ident)?) => {
            #[repr(transparent)]
            #[derive(Debug)]
            pub(in crate::index) struct $name$(<$parameter>)?(std::sync::atomic::$name$(<$parameter>)?);
            impl$(<$parameter>)? $name$(<$parameter>)? {
                #[allow(dead_code, reason = "some atomics of a node are never made by themselves")]
                pub(in crate::index) fn new(value: $value) -> Self {
                    Self(std::sync::atomic::$name::new(value))
                }
                pub(in crate::index) fn load(&self, _: Ordering) -> $value {
                    switch();
                    self.0.load(Ordering::SeqCst)
                }
                pub(in crate::index) fn store(&self, value: $value, _: Ordering) {
                    switch();
                    self.0.store(value, Ordering::SeqCst)
                }
            }
        };
    }
    modelled!(AtomicU8, u8);
    modelled!(AtomicU32, u32);
    modelled!(AtomicU64, u64);
    modelled!(AtomicPtr, *mut T, T);

    macro_rules! exchanged {
        ($name:ident, $value:ty) => {
            impl $name {
                pub(in crate::index) fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    _: Ordering,
                    _: Ordering,
                ) -> Result<$value, $value> {
                    switch();
                    self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
                }
                pub(in crate::index) fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                    switch();
                    self.0.fetch_add(value, Ordering::SeqCst)
                }
            }
        };
    }
    exchanged!(AtomicU32, u32);
    exchanged!(AtomicU64, u64);

    impl AtomicU32 {
        pub(in crate::index) fn fetch_or(&self, value: u32, _: Ordering) -> u32 {
            switch();
            self.0.fetch_or(value, Ordering::SeqCst)
        }
    }

    impl AtomicU64 {
        pub(in crate::index) fn fetch_and(&self, value: u64, _: Ordering) -> u64 {
            switch();
            self.0.fetch_and(value, Ordering::SeqCst)
        }
        pub(in crate::index) fn fetch_or(&self, value: u64, _: Ordering) -> u64 {
            switch();
            self.0.fetch_or(value, Ordering::SeqCst)
        }
        pub(in crate::index) fn fetch_max(&self, value: u64, _: Ordering) -> u64 {
            switch();
            self.0.fetch_max(value, Ordering::SeqCst)
        }
    }
}
