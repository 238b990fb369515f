//! Events, and a thread that checks the condition of the log and the room, whatever the other threads wait for.

use crate::events::{event, ms, text};
use crate::metrics::{Event, LogCondition, RoomStatistics};
use crate::sync::{Background, Condvar, Mutex, lock};
use crate::wal::Writer;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the thread checks.
const LOOK: Duration = Duration::from_millis(500);

/// A function that is called for events.
pub(crate) type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

#[derive(Default)]
pub(super) struct Listeners(Mutex<Option<Listener>>);

impl Listeners {
    /// Calls `listener` from now on, in place of the previous one.
    pub(super) fn set(&self, listener: Listener) {
        *lock(&self.0) = Some(listener);
    }

    /// Reports an event. No lock is held, because the listener may call the database.
    pub(super) fn tell(&self, event: &Event) {
        let listener = lock(&self.0).clone();
        if let Some(listener) = listener {
            // A panic is the listener's affair.
            let _ = catch_unwind(AssertUnwindSafe(|| listener(event)));
        }
    }
}

/// The thread. It waits only for time to pass, so it can report a disk that keeps everything else waiting.
pub(super) struct WatchThread {
    is_closed: Arc<(Mutex<bool>, Condvar)>,
    thread: Background<()>,
}

impl WatchThread {
    pub(super) fn spawn(
        log: Writer,
        wait_ns_max: u64,
        listeners: Arc<Listeners>,
        number: u64,
    ) -> std::io::Result<WatchThread> {
        let is_closed = Arc::new((Mutex::new(false), Condvar::new()));
        let (told, is_short) = (LogCondition::Good, false);
        let mut watcher = Watcher { log, wait_ns_max, listeners, number, told, is_short };
        let of_thread = is_closed.clone();
        let thread = Background::spawn("braid-watch", move || {
            let (is_closed, signal) = &*of_thread;
            let mut closed = lock(is_closed);
            while !*closed {
                drop(closed);
                watcher.look();
                closed = lock(is_closed);
                if !*closed {
                    closed = signal.wait_timeout(closed, LOOK).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        })?;
        Ok(WatchThread { is_closed, thread })
    }

    /// Ends the thread, and waits for it.
    pub(super) fn end(&self) {
        *lock(&self.is_closed.0) = true;
        self.is_closed.1.notify_all();
        // A listener on the thread itself may drop the last handle of the database.
        self.thread.join(|| false);
    }

    /// Returns true if the calling thread is this one.
    pub(super) fn is_here(&self) -> bool {
        self.thread.is_here()
    }
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        self.end();
    }
}

struct Watcher {
    log: Writer,
    wait_ns_max: u64,
    listeners: Arc<Listeners>,
    /// The number by which events name the database.
    number: u64,
    /// The condition that was reported last.
    told: LogCondition,
    is_short: bool,
}

impl Watcher {
    fn look(&mut self) {
        self.log.look(self.wait_ns_max);
        let (condition, room) = (self.log.condition(), self.log.room().statistics());
        // The duration alone is no change.
        if std::mem::discriminant(&condition) != std::mem::discriminant(&self.told) {
            self.told = condition.clone();
            self.tell_log(&condition);
            self.listeners.tell(&Event::Log(condition));
        }
        if room.is_short != self.is_short {
            self.is_short = room.is_short;
            self.tell_room(&room);
            self.listeners.tell(&Event::Room(room));
        }
    }

    fn tell_log(&self, condition: &LogCondition) {
        let database = self.number;
        match condition {
            LogCondition::Good => event!(INFO, LOG, "the log goes on", database = database),
            LogCondition::Refusing { cause } => event!(
                WARN,
                LOG,
                "no further segment of the log could be made: commits are refused when the present one is full",
                database = database,
                error = text(cause)
            ),
            LogCondition::Stalled { for_ns, cause } => event!(
                WARN,
                LOG,
                "the disk keeps commits waiting",
                database = database,
                duration_ms = ms(*for_ns),
                error = text(cause)
            ),
            LogCondition::Stopped { .. } => {} // the log has reported it
        }
    }

    fn tell_room(&self, room: &RoomStatistics) {
        let (database, free_bytes, needed_bytes) = (self.number, room.free_bytes, room.checkpoint_bytes);
        match room.is_short {
            true => event!(
                WARN,
                LOG,
                "the device has no room for the next checkpoint",
                database = database,
                free_bytes = free_bytes,
                needed_bytes = needed_bytes
            ),
            false => event!(
                INFO,
                LOG,
                "the device has room for the next checkpoint again",
                database = database,
                free_bytes = free_bytes,
                needed_bytes = needed_bytes
            ),
        }
    }
}
