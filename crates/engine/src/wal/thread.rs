//! A thread that flushes.

use super::{Error, Flusher, Result, Stall};
use crate::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is asked whether the thread has ended: less than a flush takes.
const LOOK: Duration = Duration::from_micros(200);

/// Drives a [`Flusher`] from a thread of its own: while a group is synced the next one gathers, so groups are as
/// large as the disk is slow, and nobody waits for a timer.
#[derive(Debug)]
pub struct FlusherThread {
    shared: Arc<super::state::Shared>,
    thread: Option<JoinHandle<Result<()>>>,
    wait_ns_max: u64,
}

impl FlusherThread {
    /// Starts it. It keeps `kept` until it ends: what nobody else may have while it may write. Closing waits for no
    /// write that has lasted longer than `wait_ns_max`.
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

    /// Flushes what was appended, closes the log and ends the thread. An [`Error::Full`] says that the disk does not
    /// answer: the thread ends when it does.
    pub fn close(mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.state().is_closed = true;
        self.shared.work.notify_all();
        while !thread.is_finished() {
            std::thread::sleep(LOOK);
            self.shared.look(self.wait_ns_max);
            if self.shared.stall() == Some(Stall::Slow)
                && let Some(refusal) = self.shared.state().refusal()
            {
                return Err(refusal);
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

fn run(mut flusher: Flusher) -> Result<()> {
    while flusher.wait_for_work() {
        match flusher.flush_once() {
            Ok(_) | Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
    }
    flusher.close()
}
