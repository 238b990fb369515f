//! The atomics of a model checker that knows weak memory (loom), with errors that can be planted in them.
//!
//! The checker takes sequentially consistent accesses for accesses that acquire and release, and takes fences for what
//! they are. The engine's argument may therefore rest on fences alone, and it does. A model that passes has to fail
//! when orderings are made relaxed. Each model chooses which ones, by [`Planted`].

use loom::sync::atomic as checked;
use std::cell::Cell;

pub use std::sync::atomic::Ordering;

/// The accesses that are made relaxed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Nothing.
    Nothing,
    /// Stores that release.
    Stores,
    /// Loads that acquire.
    Loads,
    /// Exchanges and other updates.
    Updates,
    /// Fences, which are left out.
    Fences,
}

thread_local! {
    // The checker runs all threads of a model on the thread that calls it.
    static PLANTED: Cell<Planted> = const { Cell::new(Planted::Nothing) };
}

fn order(kind: Planted, order: Ordering) -> Ordering {
    if PLANTED.get() == kind { Ordering::Relaxed } else { order }
}

/// Works like the standard library's fence, unless fences are left out.
pub fn fence(order: Ordering) {
    if PLANTED.get() != Planted::Fences {
        checked::fence(order);
    }
}

macro_rules! atomics {
    ($($name:ident $(<$parameter:ident>)?, $value:ty;)*) => {$(
        /// Works like the standard library's.
        #[derive(Debug)]
        pub struct $name$(<$parameter>)?(checked::$name$(<$parameter>)?);

        #[allow(dead_code, reason = "not every width has every access")]
        impl$(<$parameter>)? $name$(<$parameter>)? {
            /// Works like the standard library's, but not at compile time.
            #[track_caller]
            pub fn new(value: $value) -> Self {
                Self(checked::$name::new(value))
            }
            /// Works like the standard library's.
            #[track_caller]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
            /// Works like the standard library's.
            #[track_caller]
            pub fn load(&self, o: Ordering) -> $value {
                self.0.load(order(Planted::Loads, o))
            }
            /// Works like the standard library's.
            #[track_caller]
            pub fn store(&self, value: $value, o: Ordering) {
                self.0.store(value, order(Planted::Stores, o));
            }
            /// Works like the standard library's.
            #[track_caller]
            pub fn swap(&self, value: $value, o: Ordering) -> $value {
                self.0.swap(value, order(Planted::Updates, o))
            }
            /// Works like the standard library's.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                o: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, order(Planted::Updates, o), order(Planted::Updates, failed))
            }
            /// Works like the standard library's.
            #[track_caller]
            pub fn fetch_update(
                &self,
                o: Ordering,
                failed: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.0.fetch_update(order(Planted::Updates, o), order(Planted::Updates, failed), f)
            }
        }
    )*};
}
atomics! {
    AtomicBool, bool;
    AtomicU8, u8;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
    AtomicPtr<T>, *mut T;
}

macro_rules! arithmetic {
    ($($name:ident, $value:ty: $($method:ident)*;)*) => {$(
        #[allow(dead_code, reason = "not every width has every access")]
        impl $name {$(
            /// Works like the standard library's.
            #[track_caller]
            pub fn $method(&self, value: $value, o: Ordering) -> $value {
                self.0.$method(value, order(Planted::Updates, o))
            }
        )*}
        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }
    )*};
}
arithmetic! {
    AtomicBool, bool: fetch_or fetch_and;
    AtomicU8, u8: fetch_or fetch_and;
    AtomicU32, u32: fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min;
    AtomicU64, u64: fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min;
    AtomicUsize, usize: fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min;
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

#[cfg(test)]
pub(crate) use models::{check, notices};

/// The functions that run models.
#[cfg(test)]
mod models {
    use super::{PLANTED, Planted};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The involuntary switches between threads in one execution. Errors in the ordering of a few accesses need two or
    /// three (Musuvathi, Qadeer, PLDI 2007). The number of executions grows exponentially with it.
    const PREEMPTIONS_MAX: usize = 3;
    const BRANCHES_MAX: usize = 100_000;

    /// Returns the number of executions, or an error if one failed.
    fn explore(planted: Planted, model: fn()) -> Result<usize, ()> {
        let executions = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&executions);
        let explorer = std::thread::spawn(move || {
            PLANTED.set(planted);
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(PREEMPTIONS_MAX);
            builder.max_branches = BRANCHES_MAX;
            builder.check(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                model();
            });
        });
        explorer.join().map_err(|_| ())?;
        Ok(executions.load(Ordering::Relaxed))
    }

    /// Shows that the model holds in every execution with few switches, and fails with each of these errors.
    pub(crate) fn check(name: &str, noticed: &[Planted], model: fn()) {
        let executions = explore(Planted::Nothing, model).expect("the model holds");
        println!("loom {name}: {executions} executions");
        assert!(executions > 1, "{name} has more than one execution");
        for &planted in noticed {
            assert!(explore(planted, model).is_err(), "{name} does not notice {planted:?}");
            println!("loom {name}: notices {planted:?}");
        }
    }

    /// Shows that the model fails because of an error that is its own.
    pub(crate) fn notices(name: &str, error: &str, model: fn()) {
        assert!(explore(Planted::Nothing, model).is_err(), "{name} does not notice {error}");
        println!("loom {name}: notices {error}");
    }
}
