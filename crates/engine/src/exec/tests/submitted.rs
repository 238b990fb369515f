use super::toy::{Failed, Toy, ToyHost};
use super::toy_log::ToyLog;
use crate::exec::core::WorkerOptions;
use crate::exec::submit::batch_task::BatchTask;
use crate::exec::submit::handle::{Handle, TaskError};
use crate::exec::submit::inbox::Executor;
use crate::exec::submit::job::Job;
use crate::exec::submit::submission::Submission;
use crate::exec::submit::task::Task;
use crate::suspend::OnMiss;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(super) type Outcome<T> = Result<T, Failed>;

/// An executor and its threads.
pub(super) struct Pool {
    pub(super) executor: Arc<Executor<Toy>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    fn new(workers: usize, jobs_max: usize) -> Pool {
        Pool::with_log(workers, jobs_max, None)
    }

    pub(super) fn with_log(workers: usize, jobs_max: usize, log: Option<Arc<ToyLog>>) -> Pool {
        let executor = Arc::new(Executor::new(workers, jobs_max));
        let options = WorkerOptions { batch: 8.into(), ..WorkerOptions::default() };
        let spawn = |i| {
            let (executor, log) = (executor.clone(), log.clone());
            thread::spawn(move || executor.serve(i, ToyHost::with_log(log), OnMiss, options))
        };
        Pool { threads: (0..workers).map(spawn).collect(), executor }
    }

