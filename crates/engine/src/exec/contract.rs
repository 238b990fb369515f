//! The contracts between the executor and what it executes. The executor runs any future and does not know what a transaction
//! is: it sees [`Operations`] beside each future and a [`Host`] around the worker, which is also its [`Tuning`] and its
//! [`OutputGate`]. No method has a default: one that an implementation has forgotten is an error of the compiler, not an
//! answer given before it is durable.

use crate::epoch::Local;
use crate::exec::tune::group::SharedLevel;
use crate::exec::tune::level::{Known, Level};
use crate::exec::tune::measure::{Counters, Reading};
use crate::profile::Profile;
use crate::suspend::Suspend;
use crate::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// What stands beside the future in a slot: the operations that the future has posted. Reached by `&` only,
/// by one thread at a time.
///
/// The future may also be polled while operations are left, because its waker was called: those are not ready
/// then.
///
/// An operation is *in flight* from the poll that posts it to the poll that fetches its result; it is *left*
/// until a step has finished it.
pub trait Operations {
    /// Steps every operation that is left, each to its next suspension. Returns true if none is left (also if none was
    /// posted): then the worker polls the future. The hot path: one load should tell the common case. Called
    /// only between [`started`](Self::started) and [`ended`](Self::ended), inside an epoch.
    fn step<S: Suspend>(&self, s: &mut S) -> bool;

    /// What a step will do: of two with the same number, steps run the same instructions, as far as that can be told. Those with
    /// nothing left have a number of their own.
    fn next_kind(&self) -> u32;

    /// Is an operation left? Asked after a poll that returned `Pending`; if not, the future waits for
    /// something outside, and is parked until its waker is called.
    fn has_pending(&self) -> bool;

    /// Has an operation finished whose result is not fetched yet? Such a result may point at what the epoch
    /// of its posting protects, so the epoch stays held.
    fn has_unfetched(&self) -> bool;

    /// Is what is left beyond recall? Then the future is polled to its end even if it has been cancelled: it
    /// may have an outcome that somebody has seen.
    fn must_finish(&self) -> bool;

    /// Until what the output of the future that has just ended is held back, in whatever the host's
    /// [`released`](OutputGate::released) counts in. 0: it may go at once. Asked once after a poll that returned `Ready`,
    /// before [`ended`](Self::ended). On one worker it should not decrease: an output that asks for
    /// less than one that is held before it waits for that one.
    fn held_until(&self) -> u64;

    /// Work of the present future that [`Tuning::reading`] does not have yet, in the same units; it may turn out to have been in
    /// vain.
    fn work_under_way(&self) -> u64;

    /// They are in their slot, whose waker this is: both stay where they are to the worker's end.
    fn placed(&self, slot_waker: &Waker);

    /// A future has been put in; nothing is posted. Perhaps outside an epoch: the first poll is inside one. Its
    /// operations run in the style of the level that the host was told last.
    fn started(&self);

    /// The future that has just been put in is known to be a long one: its operations are to be posted, whatever
    /// the style, so that others run between them.
    fn set_long(&self);

    /// Could [`restart`](Self::restart) be called now?
    fn can_restart(&self) -> bool;

    /// The epoch has passed in which its operations in flight began: they begin again, as if just posted, also those
    /// that have finished and whose results are not fetched.
    fn restart(&self);

    /// The future has gone: it ended, was dropped, or panicked. Whatever was posted is cancelled. Inside an
    /// epoch, as the future's drop was.
    fn ended(&self);
}

/// A worker's surroundings. Never called from within a step or a poll.
pub trait Host: Tuning + OutputGate {
    /// What stands beside each future.
    type Operations: Operations + 'static;

    /// Makes what stands in slot number `slot`, once in a worker's life. Slots are made with the worker, and
    /// later when parked futures have taken those that there were.
    fn operations(&self, slot: usize) -> Self::Operations;

    /// The worker's participant in the epochs, of which the worker alone enters, leaves and refreshes.
    fn local(&self) -> &Local;

    /// Enters the epoch, and whatever else the surroundings do then.
    fn enter(&self);

