//! Held results of submitted futures.

use super::submitted::{Outcome, Pool, task};
use super::toy::{Failed, Toy};
use super::toy_log::ToyLog;
use crate::exec::submit::batch_task::BatchTask;
use crate::exec::submit::handle::{Handle, TaskError};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

fn pool(log: &Arc<ToyLog>) -> Pool {
    Pool::with_log(1, 64, Some(log.clone()))
}

/// Submits a future of one operation whose output is held.
fn run<T: Send + 'static>(pool: &Pool, until: u64, output: Outcome<T>) -> Handle<T, Failed> {
    pool.run(move |toy| async move {
        toy.operation(1).await;
        toy.hold_until(until);
        output
    })
}

fn batch(pool: &Pool, untils: Vec<u64>) -> Handle<Vec<Outcome<u64>>, Failed> {
    let make = |toy: &'static Toy, _: &'static (), until: u64| async move {
        toy.operation(1).await;
        toy.hold_until(until);
        if until == 5 { Err(Failed(TaskError::Panicked("of its own".into()))) } else { Ok(until) }
    };
    // SAFETY: the futures alone use their operations.
    let (job, handle) = unsafe { BatchTask::job(&pool.executor, (), untils, make) };
    pool.executor.submit_batch(job, 1);
    handle
}

/// Returns when all futures that were submitted before have ended.
fn all_have_ended(pool: &Pool) {
    let last = pool.run(|toy| async move {
        for _ in 0..4 {
            toy.operation(1).await; // more than any of the earlier futures
        }
        Ok(())
    });
    assert_eq!(last.wait(), Ok(()));
}

const UNKNOWN: Failed = Failed(TaskError::Unknown);

#[test]
fn handles_are_answered_when_they_are_released() {
    // Proves: a sleeping worker is woken to answer what was released, and nothing else. What is not held is answered at
    // once.
    let log = ToyLog::new();
    let pool = pool(&log);
    let (first, second) = (run(&pool, 1, Ok("first")), run(&pool, 2, Ok("second")));
    all_have_ended(&pool);
    log.await_sleeper();
    assert!(!first.is_done() && !second.is_done());
    log.release(1);
    assert_eq!(first.wait(), Ok("first"));
    log.await_sleeper();
    assert!(!second.is_done());
    log.release(2);
    assert_eq!(second.wait(), Ok("second"));
}

#[test]
fn a_batch_is_answered_when_all_of_it_is_released() {
    // Proves: a batch's results are in order, and the last release answers.
    let log = ToyLog::new();
    let pool = pool(&log);
    let handle = batch(&pool, vec![0, 1, 2, 3]);
    for until in [1, 2] {
        log.await_sleeper();
        log.release(until);
    }
    log.await_sleeper();
    assert!(!handle.is_done());
    log.release(3);
    assert_eq!(handle.wait(), Ok(vec![Ok(0), Ok(1), Ok(2), Ok(3)]));
}

#[test]
fn what_is_never_released_is_answered_unknown() {
    // Proves: in tasks and in batches, released results are reported unchanged, and a held error may rest on lost
    // changes.
    let log = ToyLog::new();
    let pool = pool(&log);
    let tasks = [run(&pool, 1, Ok(1)), run(&pool, 2, Ok(2))];
    let failed = run::<()>(&pool, 3, Err(Failed(TaskError::Full)));
    let batch = batch(&pool, vec![0, 4, 5, 6]);
    log.await_sleeper();
    log.release(1);
    log.stop();
    assert_eq!(tasks.map(Handle::wait), [Ok(1), Err(UNKNOWN)]);
    assert_eq!(failed.wait(), Err(UNKNOWN));
    assert_eq!(batch.wait(), Ok(vec![Ok(0), Err(UNKNOWN), Err(UNKNOWN), Err(UNKNOWN)]));
    assert_eq!([run(&pool, 1, Ok(1)), run(&pool, 9, Ok(9))].map(Handle::wait), [Ok(1), Err(UNKNOWN)]);
}

#[test]
fn a_future_can_await_what_its_worker_holds() {
    // Proves: the release answers both a parked future and the output that it awaits, on one worker.
    let log = ToyLog::new();
    let pool = pool(&log);
    let executor = pool.executor.clone();
    let outer = pool.run(move |_| async move {
        let (job, inner) = task(&executor, |toy: &Toy| async move {
            toy.hold_until(1);
            Ok(20)
        });
        executor.submit(job);
        Ok(inner.await? + 1)
    });
    log.await_sleeper();
    log.release(1);
    assert_eq!(outer.wait(), Ok(21));
}

#[test]
fn closing_waits_for_what_is_held() {
    // Proves: at `close`, held results are answered when the log says so, as kept or as unknown.
    let log = ToyLog::new();
    let pool = pool(&log);
    let tasks = [run(&pool, 1, Ok(1)), run(&pool, 2, Ok(2))];
    let batch = batch(&pool, vec![3]);
    all_have_ended(&pool);
    pool.executor.close();
    log.await_blocked();
    assert!(!tasks[0].is_done());
    log.release(1);
    log.stop();
    assert_eq!(tasks.map(Handle::wait), [Ok(1), Err(UNKNOWN)]);
    assert_eq!(batch.wait(), Ok(vec![Err(UNKNOWN)]));
}

/// Sends when dropped, and panics then if told to.
struct Tell(Sender<()>, bool);
impl Drop for Tell {
    fn drop(&mut self) {
        let _ = self.0.send(());
        assert!(!self.1, "drop");
    }
}

#[test]
fn a_handle_dropped_while_held_changes_nothing() {
    // Proves: an output is dropped when it is released or lost, and a panic of the drop harms no other output. A late
    // cancellation is answered that it came too late.
    for stops in [false, true] {
        let log = ToyLog::new();
        let pool = pool(&log);
        let (tell, told) = channel();
        let dropped = [false, true].map(|panics| run(&pool, 1, Ok(Tell(tell.clone(), panics))));
        let asked = run(&pool, 1, Ok(Tell(tell.clone(), true)));
        all_have_ended(&pool);
        drop(dropped);
        asked.cancel();
        assert!(told.try_recv().is_err() && !asked.is_done());
        if stops {
            log.stop();
        } else {
            log.release(1);
        }
        let asked = asked.wait();
        assert_eq!(asked.is_err(), stops);
        if let Ok(tell) = asked {
            assert!(thread::spawn(|| drop(tell)).join().is_err());
        }
        (0..3).for_each(|_| told.recv().unwrap());
        assert_eq!(run(&pool, 0, Ok(())).wait(), Ok(()));
    }
}

#[test]
fn a_failed_worker_answers_what_it_holds() {
    // Proves: a panic of the host leaves no handle unanswered while the log works.
    use super::toy::ToyHost;
    use crate::exec::{Executor, WorkerOptions};
    use crate::suspend::OnMiss;
    let (log, executor) = (ToyLog::new(), Arc::new(Executor::<Toy>::new(1, 64)));
    let (serving, host_log) = (executor.clone(), log.clone());
    let (job, handle) = task(&executor, |toy: &Toy| async move {
        toy.hold_until(1);
        Ok(1)
    });
    executor.submit(job);
    let worker = thread::spawn(move || {
        let host = ToyHost::with_log(Some(host_log));
        host.life.fails.set(true);
        serving.serve(0, host, OnMiss, WorkerOptions::default());
    });
    log.await_blocked();
    assert!(!handle.is_done());
    log.release(1);
    assert_eq!(handle.wait(), Ok(1));
    assert!(worker.join().is_err());
}
