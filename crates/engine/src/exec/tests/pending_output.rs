//! Held outputs of streamed and of spawned futures.

use super::toy::{Toy, ToyHost};
use super::toy_log::ToyLog;
use crate::exec::Fate::{self, Durable, Unknown};
use crate::exec::contract::Host;
use crate::exec::core::WorkerOptions;
use crate::exec::worker::{Step, Worker};
use crate::suspend::OnMiss;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

type ToyWorker = Worker<ToyHost, OnMiss>;
type Outputs = Vec<(u64, Fate)>;

fn worker(log: &Arc<ToyLog>, batch: usize, held_max: usize) -> ToyWorker {
    let options = WorkerOptions {
        batch: batch.into(),
        held_max,
        parked_max: 4,
        queued_max: 0,
        ..WorkerOptions::default()
    };
    Worker::new(ToyHost::with_log(Some(log.clone())), OnMiss, options)
}

/// Streams futures that end one after the other. `untils` says up to where each output is held. `begins` is called when
/// a future begins, `gives` when its output is given out.
fn stream(
    w: &mut ToyWorker,
    untils: impl IntoIterator<Item = u64>,
    begins: impl Fn(u64),
    gives: impl Fn(u64),
) -> Outputs {
    let (mut untils, mut outputs) = (untils.into_iter(), Vec::new());
    let next = |toy| {
        untils.next().map(|until| {
            begins(until);
            async move {
                Toy::operation(toy, 1).await;
                Toy::hold_until(toy, until);
                until
            }
        })
    };
    w.stream(next, |until, fate| {
        gives(until);
        outputs.push((until, fate));
    });
    assert_eq!(w.open(), 0);
    assert!(!w.host().local().is_entered());
    outputs
}

fn all(fate: Fate, untils: impl IntoIterator<Item = u64>) -> Outputs {
    untils.into_iter().map(|until| (until, fate)).collect()
}

fn nothing(_: u64) {}

#[test]
fn outputs_come_when_they_are_released() {
    // Proves: outputs come in the order in which their futures ended, and none before it is released. Outputs that are
    // not held, or that are released when their future ends, come at once. The thread sleeps meanwhile, and the release
    // wakes it.
    let log = ToyLog::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for until in [1, 5, 9] {
                log.await_sleeper();
                log.release(until);
            }
        });
        let gives = |until| assert!(until <= log.released().until);
        assert_eq!(stream(&mut worker(&log, 2, 100), 1..=9, nothing, gives), all(Durable, 1..=9));
    });
    let mut w = worker(&log, 1, 100);
    thread::scope(|scope| {
        scope.spawn(|| {
            log.await_sleeper();
            log.release(20);
        });
        let outputs = stream(&mut w, [10, 0, 12, 9, 11], nothing, nothing);
        assert_eq!(outputs, all(Durable, [0, 9, 10, 12, 11])); // 9 had been released before
    });
    assert_eq!(stream(&mut w, [15, 0, 16], nothing, nothing).len(), 3);
}

#[test]
fn what_asks_for_less_waits_for_the_one_before() {
    // Proves: held outputs stay in order even if the positions that they need are not.
    let log = ToyLog::new();
    let gives = |_| assert_eq!(log.released().until, 7);
    thread::scope(|scope| {
        scope.spawn(|| {
            for until in [5, 7] {
                log.await_sleeper();
                log.release(until);
            }
        });
        assert_eq!(stream(&mut worker(&log, 1, 100), [7, 3, 6], nothing, gives), all(Durable, [7, 3, 6]));
    });
}

