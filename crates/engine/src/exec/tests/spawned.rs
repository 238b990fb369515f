//! Spawned futures beyond the batch: their queue, and how they leave it.

use super::toy::{Gate, Toy, ToyHost};
use super::toy_log::ToyLog;
use crate::exec::contract::{Fate, Host};
use crate::exec::core::{Refill, WorkerOptions};
use crate::exec::spawn_queue::{NotSpawned, Spawned};
use crate::exec::worker::{Step, Worker, WorkerProgress};
use crate::suspend::{OnMiss, Seeded, Suspend};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The futures that were let in, in that order, and those that have ended.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<(Vec<u32>, Vec<u32>)>>);

impl Log {
    fn begins(&self, id: u32) {
        self.0.borrow_mut().0.push(id);
    }

    fn ends(&self, id: u32) {
        self.0.borrow_mut().1.push(id);
    }

    /// Returns how many have ended.
    fn ended(&self) -> usize {
        self.0.borrow().1.len()
    }

    /// Returns all futures that have ended, in the order in which they were let in. The other futures have not been let
    /// in.
    fn take(&self) -> Vec<u32> {
        let (begun, mut ended) = self.0.take();
        let mut sorted = begun.clone();
        sorted.sort_unstable();
        ended.sort_unstable();
        assert_eq!(sorted, ended);
        begun
    }
}

const OPTIONS: WorkerOptions = WorkerOptions {
    batch: crate::exec::BatchSize::Fixed(4),
    batch_max: 4,
    parked_max: 3,
    held_max: 8,
    queued_max: 100,
    refill: Refill::Immediate,
};

fn worker<S: Suspend>(policy: S, options: WorkerOptions) -> Worker<ToyHost, S> {
    Worker::new(ToyHost::new(), policy, options)
}

/// Spawns a future of `operations` operations that logs its number when it ends. `token` is dropped with it.
fn spawn_with<S: Suspend, T: 'static>(
    w: &mut Worker<ToyHost, S>,
    log: &Log,
    id: u32,
    operations: u32,
    token: T,
) -> Result<Spawned, NotSpawned> {
    let (begun, ended) = (log.clone(), log.clone());
    let make = move |toy| {
        begun.begins(id);
        async move {
            let _token = token;
            for _ in 0..operations {
                Toy::operation(toy, 1).await;
            }
            id
        }
    };
    // SAFETY: only the future uses `toy`.
    unsafe { w.spawn(make, move |id, _| ended.ends(id)) }
}

fn spawn<S: Suspend>(w: &mut Worker<ToyHost, S>, log: &Log, id: u32, operations: u32) -> Spawned {
    spawn_with(w, log, id, operations, ()).expect("there is room in the queue")
}

/// Spawns a future that passes the gate.
fn spawn_parked(w: &mut Worker<ToyHost, OnMiss>, log: &Log, id: u32, gate: &Rc<Gate>) -> Spawned {
    let (begun, ended, gate) = (log.clone(), log.clone(), gate.clone());
    let make = move |_| {
        begun.begins(id);
        async move { gate.pass().await }
    };
    // SAFETY: the future uses no operations.
    let spawned = unsafe { w.spawn(make, move |(), _| ended.ends(id)) };
    spawned.expect("there is room in the queue")
}

fn settled<S: Suspend>(w: &Worker<ToyHost, S>) {
    assert_eq!((w.open(), w.queued(), w.held()), (0, 0, 0));
    assert!(!w.host().local().is_entered());
    assert_eq!(w.host().life.started.get(), w.host().life.ended.get());
    assert_eq!(w.host().life.charged.get(), 0);
}

#[test]
fn those_beyond_the_batch_come_in_in_order() {
    // Proves: whatever drives the worker, all spawned futures end, at most a batch of them is open, and they are let in
    // in the order in which they were spawned. Waiting futures are charged.
    for steps in [false, true] {
        let log = Log::default();
        let mut w = worker(OnMiss, OPTIONS);
        for id in 0..50 {
            spawn(&mut w, &log, id, 3);
        }
        assert_eq!((w.open(), w.queued()), (4, 46));
        assert!(w.host().life.charged.get() > 0);
        loop {
            assert!(w.open() <= 4);
            let moved = if steps { w.step() != Step::Idle } else { w.round() };
            if !moved {
                break;
            }
        }
        assert_eq!(log.take(), (0..50).collect::<Vec<_>>());
        settled(&w);
    }
}

#[test]
fn one_that_comes_later_does_not_overtake() {
    // Proves: a newcomer does not get a place that has just become free while others wait for one.
    let log = Log::default();
    let mut w = worker(OnMiss, OPTIONS);
    (0..6).for_each(|id| {
        spawn(&mut w, &log, id, 1);
    });
    while w.is_full() {
        w.round();
    }
    assert_eq!(w.queued(), 2);
    spawn(&mut w, &log, 6, 1);
    assert_eq!(w.queued(), 3);
    while w.round() {}
    assert_eq!(log.take(), [0, 1, 2, 3, 4, 5, 6]);
    settled(&w);
}

