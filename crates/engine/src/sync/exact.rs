//! An atomic number of the exact size of its value, for memory whose layout matters. In a model that tries
//! interleavings, another thread may go on at each of its operations.

#[cfg(braid_shuttle)]
pub use model::switch;
#[cfg(not(braid_shuttle))]
pub use std::sync::atomic::AtomicU64 as ExactU64;

/// Lets another thread go on here, in a model.
#[cfg(not(braid_shuttle))]
#[inline(always)]
pub fn switch() {}

/// The standard library's atomic, with a place to switch before each operation.
#[cfg(braid_shuttle)]
#[derive(Debug)]
#[repr(transparent)]
pub struct ExactU64(std::sync::atomic::AtomicU64);

#[cfg(braid_shuttle)]
mod model {
    use super::ExactU64;
    use std::sync::atomic::Ordering;

    /// Lets another thread go on here.
    pub fn switch() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }

    impl ExactU64 {
        pub fn load(&self, order: Ordering) -> u64 {
            switch();
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            switch();
            self.0.store(value, order);
        }

        pub fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            switch();
            self.0.compare_exchange(current, new, success, failure)
        }

        /// Behaves like `compare_exchange`: it never fails spuriously.
        pub fn compare_exchange_weak(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            self.compare_exchange(current, new, success, failure)
        }

        pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
            switch();
            self.0.fetch_sub(value, order)
        }

        pub fn as_ptr(&self) -> *mut u64 {
            self.0.as_ptr()
        }
    }
}
