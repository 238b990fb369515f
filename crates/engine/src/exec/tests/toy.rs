//! Operations that take a number of steps and touch nothing, and a host that holds outputs as it is told.

use super::toy_log::ToyLog;
use crate::epoch::{Epochs, Local};
use crate::exec::contract::{Host, Operations, OutputGate, Released, Stall, Tuning};
use crate::exec::submit::handle::TaskError;
use crate::exec::tune::group::SharedLevel;
use crate::exec::tune::level::{Known, Level};
use crate::exec::tune::measure::{Counters, Reading};
use crate::memory::Memory;
use crate::profile::Profile;
use crate::suspend::Suspend;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const PLACES: usize = 4;

/// The error of the result type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed(pub(super) TaskError);

impl From<TaskError> for Failed {
    fn from(why: TaskError) -> Self {
        Failed(why)
    }
}

#[derive(Default)]
pub(super) struct Toy {
    todo: Cell<u32>,
    used: Cell<u32>,
    steps_left: [Cell<u32>; PLACES],
    started: Cell<bool>,
    /// `None` after it has been asked for.
    held_until: Cell<Option<u64>>,
    /// The work of the present future so far.
    work: Cell<u64>,
    /// The kind of the future's next steps.
    kind: Cell<u32>,
    pub(super) life: Rc<Life>,
}

/// What the slots of a worker have observed.
#[derive(Default)]
pub(super) struct Life {
    local: OnceCell<Rc<Local>>,
    /// What operations find when they are posted. True once the object is reclaimed.
    object: RefCell<Rc<Cell<bool>>>,
    pub(super) started: Cell<u32>,
    pub(super) ended: Cell<u32>,
    pub(super) operations_made: Cell<u32>,
    pub(super) maintained: Cell<u32>,
    pub(super) fails: Cell<bool>,
    /// The host retires nothing, and therefore allocates nothing.
    pub(super) is_idle: Cell<bool>,
    /// The worker's level.
    pub(super) level: Cell<Option<Level>>,
    /// The reading that the worker takes. The futures advance its time.
    pub(super) reading: Cell<Reading>,
    pub(super) longs: Cell<usize>,
    pub(super) waiting: Cell<usize>,
    /// The best level found.
    pub(super) known: Cell<Option<Known>>,
    /// How often a new best level was found.
    pub(super) found: Cell<u32>,
    /// The bytes that are charged for waiting futures, and the most that may be charged. `None` means no limit.
    pub(super) charged: Cell<usize>,
    pub(super) charged_max: Cell<Option<usize>>,
}

impl Operations for Toy {
    fn step<S: Suspend>(&self, s: &mut S) -> bool {
        assert!(self.started.get() && self.life.local().is_entered());
        for i in 0..PLACES {
            while self.todo.get() & 1 << i != 0 {
                let left = &self.steps_left[i];
                if left.get() == 0 {
                    self.todo.set(self.todo.get() & !(1 << i));
                    break;
                }
                left.set(left.get() - 1);
                if s.miss::<1>(std::ptr::from_ref(self).cast()) {
                    break;
                }
            }
        }
        self.todo.get() == 0
    }
    fn next_kind(&self) -> u32 {
        if self.todo.get() == 0 { u32::MAX } else { self.kind.get() }
    }
    fn has_pending(&self) -> bool {
        self.todo.get() != 0
    }
    fn has_unfetched(&self) -> bool {
        self.used.get() & !self.todo.get() != 0
    }
    fn must_finish(&self) -> bool {
        false
    }
    fn can_restart(&self) -> bool {
        false
    }
    fn restart(&self) {
        unreachable!("these operations cannot restart");
    }
    fn set_long(&self) {}
    fn placed(&self, _: &Waker) {}
    fn held_until(&self) -> u64 {
        assert!(self.started.get());
        self.held_until.take().expect("asked once for each future")
    }
    fn work_under_way(&self) -> u64 {
        if self.started.get() { self.work.get() } else { 0 }
    }
    fn started(&self) {
        assert!(!self.started.replace(true));
        self.work.set(0);
        self.held_until.set(Some(0));
        self.life.started.update(|n| n + 1);
    }
    fn ended(&self) {
        assert!(self.started.replace(false) && self.life.local().is_entered());
        self.todo.set(0);
        self.used.set(0);
        self.life.ended.update(|n| n + 1);
    }
}

impl Toy {
    /// Returns an operation of `steps` suspensions.
    pub(super) fn operation(&self, steps: u32) -> Operation<'_> {
        Operation { toy: self, steps, place: None, found: None }
    }

    /// Sets the kind of the future's steps.
    pub(super) fn set_kind(&self, kind: u32) {
        self.kind.set(kind);
    }

    /// Sets how much work the future has done so far.
    pub(super) fn has_done(&self, work: u64) {
        self.work.set(work);
    }

    /// Holds the future's output until `until`.
    pub(super) fn hold_until(&self, until: u64) {
        self.held_until.set(Some(until));
    }
}

pub(super) struct Operation<'t> {
    toy: &'t Toy,
    steps: u32,
    place: Option<usize>,
    found: Option<Rc<Cell<bool>>>,
}

