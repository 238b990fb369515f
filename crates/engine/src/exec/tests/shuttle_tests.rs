//! The hand-offs between threads under a model checker. Every schedule tried must end, with every answer given. A lost
//! wake-up is a deadlock.

use super::toy::{Failed, Toy, ToyHost, step_aside};
use super::toy_log::ToyLog;
use crate::exec::contract::Fate;
use crate::exec::core::{Refill, WorkerOptions};
use crate::exec::submit::batch_task::BatchTask;
use crate::exec::submit::handle::{Handle, Outcome, ResultCell, TaskError};
use crate::exec::submit::inbox::Executor;
use crate::exec::submit::job::Job;
use crate::exec::submit::submission::Submission;
use crate::exec::submit::task::Task;
use crate::exec::tune::level::BatchSize;
use crate::exec::wake::event_sleep::Sleep;
use crate::exec::wake::notifier::{Notifier, Wakes};
use crate::exec::worker::Worker;
use crate::suspend::OnMiss;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::sync::mpsc::Sender;
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};
use std::future::Future;
use std::sync::Arc;
use std::task::{Wake, Waker};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let again = model.clone();
    let mut config = Config::new();
    config.stack_size = 1 << 20; // unoptimised code needs more than the default
    Runner::new(RandomScheduler::new(1000), config.clone()).run(move || model());
    Runner::new(PctScheduler::new(3, 1000), config).run(move || again());
}

const OPTIONS: WorkerOptions = WorkerOptions {
    batch: BatchSize::Fixed(2),
    batch_max: 2,
    parked_max: 2,
    held_max: 2,
    queued_max: 2,
    refill: Refill::Immediate,
};

/// Worker options in which a waiting future leaves no room for another.
const ONE: WorkerOptions = WorkerOptions { batch_max: 1, parked_max: 0, ..OPTIONS };

fn serve(executor: &Arc<Executor<Toy>>, index: usize) -> JoinHandle<()> {
    let executor = executor.clone();
    thread::spawn(move || executor.serve(index, ToyHost::new(), OnMiss, OPTIONS))
}