#[test]
fn a_seed_decides_the_order_beyond_the_batch_too() {
    // Proves: equal seeds give equal orders, so a simulation can spawn as much as it likes.
    let order = |seed| {
        let log = Log::default();
        let mut w = worker(Seeded::new(seed), OPTIONS);
        (0..30).for_each(|id| {
            spawn(&mut w, &log, id, 5);
        });
        while w.step() != Step::Idle {}
        settled(&w);
        let ended = log.0.borrow().1.clone();
        assert!(log.take().into_iter().eq(0..30));
        ended
    };
    assert_eq!(order(3), order(3));
    assert!((0..20).any(|seed| order(seed) != order(3)));
}

#[test]
fn one_that_parks_makes_room() {
    // Proves: futures that wait for something outside let others in, until as many are parked as allowed. When they are
    // woken, the rest follows in order.
    let (log, gate) = (Log::default(), Rc::new(Gate::default()));
    let mut w = worker(OnMiss, OPTIONS);
    (0..20).for_each(|id| {
        spawn_parked(&mut w, &log, id, &gate);
    });
    assert_eq!((w.open(), w.queued()), (4, 16));
    while w.round() {}
    assert_eq!((w.open(), w.parked(), w.queued()), (7, 7, 13));
    assert!(!w.host().local().is_entered());
    gate.open();
    while w.round() {}
    assert_eq!(log.take(), (0..20).collect::<Vec<_>>());
    settled(&w);
}

#[test]
fn a_strict_batch_is_gathered_from_the_queue() {
    // Proves: under `Strict`, waiting futures come in when a whole batch has ended, and then as many as a batch has.
    let log = Log::default();
    let mut w = worker(OnMiss, WorkerOptions { refill: Refill::Strict, ..OPTIONS });
    (0..10).for_each(|id| {
        spawn(&mut w, &log, id, 1 + id % 4);
    });
    let mut queued = w.queued();
    assert_eq!(queued, 6);
    while w.round() {
        if w.queued() != queued {
            assert_eq!(w.queued(), queued.saturating_sub(4));
            assert_eq!(log.ended(), 10 - queued, "all that were let in before have ended");
            queued = w.queued();
        }
    }
    assert_eq!(log.take().len(), 10);
    settled(&w);
}

#[test]
fn a_full_queue_refuses() {
    // Proves: at either limit the next future is refused, dropped without having begun, and counted nowhere. When a
    // place is free again, there is room again.
    let (log, token) = (Log::default(), Rc::new(()));
    let mut w = worker(OnMiss, WorkerOptions { queued_max: 2, ..OPTIONS });
    (0..5).for_each(|id| {
        spawn(&mut w, &log, id, 1);
    });
    let waiting = spawn(&mut w, &log, 5, 1);
    let charged = w.host().life.charged.get();
    let refused = spawn_with(&mut w, &log, 6, 1, token.clone());
    assert_eq!(refused, Err(NotSpawned::QueueFull { queued_max: 2 }));
    assert_eq!((Rc::strong_count(&token), w.host().life.charged.get()), (1, charged));
    assert!(w.cancel(waiting));
    w.host().life.charged_max.set(Some(w.host().life.charged.get()));
    assert_eq!(spawn_with(&mut w, &log, 7, 1, token.clone()), Err(NotSpawned::OutOfMemory));
    assert_eq!(Rc::strong_count(&token), 1);
    w.host().life.charged_max.set(None);
    spawn(&mut w, &log, 8, 1);
    while w.round() {}
    assert_eq!(log.take(), [0, 1, 2, 3, 4, 8]);
    settled(&w);
}

#[test]
fn a_place_that_is_free_needs_no_queue() {
    // Proves: without a queue, as many futures are taken as there are places, and nothing is charged.
    let log = Log::default();
    let mut w = worker(OnMiss, WorkerOptions { queued_max: 0, ..OPTIONS });
    (0..4).for_each(|id| {
        spawn(&mut w, &log, id, 1);
    });
    assert!(spawn_with(&mut w, &log, 4, 1, ()).is_err());
    assert_eq!(w.host().life.charged.get(), 0);
    while w.round() {}
    assert_eq!(log.take(), [0, 1, 2, 3]);
    settled(&w);
}

#[test]
fn one_that_waits_can_be_cancelled() {
    // Proves: a future can be cancelled before it has a place and while it has one, but not after its end. Its name is
    // not reused, and the others come in in order.
    let (log, token) = (Log::default(), Rc::new(()));
    let mut w = worker(OnMiss, OPTIONS);
    let names: Vec<_> = (0..12).map(|id| spawn_with(&mut w, &log, id, 2, token.clone()).unwrap()).collect();
    assert_eq!(Rc::strong_count(&token), 13);
    for id in [4, 11, 7, 1] {
        assert!(w.cancel(names[id]) && !w.cancel(names[id]));
    }
    assert_eq!(Rc::strong_count(&token), 9);
    log.ends(1); // it had been let in
    while w.round() {}
    assert_eq!(log.take(), [0, 1, 2, 3, 5, 6, 8, 9, 10]);
    assert!(names.iter().all(|&name| !w.cancel(name)), "all have gone");
    let later = spawn(&mut w, &log, 20, 2);
    assert!(names.iter().all(|&name| !w.cancel(name)), "the one in the slot now is another one");
    assert!(w.cancel(later));
    settled(&w);
}