    pub(super) fn run<T, F, P>(&self, make: P) -> Handle<T, Failed>
    where
        T: Send + 'static,
        P: FnOnce(&'static Toy) -> F + Send + 'static,
        F: Future<Output = Outcome<T>> + 'static,
    {
        let (job, handle) = task(&self.executor, make);
        self.executor.submit(job);
        handle
    }

    /// Keeps a worker's thread busy until the sender is dropped. Returns when the thread is busy.
    fn block_a_worker(&self) -> (Sender<()>, Handle<(), Failed>) {
        let (release, released) = channel::<()>();
        let (started, starts) = channel();
        let handle = self.run(move |_| async move {
            started.send(()).unwrap();
            let _ = released.recv();
            Ok(())
        });
        starts.recv().unwrap();
        (release, handle)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.executor.close();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

pub(super) fn task<T, F, P>(executor: &Executor<Toy>, make: P) -> (Arc<dyn Job<Toy>>, Handle<T, Failed>)
where
    T: Send + 'static,
    P: FnOnce(&'static Toy) -> F + Send + 'static,
    F: Future<Output = Outcome<T>> + 'static,
{
    // SAFETY: only the futures of these tests use their operations.
    unsafe { Task::job(executor, make) }
}

/// A wait for something outside, across threads.
#[derive(Clone, Default)]
struct Gate(Arc<(AtomicBool, AtomicUsize, Mutex<Vec<Waker>>)>);

impl Gate {
    fn open(&self) {
        self.0.0.store(true, SeqCst);
        std::mem::take(&mut *self.0.2.lock().unwrap()).into_iter().for_each(Waker::wake);
    }
    fn waiting(&self) -> usize {
        self.0.1.load(SeqCst)
    }
    async fn pass(self) {
        std::future::poll_fn(|context| {
            let mut wakers = self.0.2.lock().unwrap();
            if self.0.0.load(SeqCst) {
                return Poll::Ready(());
            }
            wakers.push(context.waker().clone());
            self.0.1.fetch_add(1, SeqCst);
            Poll::Pending
        })
        .await;
    }
}

/// Sends when dropped.
struct Tell(Sender<&'static str>, &'static str);
impl Drop for Tell {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

fn until(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it never came");
}

fn nothing_comes(receiver: &Receiver<&'static str>) -> bool {
    receiver.recv_timeout(Duration::from_millis(30)).is_err()
}

#[test]
fn results_come_to_threads_and_to_futures() {
    // Proves: a handle can be waited for, and can be awaited on the worker that runs its future.
    let pool = Pool::new(1, 64);
    let handles: Vec<_> = (0..500_u64)
        .map(|i| {
            pool.run(move |toy| async move {
                toy.operation(i as u32 % 5).await;
                Ok(i)
            })
        })
        .collect();
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait(), Ok(i as u64));
    }
    let executor = pool.executor.clone();
    let outer = pool.run(move |toy| async move {
        let (job, inner) = task(&executor, |toy: &Toy| async move {
            toy.operation(3).await;
            Ok(20)
        });
        executor.submit(job);
        toy.operation(1).await;
        Ok(inner.await? + 1)
    });
    assert_eq!(outer.wait(), Ok(21));
}

#[test]
fn panics_are_answered_and_harm_no_other() {
    // Proves: a panic while making, polling or dropping a future reaches only the future's handle.
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("drop");
        }
    }
    let pool = Pool::new(1, 64);
    let gate = Gate::default();
    let passing = gate.clone();
    let good = pool.run(|toy| async move {
        toy.operation(5).await;
        passing.pass().await;
        Ok(1)
    });
    let panicked = |text: &str| Err(Failed(TaskError::Panicked(text.into())));
    let at_make = pool.run::<(), std::future::Ready<_>, _>(|_| panic!("make"));
    assert_eq!(at_make.wait(), panicked("make"));
    let at_poll = pool.run::<(), _, _>(|toy| async move {
        toy.operation(1).await;
        panic!("poll {}", 1)
    });
    assert_eq!(at_poll.wait(), panicked("poll 1"));
    let loud = Loud;
    let after_end = pool.run(move |_| {
        let mut loud = Some(loud);
        std::future::poll_fn(move |_| {
            let _ = &mut loud;
            Poll::Ready(Ok(7))
        })
    });
    assert_eq!(after_end.wait(), Ok(7));
    let (seen, seeing) = (Gate::default(), Gate::default());
    let waiting = seen.clone();
    let dropped = pool.run::<(), _, _>(move |_| async move {
        let _loud = Loud;
        seen.pass().await;
        Ok(())
    });
    until(|| waiting.waiting() == 1);
    drop((dropped, seeing)); // its future panics when it is dropped
    gate.open();
    assert_eq!(good.wait(), Ok(1));
}

#[test]
fn dropped_handles_cancel() {
    // Proves: when its handle is dropped, a parked future is dropped at once and a queued future is not started. A
    // detached future runs.
    let pool = Pool::new(1, 64);
    let (tell, told) = channel();
    let gate = Gate::default();
    let (waits, telling) = (gate.clone(), tell.clone());
    let parked = pool.run(move |_| async move {
        let _tell = Tell(telling, "parked");
        waits.pass().await;
        Ok(())
    });
    until(|| gate.waiting() == 1);
    assert!(nothing_comes(&told));
    drop(parked);
    assert_eq!(told.recv().unwrap(), "parked");

    let (release, blocker) = pool.block_a_worker();
    let telling = tell.clone();
    let queued = pool.run(move |_| async move {
        telling.send("started").unwrap();
        Ok(())
    });
    let telling = tell.clone();
    let detached = pool.run(move |_| async move {
        telling.send("detached").unwrap();
        Ok(())
    });
    drop(queued);
    detached.detach();
    drop(release);
    assert_eq!(blocker.wait(), Ok(()));
    assert_eq!(told.recv().unwrap(), "detached");
    assert!(nothing_comes(&told));

    let (waits, asked) = (Gate::default(), Gate::default());
    let waiting = waits.clone();
    let handle = pool.run(move |_| async move {
        waits.pass().await;
        Ok(())
    });
    until(|| waiting.waiting() == 1);
    handle.cancel();
    assert_eq!(handle.wait(), Err(Failed(TaskError::Cancelled)));
    drop(asked);
}

#[test]
fn a_full_inbox_blocks_or_refuses() {
    // Proves: `try_submit` hands the job back, `submit` waits for room, and on the worker itself it answers `Full`.
    let pool = Pool::new(1, 2);
    let executor = pool.executor.clone();
    let (release, released) = channel::<()>();
    let (started, starts) = channel();
    let own = pool.run(move |_| async move {
        started.send(()).unwrap();
        let _ = released.recv();
        // The inbox is full, and its worker is running this future.
        let (job, refused) = task(&executor, |_| async { Ok(()) });
        executor.submit(job);
        Ok(refused.is_done().then(|| refused.wait()))
    });
    starts.recv().unwrap();
    let queued = [pool.run(|_| async { Ok(1) }), pool.run(|_| async { Ok(2) })];
    assert_eq!(pool.executor.queued(), 2);
    let (job, handle) = task(&pool.executor, |_| async { Ok(3) });
    let refused = pool.executor.try_submit(job.clone()).unwrap_err();
    assert_eq!(refused, TaskError::Full);
    let is_in = AtomicBool::new(false);
    thread::scope(|scope| {
        let (is_in, executor) = (&is_in, &pool.executor);
        scope.spawn(move || {
            executor.submit(job);
            is_in.store(true, SeqCst);
        });
        thread::sleep(Duration::from_millis(30));
        assert!(!is_in.load(SeqCst));
        drop(release);
    });
    assert_eq!(own.wait(), Ok(Some(Err(Failed(TaskError::Full)))));
    let got: Vec<_> = queued.into_iter().chain([handle]).map(Handle::wait).collect();
    assert_eq!(got, [Ok(1), Ok(2), Ok(3)]);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Rings(AtomicUsize);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn submissions_wait_for_room() {
    // Proves: a submission is pending while the inbox is full, is woken in order when there is room, and passes a
    // wake-up on if it is dropped. None is left behind. At `close` all are answered.
    let pool = Pool::new(1, 1);
    let (release, blocker) = pool.block_a_worker();
    let queued = pool.run(|_| async { Ok(0) });
    let poll = |submission: &mut Submission<'_, Toy>, rings: &Arc<Rings>| {
        Pin::new(submission).poll(&mut Context::from_waker(&Waker::from(rings.clone())))
    };
    let rings: [Arc<Rings>; 3] = std::array::from_fn(|_| Arc::default());
    let tasks: [_; 3] = std::array::from_fn(|i| task(&pool.executor, move |_| async move { Ok(i) }));
    let mut submissions = tasks.each_ref().map(|(job, _)| Submission::new(&pool.executor, job.clone()));
    for _ in 0..3 {
        let polls = submissions.iter_mut().zip(&rings).map(|(one, rings)| poll(one, rings));
        assert!(polls.into_iter().all(|polled| polled.is_pending()));
    }
    let [first, second, mut third] = submissions;
    drop(release);
    assert_eq!((blocker.wait(), queued.wait()), (Ok(()), Ok(0)));
    until(|| rings[0].0.load(SeqCst) == 1);
    assert_eq!(rings[1].0.load(SeqCst), 0, "there was one place");
    drop(second); // the submission has not been woken
    drop(first);
    assert_eq!((rings[1].0.load(SeqCst), rings[2].0.load(SeqCst)), (0, 1));
    assert_eq!(poll(&mut third, &rings[2]), Poll::Ready(()));
    assert_eq!(poll(&mut third, &rings[2]), Poll::Ready(()), "polled again");
    let [_, _, (_, handle)] = tasks;
    assert_eq!(handle.wait(), Ok(2));

    let (release, blocker) = pool.block_a_worker();
    let queued = pool.run(|_| async { Ok(0) });
    let (job, handle) = task(&pool.executor, |_| async { Ok(0) });
    let mut late = Submission::new(&pool.executor, job);
    assert_eq!(poll(&mut late, &rings[0]), Poll::Pending);
    pool.executor.close();
    assert_eq!(rings[0].0.load(SeqCst), 2);
    assert_eq!(poll(&mut late, &rings[0]), Poll::Ready(()));
    let closed = Err(Failed(TaskError::Closed));
    assert_eq!((handle.wait(), queued.wait()), (closed.clone(), closed));
    drop(release);
    assert_eq!(blocker.wait(), Ok(()));
}

#[test]
fn a_submission_that_is_queued_is_not_woken_for_another() {
    // Proves: a submission that found room because it was polled for another reason does not take a wake-up from a
    // waiting one.
    let executor = Executor::new(1, 1); // no worker: the test makes room
    let rings: [Arc<Rings>; 2] = std::array::from_fn(|_| Arc::default());
    let poll = |submission: &mut Submission<'_, Toy>, which: usize| {
        Pin::new(submission).poll(&mut Context::from_waker(&Waker::from(rings[which].clone()))).is_ready()
    };
    let make_room = || {
        let mut jobs = Vec::new();
        executor.inboxes[0].pop(1, &mut jobs);
        assert_eq!(jobs.len(), 1);
    };
    let tasks: [_; 3] = std::array::from_fn(|_| task(&executor, |_| async { Ok(()) }));
    let [mut first, mut second, mut before] =
        tasks.each_ref().map(|(job, _)| Submission::new(&executor, job.clone()));
    assert!(poll(&mut before, 0) && !poll(&mut first, 0) && !poll(&mut second, 1));
    make_room();
    assert_eq!(rings[0].0.load(SeqCst), 1);
    assert!(poll(&mut second, 1) && !poll(&mut first, 0));
    make_room();
    assert_eq!((rings[0].0.load(SeqCst), rings[1].0.load(SeqCst)), (2, 0));
    assert!(poll(&mut first, 0));
}

