//! A model of the epochs: another thread may go on at every load, store and lock.
//!
//! A cell names the present object. Writers replace and retire it. Readers load its name and look whether the object
//! was reclaimed meanwhile. The same model with a planted error must fail, which shows that it looks closely enough.

use super::{Epochs, GRACE, Local};
use crate::memory::Memory;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

const OBJECTS: usize = 7;
const SCHEDULES: usize = 30_000;

struct Model {
    present: AtomicUsize,
    fresh: AtomicUsize,
    reclaimed: [AtomicBool; OBJECTS],
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
}

unsafe fn mark(_: &Local, p: *mut u8, _: u64) {
    // SAFETY: the flag is part of a model that its threads hold.
    let twice = unsafe { &*p.cast::<AtomicBool>() }.swap(true, Ordering::SeqCst);
    assert!(!twice, "reclaimed twice");
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            present: AtomicUsize::new(0),
            fresh: AtomicUsize::new(1),
            reclaimed: std::array::from_fn(|_| AtomicBool::new(false)),
            epochs: Epochs::new(),
            memory: Memory::new(1 << 20),
        })
    }

    fn check(&self, object: usize) {
        assert!(!self.reclaimed[object].load(Ordering::SeqCst), "used after reclamation");
    }

    fn replace(&self, local: &Local) {
        let old = self.present.swap(self.fresh.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        let flag = (&raw const self.reclaimed[old]).cast::<u8>().cast_mut();
        // SAFETY: `mark` may run on any thread, and the cell does not name the object any more.
        unsafe { local.retire(flag, 0, mark) };
    }

    /// Starts an operation each turn and ends it one turn later, so that two overlap.
    fn read<const GRACE_EPOCHS: u64>(&self) {
        let local = Local::new(&self.epochs, &self.memory);
        local.enter();
        let mut older = (local.now(), self.present.load(Ordering::SeqCst));
        for _ in 0..2 {
            let younger = (local.now(), self.present.load(Ordering::SeqCst));
            self.check(older.1);
            local.refresh_with_grace::<GRACE_EPOCHS>(Some(younger.0));
            self.check(younger.1);
            older = younger;
        }
        self.check(older.1);
        local.leave();
    }

    fn write<const GRACE_EPOCHS: u64, const LOOK_AGAIN: bool>(&self) {
        let local = Local::new(&self.epochs, &self.memory);
        for _ in 0..3 {
            local.enter_with::<LOOK_AGAIN>();
            self.replace(&local);
            local.refresh_with_grace::<GRACE_EPOCHS>(None);
            local.leave();
            local.refresh_with_grace::<GRACE_EPOCHS>(None);
        }
    }
}

/// Runs two writers, one of which may be wrong, and two readers.
fn run<const GRACE_EPOCHS: u64, const LOOK_AGAIN: bool>() {
    let model = Model::new();
    let spawn = |work: fn(&Model)| {
        let model = Arc::clone(&model);
        shuttle::thread::spawn(move || work(&model))
    };
    let threads = [
        spawn(Model::write::<GRACE_EPOCHS, LOOK_AGAIN>),
        spawn(Model::write::<GRACE_EPOCHS, true>),
        spawn(Model::read::<GRACE_EPOCHS>),
        spawn(Model::read::<GRACE_EPOCHS>),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model failed"));
    // All participants have left, and their orphans are adopted: nothing is kept for ever.
    let last = Local::new(&model.epochs, &model.memory);
    (0..4).for_each(|_| last.refresh(None));
    let present = model.present.load(Ordering::SeqCst);
    for (object, reclaimed) in model.reclaimed.iter().enumerate() {
        assert_eq!(reclaimed.load(Ordering::SeqCst), object != present, "object {object}");
    }
}

impl Model {
    /// Reads an object, pauses, and looks at it again. Without `HEEDS` it looks even if it must not.
    fn read_and_pause<const HEEDS: bool>(&self) {
        let local = Local::new(&self.epochs, &self.memory);
        for _ in 0..2 {
            local.enter();
            let object = self.present.load(Ordering::SeqCst);
            local.pause();
            shuttle::thread::yield_now();
            let is_still_in = local.resume();
            if is_still_in || !HEEDS {
                self.check(object);
            }
            if is_still_in {
                local.leave();
            }
        }
    }
}

/// Runs a writer, a reader that pauses, and a reader that does not.
fn run_with_pauses<const HEEDS: bool>() {
    let model = Model::new();
    let spawn = |work: fn(&Model)| {
        let model = Arc::clone(&model);
        shuttle::thread::spawn(move || work(&model))
    };
    let threads = [
        spawn(Model::write::<GRACE, true>),
        spawn(Model::read_and_pause::<HEEDS>),
        spawn(Model::read::<GRACE>),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model failed"));
}

/// Proves that a paused participant that is not revoked finds what it has read unchanged.
#[test]
fn pauses() {
    check(RandomScheduler::new(SCHEDULES), run_with_pauses::<true>);
    check(PctScheduler::new(4, SCHEDULES), run_with_pauses::<true>);
}

/// Proves that a paused participant does not hold up one that has waited for long.
#[test]
fn pauses_hold_nobody_up() {
    check(RandomScheduler::new(SCHEDULES), || {
        let model = Model::new();
        let (paused, writer) =
            (Local::new(&model.epochs, &model.memory), Local::new(&model.epochs, &model.memory));
        paused.enter();
        paused.pause();
        writer.enter();
        model.replace(&writer);
        writer.leave();
        (0..4).for_each(|_| writer.refresh(None));
        assert_eq!(writer.pending(), 0, "the pause holds it up");
        assert!(!paused.resume() && !paused.is_entered());
    });
}

/// Proves that the model notices a participant that goes on as if it had not been revoked.
#[test]
#[should_panic(expected = "used after reclamation")]
fn planted_unheeded_revocation() {
    check(PctScheduler::new(4, SCHEDULES), run_with_pauses::<false>);
}

/// Runs a model on a stack that is large enough: the model checker's atomics are large, and an account has many.
fn check<S: Scheduler + 'static>(scheduler: S, run: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    let schedules = Runner::new(scheduler, config).run(run);
    assert_eq!(schedules, SCHEDULES, "all schedules were tried");
}

/// Proves over many random schedules that no operation sees a reclaimed object, and that every retired object is
/// reclaimed exactly once in the end.
#[test]
fn epochs_random() {
    check(RandomScheduler::new(SCHEDULES), run::<GRACE, true>);
}

/// Proves the same over schedules that switch seldom, at places chosen to find deep errors.
#[test]
fn epochs_few_switches() {
    check(PctScheduler::new(4, SCHEDULES), run::<GRACE, true>);
}

/// Proves that the model notices reclamation without a grace.
#[test]
#[should_panic(expected = "used after reclamation")]
fn planted_no_grace() {
    check(RandomScheduler::new(SCHEDULES), run::<0, true>);
}

/// Proves that the model notices reclamation after a grace that is one epoch too short.
#[test]
#[should_panic(expected = "used after reclamation")]
fn planted_short_grace() {
    check(PctScheduler::new(4, SCHEDULES), run::<1, true>);
}

/// Proves that the model notices a participant that announces an epoch long past.
#[test]
#[should_panic(expected = "used after reclamation")]
fn planted_stale_announcement() {
    check(PctScheduler::new(4, SCHEDULES), run::<GRACE, false>);
}
