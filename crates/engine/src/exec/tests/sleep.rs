//! A worker whose thread waits for file descriptors.

use super::toy::{Gate, Toy, ToyHost};
use super::toy_log::ToyLog;
use crate::exec::core::{Refill, WorkerOptions};
use crate::exec::wake::event_sleep::{Sleep, WakeFd};
use crate::exec::worker::Worker;
use crate::suspend::OnMiss;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::thread;

const OPTIONS: WorkerOptions = WorkerOptions {
    batch: crate::exec::BatchSize::Fixed(4),
    batch_max: 4,
    parked_max: 3,
    held_max: 8,
    queued_max: 100,
    refill: Refill::Immediate,
};

const ASLEEP: Sleep = Sleep::UntilWoken { at_most: None };

/// A worker, and its descriptor.
fn sleeper(log: Option<Arc<ToyLog>>) -> (Worker<ToyHost, OnMiss>, WakeFd) {
    let mut w = Worker::new(ToyHost::with_log(log), OnMiss, OPTIONS);
    let fd = w.wake_fd().expect("a descriptor");
    (w, fd)
}

/// Returns whether the descriptor is readable, without waiting.
fn is_readable(fd: &WakeFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).expect("it is open") == 1
}

/// Waits until the descriptor is readable. If that never happens, the test fails after a minute.
fn wait_readable(fd: &WakeFd) {
    let long = Timespec { tv_sec: 60, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&long)).expect("it is open");
    assert_eq!(ready, 1, "woken");
}

/// A test's access to a waiting future: the future's waker, which may go to another thread.
#[derive(Clone, Default)]
struct Bed {
    waker: Rc<Cell<Option<Waker>>>,
    is_awake: Rc<Cell<bool>>,
}

impl Bed {
    async fn sleep(self) {
        let mut is_first = true;
        std::future::poll_fn(|context| {
            if std::mem::take(&mut is_first) {
                self.waker.set(Some(context.waker().clone()));
                return std::task::Poll::Pending;
            }
            self.is_awake.set(true);
            std::task::Poll::Ready(())
        })
        .await;
    }

    fn take(&self) -> Waker {
        self.waker.take().expect("it sleeps")
    }
}

fn spawn_bed(w: &mut Worker<ToyHost, OnMiss>) -> Bed {
    let bed = Bed::default();
    let sleeping = bed.clone();
    // SAFETY: the future uses no operations.
    unsafe { w.spawn(|_| sleeping.sleep(), |(), _| ()) }.expect("room");
    assert!(w.run_rounds(9).is_idle);
    bed
}

#[test]
fn a_waker_makes_the_descriptor_readable() {
    // Proves: a wake from another thread makes the descriptor readable while the worker sleeps, whether it comes before
    // the thread waits or while it does. Many wakes are one. The next call of the worker resets the descriptor.
    let (mut w, fd) = sleeper(None);
    for is_late in [false, true] {
        let beds = [(); 3].map(|()| spawn_bed(&mut w));
        let wakers = beds.each_ref().map(Bed::take);
        assert_eq!(w.prepare_to_sleep(), ASLEEP);
        assert!(!is_readable(&fd));
        let waking = thread::spawn(move || wakers.into_iter().for_each(Waker::wake));
        if is_late {
            wait_readable(&fd);
            waking.join().unwrap();
        } else {
            waking.join().unwrap();
            assert!(is_readable(&fd));
        }
        assert_eq!(w.run_rounds(9).ended, 3);
        assert!(beds.iter().all(|bed| bed.is_awake.get()));
        assert!(!is_readable(&fd));
        assert_eq!(w.prepare_to_sleep(), ASLEEP);
        assert!(!is_readable(&fd));
    }
}

#[test]
fn nothing_is_written_for_a_worker_that_is_awake() {
    // Proves: wakes before the sleep is announced, and after it is over, leave the descriptor alone. The former keep
    // the worker from falling asleep.
    let (mut w, fd) = sleeper(None);
    let bed = spawn_bed(&mut w);
    bed.take().wake();
    assert!(!is_readable(&fd));
    assert_eq!(w.prepare_to_sleep(), Sleep::NotNow);
    assert_eq!(w.run_rounds(9).ended, 1);

    let bed = spawn_bed(&mut w);
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    assert!(w.run_rounds(9).is_idle); // back because of a socket
    bed.take().wake();
    assert!(!is_readable(&fd));
    assert_eq!(w.run_rounds(9).ended, 1);
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    assert!(!is_readable(&fd));
}