#[test]
fn a_worker_does_not_wait_for_itself() {
    // Proves: `wait` on a worker's thread of the same executor is an error. On a thread of another executor it is not.
    let (pool, other) = (Pool::new(1, 64), Arc::new(Pool::new(1, 64)));
    let (executor, far) = (pool.executor.clone(), other.clone());
    let tried = pool.run(move |_| async move {
        let (job, inner) = task(&executor, |_| async { Ok(()) });
        executor.submit(job);
        assert_eq!(inner.wait(), Err(Failed(TaskError::WouldDeadlock)));
        far.run(|_| async { Ok(5) }).wait()
    });
    assert_eq!(tried.wait(), Ok(5));
}

#[test]
fn closing_answers_everyone() {
    // Proves: at `close`, queued jobs are answered `Closed`, open futures `Cancelled`, and later jobs `Closed`.
    let pool = Pool::new(1, 64);
    let gate = Gate::default();
    let passing = gate.clone();
    let open = pool.run(|_| async move {
        passing.pass().await;
        Ok(())
    });
    until(|| gate.waiting() == 1);
    let (release, blocker) = pool.block_a_worker();
    let queued: Vec<_> = (0..5).map(|_| pool.run(|_| async { Ok(()) })).collect();
    let batch = batch(&pool, 3, |_| ());
    pool.executor.close();
    for handle in queued {
        assert_eq!(handle.wait(), Err(Failed(TaskError::Closed)));
    }
    assert_eq!(batch.wait(), Ok(vec![Err(Failed(TaskError::Closed)); 3]));
    drop(release);
    assert_eq!(blocker.wait(), Ok(()));
    assert_eq!(open.wait(), Err(Failed(TaskError::Cancelled)));
    assert_eq!(pool.run(|_| async { Ok(()) }).wait(), Err(Failed(TaskError::Closed)));
    let none: Executor<Toy> = Executor::new(0, 1);
    let (job, handle) = task(&none, |_| async { Ok(()) });
    none.submit(job);
    assert_eq!(handle.wait(), Err(Failed(TaskError::Closed)));
}

