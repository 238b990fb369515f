use super::toy::{Gate, Toy, ToyHost, step_aside};
use crate::exec::contract::Host;
use crate::exec::core::{Refill, WorkerOptions};
use crate::exec::worker::Worker;
use crate::suspend::{Never, OnMiss, Seeded, Suspend, Teams};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

pub(super) fn worker<S: Suspend>(policy: S, batch: usize, refill: Refill) -> Worker<ToyHost, S> {
    let options = WorkerOptions {
        batch: batch.into(),
        refill,
        parked_max: 16,
        queued_max: 0,
        ..WorkerOptions::default()
    };
    Worker::new(ToyHost::new(), policy, options)
}

/// Runs futures, each of as many one-step operations as `lengths` says. Returns the order in which they ended.
fn run<S: Suspend>(worker: &mut Worker<ToyHost, S>, lengths: &[u32]) -> Vec<usize> {
    let (mut inputs, mut ended) = (lengths.iter().enumerate(), Vec::new());
    let next = |toy| {
        inputs.next().map(|(i, &n): (usize, &u32)| async move {
            for _ in 0..n {
                Toy::operation(toy, 1).await;
            }
            i
        })
    };
    worker.stream(next, |i, _| ended.push(i));
    assert_eq!(worker.open(), 0);
    assert!(!worker.host().local().is_entered());
    let life = &worker.host().life;
    assert_eq!(life.started.get(), life.ended.get());
    ended
}

#[test]
fn every_future_ends_once_under_every_policy() {
    // Proves: no future is lost or run twice, whatever the batch, the refill and the policy.
    let lengths: Vec<u32> = (0..100).map(|i| i * 7 % 13).collect();
    let check = |mut ended: Vec<usize>| {
        ended.sort_unstable();
        assert_eq!(ended, (0..100).collect::<Vec<_>>());
    };
    for refill in [Refill::Immediate, Refill::Strict] {
        for batch in [1, 2, 7, 64] {
            check(run(&mut worker(OnMiss, batch, refill), &lengths));
            check(run(&mut worker(Never, batch, refill), &lengths));
            check(run(&mut worker(Teams, batch, refill), &lengths));
            check(run(&mut worker(Seeded::new(7), batch, refill), &lengths));
        }
    }
}

#[test]
fn short_futures_overtake_long_ones_unless_alone() {
    // Proves: futures of a batch are interleaved. Futures of a batch of one are not.
    assert_eq!(run(&mut worker(OnMiss, 2, Refill::Immediate), &[50, 1, 1, 1]), [1, 2, 3, 0]);
    assert_eq!(run(&mut worker(OnMiss, 1, Refill::Immediate), &[50, 1, 1, 1]), [0, 1, 2, 3]);
    assert_eq!(run(&mut worker(Never, 2, Refill::Immediate), &[50, 1, 1, 1]), [0, 1, 2, 3]);
}

/// A policy that notes whose operations it steps.
#[derive(Default)]
struct Noting<const GATHERS: bool>(Vec<usize>);

impl<const G: bool> Suspend for Noting<G> {
    const SUSPENDS: bool = true;
    const GATHERS: bool = G;
    fn miss<const LINES: usize>(&mut self, toy: *const u8) -> bool {
        self.0.push(toy.addr());
        true
    }
}

/// Runs eight futures of two kinds, next to each other, for some rounds. Returns the kinds in the order in which they
/// were stepped, and the number of groups counted.
fn steps_of_two_kinds<const GATHERS: bool>() -> (Vec<u32>, u64) {
    const OPEN: u32 = 8;
    let mut w = worker(Noting::<GATHERS>::default(), OPEN as usize, Refill::Immediate);
    let (mut made, kinds) = (0, RefCell::new(HashMap::new()));
    let next = |toy| {
        let kind = made % 2;
        Toy::set_kind(toy, kind);
        kinds.borrow_mut().insert(std::ptr::from_ref::<Toy>(toy).addr(), kind);
        made += 1;
        (made <= OPEN).then_some(async move { Toy::operation(toy, 5).await })
    };
    w.stream(next, |(), _| {});
    let steps = w.policy.0.iter().map(|toy| kinds.borrow()[toy]).collect();
    (steps, w.counters().teams)
}