impl Future for Operation<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let toy = self.toy;
        assert!(toy.life.local().is_entered());
        let Some(i) = self.place else {
            let i = (!toy.used.get()).trailing_zeros() as usize;
            assert!(i < PLACES);
            toy.used.set(toy.used.get() | 1 << i);
            toy.todo.set(toy.todo.get() | 1 << i);
            toy.steps_left[i].set(self.steps);
            self.place = Some(i);
            self.found = Some(toy.life.find());
            return Poll::Pending;
        };
        if toy.todo.get() & 1 << i != 0 {
            return Poll::Pending;
        }
        let found = self.found.take().expect("polled once more than ready");
        assert!(!found.get(), "an operation's find was reclaimed under it");
        toy.used.set(toy.used.get() & !(1 << i));
        self.place = None;
        Poll::Ready(())
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if let Some(i) = self.place {
            self.toy.used.set(self.toy.used.get() & !(1 << i));
            self.toy.todo.set(self.toy.todo.get() & !(1 << i));
        }
    }
}

impl Life {
    fn local(&self) -> &Local {
        self.local.get().expect("set by the host")
    }

    fn find(&self) -> Rc<Cell<bool>> {
        self.object.borrow().clone()
    }

    /// Unlinks the object that operations find, and retires it.
    pub(super) fn replace_object(&self) {
        let old = Rc::into_raw(self.object.take());
        // SAFETY: operations posted from now on find another object. The old one is reclaimed once, on this thread.
        unsafe {
            self.local()
                .retire(old.cast_mut().cast(), 0, |_, p, _| Rc::from_raw(p.cast::<Cell<bool>>()).set(true));
        }
    }
}

pub(super) struct ToyHost {
    local: Rc<Local>,
    pub(super) life: Rc<Life>,
    log: Option<Arc<ToyLog>>,
}

impl ToyHost {
    /// Makes a host that holds nothing.
    pub(super) fn new() -> Self {
        ToyHost::with_log(None)
    }

    /// Makes a host that holds outputs as the log says.
    pub(super) fn with_log(log: Option<Arc<ToyLog>>) -> Self {
        let local = Rc::new(Local::new(&Epochs::new(), &Memory::new(1 << 30)));
        let life = Rc::new(Life { local: OnceCell::from(local.clone()), ..Life::default() });
        ToyHost { local, life, log }
    }
}

impl Host for ToyHost {
    type Operations = Toy;
    fn operations(&self, slot: usize) -> Toy {
        assert_eq!(slot as u32, self.life.operations_made.get());
        self.life.operations_made.update(|n| n + 1);
        Toy { life: self.life.clone(), ..Toy::default() }
    }
    fn local(&self) -> &Local {
        &self.local
    }
    fn enter(&self) {
        self.local.enter();
    }
    fn leave(&self) {
        self.local.leave();
    }
    fn paused(&self) {}
    fn resumed(&self) {}
    fn refresh(&self, oldest: Option<u64>) {
        self.local.refresh(oldest);
    }
    fn profile(&self) -> Option<&Profile> {
        None
    }
    fn expire(&self) -> Option<Duration> {
        None
    }
    fn waiting(&self) -> usize {
        self.life.waiting.get()
    }
    fn is_maintained(&self) -> bool {
        true
    }
    fn charge(&self, bytes: usize) -> bool {
        let charged = self.life.charged.get() + bytes;
        let is_granted = self.life.charged_max.get().is_none_or(|charged_max| charged <= charged_max);
        if is_granted {
            self.life.charged.set(charged);
        }
        is_granted
    }
    fn uncharge(&self, bytes: usize) {
        self.life.charged.update(|charged| charged - bytes);
    }
    fn maintain(&self, _: &Counters) -> bool {
        assert!(self.local.is_entered());
        assert!(!self.life.fails.get(), "the host fails");
        self.life.maintained.update(|n| n + 1);
        if !self.life.is_idle.get() {
            self.life.replace_object(); // gives the epoch a reason to move on
        }
        false
    }
}

impl Tuning for ToyHost {
    fn set_level(&self, level: Level) {
        self.life.level.set(Some(level));
    }
    fn reading(&self) -> Reading {
        self.life.reading.get()
    }
    fn longs(&self) -> usize {
        self.life.longs.get()
    }
    fn shared_level(&self) -> Option<Arc<SharedLevel>> {
        None
    }
    fn known(&self) -> Option<Known> {
        self.life.known.get()
    }
    fn learn(&self, known: Known) {
        let before = self.life.known.replace(Some(known));
        let is_other = before.is_none_or(|before| before.level != known.level);
        self.life.found.update(|n| n + u32::from(is_other));
    }
}

impl OutputGate for ToyHost {
    fn released(&self) -> Released {
        let everything = Released { until: u64::MAX, is_final: false };
        self.log.as_ref().map_or(everything, |log| log.released())
    }
    fn wake_when_released(&self, until: u64, waker: &Waker) -> bool {
        assert!(!self.local.is_entered());
        self.log.as_ref().is_some_and(|log| log.wake_when_released(until, waker))
    }
    fn stall(&self) -> Option<Stall> {
        None
    }
    fn wait_released(&self, until: u64) {
        assert!(!self.local.is_entered());
        self.log.iter().for_each(|log| log.wait_released(until));
    }
}

/// Something outside that futures on one thread wait for.
#[cfg(not(braid_shuttle))]
#[derive(Default)]
pub(super) struct Gate {
    is_open: Cell<bool>,
    wakers: RefCell<Vec<std::task::Waker>>,
}

#[cfg(not(braid_shuttle))]
impl Gate {
    pub(super) fn open(&self) {
        self.is_open.set(true);
        self.wakers.take().into_iter().for_each(std::task::Waker::wake);
    }
    pub(super) async fn pass(&self) {
        std::future::poll_fn(|context| {
            if self.is_open.get() {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Lets the other futures go first.
pub(super) async fn step_aside() {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}