fn batch(
    pool: &Pool,
    n: u32,
    each: impl Fn(u32) + Send + Sync + 'static,
) -> Handle<Vec<Outcome<u32>>, Failed> {
    let make = |toy: &'static Toy, each: &'static (dyn Fn(u32) + Send + Sync), i: u32| async move {
        toy.operation(i % 4).await;
        each(i);
        Ok(i * 2)
    };
    let each: Box<dyn Fn(u32) + Send + Sync> = Box::new(each);
    // SAFETY: only the futures use their operations and the shared closure.
    let (job, handle) = unsafe {
        BatchTask::job(&pool.executor, each, (0..n).collect(), move |toy, each: &'static Box<_>, i| {
            make(toy, &**each, i)
        })
    };
    pool.executor.submit_batch(job, n as usize);
    handle
}

#[test]
fn a_batch_comes_back_in_order() {
    // Proves: each input runs once, on whichever worker. A panic affects only its own result. An empty batch is
    // answered.
    let pool = Pool::new(2, 64);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handle = batch(&pool, 2000, move |i| {
        counted.fetch_add(1, Relaxed);
        assert!(i != 777, "seven");
    });
    let single = pool.run(|_| async { Ok(()) });
    let results = handle.wait().unwrap();
    assert_eq!((results.len(), runs.load(Relaxed)), (2000, 2000));
    for (i, result) in results.into_iter().enumerate() {
        let bad = Err(Failed(TaskError::Panicked("seven".into())));
        assert_eq!(result, if i == 777 { bad } else { Ok(i as u32 * 2) });
    }
    assert_eq!(single.wait(), Ok(()));
    assert_eq!(batch(&pool, 0, |_| ()).wait(), Ok(Vec::new()));
}

