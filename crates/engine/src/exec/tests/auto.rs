//! Workers that find their batch size, under a clock that the futures move.

use super::toy::{Failed, Life, Toy, ToyHost};
use crate::exec::core::WorkerOptions;
use crate::exec::order::hint::Hint;
use crate::exec::submit::handle::{Handle, TaskError};
use crate::exec::submit::inbox::Executor;
use crate::exec::submit::task::Task;
use crate::exec::tune::level::{BatchSize, Execution, Known, Level};
use crate::exec::tune::measure::Reading;
use crate::exec::worker::Worker;
use crate::suspend::{OnMiss, Seeded};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Poll, Waker};
use std::thread;

fn options() -> WorkerOptions {
    WorkerOptions { batch: BatchSize::Auto, ..WorkerOptions::default() }
}

/// How many nanoseconds a future takes at a level.
type Cost = fn(Level) -> u64;

/// Point reads of a large table.
fn of_misses(level: Level) -> u64 {
    match level.batch {
        _ if level.style != Execution::Interleaved => 2000,
        batch if batch <= 32 => 2000 / batch as u64 + 200,
        batch => 250 + 2 * batch as u64,
    }
}

/// Reads of data in the caches.
fn of_hits(level: Level) -> u64 {
    if level.style == Execution::Interleaved { 300 + level.batch as u64 } else { 200 }
}

/// Advances the clock by the cost of a future at the worker's level, and counts its work.
fn spend(life: &Life, cost: Cost) {
    let level = life.level.get().expect("a worker says its level when it is made");
    let mut reading = life.reading.get();
    reading.ns += cost(level);
    reading.work += 1;
    life.reading.set(reading);
}

fn run(worker: &mut Worker<ToyHost, OnMiss>, futures: u32, cost: Cost) {
    let (life, mut left) = (worker.host().life.clone(), futures);
    let next = |toy| {
        left = left.checked_sub(1)?;
        let life: Rc<Life> = life.clone();
        Some(async move {
            if life.level.get().is_some_and(|level| level.style == Execution::Interleaved) {
                Toy::operation(toy, 3).await;
            }
            spend(&life, cost);
        })
    };
    let mut ended = 0;
    worker.stream(next, |(), _| ended += 1);
    assert_eq!(ended, futures);
}

/// Like `run`, with futures of 5 pieces of work each. One future in a hundred has 5000 pieces. A piece costs as much as
/// a future does in `run`.
fn run_mixed(worker: &mut Worker<ToyHost, OnMiss>, futures: u32, cost: Cost) {
    let (life, mut left) = (worker.host().life.clone(), futures);
    let next = |toy| {
        left = left.checked_sub(1)?;
        let life: Rc<Life> = life.clone();
        let pieces = if left.is_multiple_of(100) { 5000 } else { 5 };
        let is_interleaved = life.level.get().is_some_and(|level| level.style == Execution::Interleaved);
        Some(async move {
            for done in 0..pieces {
                if is_interleaved {
                    Toy::operation(toy, 1).await;
                }
                let level = life.level.get().expect("a worker says its level when it is made");
                life.reading.update(|reading| Reading { ns: reading.ns + cost(level), ..reading });
                Toy::has_done(toy, done + 1);
            }
            life.reading.update(|reading| Reading { work: reading.work + pieces, ..reading });
        })
    };
    worker.stream(next, |(), _| ());
}

fn level(worker: &Worker<ToyHost, OnMiss>) -> Level {
    worker.host().life.level.get().expect("it has one")
}

#[test]
fn a_stream_finds_its_level_and_follows_the_work() {
    // Proves: a worker goes to about 32 open futures when that is best, to one at a time when that is best, and back.
    // All futures end.
    let mut worker = Worker::new(ToyHost::new(), OnMiss, options());
    for _ in 0..2 {
        run(&mut worker, 3_000_000, of_misses);
        let best = worker.host().life.known.get().expect("something was found").level;
        assert!((16..=48).contains(&best.batch), "{best:?}");
        run(&mut worker, 3_000_000, of_hits);
        let best = worker.host().life.known.get().expect("something was found").level;
        assert!(best.style != Execution::Interleaved && best.batch == 1, "{best:?}");
    }
}

