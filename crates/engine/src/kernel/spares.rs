//! What is kept for the next one that needs it, apart by threads: threads share no line and no lock as long as there are no more
//! of them than stripes.

use crate::sync::{CachePadded, Mutex, lock};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than the threads that most programs run transactions on. One costs two lines.
const STRIPES: usize = 32;
/// Kept by a stripe: as many as a thread has in use at once, as a rule.
const KEPT_MAX: usize = 8;

/// A pool of values that any thread may take, and that come back to the thread that had them last.
pub(crate) struct Spares<T> {
    /// `None` when nothing is to be kept any more.
    stripes: [CachePadded<Stripe<T>>; STRIPES],
    visited: AtomicUsize,
}

type Stripe<T> = Mutex<Option<Vec<T>>>;

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