#[test]
fn a_dropped_batch_stops() {
    // Proves: dropping a batch's handle cancels what has not run, and releases what the batch held.
    let pool = Pool::new(1, 64);
    let (tell, told) = channel();
    let last = Tell(tell, "gone");
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handle = batch(&pool, 100_000, move |_| {
        let _ = &last;
        counted.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_micros(50));
    });
    until(|| runs.load(Relaxed) > 10);
    drop(handle);
    assert_eq!(told.recv_timeout(Duration::from_secs(2)), Ok("gone"));
    assert!(runs.load(Relaxed) < 100_000);
}

#[test]
fn idle_workers_take_from_a_stuck_one() {
    // Proves: with one of two workers stuck in user code, all jobs still run.
    let pool = Pool::new(2, 64);
    let (release, blocker) = pool.block_a_worker();
    let handles: Vec<_> = (0..50).map(|i| pool.run(move |_| async move { Ok(i) })).collect();
    let got: Vec<_> = handles.into_iter().map(|handle| handle.wait().unwrap()).collect();
    assert_eq!(got, (0..50).collect::<Vec<_>>());
    drop(release);
    assert_eq!(blocker.wait(), Ok(()));
}

#[test]
fn a_failed_worker_leaves_nobody_waiting() {
    // Proves: when a worker's host panics, its futures and jobs are answered, and later jobs are refused.
    let executor = Arc::new(Executor::<Toy>::new(1, 64));
    let serving = executor.clone();
    let thread = thread::spawn(move || {
        let host = ToyHost::new();
        host.life.fails.set(true);
        serving.serve(0, host, OnMiss, WorkerOptions::default());
    });
    let gate = Gate::default();
    let (job, handle) = task(&executor, |_| async move {
        gate.pass().await;
        Ok(())
    });
    executor.submit(job);
    let result = handle.wait();
    assert!([TaskError::Cancelled, TaskError::Closed].contains(&result.unwrap_err().0));
    assert!(thread.join().is_err());
    let (job, handle) = task(&executor, |_| async { Ok(()) });
    executor.submit(job);
    assert_eq!(handle.wait(), Err(Failed(TaskError::Closed)));
}

#[test]
fn many_threads_submit_to_sleepy_workers() {
    // Proves: no wake-up is lost between submitters that pause and workers that fall asleep.
    let pool = Pool::new(2, 4);
    thread::scope(|scope| {
        for t in 0..3 {
            let pool = &pool;
            scope.spawn(move || {
                for i in 0..300_u64 {
                    assert_eq!(pool.run(move |_| async move { Ok(i) }).wait(), Ok(i));
                    if i % (10 + t) == 0 {
                        thread::sleep(Duration::from_micros(100 * t));
                    }
                }
            });
        }
    });
}

/// Two workers of two places each. The second worker starts later.
struct Pair {
    executor: Arc<Executor<Toy>>,
    threads: Vec<JoinHandle<()>>,
    gate: Gate,
}

impl Pair {
    /// Makes the pair. The first worker is full of futures that wait for the gate, and sleeps.
    fn with_a_full_one() -> Pair {
        let mut pair = Pair::new();
        for _ in 0..2 {
            let (job, handle) = task(&pair.executor, {
                let gate = pair.gate.clone();
                move |_| async move {
                    gate.pass().await;
                    Ok(())
                }
            });
            pair.executor.submit_to(job, 0);
            handle.detach();
        }
        until(|| pair.executor.inboxes[0].notifier.is_full());
        pair.serve(1);
        until(|| pair.executor.inboxes[1].notifier.is_asleep());
        pair
    }

