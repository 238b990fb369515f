//! A thread that flushes.

use super::{Ended, Error, Flusher, Result, Shortage};
use crate::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is asked whether the thread has ended: less than a flush takes.
const LOOK: Duration = Duration::from_micros(200);

/// Drives a [`Flusher`] from a thread of its own: while a group is synced the next one gathers, so groups are as
/// large as the disk is slow, and nobody waits for a timer.
#[derive(Debug)]
pub struct FlusherThread {
    shared: Arc<super::buffer::Shared>,
    thread: Option<JoinHandle<Result<Ended>>>,
    wait_ns_max: u64,
}

impl FlusherThread {
    /// Starts it. It keeps `kept` until it ends: what nobody else may have while it may write. Closing waits for it for
    /// `wait_ns_max` at most.
    pub fn spawn(
        flusher: Flusher,
        kept: impl Send + 'static,
        wait_ns_max: u64,
    ) -> std::io::Result<FlusherThread> {
        let shared = flusher.shared();
        let life = move || {
            let ended = run(flusher);
            drop(kept);
            ended
        };
        let thread = std::thread::Builder::new().name("braid-log".to_string()).spawn(life)?;
        Ok(FlusherThread { shared, thread: Some(thread), wait_ns_max })
    }

    /// Flushes what was appended, closes the log and ends the thread. An [`Error::Full`] says that there is no room for
    /// that, or that the disk does not answer: the thread ends when it does.
    pub fn close(mut self) -> Result<Ended> {
        self.join()
    }

    fn join(&mut self) -> Result<Ended> {
        let Some(thread) = self.thread.take() else { return Err(Error::Closed) };
        self.shared.close();
        let begin_ns = self.shared.clock.now_ns();
        while !thread.is_finished() {
            std::thread::sleep(LOOK);
            let waits_ns = self.shared.clock.now_ns().saturating_sub(begin_ns);
            if waits_ns >= self.wait_ns_max {
                return Err(Error::Full(Arc::new(Shortage::slow(waits_ns))));
            }
        }
        thread.join().unwrap_or(Err(Error::Closed))
    }
}

impl Drop for FlusherThread {
    fn drop(&mut self) {
        // Who wants to know how it ended calls `close`.
        let _ = self.join();
    }
}

fn run(mut flusher: Flusher) -> Result<Ended> {
    while flusher.wait_for_work() {
        match flusher.flush_once() {
            Ok(_) | Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
    }
    flusher.close()
}