fn task<T, F, P>(executor: &Executor<Toy>, make: P) -> (Arc<dyn Job<Toy>>, Handle<T, Failed>)
where
    T: Send + 'static,
    P: FnOnce(&'static Toy) -> F + Send + 'static,
    F: Future<Output = Result<T, Failed>> + 'static,
{
    // SAFETY: only the futures of these tests use their operations.
    unsafe { Task::job(executor, make) }
}

#[test]
fn a_wake_is_not_lost_on_a_worker_that_falls_asleep() {
    // Proves: bits set before, while and after the worker announces its sleep are all seen.
    check(|| {
        let wakes = Arc::new(Wakes::new(Notifier::new(), 128));
        wakes.notifier.set_thread();
        let wakers: Vec<_> = [3, 100]
            .map(|index| {
                let waker = Waker::from(Arc::new(crate::exec::wake::notifier::SlotWaker::new(&wakes, index)));
                thread::spawn(move || {
                    waker.wake_by_ref();
                    waker.wake();
                })
            })
            .into();
        let mut seen = [false; 128];
        while !(seen[3] && seen[100]) {
            if wakes.notifier.take() {
                wakes.take(|index| seen[index] = true);
            } else {
                wakes.notifier.sleep(true, None, || true);
            }
        }
        wakers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

struct Only(ResultCell<Result<u32, Failed>>);
impl Outcome<Result<u32, Failed>> for Only {
    fn result_cell(&self) -> &ResultCell<Result<u32, Failed>> {
        &self.0
    }
}

struct Flag(crate::sync::atomic::AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, crate::sync::atomic::Ordering::Release);
    }
}

#[test]
fn a_result_reaches_the_thread_that_waits() {
    // Proves: `set` and `wait` meet in any order. A cancellation wakes what is parked, or forbids parking.
    check(|| {
        let served_by = crate::exec::submit::served_by::ServedBy::of(&Executor::<Toy>::new(0, 1));
        let only = Arc::new(Only(ResultCell::new(served_by)));
        let setter = only.clone();
        let set = thread::spawn(move || setter.0.set(Ok(5)));
        assert_eq!(Handle::new(only).wait(), Ok(5));
        set.join().unwrap();

        let only = Arc::new(Only(ResultCell::new(served_by)));
        let (parker, flag) = (only.clone(), Arc::new(Flag(false.into())));
        let waker = Waker::from(flag.clone());
        let park = thread::spawn(move || parker.0.park(&waker));
        drop(Handle::new(only));
        let parked = park.join().unwrap();
        assert_eq!(parked, flag.0.load(crate::sync::atomic::Ordering::Acquire));
    });
}

#[test]
fn every_job_is_answered_through_a_small_inbox() {
    // Proves: submitters that block, workers that sleep and steal, and `close` leave no thread waiting.
    check(|| {
        let executor = Arc::new(Executor::new(2, 1));
        let workers = [serve(&executor, 0), serve(&executor, 1)];
        let submitters = [1, 2].map(|base| {
            let executor = executor.clone();
            thread::spawn(move || {
                let handles = [0, 10].map(|i| {
                    let (job, handle) = task(&executor, move |toy: &Toy| async move {
                        toy.operation(1).await;
                        Ok(base + i)
                    });
                    executor.submit(job);
                    handle
                });
                assert_eq!(handles.map(Handle::wait), [Ok(base), Ok(base + 10)]);
            })
        });
        submitters.into_iter().for_each(|thread| thread.join().unwrap());
        executor.close();
        workers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Unparks a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn submissions_are_not_forgotten() {
    // Proves: futures that wait for room in a small inbox are all woken, beside a future that is dropped after its
    // first poll.
    check(|| {
        let executor = Arc::new(Executor::new(1, 1));
        let worker = serve(&executor, 0);
        let submit = |number: u32| {
            let executor = executor.clone();
            thread::spawn(move || {
                let (job, handle) = task(&executor, move |_| async move { Ok(number) });
                if number == 0 {
                    let mut given_up = Submission::new(&executor, job);
                    let mut context = std::task::Context::from_waker(Waker::noop());
                    let _ = std::pin::Pin::new(&mut given_up).poll(&mut context);
                    return;
                }
                block_on(Submission::new(&executor, job));
                assert_eq!(handle.wait(), Ok(number));
            })
        };
        let submitters: Vec<_> = (0..3).map(submit).collect();
        submitters.into_iter().for_each(|thread| thread.join().unwrap());
        executor.close();
        worker.join().unwrap();
    });
}

#[test]
fn a_full_worker_passes_the_ring_on() {
    // Proves: if either of two workers is full of waiting futures, the worker that has room runs every other job,
    // whichever inbox the job is in, and whichever worker is asleep or about to be.
    check(|| {
        let executor = Arc::new(Executor::new(2, 2));
        let workers = [0, 1].map(|index| {
            let executor = executor.clone();
            thread::spawn(move || executor.serve(index, ToyHost::new(), OnMiss, ONE))
        });
        let (job, waiting) = task(&executor, |_| async {
            std::future::pending::<()>().await;
            Ok(())
        });
        executor.submit_to(job, 0);
        let others = [0, 1].map(|worker| {
            let (job, handle) = task(&executor, move |_| async move { Ok(worker) });
            executor.submit_to(job, worker);
            handle
        });
        assert_eq!(others.map(Handle::wait), [Ok(0), Ok(1)]);
        drop(waiting);
        executor.close();
        workers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_full_worker_leaves_its_tickets_to_others() {
    // Proves: if the first future of a batch waits forever, the other worker runs the second future, although there is
    // only one ticket and the worker that has it is full.
    check(|| {
        let executor = Arc::new(Executor::new(2, 2));
        let workers = [0, 1].map(|index| {
            let executor = executor.clone();
            thread::spawn(move || executor.serve(index, ToyHost::new(), OnMiss, ONE))
        });
        let (tell, told) = shuttle::sync::mpsc::channel();
        let make = |_: &'static Toy, tell: &'static Mutex<Sender<()>>, waits: bool| async move {
            if waits {
                std::future::pending::<()>().await;
            }
            tell.lock().unwrap().send(()).unwrap();
            Ok::<(), Failed>(())
        };
        // SAFETY: only the futures use their operations.
        let (job, batch) = unsafe { BatchTask::job(&executor, Mutex::new(tell), vec![true, false], make) };
        executor.submit_batch(job, 2);
        told.recv().unwrap();
        drop(batch);
        executor.close();
        workers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn closing_races_with_everything() {
    // Proves: whatever is queued, open or being submitted while the executor closes is answered.
    check(|| {
        let executor = Arc::new(Executor::new(1, 1));
        let worker = serve(&executor, 0);
        let closing = executor.clone();
        let close = thread::spawn(move || closing.close());
        for i in 0..2 {
            let (job, handle) = task(&executor, move |_| async move {
                step_aside().await;
                Ok(i)
            });
            executor.submit(job);
            let result = handle.wait();
            let lost = [Err(Failed(TaskError::Closed)), Err(Failed(TaskError::Cancelled))];
            assert!(result == Ok(i) || lost.contains(&result));
        }
        close.join().unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn a_dropped_handle_ends_a_parked_future() {
    // Proves: a future that waits forever is dropped with its handle, whenever the handle is dropped.
    check(|| {
        let executor = Arc::new(Executor::new(1, 1));
        let worker = serve(&executor, 0);
        let (job, dropped) = task(&executor, |_| async {
            std::future::pending::<()>().await;
            Ok(())
        });
        executor.submit(job.clone());
        drop(dropped);
        while Arc::strong_count(&job) > 1 {
            thread::yield_now();
        }
        executor.close();
        worker.join().unwrap();
    });
}

#[test]
fn two_workers_draw_from_one_batch() {
    // Proves: every input is drawn once, and the last worker to finish answers.
    check(|| {
        let executor = Arc::new(Executor::new(2, 2));
        let workers = [serve(&executor, 0), serve(&executor, 1)];
        let make = |toy: &'static Toy, _: &'static (), i: u32| async move {
            toy.operation(i).await;
            Ok::<u32, Failed>(i)
        };
        // SAFETY: only the futures use their operations.
        let (job, handle) = unsafe { BatchTask::job(&executor, (), vec![0, 1, 2], make) };
        executor.submit_batch(job, 32); // so that there are two tickets
        assert_eq!(handle.wait(), Ok(vec![Ok(0), Ok(1), Ok(2)]));
        executor.close();
        workers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_release_is_not_lost_on_a_stream_that_falls_asleep() {
    // Proves: releases before, while and after the worker announces its sleep give out everything in order, also if
    // more futures wait than may be held. If the log stops, the rest has an unknown fate.
    check(|| {
        for stops in [false, true] {
            let log = ToyLog::new();
            let releasing = log.clone();
            let release = thread::spawn(move || {
                releasing.release(1);
                releasing.release(3);
                if stops { releasing.stop() } else { releasing.release(5) }
            });
            let options = WorkerOptions { batch: BatchSize::Fixed(1), ..OPTIONS }; // so that they end in order
            let mut worker = Worker::new(ToyHost::with_log(Some(log)), OnMiss, options);
            let (mut begun, mut outputs) = (0, Vec::new());
            let next = |toy| {
                begun += 1;
                let until = begun;
                (until <= 5).then_some(async move {
                    Toy::hold_until(toy, until);
                    until
                })
            };
            worker.stream(next, |until, fate| outputs.push((until, fate)));
            let fate = |until| if stops && until > 3 { Fate::Unknown } else { Fate::Durable };
            assert!(outputs.into_iter().eq((1..=5).map(|until| (until, fate(until)))));
            release.join().unwrap();
        }
    });
}

#[test]
fn a_release_races_with_jobs_and_with_closing() {
    // Proves: the release alone answers what a worker holds, whether the worker sleeps, gets another job, or ends.
    check(|| {
        for closes_first in [false, true] {
            let (log, executor) = (ToyLog::new(), Arc::new(Executor::new(1, 2)));
            let (serving, host_log) = (executor.clone(), log.clone());
            let worker = thread::spawn(move || {
                serving.serve(0, ToyHost::with_log(Some(host_log)), OnMiss, OPTIONS);
            });
            let releasing = log.clone();
            let release = thread::spawn(move || (1..=2).for_each(|until| releasing.release(until)));
            let handles = [1, 2].map(|until| {
                let (job, handle) = task(&executor, move |toy: &Toy| async move {
                    toy.hold_until(until);
                    Ok(until)
                });
                executor.submit(job);
                handle
            });
            if closes_first {
                executor.close();
            }
            for (until, handle) in [1, 2].into_iter().zip(handles) {
                let result = handle.wait();
                let is_closed = closes_first && result == Err(Failed(TaskError::Closed));
                assert!(result == Ok(until) || is_closed, "{result:?}");
            }
            executor.close();
            worker.join().unwrap();
            release.join().unwrap();
        }
    });
}

/// A message for a future, from any thread.
#[derive(Default)]
struct Message(Mutex<(bool, Option<Waker>)>);

impl Message {
    fn send(&self) {
        let waker = {
            let mut message = self.0.lock().unwrap();
            message.0 = true;
            message.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    async fn receive(&self) {
        std::future::poll_fn(|context| {
            let mut message = self.0.lock().unwrap();
            if message.0 {
                return std::task::Poll::Ready(());
            }
            message.1 = Some(context.waker().clone());
            std::task::Poll::Pending
        })
        .await;
    }
}

/// A thread sleeps on its worker's descriptor while other threads wake the worker's futures and release what it holds.
/// If `obeys`, the thread sleeps only when the worker says so.
fn sleep_on_the_descriptor(obeys: bool) {
    let (log, messages) = (ToyLog::new(), Arc::new([Message::default(), Message::default()]));
    let mut worker = Worker::new(ToyHost::with_log(Some(log.clone())), OnMiss, OPTIONS);
    let fd = worker.wake_fd().expect("a model's descriptor");
    for until in 0..4 {
        let messages = messages.clone();
        let make = move |toy: &'static Toy| async move {
            match messages.get(until) {
                Some(message) => message.receive().await,
                None => toy.hold_until(until as u64 - 1),
            }
        };
        // SAFETY: only the future uses its operations.
        unsafe { worker.spawn(make, |(), _| ()) }.expect("room");
    }
    let others = [0, 1].map(|i| {
        let messages = messages.clone();
        thread::spawn(move || messages[i].send())
    });
    let release = thread::spawn(move || (1..=2).for_each(|until| log.release(until)));
    loop {
        worker.run_rounds(2);
        if worker.open() + worker.queued() + worker.held() == 0 {
            break;
        }
        let sleep = worker.prepare_to_sleep();
        if sleep != Sleep::NotNow || !obeys {
            fd.wait_readable();
        }
    }
    others.into_iter().for_each(|thread| thread.join().unwrap());
    release.join().unwrap();
}

#[test]
fn nothing_is_lost_on_a_worker_that_sleeps_on_its_descriptor() {
    // Proves: wakes and releases before, while and after the sleep is announced are all seen, while futures wait for a
    // place.
    check(|| sleep_on_the_descriptor(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleep_that_was_not_granted_is_slept_over() {
    // Proves: the model above would find a lost wake-up. A thread that waits although it was told not to is never woken
    // in some schedule.
    check(|| sleep_on_the_descriptor(false));
}
