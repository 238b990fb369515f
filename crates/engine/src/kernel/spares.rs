//! Pools of values that are expensive to make and are reused. Each thread has a stripe of the pool. Therefore as many
//! threads as there are stripes share neither a lock nor a cache line.

use crate::sync::{CachePadded, Mutex, lock};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More stripes than most programs have threads that run transactions. A stripe costs two cache lines.
const STRIPES: usize = 32;
/// How many values a stripe keeps: as many as a thread usually needs at once.
const KEPT_MAX: usize = 2;

/// A pool. A value goes to the stripe of the thread that gives it back.
pub(crate) struct Spares<T> {
    /// `None` when nothing is kept any more.
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
    /// Takes a value of this thread's stripe. If there is none, the caller must make one.
    pub(crate) fn take(&self) -> Option<T> {
        lock(self.stripe()).as_mut()?.pop()
    }

    /// Keeps a value for this thread. Returns it if the stripe has enough, or after `close`.
    pub(crate) fn give_back(&self, one: T) -> Option<T> {
        match &mut *lock(self.stripe()) {
            Some(kept) if kept.len() < KEPT_MAX => kept.push(one),
            _ => return Some(one),
        }
        None
    }

    /// Calls `visit` on the values of all threads that `wants` chooses.
    pub(crate) fn visit_all(&self, wants: impl Fn(&T) -> bool, mut visit: impl FnMut(&T)) {
        self.stripes.iter().for_each(|stripe| visit_those(stripe, &wants, &mut visit));
    }

    /// Does the same for the values of some threads, each time of others.
    pub(crate) fn visit_some(&self, wants: impl Fn(&T) -> bool, visit: impl FnMut(&T)) {
        let at = self.visited.fetch_add(1, Ordering::Relaxed); // only difference counts
        visit_those(&self.stripes[at % STRIPES], wants, visit);
    }

    /// Drops all values, and keeps none from now on.
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

/// Takes the values that `wants` chooses from a stripe, visits each outside of the lock, and puts them back.
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

/// Returns a number that differs between threads that start one after another.
fn thread_number() -> usize {
    // The counter belongs to the process and is no part of what a model checker sees.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed); // only difference counts
    }
    // A thread that is ending has no number any more.
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