#[test]
fn a_full_queue_lets_nothing_in() {
    // Proves: no more futures begin than may be held and open. All futures end when some outputs are released.
    const HELD_MAX: u64 = 4;
    const BATCH: u64 = 2;
    let (log, begun) = (ToyLog::new(), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut released = 0;
            while released < 50 {
                log.await_sleeper();
                let begun = begun.load(SeqCst);
                assert!(begun >= (released + HELD_MAX).min(50), "{begun} with {released} released");
                assert!(begun <= released + HELD_MAX + BATCH, "{begun} with {released} released");
                released += 3;
                log.release(released);
            }
        });
        let mut w = worker(&log, BATCH as usize, HELD_MAX as usize);
        let outputs = stream(&mut w, 1..=50, |until| begun.store(until, SeqCst), nothing);
        assert_eq!(outputs, all(Durable, 1..=50));
    });
}

#[test]
fn what_is_never_released_is_of_unknown_fate() {
    // Proves: when the log stops, before the stream, during it or while it sleeps, all outputs come and say what
    // happened.
    for stops_at in [0, 5, u64::MAX] {
        let log = ToyLog::new();
        log.release(3);
        if stops_at == 0 {
            log.stop();
        }
        thread::scope(|scope| {
            if stops_at == u64::MAX {
                scope.spawn(|| {
                    log.await_sleeper();
                    log.stop();
                });
            }
            let begins = |until| {
                if until == stops_at {
                    log.stop();
                }
            };
            let outputs = stream(&mut worker(&log, 2, 4), 1..=6, begins, nothing);
            let mut expected = all(Durable, 1..=3);
            expected.extend(all(Unknown, 4..=6));
            assert_eq!(outputs, expected, "stopped at {stops_at}");
        });
    }
}

#[test]
fn a_panic_drops_what_is_held() {
    // Proves: after a panic of a future, of `next` or of the sink, held outputs are dropped once each, even if one of
    // them panics then. The worker can still be used.
    struct Loud<'a>(&'a Cell<u32>, bool);
    impl Drop for Loud<'_> {
        fn drop(&mut self) {
            self.0.update(|n| n + 1);
            assert!(!self.1, "drop");
        }
    }
    for bad in ["poll", "next", "sink"] {
        let (log, made, drops) = (ToyLog::new(), Cell::new(0), Cell::new(0));
        let mut w = worker(&log, 2, 100);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let next = |toy| {
                let i = made.get() + 1;
                assert!(bad != "next" || i != 9, "next");
                made.set(i);
                let (drops, until) = (&drops, if bad == "sink" && i == 9 { 0 } else { u64::from(i) });
                Some(async move {
                    let output = Loud(drops, i == 4);
                    Toy::operation(toy, 2).await;
                    assert!(bad != "poll" || i != 9, "poll");
                    Toy::hold_until(toy, until);
                    output
                })
            };
            w.stream(next, |_, _| panic!("sink"));
        }));
        assert!(caught.is_err());
        assert!(made.get() >= 8 && drops.get() + 2 >= made.get(), "{bad}");
        let life = w.host().life.clone();
        assert_eq!((w.open(), life.started.get() - life.ended.get()), (0, 0));
        log.release(100);
        assert_eq!(stream(&mut w, 1..=3, nothing, nothing), all(Durable, 1..=3));
    }
}

type Log = Rc<RefCell<Outputs>>;

/// Spawns a future whose output is held. Futures end in the order of `until`, because each has that many operations.
fn spawn(w: &mut ToyWorker, outputs: &Log, until: u64) -> bool {
    let outputs = outputs.clone();
    let make = move |toy: &'static Toy| async move {
        for _ in 0..until {
            toy.operation(1).await;
        }
        toy.hold_until(until);
        until
    };
    // SAFETY: only the future uses `toy`.
    unsafe { w.spawn(make, move |until, fate| outputs.borrow_mut().push((until, fate))) }.is_ok()
}

fn spawned(log: &Arc<ToyLog>, untils: impl IntoIterator<Item = u64>) -> (ToyWorker, Log) {
    let (mut w, outputs) = (worker(log, 8, 4), Log::default());
    untils.into_iter().for_each(|until| assert!(spawn(&mut w, &outputs, until)));
    while w.round() {}
    (w, outputs)
}