#[test]
fn futures_that_do_the_same_are_stepped_one_after_the_other() {
    // Proves: under a policy that gathers, each round steps its futures by kind, none is left out or stepped twice, and
    // the groups are counted. Under other policies the futures keep their places.
    let (steps, teams) = steps_of_two_kinds::<true>();
    assert_eq!(steps, [0, 0, 0, 0, 1, 1, 1, 1].repeat(5));
    // One round for the first polls, five for steps, one in which the operations end, and one for the last polls.
    assert_eq!(teams, 1 + 2 * 6 + 1);
    let (steps, teams) = steps_of_two_kinds::<false>();
    assert_eq!((steps, teams), ([0, 1].repeat(4 * 5), 0));
}

#[test]
fn a_strict_batch_ends_before_the_next_begins() {
    // Proves: under `Strict` nothing overtakes across batches. Under `Immediate` it does.
    assert_eq!(run(&mut worker(OnMiss, 2, Refill::Strict), &[50, 1, 1, 50]), [1, 0, 2, 3]);
    assert_eq!(run(&mut worker(OnMiss, 2, Refill::Immediate), &[50, 1, 1, 90]), [1, 2, 0, 3]);
}

#[test]
fn big_futures_run_in_a_kept_buffer() {
    // Proves: futures larger than the inline bytes, and over-aligned ones, run and are dropped once each.
    #[repr(align(256))]
    struct Big([u8; 3000], std::rc::Rc<Cell<u32>>);
    impl Drop for Big {
        fn drop(&mut self) {
            self.1.update(|n| n + 1);
        }
    }
    let drops = std::rc::Rc::new(Cell::new(0));
    let mut w = worker(OnMiss, 3, Refill::Immediate);
    let (mut i, mut sum) = (0_u32, 0_u32);
    let next = |toy| {
        (i < 10).then(|| {
            i += 1;
            let big = Big([i as u8; 3000], drops.clone());
            async move {
                Toy::operation(toy, 3).await;
                assert_eq!(std::ptr::from_ref(&big).addr() % 256, 0);
                u32::from(big.0[2999])
            }
        })
    };
    w.stream(next, |n, _| sum += n);
    assert_eq!((sum, drops.get()), (55, 10));
}

#[test]
fn a_panic_leaves_the_worker_usable() {
    // Proves: a panic at a poll, in the sink or in a drop drops all futures, and the worker continues.
    struct Loud<'a>(&'a Cell<u32>, bool);
    impl Drop for Loud<'_> {
        fn drop(&mut self) {
            self.0.update(|n| n + 1);
            assert!(!self.1, "drop");
        }
    }
    for bad in ["poll", "sink", "drop"] {
        let mut w = worker(OnMiss, 4, Refill::Immediate);
        let (drops, mut i) = (Cell::new(0), 0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let next = |toy| {
                i += 1;
                let (i, loud) = (i, Loud(&drops, bad == "drop" && i == 6));
                Some(async move {
                    let _loud = loud;
                    Toy::operation(toy, 2).await;
                    assert!(bad != "poll" || i != 6, "poll");
                    i
                })
            };
            w.stream(next, |i, _| assert!(bad != "sink" || i != 6, "sink"));
        }));
        assert!(caught.is_err());
        assert_eq!(drops.get(), i, "{bad}");
        assert_eq!(run(&mut w, &[1, 1, 1]).len(), 3);
    }
}

#[test]
fn parked_futures_give_way_up_to_a_limit() {
    // Proves: with a batch of 2, all 10 parked futures let others run, and end when the gate opens.
    let mut w = worker(OnMiss, 2, Refill::Immediate);
    let (gate, ended, mut i) = (Gate::default(), RefCell::new(Vec::new()), 0);
    let gate = &gate;
    let next = |toy| {
        (i < 11).then(|| {
            i += 1;
            let i = i;
            async move {
                Toy::operation(toy, 1).await;
                if i == 11 {
                    gate.open()
                } else {
                    gate.pass().await
                }
                Toy::operation(toy, 1).await;
                i
            }
        })
    };
    w.stream(next, |i, _| ended.borrow_mut().push(i));
    assert_eq!(ended.borrow().len(), 11);
    assert_eq!(w.counters().parkings, 10);
    assert_eq!(run(&mut w, &[1; 5]).len(), 5);
}

