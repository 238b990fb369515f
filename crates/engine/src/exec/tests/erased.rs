use super::stream::worker;
use super::toy::{Gate, Toy, ToyHost};
use crate::exec::contract::Host;
use crate::exec::core::Refill;
use crate::exec::spawn_queue::Spawned;
use crate::exec::worker::{Step, Worker};
use crate::suspend::{OnMiss, Seeded, Suspend};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

type Log = Rc<RefCell<Vec<u32>>>;

fn spawn<S: Suspend>(w: &mut Worker<ToyHost, S>, log: &Log, id: u32, operations: u32) -> Option<Spawned> {
    let log = log.clone();
    let make = move |toy| async move {
        for _ in 0..operations {
            Toy::operation(toy, 1).await;
        }
        id
    };
    // SAFETY: only the future uses `toy`.
    unsafe { w.spawn(make, move |id, _| log.borrow_mut().push(id)) }.ok()
}

fn settled<S: Suspend>(w: &Worker<ToyHost, S>) {
    assert_eq!(w.open(), 0);
    assert!(!w.host().local().is_entered());
    assert_eq!(w.host().life.started.get(), w.host().life.ended.get());
}

#[test]
fn spawned_futures_run_by_rounds_and_by_steps() {
    // Proves: both ways of driving the worker end all futures. Equal seeds give equal orders.
    let log = Log::default();
    let mut w = worker(OnMiss, 4, Refill::Immediate);
    for id in 0..4 {
        assert!(spawn(&mut w, &log, id, 10 - 3 * id).is_some());
    }
    assert!(spawn(&mut w, &log, 4, 1).is_none());
    while w.round() {}
    assert_eq!(log.take(), [3, 2, 1, 0]);
    settled(&w);

    let order = |seed| {
        let log = Log::default();
        let mut w = worker(Seeded::new(seed), 4, Refill::Immediate);
        (0..4).for_each(|id| assert!(spawn(&mut w, &log, id, 5).is_some()));
        let mut ended = 0;
        while ended < 4 {
            match w.step() {
                Step::Idle => panic!("nothing is parked"),
                Step::Stepped => {}
                Step::Ended => ended += 1,
            }
        }
        assert_eq!(w.step(), Step::Idle);
        settled(&w);
        log.take()
    };
    assert_eq!(order(3), order(3));
    assert!((0..20).any(|seed| order(seed) != order(3)));
}

#[test]
fn strict_refill_waits_for_the_batch() {
    // Proves: under `Strict` there is room again only when all futures have ended.
    let log = Log::default();
    let mut w = worker(OnMiss, 3, Refill::Strict);
    (0..3).for_each(|id| assert!(spawn(&mut w, &log, id, 5 * id).is_some()));
    assert!(w.is_full());
    while w.open() > 0 {
        w.round();
        assert!(w.open() == 0 || w.is_full());
    }
    assert_eq!(w.room(), 3);
    settled(&w);
}

#[test]
fn cancelled_futures_are_dropped_where_they_are() {
    // Proves: a future with operations in flight and a parked future are dropped at once. The other futures continue.
    let log = Log::default();
    let mut w = worker(OnMiss, 4, Refill::Immediate);
    let gate = Rc::new(Gate::default());
    let passing = gate.clone();
    // SAFETY: the future uses no operations.
    let parked = unsafe { w.spawn(|_| async move { passing.pass().await }, |(), _| panic!("cancelled")) };
    let parked = parked.map_err(|_| "full").unwrap();
    let busy = spawn(&mut w, &log, 1, 100).unwrap();
    spawn(&mut w, &log, 2, 5);
    w.round();
    assert_eq!((w.open(), w.parked()), (3, 1));
    assert!(w.cancel(parked) && w.cancel(busy) && !w.cancel(busy));
    gate.open(); // the stale waker does no harm
    while w.round() {}
    assert_eq!(log.take(), [2]);
    settled(&w);
}