#[test]
fn a_worker_whose_inputs_wait_for_open_futures_is_not_idle() {
    // Proves: a worker continues its search although it sleeps because all open futures wait and inputs wait for them:
    // the level caused this.
    let (wakers, waiting) = channel::<Waker>();
    let other = thread::spawn(move || waiting.into_iter().for_each(Waker::wake));
    let mut worker = Worker::new(ToyHost::new(), OnMiss, options());
    let life = worker.host().life.clone();
    let make = |toy, number: u32| {
        let (life, wakers, mut waits) = (life.clone(), wakers.clone(), number.is_multiple_of(200));
        async move {
            if life.level.get().is_some_and(|level| level.style == Execution::Interleaved) {
                Toy::operation(toy, 3).await;
            }
            let wait = poll_fn(|context| {
                if !std::mem::take(&mut waits) {
                    return Poll::Ready(());
                }
                wakers.send(context.waker().clone()).expect("the other thread is there");
                Poll::Pending
            });
            wait.await;
            spend(&life, of_hits);
        }
    };
    worker.stream_hinted(0..600_000, |_| Hint::default().touches(1), make, |(), _| ());
    let best = worker.host().life.known.get().expect("something was found").level;
    assert!(best.style != Execution::Interleaved, "{best:?}");
    drop((worker, wakers));
    other.join().expect("no panic");
}

#[test]
fn long_futures_do_not_blur_the_search() {
    // Proves: the level is found even if nearly all work is that of few long futures, of which more begin or end in one
    // window than in another.
    let mut worker = Worker::new(ToyHost::new(), OnMiss, options());
    run_mixed(&mut worker, 50_000, of_misses);
    let best = worker.host().life.known.get().expect("something was found").level;
    assert!((16..=48).contains(&best.batch), "{best:?}");
    let incumbents = worker.host().life.found.get();
    assert!(incumbents < 20, "it does not wander: {incumbents} levels in turn");
}

fn known(style: Execution) -> Known {
    Known { level: Level { style, batch: 1 }, in_vain: 0 }
}

#[test]
fn what_one_worker_has_found_the_next_begins_with() {
    // Proves: a worker starts from a level that the host knows, and keeps a level that is set by hand.
    let host = ToyHost::new();
    host.life.known.set(Some(known(Execution::Sequential)));
    let mut worker = Worker::new(host, OnMiss, options());
    assert_eq!(level(&worker), Level { style: Execution::Sequential, batch: 1 });
    worker.set_batch(5);
    run(&mut worker, 100_000, of_misses);
    assert_eq!(level(&worker), Level { style: Execution::Interleaved, batch: 5 });
    worker.set_batch(BatchSize::Auto);
    run(&mut worker, 1_000_000, of_misses);
    assert_ne!(level(&worker).batch, 5);
}

#[test]
fn a_simulator_s_policy_is_left_alone() {
    // Proves: under a policy that does not aim at speed, nothing depends on the time.
    let worker = Worker::new(ToyHost::new(), Seeded::new(1), options());
    assert_eq!(worker.host().life.level.get(), Some(Level { style: Execution::Interleaved, batch: 48 }));
}

#[test]
fn long_ones_leave_room_in_sequential_execution() {
    // Proves: beside long transactions, up to a quarter of the places, one more may be open. Without long ones, one.
    let host = ToyHost::new();
    host.life.known.set(Some(known(Execution::Prefetching)));
    let mut worker = Worker::new(host, OnMiss, options());
    let life = worker.host().life.clone();
    for (longs, batch) in [(2, 3), (0, 1), (100, 17)] {
        life.longs.set(longs);
        run(&mut worker, 10_000, of_hits);
        assert_eq!(worker.batch(), batch);
    }
}

#[test]
fn a_lone_future_runs_as_in_sequential_execution() {
    // Proves: if little is submitted, each future runs in place, whatever the level. Futures that come together run at
    // the worker's old level.
    let executor = Arc::new(Executor::new(1, 8));
    let serving = executor.clone();
    let thread = thread::spawn(move || serving.serve(0, ToyHost::new(), OnMiss, options()));
    let style = |executor: &Executor<Toy>| {
        let make = |toy: &'static Toy| {
            let style = toy.life.level.get().map(|level| level.style);
            async move {
                toy.operation(1).await;
                Ok::<_, Failed>(style)
            }
        };
        // SAFETY: the future drops the reference with itself.
        let (job, handle): (_, Handle<Option<Execution>, Failed>) = unsafe { Task::job(executor, make) };
        executor.submit(job);
        handle.wait()
    };
    for _ in 0..100 {
        assert_eq!(style(&executor), Ok(Some(Execution::Prefetching)));
    }
    executor.close();
    thread.join().expect("no panic");
    assert_eq!(style(&executor), Err(Failed(TaskError::Closed)));
}