#[test]
fn a_panic_leaves_the_queue_as_it_is() {
    // Proves: a panic while a future is made, when it is let in, and a panic of a future reach the caller of the round.
    // The slot is free again, and the others continue.
    let log = Log::default();
    let mut w = worker(OnMiss, OPTIONS);
    (0..6).for_each(|id| {
        spawn(&mut w, &log, id, 1);
    });
    // More futures than there are slots: none is lost.
    for in_future in [false, true].repeat(8) {
        let make = move |_| {
            assert!(in_future, "make");
            async { panic!("future") }
        };
        // SAFETY: the future uses no operations.
        unsafe { w.spawn(make, |(), _| ()) }.expect("room");
    }
    (6..10).for_each(|id| {
        spawn(&mut w, &log, id, 1);
    });
    let mut panics = 0;
    for _ in 0..1000 {
        panics += u32::from(catch_unwind(AssertUnwindSafe(|| w.round())).is_err());
    }
    assert_eq!((panics, w.open(), w.queued()), (16, 0, 0));
    assert_eq!(log.take(), (0..10).collect::<Vec<_>>());
    assert_eq!(w.room(), 4);
    settled(&w);
}

#[test]
fn a_dropped_worker_drops_those_that_wait() {
    // Proves: the futures that have a place and those that wait are dropped with the worker, without their `end`, even
    // if drops panic. Nothing stays charged.
    struct Loud(Rc<Cell<u32>>);
    impl Drop for Loud {
        fn drop(&mut self) {
            self.0.update(|dropped| dropped + 1);
            panic!("drop");
        }
    }
    let (log, dropped) = (Log::default(), Rc::new(Cell::new(0)));
    let mut w = worker(OnMiss, OPTIONS);
    (0..4).for_each(|id| {
        spawn(&mut w, &log, id, 9);
    });
    (4..10).for_each(|id| {
        spawn_with(&mut w, &log, id, 1, Loud(dropped.clone())).expect("room");
    });
    w.round();
    let life = w.host().life.clone();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(w))).is_err());
    assert_eq!((dropped.get(), life.charged.get()), (6, 0));
    assert_eq!(life.started.get(), life.ended.get());
    assert_eq!(log.ended(), 0);
}

#[test]
fn held_outputs_keep_those_that_wait_out() {
    // Proves: while as many outputs are held as allowed, nothing is let in although places are free. The release lets
    // the rest in.
    let (toys, log) = (ToyLog::new(), Log::default());
    let options = WorkerOptions { held_max: 4, ..OPTIONS };
    let mut w = Worker::new(ToyHost::with_log(Some(toys.clone())), OnMiss, options);
    for id in 1..=12 {
        let (begun, ended) = (log.clone(), log.clone());
        let make = move |toy| {
            begun.begins(id);
            async move { Toy::hold_until(toy, u64::from(id)) }
        };
        let end = move |(), fate| {
            assert_eq!(fate, Fate::Durable);
            ended.ends(id);
        };
        // SAFETY: only the future uses its operations.
        unsafe { w.spawn(make, end) }.expect("room");
    }
    while w.round() {}
    assert_eq!((w.open(), w.held(), w.queued()), (0, 4, 8));
    for until in [4, 8, 12] {
        toys.release(until);
        while w.round() {}
        assert_eq!(log.ended(), until as usize);
    }
    assert_eq!(log.take(), (1..=12).collect::<Vec<_>>());
    settled(&w);
}

#[test]
fn rounds_are_bounded() {
    // Proves: a call makes no more rounds than it is told to, and says what has ended and whether anything can move
    // yet.
    let (log, gate) = (Log::default(), Rc::new(Gate::default()));
    let mut w = worker(OnMiss, OPTIONS);
    assert_eq!(w.run_rounds(5), WorkerProgress { rounds: 0, ended: 0, is_idle: true });
    (0..8).for_each(|id| {
        spawn(&mut w, &log, id, 3);
    });
    spawn_parked(&mut w, &log, 8, &gate);
    let rounds = w.counters().rounds;
    assert_eq!(w.run_rounds(0), WorkerProgress { rounds: 0, ended: 0, is_idle: false });
    assert_eq!(w.run_rounds(2), WorkerProgress { rounds: 2, ended: 0, is_idle: false });
    assert_eq!(w.counters().rounds, rounds + 2);
    let (mut ended, mut calls) = (0, 0);
    loop {
        let progress = w.run_rounds(2);
        (ended, calls) = (ended + progress.ended, calls + 1);
        if progress.is_idle {
            break;
        }
        assert_eq!(progress.rounds, 2);
    }
    assert!(calls > 2);
    assert_eq!((ended, w.open()), (8, 1));
    gate.open();
    assert_eq!(w.run_rounds(9).ended, 1);
    settled(&w);
}
