//! Workers that search for a level together.

use crate::exec::tune::group::{Member, SharedLevel};
use crate::exec::tune::level::{Execution, Level};
use crate::exec::tune::measure::{Counters, Reading};
use crate::exec::tune::search::Search;
use crate::exec::tune::windows::Tuner;
use std::sync::Arc;

/// A worker as figures only.
struct Figures {
    tuner: Tuner,
    reading: Reading,
    counters: Counters,
    done: f64,
}

impl Figures {
    fn new(lead: Option<&Arc<SharedLevel>>) -> Figures {
        let member = lead.map(|lead| Member::new(lead.clone()));
        let tuner = Tuner::new(Search::new(64, None), member);
        Figures { tuner, reading: Reading::default(), counters: Counters::default(), done: 0.0 }
    }

    fn open(&self) -> f64 {
        self.tuner.level().batch as f64
    }

    /// Works for a millisecond beside a worker that keeps `others` open. Both share the available work in proportion to
    /// their open futures. The more futures are open in all, the more work is in vain.
    fn work(&mut self, others_open: f64) {
        let (mine, all) = (self.open(), self.open() + others_open);
        let rate = 20_000.0 * (1.0 - 0.005 * all) * mine / all;
        let ended = rate / 10.0;
        self.done += rate;
        self.reading.ns += 1_000_000;
        self.reading.work = self.done as u64;
        self.reading.conflicts += (0.1 * all * ended) as u64;
        self.counters.ended += ended as u64;
        self.counters.rounds += 100;
        self.counters.visits += 100 * self.tuner.level().batch as u64;
        if self.tuner.is_due() {
            self.tuner.look(self.reading, self.counters);
        }
    }
}

/// Returns what two workers do in ten seconds. One begins later, so that they do not try the same level at the same
/// time.
fn both(lead: Option<&Arc<SharedLevel>>) -> (f64, [Level; 2]) {
    let [mut a, mut b] = [(); 2].map(|()| Figures::new(lead));
    for ms in 0..10_000 {
        let (of_a, of_b) = (a.open(), b.open());
        a.work(of_b);
        if ms >= 313 {
            b.work(of_a);
        }
    }
    (a.done + b.done, [a.tuner.level(), b.tuner.level()])
}

#[test]
fn workers_that_fight_do_better_together() {
    // Proves: two workers, each of which gains by more open futures at the other's cost, continue with few when they
    // search together. They do more than separately, and nearly as much as with one open future each from the
    // beginning.
    let (alone, levels) = both(None);
    assert!(levels.iter().map(|level| level.batch).sum::<usize>() >= 48, "{levels:?}");
    let (together, levels) = both(Some(&Arc::default()));
    assert!(levels.iter().all(|level| level.batch <= 4), "{levels:?}");
    let best = 10_000.0 * 20_000.0 * (1.0 - 0.005 * 2.0);
    assert!(together > 1.2 * alone && together > 0.95 * best, "{together}, {alone}, {best}");
}

#[test]
fn one_leads_and_others_follow() {
    // Proves: the first worker that conflicts leads. Other workers take over its level for as long as they conflict,
    // until the leader is calm or ends.
    let lead = Arc::<SharedLevel>::default();
    let [a, b, c] = [(); 3].map(|()| Member::new(lead.clone()));
    let (few, many) = (Level { style: Execution::Sequential, batch: 1 }, Level::interleaved(48));
    assert_eq!(a.follow(few, false), None);
    assert_eq!(b.follow(many, true), None);
    assert_eq!(a.follow(few, true), Some(many));
    assert_eq!(b.follow(few, true), None);
    assert_eq!((a.follow(many, true), a.follow(many, false)), (Some(few), None));
    // A calm follower leaves the lead alone. A calm leader gives it up.
    assert_eq!(c.follow(many, true), Some(few));
    assert_eq!(b.follow(few, false), None);
    assert_eq!(c.follow(many, true), None);
    assert_eq!(a.follow(few, true), Some(many));
    drop(c);
    assert_eq!((a.follow(few, true), b.follow(many, true)), (None, Some(few)));
}

#[test]
fn a_level_is_its_bits() {
    // Proves: every level comes back from its bits, and 0 is no level.
    for style in [Execution::Sequential, Execution::Prefetching, Execution::Interleaved] {
        for batch in [1, 48, 1 << 20] {
            assert_eq!(Level::from_bits(Level { style, batch }.to_bits()), Some(Level { style, batch }));
        }
    }
    assert_eq!(Level::from_bits(0), None);
}