    fn new() -> Pair {
        let executor = Arc::new(Executor::new(2, 64));
        let mut pair = Pair { executor, threads: Vec::new(), gate: Gate::default() };
        pair.serve(0);
        pair
    }

    fn serve(&mut self, worker: usize) {
        let options =
            WorkerOptions { batch: 1.into(), batch_max: 1, parked_max: 1, ..WorkerOptions::default() };
        let executor = self.executor.clone();
        self.threads.push(thread::spawn(move || executor.serve(worker, ToyHost::new(), OnMiss, options)));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.gate.open();
        self.executor.close();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_job_for_a_full_sleeper_wakes_an_idle_worker() {
    // Proves: a job in the inbox of a worker that sleeps without room wakes an idle worker, which runs the job. The
    // worker without room is not notified instead.
    let pair = Pair::with_a_full_one();
    for i in 0..3 {
        let (job, handle) = task(&pair.executor, move |_| async move { Ok(i) });
        pair.executor.submit_to(job, 0);
        until(|| handle.is_done());
        assert_eq!(handle.wait(), Ok(i));
        until(|| pair.executor.inboxes[1].notifier.is_asleep());
    }
}

#[test]
fn a_worker_that_is_never_idle_takes_what_a_full_sleeper_cannot() {
    // Proves: jobs that wait with a full worker do not wait for the last job of a busy worker.
    let pair = Pair::with_a_full_one();
    let (is_over, is_busy) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // The future starts again and again, so that its worker's place is never empty for long.
    for _ in 0..2 {
        let (is_over, is_busy, executor) = (is_over.clone(), is_busy.clone(), Arc::downgrade(&pair.executor));
        fn again(
            executor: std::sync::Weak<Executor<Toy>>,
            is_over: Arc<AtomicBool>,
            is_busy: Arc<AtomicUsize>,
        ) {
            let Some(strong) = executor.upgrade() else { return };
            let (job, handle) = task(&strong, move |toy: &Toy| async move {
                toy.operation(20).await;
                is_busy.fetch_add(1, SeqCst);
                if !is_over.load(SeqCst) {
                    again(executor, is_over, is_busy);
                }
                Ok(())
            });
            strong.submit_to(job, 1);
            handle.detach();
        }
        again(executor, is_over, is_busy);
    }
    until(|| is_busy.load(SeqCst) > 1000);
    let (job, handle) = task(&pair.executor, |_| async { Ok(7) });
    pair.executor.submit_to(job, 0);
    until(|| handle.is_done());
    is_over.store(true, SeqCst);
    assert_eq!(handle.wait(), Ok(7));
}

#[test]
fn what_a_full_worker_has_not_drawn_of_a_batch_is_drawn_by_others() {
    // Proves: the ticket of a batch does not stay with a worker that has no room for the rest of the batch.
    let mut pair = Pair::new();
    let (gate, done) = (pair.gate.clone(), Arc::new(AtomicUsize::new(0)));
    let make = |_: &'static Toy, shared: &'static (Gate, Arc<AtomicUsize>), waits: bool| async move {
        if waits {
            shared.0.clone().pass().await;
        }
        shared.1.fetch_add(1, SeqCst);
        Ok::<(), Failed>(())
    };
    let inputs = vec![true, true, false, false, false];
    // SAFETY: only the futures use their operations.
    let (job, handle) = unsafe { BatchTask::job(&pair.executor, (gate, done.clone()), inputs, make) };
    pair.executor.submit_batch(job, 5); // one ticket
    until(|| pair.executor.inboxes[0].notifier.is_full());
    assert_eq!(done.load(SeqCst), 0);
    pair.serve(1);
    until(|| done.load(SeqCst) == 3);
    pair.gate.open();
    assert_eq!(handle.wait().map(|results| results.len()), Ok(5));
}