#[test]
fn spawned_futures_end_when_they_are_released() {
    // Proves: the first step, round or cleanup after the release calls `end`. Until then there is nothing to step, and
    // the future is not open any more.
    let log = ToyLog::new();
    let (mut w, outputs) = spawned(&log, [1, 2, 3, 4, 5]);
    assert_eq!((w.open(), w.held(), w.step(), w.round()), (0, 5, Step::Idle, false));
    assert!(w.is_full() && !spawn(&mut w, &outputs, 6));
    assert!(outputs.take().is_empty());

    log.release(1);
    assert_eq!((w.step(), w.step(), outputs.take()), (Step::Stepped, Step::Idle, all(Durable, [1])));
    log.release(3);
    assert_eq!((w.round(), w.round(), outputs.take()), (true, false, all(Durable, [2, 3])));
    assert!(!w.is_full() && spawn(&mut w, &outputs, 6));
    log.release(4);
    w.maintain();
    assert_eq!((w.open(), w.held(), outputs.take()), (1, 1, all(Durable, [4])));
    while w.round() {}
    log.stop();
    assert_eq!((w.round(), w.held(), outputs.take()), (true, 0, all(Unknown, [5, 6])));
    assert!(spawn(&mut w, &outputs, 4)); // already released
    while w.round() {}
    assert_eq!(outputs.take(), all(Durable, [4]));
}

#[test]
fn a_stream_leaves_what_was_spawned_held() {
    // Proves: held outputs of spawned futures neither delay a stream nor are lost when it panics.
    let log = ToyLog::new();
    let (mut w, outputs) = spawned(&log, [1, 2]);
    assert_eq!(stream(&mut w, [0, 0], nothing, nothing), all(Durable, [0, 0]));
    let caught = catch_unwind(AssertUnwindSafe(|| stream(&mut w, [0], |_| panic!("next"), nothing)));
    assert!(caught.is_err() && outputs.borrow().is_empty());
    log.release(2);
    assert!(w.round());
    assert_eq!(outputs.take(), all(Durable, [1, 2]));
}

#[test]
fn a_panic_of_an_ending_is_passed_on() {
    // Proves: the endings after one that panics come with the next step, or when the worker is dropped.
    for drops in [false, true] {
        let log = ToyLog::new();
        let (mut w, outputs) = spawned(&log, [1]);
        let make = |toy: &'static Toy| async move { toy.hold_until(2) };
        // SAFETY: only the future uses `toy`.
        assert!(unsafe { w.spawn(make, |(), _| panic!("end")) }.is_ok());
        while w.round() {}
        assert!(spawn(&mut w, &outputs, 3));
        while w.round() {}
        assert_eq!(w.held(), 3);
        log.release(3);
        if drops {
            assert!(catch_unwind(AssertUnwindSafe(|| drop(w))).is_err());
        } else {
            assert!(catch_unwind(AssertUnwindSafe(|| w.step())).is_err());
            assert_eq!(outputs.borrow().len(), 1);
            assert_eq!(w.step(), Step::Stepped);
        }
        assert_eq!(outputs.take(), all(Durable, [1, 3]));
    }
}

#[test]
fn a_dropped_worker_waits_for_what_it_holds() {
    // Proves: a dropped worker drops open futures without an ending. It gives out what was released, and the rest as
    // unknown.
    let log = ToyLog::new();
    let (mut w, outputs) = spawned(&log, [1, 2, 3]);
    assert!(spawn(&mut w, &outputs, 4));
    thread::scope(|scope| {
        scope.spawn(|| {
            log.await_blocked();
            log.release(2);
            log.stop();
        });
        drop(w);
    });
    let mut expected = all(Durable, [1, 2]);
    expected.extend(all(Unknown, [3]));
    assert_eq!(outputs.take(), expected);
}
