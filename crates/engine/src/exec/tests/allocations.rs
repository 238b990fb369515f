//! Counts the calling thread's allocations.

use super::stream::worker;
use super::submitted::task;
use super::toy::{Toy, ToyHost};
use super::toy_log::ToyLog;
use crate::exec::core::{Refill, WorkerOptions};
use crate::exec::submit::handle::Handle;
use crate::exec::submit::inbox::Executor;
use crate::exec::worker::Worker;
use crate::suspend::OnMiss;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: this is the system's allocator, with a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn streaming_does_not_allocate() {
    // Proves: after the first futures, neither small nor big ones cost an allocation.
    fn check<const BYTES: usize>() {
        let mut w = worker(OnMiss, 8, Refill::Immediate);
        let mut round = || {
            let (mut left, mut ended) = (200, 0);
            let next = |toy| {
                left -= 1;
                (left >= 0).then_some(async move {
                    let bytes = [left as u8; BYTES];
                    Toy::operation(toy, 2).await;
                    std::hint::black_box(&bytes);
                })
            };
            w.stream(next, |(), _| ended += 1);
            assert_eq!(ended, 200);
        };
        (0..20).for_each(|_| round()); // until every queue has the size it needs
        let before = COUNT.get();
        round();
        // At most one allocation, the toy host's own: the host allocates when it is called to clean up.
        assert!(COUNT.get() - before <= 1, "with {BYTES} bytes");
    }
    check::<8>();
    check::<2000>();
}

fn holding(log: &std::sync::Arc<ToyLog>) -> Worker<ToyHost, OnMiss> {
    let host = ToyHost::with_log(Some(log.clone()));
    host.life.is_idle.set(true);
    Worker::new(host, OnMiss, WorkerOptions { batch: 8.into(), ..WorkerOptions::default() })
}

#[test]
fn holding_streamed_outputs_does_not_allocate() {
    // Proves: when the queue has grown, a stream that always holds a hundred outputs allocates nothing.
    let (log, mut begun, mut counts) = (ToyLog::new(), 0_u64, Vec::with_capacity(2000));
    let next = |toy| {
        begun += 1;
        let until = begun;
        log.release(if until < 2000 { until.saturating_sub(100) } else { 2000 });
        (until <= 2000).then_some(async move {
            Toy::operation(toy, 2).await;
            Toy::hold_until(toy, until);
        })
    };
    holding(&log).stream(next, |(), _| counts.push(COUNT.get()));
    assert_eq!(counts.len(), 2000);
    assert_eq!(counts[200], counts[1999]);
}

#[test]
fn holding_submitted_results_does_not_allocate() {
    // Proves: when the queue has grown, a worker allocates nothing for results that it holds and then announces.
    let (log, executor) = (ToyLog::new(), Executor::new(0, 1));
    let mut w = holding(&log);
    let mut round = |until| {
        let (jobs, handles): (Vec<_>, Vec<_>) = (0..100)
            .map(|i| {
                task(&executor, move |toy: &Toy| async move {
                    toy.operation(2).await;
                    toy.hold_until(until);
                    Ok(i)
                })
            })
            .unzip();
        let before = COUNT.get();
        for job in jobs {
            while w.is_full() {
                w.round();
            }
            let mut job = Some(job);
            assert!(w.place(|vacancy| _ = job.take().map(|job| job.start(vacancy))).is_some());
        }
        while w.round() {}
        assert_eq!((w.open(), w.held()), (0, 100));
        log.release(until);
        assert!(w.round());
        let allocations = COUNT.get() - before;
        assert!(handles.into_iter().map(Handle::wait).eq((0..100).map(Ok)));
        allocations
    };
    round(1);
    assert_eq!(round(2), 0);
}
