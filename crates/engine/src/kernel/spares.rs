//! Pools of values that are made at some cost and used again. Each thread has a stripe of the pool, so that as many threads as
//! there are stripes share neither a lock nor a cache line.

use crate::sync::{CachePadded, Mutex, lock};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than the threads that most programs run transactions on. A stripe costs two cache lines.
const STRIPES: usize = 32;
/// Kept by a stripe: as many as a thread uses at once, as a rule.
const KEPT_MAX: usize = 2;

/// A pool. A value goes to the stripe of the thread that gives it back.
pub(crate) struct Spares<T> {
    /// `None` when nothing is to be kept any more.
    stripes: [CachePadded<Stripe<T>>; STRIPES],
    visited: AtomicUsize,
}

type Stripe<T> = Mutex<Option<Vec<T>>>;

impl<T> Default for Spares<T> {
    fn default() -> Self {
        let stripes = std::array::from_fn(|_| CachePadded::new(Mutex::new(Some(Vec::new()))));
        Spares { stripes, visited: AtomicUsize::new(0) }
    }
}

impl<T> Spares<T> {
    /// One of this thread's; `None`: it has to be made.
    pub(crate) fn take(&self) -> Option<T> {
        lock(self.stripe()).as_mut()?.pop()
    }

    /// Keeps one for this thread, or returns it: there are enough, or `close` was called.
    pub(crate) fn give_back(&self, one: T) -> Option<T> {
        match &mut *lock(self.stripe()) {
            Some(kept) if kept.len() < KEPT_MAX => kept.push(one),
            _ => return Some(one),
        }
        None
    }

    /// Has `visit` look at those of all threads of which `wants` says so.
    pub(crate) fn visit_all(&self, wants: impl Fn(&T) -> bool, mut visit: impl FnMut(&T)) {
        self.stripes.iter().for_each(|stripe| visit_those(stripe, &wants, &mut visit));
    }

    /// The same of some threads: of others at each call.
    pub(crate) fn visit_some(&self, wants: impl Fn(&T) -> bool, visit: impl FnMut(&T)) {
        let at = self.visited.fetch_add(1, Ordering::Relaxed); // only difference counts
        visit_those(&self.stripes[at % STRIPES], wants, visit);
    }

    /// Drops all, and keeps none from now on.
    pub(crate) fn close(&self) {
        for stripe in &self.stripes {
            let kept = lock(stripe).take();
            drop(kept); // outside of the lock
        }
    }

    fn stripe(&self) -> &Stripe<T> {
        &self.stripes[thread_number() % STRIPES]
    }
}

/// Takes those of a stripe that `wants` chooses, has `visit` look at each outside of the lock, and puts them back.
fn visit_those<T>(stripe: &Stripe<T>, wants: impl Fn(&T) -> bool, mut visit: impl FnMut(&T)) {
    let wanted: Vec<T> = match &mut *lock(stripe) {
        Some(kept) => kept.extract_if(.., |one| wants(one)).collect(),
        None => return,
    };
    wanted.iter().for_each(&mut visit); // outside of the lock
    if let Some(kept) = &mut *lock(stripe) {
        kept.extend(wanted);
    }
}

/// Differs between threads that begin one after another.
fn thread_number() -> usize {
    // (The process's own, so no part of what a model checker sees.)
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed); // only difference counts
    }
    // A thread that ends has none any more.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_thread_gets_back_what_it_gave_and_no_other_does() {
        let spares = Spares::default();
        assert_eq!(spares.take(), None);
        assert_eq!(spares.give_back(1), None);
        std::thread::scope(|scope| scope.spawn(|| assert_eq!(spares.take(), None)).join()).expect("it holds");
        assert_eq!(spares.take(), Some(1));
    }

    #[test]
    fn few_are_kept_and_none_after_the_end() {
        let (spares, one) = (Spares::default(), Arc::new(()));
        let given_back = (0..100).filter(|_| spares.give_back(one.clone()).is_none()).count();
        assert_eq!((given_back, Arc::strong_count(&one)), (KEPT_MAX, KEPT_MAX + 1));
        spares.close();
        assert_eq!(Arc::strong_count(&one), 1);
        assert!(spares.give_back(one.clone()).is_some() && spares.take().is_none());
    }

    #[test]
    fn those_of_threads_that_are_gone_are_visited() {
        let spares = Spares::default();
        for n in 0..10 {
            std::thread::scope(|scope| scope.spawn(|| spares.give_back(n)).join()).expect("it holds");
        }
        let mut seen = Vec::new();
        (0..STRIPES).for_each(|_| spares.visit_some(|n| n % 2 == 0, |n| seen.push(*n)));
        seen.sort_unstable();
        assert_eq!(seen, [0, 2, 4, 6, 8]);
        let mut count = 0;
        spares.visit_all(|_| true, |_| count += 1);
        assert_eq!(count, 10, "they are put back");
    }
}
