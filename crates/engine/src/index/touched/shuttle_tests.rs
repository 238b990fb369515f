//! A model of marks beside a log: another thread may go on at every load, store and lock.
//!
//! Writers mark the range of a change and append it, in an epoch. A reader makes checkpoints, each of which counts. A
//! change that lies before a checkpoint's start, and not before the previous checkpoint's, must be in a range that the
//! checkpoint writes. The same model with a planted error must fail, which shows that it looks closely enough.

use super::{Marks, Touched};
use crate::epoch::{Epochs, Local};
use crate::memory::Memory;
use crate::sync::{Arc, Mutex, lock};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

const SCHEDULES: usize = 20_000;
const CHECKPOINTS: usize = 3;
const BOUNDS: [&[u8]; 1] = [b"m"];
/// A key of each range.
const KEYS: [&[u8]; 2] = [b"a", b"z"];

/// The planted error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A change is marked after it has been appended.
    MarkedLate,
    /// A change is marked before its epoch is entered.
    MarkedOutside,
    /// Replaced marks are taken for settled at once.
    Unsettled,
    /// Marks are read before the position of the log is read.
    TakenEarly,
}

struct Model {
    touched: Touched,
    /// The range of each change, in the order of the log.
    log: Mutex<Vec<usize>>,
    /// All marks that were ever current, so that no thread meets freed ones with an error planted.
    kept: Mutex<Vec<Arc<Marks>>>,
    epochs: Arc<Epochs>,
    memory: Arc<Memory>,
    planted: Planted,
}

impl Model {
    fn new(planted: Planted) -> Arc<Model> {
        let (touched, epochs) = (Touched::new(), Epochs::new());
        touched.fit(&epochs, &BOUNDS);
        let (log, kept, memory) = (Mutex::default(), Mutex::default(), Memory::new(1 << 20));
        Arc::new(Model { touched, log, kept, epochs, memory, planted })
    }

    fn mark(&self, range: usize) {
        // SAFETY: inside an epoch. With errors planted, the model keeps all marks.
        unsafe { self.touched.mark(KEYS[range]) };
    }

    fn write(&self, ranges: &[usize]) {
        let local = Local::new(&self.epochs, &self.memory);
        for range in ranges {
            local.enter();
            if self.planted != Planted::MarkedLate {
                self.mark(*range);
            }
            if self.planted == Planted::MarkedOutside {
                local.leave();
                local.enter();
            }
            lock(&self.log).push(*range);
            if self.planted == Planted::MarkedLate {
                self.mark(*range);
            }
            local.leave();
        }
    }

    fn keep(&self) {
        lock(&self.kept).extend(lock(&self.touched.sets).iter().map(|set| Arc::clone(&set.marks)));
    }

    fn checkpoint(&self) {
        let mut before = 0;
        for _ in 0..CHECKPOINTS {
            self.keep();
            self.touched.turn(&self.epochs, &BOUNDS);
            self.keep();
            if self.planted == Planted::Unsettled {
                let mut sets = lock(&self.touched.sets);
                sets.iter_mut().for_each(|set| set.is_settled = set.replaced.is_some());
            }
            self.touched.settle(&self.epochs);
            let early = (self.planted == Planted::TakenEarly).then(|| self.touched.take(&BOUNDS));
            let start = lock(&self.log).len();
            let changed = early.unwrap_or_else(|| self.touched.take(&BOUNDS));
            for range in &lock(&self.log)[before..start] {
                assert!(changed[*range], "a change is missed");
            }
            before = start;
        }
    }
}

fn run(planted: Planted) {
    let model = Model::new(planted);
    let spawn = |work: fn(&Model)| {
        let model = Arc::clone(&model);
        shuttle::thread::spawn(move || work(&model))
    };
    let threads = [
        spawn(|model| model.write(&[0, 1])),
        spawn(|model| model.write(&[1, 0])),
        spawn(|model| model.checkpoint()),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model failed"));
}

fn check<S: Scheduler + 'static>(scheduler: S, run: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    let schedules = Runner::new(scheduler, config).run(run);
    assert_eq!(schedules, SCHEDULES, "all schedules were tried");
}

/// Proves over many random schedules that no checkpoint misses a change.
#[test]
fn marks_random() {
    check(RandomScheduler::new(SCHEDULES), || run(Planted::Nothing));
}

/// Proves the same over schedules that switch seldom, at places chosen to find deep errors.
#[test]
fn marks_few_switches() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::Nothing));
}

/// Proves that the model notices changes that are marked after their record.
#[test]
#[should_panic(expected = "a change is missed")]
fn planted_marked_late() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::MarkedLate));
}

/// Proves that the model notices marks that an epoch does not cover.
#[test]
#[should_panic(expected = "a change is missed")]
fn planted_marked_outside() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::MarkedOutside));
}

/// Proves that the model notices marks that are forgotten while a writer may still rely on them.
#[test]
#[should_panic(expected = "a change is missed")]
fn planted_unsettled() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::Unsettled));
}

/// Proves that the model notices marks that are read before the log's position.
#[test]
#[should_panic(expected = "a change is missed")]
fn planted_taken_early() {
    check(PctScheduler::new(4, SCHEDULES), || run(Planted::TakenEarly));
}
