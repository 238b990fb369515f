//! Threads that work in the background until they are asked to end.

use super::{Mutex, lock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval at which a waiting caller looks whether the thread has ended.
const LOOK: Duration = Duration::from_micros(200);

/// A thread that any caller can wait for once the thread has been asked to end.
#[derive(Debug)]
pub struct Background<T> {
    /// None once the thread has been joined.
    thread: Mutex<Option<JoinHandle<T>>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread under this name.
    pub fn spawn(name: &str, life: impl FnOnce() -> T + Send + 'static) -> std::io::Result<Background<T>> {
        let thread = thread::Builder::new().name(name.into()).spawn(life)?;
        Ok(Background { thread: Mutex::new(Some(thread)) })
    }

    /// Returns whether the calling thread is this one.
    pub fn is_here(&self) -> bool {
        lock(&self.thread).as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// Returns whether the thread has been joined.
    pub fn is_joined(&self) -> bool {
        lock(&self.thread).is_none()
    }

    /// Waits for the thread until `gives_up` returns true. Returns the thread's result to the first caller, unless the
    /// thread has panicked. The thread does not wait for itself. The lock is not held meanwhile, so the thread may ask
    /// whether it is this one.
    pub fn join(&self, mut gives_up: impl FnMut() -> bool) -> Option<T> {
        if self.is_here() {
            return None;
        }
        loop {
            let ended = lock(&self.thread).take_if(|thread| thread.is_finished());
            if let Some(thread) = ended {
                return thread.join().ok();
            }
            if self.is_joined() || gives_up() {
                return None;
            }
            thread::sleep(LOOK);
        }
    }
}