#[test]
fn a_panic_frees_its_slot_only() {
    // Proves: a panic at a poll and a panic at a drop leave the worker and its other futures unchanged.
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("drop");
        }
    }
    let log = Log::default();
    for at_drop in [false, true] {
        let mut w = worker(OnMiss, 4, Refill::Immediate);
        spawn(&mut w, &log, 1, 5);
        let make = move |toy| async move {
            let loud = at_drop.then_some(Loud);
            Toy::operation(toy, 1).await;
            assert!(at_drop, "poll");
            Toy::operation(toy, 100).await;
            drop(loud);
        };
        // SAFETY: only the future uses `toy`.
        let bad = unsafe { w.spawn(make, |(), _| ()) }.map_err(|_| "full").unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            (0..4).for_each(|_| assert!(w.round()));
            w.cancel(bad)
        }));
        assert!(caught.is_err());
        assert_eq!(w.open(), 1);
        while w.round() {}
        assert_eq!(log.take(), [1]);
        settled(&w);
    }
}

#[test]
fn shrinking_the_batch_drains_it() {
    // Proves: if the batch becomes smaller, the futures beyond it run to their ends, and no others are let in
    // meanwhile.
    let log = Log::default();
    let mut w = worker(OnMiss, 8, Refill::Immediate);
    (0..8).for_each(|id| assert!(spawn(&mut w, &log, id, id).is_some()));
    w.set_batch(2);
    assert!(w.is_full());
    while w.open() >= 2 {
        assert!(spawn(&mut w, &log, 99, 1).is_none());
        w.round();
    }
    assert_eq!(w.room(), 2 - w.open());
    while w.round() {}
    settled(&w);
}

#[test]
fn a_wake_polls_even_with_operations_in_flight() {
    // Proves: the first to end decides a race between an operation and something outside, and drops the other.
    let mut w = worker(OnMiss, 4, Refill::Immediate);
    let (gate, won) = (Rc::new(Gate::default()), Rc::new(Cell::new(false)));
    let (passing, winning) = (gate.clone(), won.clone());
    let make = |toy| async move {
        let (mut long, mut pass) =
            (std::pin::pin!(Toy::operation(toy, 1000)), std::pin::pin!(passing.pass()));
        std::future::poll_fn(|context| {
            assert!(long.as_mut().poll(context).is_pending());
            pass.as_mut().poll(context)
        })
        .await;
        winning.set(true);
    };
    // SAFETY: only the future uses `toy`.
    assert!(unsafe { w.spawn(make, |(), _| ()) }.is_ok());
    let log = Log::default();
    spawn(&mut w, &log, 1, 100); // so that the other future is not alone, which would not suspend
    (0..5).for_each(|_| assert!(w.round()));
    gate.open();
    w.round();
    assert!(won.get() && w.open() == 1);
    while w.round() {}
    settled(&w);
}

#[test]
fn parked_futures_are_limited() {
    // Proves: beyond `parked_max`, parked futures count against the batch, and nothing more is let in.
    let mut w = worker(OnMiss, 64, Refill::Immediate);
    let gate = Rc::new(Gate::default());
    let mut placed = 0;
    loop {
        let passing = gate.clone();
        // SAFETY: the future uses no operations.
        if unsafe { w.spawn(|_| async move { passing.pass().await }, |(), _| ()) }.is_err() {
            break;
        }
        placed += 1;
        w.round();
    }
    assert_eq!((placed, w.parked()), (64 + 16, 64 + 16));
    assert!(!w.host().local().is_entered());
    gate.open();
    while w.round() {}
    settled(&w);
}

#[test]
fn a_dropped_worker_drops_its_futures() {
    // Proves: open and parked futures are dropped with the worker, before its operations.
    let (log, alive) = (Log::default(), Rc::new(()));
    let mut w = worker(OnMiss, 8, Refill::Immediate);
    for parks in [true, false] {
        let (alive, gate) = (alive.clone(), Gate::default());
        let make = move |toy| async move {
            let _alive = alive;
            Toy::operation(toy, 3).await;
            if parks {
                gate.pass().await;
            }
            Toy::operation(toy, 100).await;
        };
        // SAFETY: only the future uses `toy`.
        assert!(unsafe { w.spawn(make, |(), _| ()) }.is_ok());
    }
    spawn(&mut w, &log, 1, 1000);
    (0..10).for_each(|_| assert!(w.round()));
    assert_eq!((w.open(), w.parked()), (3, 1));
    let life = w.host().life.clone();
    drop(w);
    assert_eq!(Rc::strong_count(&alive), 1);
    assert_eq!(life.started.get(), life.ended.get());
    assert!(log.take().is_empty());
}
