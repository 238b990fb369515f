//! The contracts between the executor and what it executes. The executor runs any future and does not know what a
//! transaction is. It sees [`Operations`] beside each future, and a [`Host`] around the worker, which is also its
//! [`Tuning`] and its [`OutputGate`]. No method has a default. A method that an implementation lacks is therefore an
//! error of the compiler, and not an answer given before it is durable.

use crate::epoch::Local;
use crate::exec::tune::group::SharedLevel;
use crate::exec::tune::level::{Known, Level};
use crate::exec::tune::measure::{Counters, Reading};
use crate::profile::Profile;
use crate::suspend::Suspend;
use crate::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The operations that a slot's future has posted, kept beside the future. Reached by `&` only, by one thread at a
/// time.
///
/// The future may also be polled while operations are left, because its waker was called. These operations are not
/// ready then.
///
/// An operation is *in flight* from the poll that posts it to the poll that fetches its result. It is *left* until a
/// step has finished it.
pub trait Operations {
    /// Steps every operation that is left, each to its next suspension. Returns true if none is left, also if none
    /// was posted. The worker then polls the future. This is the hot path: one load should decide the common case.
    /// Called only between [`started`](Self::started) and [`ended`](Self::ended), inside an epoch.
    fn step<S: Suspend>(&self, s: &mut S) -> bool;

    /// Returns a number for what a step will do. For two with the same number, steps run the same instructions, as
    /// far as can be told. A number of its own means that nothing is left.
    fn next_kind(&self) -> u32;

    /// Returns true if an operation is left. Called after a poll that returned `Pending`. If none is left, the future
    /// waits for something outside, and is parked until its waker is called.
    fn has_pending(&self) -> bool;

    /// Returns true if an operation has finished whose result is not fetched yet. Such a result may point at what the
    /// epoch of its posting protects, so the epoch stays held.
    fn has_unfetched(&self) -> bool;

    /// Returns true if what is left cannot be cancelled. The future is then polled to its end even if it has been
    /// cancelled, because its outcome may already be visible.
    fn must_finish(&self) -> bool;

    /// Returns until what the output of the ended future is held back, in the units of the host's
    /// [`released`](OutputGate::released). 0: the output may go at once. Called once after a poll that returned
    /// `Ready`, before [`ended`](Self::ended). On one worker it should not decrease: an output that asks for less
    /// than an earlier held output waits for that output.
    fn held_until(&self) -> u64;

    /// Returns the work of the present future that [`Tuning::reading`] does not have yet, in the same units. It may
    /// turn out to have been in vain.
    fn work_under_way(&self) -> u64;

    /// The operations are in their slot, with this waker. Both stay in place until the worker ends.
    fn placed(&self, slot_waker: &Waker);

    /// A future has been put in, and nothing is posted. May be called outside an epoch. The first poll is inside one.
    /// The future's operations run in the style of the level that the host was told last.
    fn started(&self);

    /// The future that has just been put in is known to be long. Its operations must be posted, whatever the style,
    /// so that others run between them.
    fn set_long(&self);

    /// Returns true if [`restart`](Self::restart) could be called now.
    fn can_restart(&self) -> bool;

    /// The epoch in which the operations in flight began has passed. They begin again as if just posted, including
    /// finished operations whose results are not fetched.
    fn restart(&self);

    /// The future has gone: it ended, was dropped, or panicked. Everything posted is cancelled. Called inside an
    /// epoch, like the future's drop.
    fn ended(&self);
}

/// A worker's surroundings. Never called from within a step or a poll.
pub trait Host: Tuning + OutputGate {
    /// The operations beside each future.
    type Operations: Operations + 'static;

    /// Makes the operations of slot number `slot`, once in a worker's life. Slots are made with the worker, and later
    /// when parked futures have taken the existing ones.
    fn operations(&self, slot: usize) -> Self::Operations;

    /// Returns the worker's participant in the epochs. Only the worker enters, leaves and refreshes it.
    fn local(&self) -> &Local;

    /// Enters the epoch, with whatever else the surroundings do then.
    fn enter(&self);

    /// Leaves the epoch.
    fn leave(&self);

