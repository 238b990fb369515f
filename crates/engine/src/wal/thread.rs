//! A thread that flushes.

use super::{Ended, Error, Flusher, Result};
use crate::sync::Arc;
use std::thread::JoinHandle;

/// Drives a [`Flusher`] from a thread of its own: while a group is synced the next one gathers, so groups are as
/// large as the disk is slow, and nobody waits for a timer.
#[derive(Debug)]
pub struct FlusherThread {
    shared: Arc<super::state::Shared>,
    thread: Option<JoinHandle<Result<Ended>>>,
}

impl FlusherThread {
    /// Starts it.
    pub fn spawn(flusher: Flusher) -> std::io::Result<FlusherThread> {
        let shared = flusher.shared();
        let thread = std::thread::Builder::new().name("braid-log".to_string()).spawn(move || run(flusher))?;
        Ok(FlusherThread { shared, thread: Some(thread) })
    }

    /// Flushes what was appended, closes the log and ends the thread.
    pub fn close(mut self) -> Result<Ended> {
        self.join()
    }

    fn join(&mut self) -> Result<Ended> {
        let Some(thread) = self.thread.take() else { return Err(Error::Closed) };
        self.shared.close();
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