    /// Leaves it.
    fn leave(&self);

    /// The worker is not stepped for now, and its operations in flight may be revoked: called just before the
    /// participant pauses.
    fn paused(&self);

    /// The pause is over, and nothing was revoked.
    fn resumed(&self);

    /// Announces the epoch anew: the oldest stamp of an operation in flight, or none.
    fn refresh(&self, oldest: Option<u64>);

    /// Counts `bytes` more that a future takes which waits in the worker's queue. Returns false, and counts nothing, if there is
    /// no memory for it.
    fn charge(&self, bytes: usize) -> bool;

    /// Counts them no longer.
    fn uncharge(&self, bytes: usize);

    /// Called each time that a number of futures has ended, and when idle, inside an epoch: garbage collection, metrics. A
    /// bounded amount of work; returns true if there is more to do at once.
    fn maintain(&self, counters: &Counters) -> bool;

    /// Where it is noted what the worker's time goes to; without it no round is timed.
    fn profile(&self) -> Option<&Profile>;

    /// Wakes the futures that have waited for each other until their time was over. Returns how long until that is so of
    /// the next one; `None`: of none. Called now and then, and before the worker sleeps, which it does for no longer.
    fn expire(&self) -> Option<Duration>;

    /// The number of waits of futures for each other that are under way, those of other workers included; a hint.
    fn waiting(&self) -> usize;

    /// Returns false if something is left for [`maintain`](Self::maintain) that was not due the last time.
    fn is_maintained(&self) -> bool;
}

/// What a worker needs to find out how many futures to keep open.
pub trait Tuning {
    /// The worker's level from now on: the style in which futures that are put in run, and how many are open.
    fn set_level(&self, level: Level);

    /// What has been done so far, and the time. Without a clock a worker stays at the level that it began with.
    fn reading(&self) -> Reading;

    /// Open futures that are long: known to be, or found out. They post their operations in any style.
    fn longs(&self) -> usize;

    /// What workers like this one have found out before.
    fn known(&self) -> Option<Known>;

    /// This has been found out.
    fn learn(&self, known: Known);

    /// What those have in common that search for a level together.
    fn shared_level(&self) -> Option<Arc<SharedLevel>>;
}

/// Says which outputs of ended futures may go, and which are held back.
pub trait OutputGate {
    /// How far held outputs may go by now. Asked at most once a round, and only while some are held: one cheap
    /// load of an atomic. Never decreases; nor does `until` increase once it is final.
    fn released(&self) -> Released;

    /// The worker is about to sleep, and holds outputs of which the first waits for `until`. Returns true if `waker` will be
    /// called when that is released, or can never be. Returns false if it is so already, or the worker had better ask again
    /// at once; it does not sleep then. Must look after it has registered, or under the lock under which it is
    /// released. Called again after the worker was woken otherwise: the last registration replaces those before it.
    fn wake_when_released(&self, until: u64, waker: &Waker) -> bool;

    /// Why outputs that are held go without having been released: nobody is to wait for them any longer. Asked as
    /// `released` is, and as cheap. While this is so, `wake_when_released` is false.
    fn stall(&self) -> Option<Stall>;

    /// Blocks until `until` is released or never will be: the worker ends, and will then ask
    /// [`released`](Self::released) for the last time. What is not released then is of unknown fate, also if this
    /// did not wait. Outside the epoch, unless a panic of the host is under way.
    fn wait_released(&self, until: u64);
}

/// How far held outputs may be given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Those that are held until at most this.
    pub until: u64,
    /// Nothing more will ever be released: the others go with an unknown fate.
    pub is_final: bool,
}

/// What is known of an output when it is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was not held, or was released.
    Durable,
    /// It was held, and will never be released: nobody knows whether what it tells will last.
    Unknown,
    /// It was held for as long as anybody is to wait, because of this. What it tells may last, or not.
    Stalled(Stall),
}

/// Why nothing is released just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// There is no room for what has to be written first.
    NoRoom,
    /// A write of it does not return.
    Slow,
}