    /// The worker is not stepped for now, and its operations in flight may be revoked. Called just before the
    /// participant pauses.
    fn paused(&self);

    /// The pause is over, and nothing was revoked.
    fn resumed(&self);

    /// Announces the epoch again, with the oldest stamp of an operation in flight, if there is one.
    fn refresh(&self, oldest: Option<u64>);

    /// Charges `bytes` for a future that waits in the worker's queue. Returns false, and charges nothing, if there is
    /// no memory for it.
    fn charge(&self, bytes: usize) -> bool;

    /// Ends the charge.
    fn uncharge(&self, bytes: usize);

    /// Cleans up and records metrics. Called whenever a number of futures has ended, and when idle, inside an epoch.
    /// Does a bounded amount of work. Returns true if there is more to do at once.
    fn maintain(&self, counters: &Counters) -> bool;

    /// Returns where the use of the worker's time is recorded. Without it no round is timed.
    fn profile(&self) -> Option<&Profile>;

    /// Wakes the futures whose time to wait for each other is over. Returns how long until the next one's time is
    /// over. `None`: no future waits so. Called from time to time, and before the worker sleeps. The worker sleeps no
    /// longer than this.
    fn expire(&self) -> Option<Duration>;

    /// Returns the number of waits of futures for each other that are under way, on all workers. A hint.
    fn waiting(&self) -> usize;

    /// Returns false if something that was not due the last time is left for [`maintain`](Self::maintain).
    fn is_maintained(&self) -> bool;
}

/// The measurements by which a worker finds how many futures to keep open.
pub trait Tuning {
    /// Sets the worker's level: the style in which new futures run, and how many are open.
    fn set_level(&self, level: Level);

    /// Returns the work done so far, and the time. Without a clock a worker stays at its first level.
    fn reading(&self) -> Reading;

    /// Returns the number of open futures that are long: known to be, or found to be. They post their operations in
    /// any style.
    fn longs(&self) -> usize;

    /// Returns what workers like this one have found out before.
    fn known(&self) -> Option<Known>;

    /// Records what this worker has found out.
    fn learn(&self, known: Known);

    /// Returns the state shared by workers that search for a level together.
    fn shared_level(&self) -> Option<Arc<SharedLevel>>;
}

/// Decides which outputs of ended futures may go, and which are held back.
pub trait OutputGate {
    /// Returns how far held outputs may go by now. Called at most once a round, and only while some are held. It is
    /// one cheap load of an atomic. Never decreases. Once it is final, `until` does not increase.
    fn released(&self) -> Released;

    /// Registers `waker` when the worker is about to sleep and holds outputs, of which the first waits for `until`.
    /// Returns true if `waker` will be called when `until` is released, or can never be. Returns false if it is
    /// already, or if the worker should ask again at once. The worker does not sleep then. An implementation must
    /// look after it has registered, or under the lock under which `until` is released. Called again after the worker
    /// was woken for another reason. The last registration replaces the earlier ones.
    fn wake_when_released(&self, until: u64, waker: &Waker) -> bool;

    /// Returns why held outputs go without having been released, because waiting for them is over. Called like
    /// `released`, and as cheap. While there is a reason, `wake_when_released` returns false.
    fn stall(&self) -> Option<Stall>;

    /// Blocks until `until` is released or never will be. The worker is ending, and then calls
    /// [`released`](Self::released) for the last time. What is not released then has an unknown fate, even if this
    /// did not wait. Called outside the epoch, unless a panic of the host is under way.
    fn wait_released(&self, until: u64);
}

/// How far held outputs may be given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Outputs that are held until at most this may go.
    pub until: u64,
    /// Nothing more will ever be released. The other outputs go with an unknown fate.
    pub is_final: bool,
}

/// What is known of an output's fate when the output is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was not held, or was released.
    Durable,
    /// It was held, and will never be released. It is unknown whether what it reports will last.
    Unknown,
    /// It was held for as long as allowed, for this reason. What it reports may last, or not.
    Stalled(Stall),
}

/// Why nothing is released just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// There is no room for what must be written first.
    NoRoom,
    /// A write of it does not return.
    Slow,
}
