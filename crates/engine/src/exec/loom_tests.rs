//! Tests of how a worker is woken, under weak memory.

use crate::exec::blocking::{Mutex, lock};
use crate::exec::wake::event::Event;
use crate::exec::wake::notifier::{Notifier, SlotWaker, Wakes};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::loom::{Planted, check, notices};
use loom::thread;
use std::sync::Arc;
use std::task::Waker;

/// A worker that sleeps until there is a job, and a thread that brings one. It looks whether the worker sleeps as
/// inboxes do, or too early.
fn bring_job<const LOOKS_TOO_EARLY: bool>() {
    let (notifier, jobs) = (Notifier::new(), Arc::new(Mutex::new(0)));
    let worker = thread::spawn({
        let (notifier, jobs) = (Arc::clone(&notifier), Arc::clone(&jobs));
        move || {
            notifier.set_thread();
            while *lock(&jobs) == 0 {
                notifier.take();
                notifier.sleep(true, None, || *lock(&jobs) == 0);
            }
        }
    });
    let was_asleep = notifier.is_asleep();
    *lock(&jobs) += 1;
    if if LOOKS_TOO_EARLY { was_asleep } else { notifier.is_asleep() } {
        notifier.notify();
    }
    worker.join().expect("no panic");
}

/// Proves that the worker does not sleep while there is a job.
#[test]
fn jobs_wake() {
    check("notifier", &[], bring_job::<false>);
    notices("notifier", "a look that comes too early", bring_job::<true>);
}

/// Brings a job like `bring_job`, to a worker whose thread waits for a descriptor. The worker may wait without
/// looking for a job after it has announced the wait.
fn bring_job_to_descriptor<const LOOKS_AGAIN: bool>() {
    let (notifier, jobs) = (Notifier::new(), Arc::new(Mutex::new(0)));
    let event = Arc::new(Event::new().expect("a model's"));
    notifier.set_event(Arc::clone(&event));
    let worker = thread::spawn({
        let (notifier, jobs, event) = (Arc::clone(&notifier), Arc::clone(&jobs), Arc::clone(&event));
        move || {
            let mut signals = 0;
            while *lock(&jobs) == 0 {
                notifier.take();
                if !notifier.announce_on_event(true) {
                    continue;
                }
                if !LOOKS_AGAIN || *lock(&jobs) == 0 {
                    event.wait_readable();
                }
                signals += u64::from(notifier.end_sleep_on_event());
                let taken = event.take();
                assert!(taken <= signals, "signalled for nothing");
                signals -= taken;
            }
            signals
        }
    });
    *lock(&jobs) += 1;
    if notifier.is_asleep() {
        notifier.notify();
    }
    let signals = worker.join().expect("no panic");
    assert_eq!(event.take(), signals, "what is still to come is known");
}

/// Proves that a thread that waits for a descriptor does not sleep while there is a job, and that the descriptor is
/// signalled once for each sleep that it ends.
#[test]
fn jobs_wake_by_descriptor() {
    check("descriptor", &[], bring_job_to_descriptor::<true>);
    notices("descriptor", "a sleep without a second look", bring_job_to_descriptor::<false>);
}

/// Proves that a worker that finds a slot woken sees what was done before, and that it does not sleep over it.
#[test]
fn wakers_wake() {
    check("waker", &[Planted::Updates], || {
        let (notifier, done) = (Notifier::new(), Arc::new(AtomicU64::new(0)));
        let wakes = Arc::new(Wakes::new(Arc::clone(&notifier), 2));
        let waker = Waker::from(Arc::new(SlotWaker::new(&wakes, 1)));
        notifier.set_thread();
        let other = thread::spawn({
            let done = Arc::clone(&done);
            move || {
                done.store(1, Ordering::Relaxed);
                waker.wake();
            }
        });
        let mut is_woken = false;
        while !is_woken {
            notifier.take();
            wakes.take(|index| {
                assert_eq!((index, done.load(Ordering::Relaxed)), (1, 1));
                is_woken = true;
            });
            if !is_woken {
                notifier.sleep(true, None, || true);
            }
        }
        other.join().expect("no panic");
    });
}