#[test]
fn a_worker_with_something_to_do_does_not_sleep() {
    // Proves: no worker is told to sleep while a future is live, while a future could be let in, while the host has
    // more to clean up, or without a descriptor.
    let mut w = Worker::new(ToyHost::new(), OnMiss, OPTIONS);
    assert_eq!(w.prepare_to_sleep(), Sleep::NotNow);
    let fd = w.wake_fd().expect("a descriptor");
    assert_eq!(w.wake_fd().expect("the same").as_raw_fd(), fd.as_raw_fd());
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    // SAFETY: only the future uses its operations.
    unsafe { w.spawn(|toy| async move { Toy::operation(toy, 1).await }, |(), _| ()) }.expect("room");
    assert!(is_readable(&fd), "spawned against the rules, after the announcement");
    assert_eq!(w.prepare_to_sleep(), Sleep::NotNow);
    assert!(!is_readable(&fd));
    assert_eq!(w.run_rounds(9).ended, 1);
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
}

#[test]
fn a_worker_that_is_full_sleeps_on_those_that_wait() {
    // Proves: futures that wait for a place do not keep the worker awake if no place becomes free by itself. What wakes
    // parked futures lets the waiting ones in.
    let (mut w, fd) = sleeper(None);
    let gate = Rc::new(Gate::default());
    for _ in 0..9 {
        let passing = gate.clone();
        // SAFETY: the future uses no operations.
        unsafe { w.spawn(|_| async move { passing.pass().await }, |(), _| ()) }.expect("room");
    }
    assert!(w.run_rounds(9).is_idle);
    assert_eq!((w.parked(), w.queued()), (7, 2));
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    gate.open();
    assert!(is_readable(&fd));
    assert_eq!(w.run_rounds(9).ended, 9);
    assert_eq!((w.open(), w.queued()), (0, 0));
}

#[test]
fn a_release_makes_the_descriptor_readable() {
    // Proves: a held output that is released while the worker sleeps wakes it. One that is released earlier keeps the
    // worker awake, and the call that would have announced the sleep gives it out.
    let log = ToyLog::new();
    let (mut w, fd) = sleeper(Some(log.clone()));
    let ended = Rc::new(Cell::new(0));
    for until in 1..=2 {
        let ended = ended.clone();
        let make = move |toy| async move { Toy::hold_until(toy, until) };
        // SAFETY: only the future uses its operations.
        unsafe { w.spawn(make, move |(), _| ended.set(until)) }.expect("room");
    }
    assert!(w.run_rounds(9).is_idle);
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    let releasing = log.clone();
    let release = thread::spawn(move || releasing.release(1));
    wait_readable(&fd);
    release.join().unwrap();
    assert!(w.round());
    assert_eq!((ended.get(), w.held()), (1, 1));
    log.release(2);
    assert_eq!(w.prepare_to_sleep(), Sleep::NotNow);
    assert_eq!((ended.get(), w.held()), (2, 0));
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    assert!(!is_readable(&fd));
}

#[test]
fn the_descriptor_outlives_the_worker() {
    // Proves: a descriptor that is still in a poll set is not closed, and remaining wakers do no harm.
    let (mut w, fd) = sleeper(None);
    let waker = spawn_bed(&mut w).take();
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    drop(w);
    waker.wake();
    let _ = is_readable(&fd);
    drop(fd.clone());
    assert!(fd.as_fd().try_clone_to_owned().is_ok());
}

#[test]
fn a_stream_ends_the_sleep() {
    // Proves: a stream runs on a worker that has announced a sleep, and sleeps and wakes by itself.
    let (mut w, fd) = sleeper(None);
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
    let (mut left, mut ended) = (20, 0);
    let next = |_| {
        left -= 1;
        let (sender, receiver) = futures::channel::oneshot::channel();
        (left >= 0).then(|| {
            thread::spawn(move || sender.send(()));
            async move { receiver.await.unwrap() }
        })
    };
    w.stream(next, |(), _| ended += 1);
    assert_eq!(ended, 20);
    assert!(!is_readable(&fd));
    assert_eq!(w.prepare_to_sleep(), ASLEEP);
}