#[test]
fn those_that_wait_for_each_other_are_not_joined_by_more() {
    // Proves: while many futures wait for each other, a batch is parked beyond the live one, and no more is let in.
    // When nothing is live, one more batch is let in.
    for waiting in [0, 3] {
        let mut w = worker(OnMiss, 2, Refill::Immediate);
        w.host().life.waiting.set(waiting);
        let (gate, ended, started) = (Gate::default(), Cell::new(0), Cell::new(0));
        let (gate, ended, started) = (&gate, &ended, &started);
        let next = |toy| {
            (started.get() < 12).then(|| {
                let i = started.replace(started.get() + 1);
                async move {
                    if i == 0 {
                        for _ in 0..40 {
                            Toy::operation(toy, 1).await;
                        }
                        let crowd = if waiting == 0 { 12 } else { 4 };
                        assert_eq!(started.get(), crowd, "beside the first one, {waiting} waiting");
                    } else if i < 11 {
                        gate.pass().await;
                    } else {
                        gate.open();
                    }
                }
            })
        };
        w.stream(next, |(), _| ended.set(ended.get() + 1));
        assert_eq!(ended.get(), 12);
    }
}

#[test]
fn a_worker_sleeps_while_all_are_parked() {
    // Proves: a waker called on another thread wakes the sleeping stream, which does not poll in vain.
    let mut w = worker(OnMiss, 2, Refill::Immediate);
    let (sender, receiver) = channel::<Waker>();
    let is_open = AtomicBool::new(false);
    let polls = Cell::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for waker in receiver {
                thread::sleep(Duration::from_millis(30));
                is_open.store(true, SeqCst);
                waker.wake();
            }
        });
        let (mut sender, is_open, polls) = (Some(sender), &is_open, &polls);
        let next = |toy| {
            sender.take().map(|sender| async move {
                Toy::operation(toy, 1).await;
                std::future::poll_fn(|context| {
                    polls.set(polls.get() + 1);
                    if is_open.load(SeqCst) {
                        return Poll::Ready(());
                    }
                    sender.send(context.waker().clone()).unwrap();
                    Poll::Pending
                })
                .await;
            })
        };
        w.stream(next, |(), _| ());
    });
    assert_eq!(polls.get(), 2);
    assert!(w.host().life.maintained.get() >= 1);
}

#[test]
fn stepping_aside_is_no_end() {
    // Proves: a future that wakes itself continues, alone and among others.
    for batch in [1, 4] {
        let mut w = worker(OnMiss, batch, Refill::Immediate);
        let (mut i, mut ended) = (0, 0);
        let next = |toy| {
            i += 1;
            (i <= 20).then_some(async move {
                step_aside().await;
                Toy::operation(toy, 2).await;
                step_aside().await;
            })
        };
        w.stream(next, |(), _| ended += 1);
        assert_eq!(ended, 20);
    }
}

#[test]
fn a_batch_holds_from_when_it_is_set() {
    // Proves: after `set_batch`, this many futures are open, within the limits.
    let mut w = worker(OnMiss, 8, Refill::Immediate);
    w.set_batch(3);
    let before = w.counters();
    assert_eq!(run(&mut w, &[2; 3000]).len(), 3000);
    let now = w.counters();
    let occupancy = (now.visits - before.visits) as f64 / (now.rounds - before.rounds) as f64;
    assert!((2.9..=3.0).contains(&occupancy), "{occupancy}");
    w.set_batch(0);
    assert_eq!(w.batch(), 1);
    w.set_batch(1000);
    assert_eq!(w.batch(), 64);
}

#[test]
fn the_epoch_moves_on_under_load_but_not_past_what_is_in_flight() {
    // Proves: stamps are renewed. `Local::refresh` asserts that none is passed over.
    let mut w = worker(OnMiss, 8, Refill::Immediate);
    let first = {
        w.host().local().enter();
        let first = w.host().local().now();
        w.host().local().leave();
        first
    };
    run(&mut w, &[3; 3000]);
    w.host().local().enter();
    assert!(w.host().local().now() > first + 5);
    assert!(w.host().local().pending() < 10);
    w.host().local().leave();
}
