//! The flusher's thread.

use super::{Ended, Error, Flusher, Result, Shortage};
use crate::sync::{Arc, Background};

/// Drives a [`Flusher`] on a thread of its own. While one group is synced the next one gathers. So a slower disk gets
/// larger groups, and nothing waits for a timer.
#[derive(Debug)]
pub struct FlusherThread {
    shared: Arc<super::buffer::Shared>,
    thread: Background<Result<Ended>>,
    wait_ns_max: u64,
}

impl FlusherThread {
    /// Starts the thread. It keeps `kept` until it ends: what nobody else may have while the thread may write.
    /// Closing waits for the thread for at most `wait_ns_max`.
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
        Ok(FlusherThread { shared, thread: Background::spawn("braid-log", life)?, wait_ns_max })
    }

    /// Flushes what was appended, closes the log and ends the thread. An [`Error::Full`] says that there is no room,
    /// or that the disk does not answer. The thread has then not [ended](Self::has_ended); it ends when the disk
    /// answers, and this can be called again. After the thread has ended, further calls fail with [`Error::Closed`].
    pub fn close(&self) -> Result<Ended> {
        self.shared.close();
        let (clock, mut waits_ns) = (&self.shared.clock, 0);
        let begin_ns = clock.now_ns();
        let ended = self.thread.join(|| {
            waits_ns = clock.now_ns().saturating_sub(begin_ns);
            waits_ns >= self.wait_ns_max
        });
        match ended {
            Some(ended) => ended,
            None if self.has_ended() => Err(Error::Closed),
            None => Err(Error::Full(Arc::new(Shortage::slow(waits_ns)))),
        }
    }

    /// Returns true if [`close`](Self::close) has seen the thread end.
    pub fn has_ended(&self) -> bool {
        self.thread.is_joined()
    }
}

impl Drop for FlusherThread {
    fn drop(&mut self) {
        if !self.shared.is_closed() {
            let _ = self.close(); // a caller that wants to know calls it
        }
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
