//! Hardware counters over a slice (`--breakdown`), through Linux's perf events. Few virtual machines have these
//! counters. Counts of the kernel's own events are always available.
//!
//! The proper top-down slots are different events on each processor. The kernel offers two events under the same names
//! everywhere: the cycles in which the front end and the back end of the pipeline were stalled.

use super::grid::Grid;
use serde_json::{Map, Value, json};

/// The counted events, with their names in the JSON.
pub(crate) const EVENTS: [&str; 10] = [
    "cycles",
    "instructions",
    "stalled_cycles_frontend",
    "stalled_cycles_backend",
    "branch_misses",
    "l1d_read_misses",
    "llc_read_misses",
    "dtlb_read_misses",
    "page_faults",
    "context_switches",
];
// Indexes into `EVENTS`.
const CYCLES: usize = 0;
const INSTRUCTIONS: usize = 1;
const FRONTEND: usize = 2;
const BACKEND: usize = 3;
const BRANCHES: usize = 4;
const L1D: usize = 5;
const LLC: usize = 6;
const DTLB: usize = 7;
const FAULTS: usize = 8;
const SWITCHES: usize = 9;
const CACHE_LINE_BYTES: f64 = 64.0;

/// Counts of the threads that were started while counting and have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// `None` if the machine does not have the event.
    values: [Option<f64>; EVENTS.len()],
    seconds: f64,
    /// Why the processor's events could not be counted.
    refusal: Option<String>,
}

impl Events {
    pub(crate) fn add(&mut self, other: &Events) {
        if self.seconds == 0.0 {
            self.clone_from(other);
            return;
        }
        for (mine, theirs) in self.values.iter_mut().zip(other.values) {
            *mine = mine.zip(theirs).map(|(mine, theirs)| mine + theirs);
        }
        self.seconds += other.seconds;
    }

    fn ratio(&self, of: usize, by: usize) -> Option<f64> {
        let by = self.values[by].filter(|&by| by > 0.0)?;
        Some(self.values[of]? / by)
    }

    fn per_second(&self, of: usize) -> Option<f64> {
        Some(self.values[of]? / self.seconds).filter(|rate| rate.is_finite())
    }

    /// Returns the fields of a JSON row; null if the machine does not have the event.
    pub(crate) fn fields(&self) -> Value {
        let values = EVENTS.iter().zip(self.values).map(|(&name, value)| (name.to_owned(), json!(value)));
        Value::Object(values.collect::<Map<_, _>>())
    }
}

/// A column's name, and the function that computes it from a variant's events.
type Column = (&'static str, fn(&Events) -> Option<f64>);

const COLUMNS: [Column; 10] = [
    ("instr/cycle", |c| c.ratio(INSTRUCTIONS, CYCLES)),
    ("front-end %", |c| Some(100.0 * c.ratio(FRONTEND, CYCLES)?)),
    ("back-end %", |c| Some(100.0 * c.ratio(BACKEND, CYCLES)?)),
    ("branch/Ki", |c| Some(1000.0 * c.ratio(BRANCHES, INSTRUCTIONS)?)),
    ("L1d/Ki", |c| Some(1000.0 * c.ratio(L1D, INSTRUCTIONS)?)),
    ("LLC/Ki", |c| Some(1000.0 * c.ratio(LLC, INSTRUCTIONS)?)),
    ("dTLB/Ki", |c| Some(1000.0 * c.ratio(DTLB, INSTRUCTIONS)?)),
    ("GB/s", |c| Some(c.per_second(LLC)? * CACHE_LINE_BYTES / 1e9)),
    ("faults/s", |c| c.per_second(FAULTS)),
    ("switches/s", |c| c.per_second(SWITCHES)),
];

/// Returns a table with a row for each variant.
pub(crate) fn grid(variants: &[(&str, &Events)]) -> Grid {
    let names = COLUMNS.map(|(name, _)| (name, true));
    let mut grid = Grid::new(std::iter::once(("variant", false)).chain(names));
    for (name, events) in variants {
        let figure =
            |(_, of): Column| of(events).map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        grid.push(std::iter::once((*name).to_owned()).chain(COLUMNS.map(figure)));
    }
    grid
}

/// Explains how to read the table, and what is missing.
pub(crate) fn notes(variants: &[(&str, &Events)]) -> String {
    let mut notes = "counted over the whole slice, its warm-up included; front-end and back-end: cycles in which that part of the \
                     pipeline stood still; /Ki: misses for 1000 instructions; GB/s: lines that no cache had\n"
        .to_owned();
    if let Some(refusal) = variants.iter().find_map(|(_, events)| events.refusal.as_ref()) {
        notes += &format!(
            "hardware counters: none here ({refusal}); `cargo xtask cache` simulates instructions and misses\n"
        );
    }
    notes
}

/// Running counters.
pub(crate) struct Counting {
    counters: system::Counters,
    began: std::time::Instant,
}

impl Counting {
    /// Starts counting, in the threads that the calling thread starts from now on.
    pub(crate) fn start() -> Counting {
        Counting { counters: system::start(), began: std::time::Instant::now() }
    }

    /// Returns the counts. Call it when those threads have ended.
    pub(crate) fn end(self) -> Events {
        let (values, refusal) = system::read(self.counters);
        Events { values, refusal, seconds: self.began.elapsed().as_secs_f64() }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{EVENTS, INSTRUCTIONS};
    use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware, Software};
    use perf_event::{Builder, Counter};
    use std::io;

    pub(super) type Counters = [io::Result<Counter>; EVENTS.len()];

    fn counter(event: impl Event) -> io::Result<Counter> {
        // No group, because the kernel does not sum up groups over threads.
        let mut counter = Builder::new(event).inherit(true).build()?;
        counter.enable()?;
        Ok(counter)
    }

    pub(super) fn start() -> Counters {
        let misses = |which| counter(Cache { which, operation: CacheOp::READ, result: CacheResult::MISS });
        [
            counter(Hardware::CPU_CYCLES),
            counter(Hardware::INSTRUCTIONS),
            counter(Hardware::STALLED_CYCLES_FRONTEND),
            counter(Hardware::STALLED_CYCLES_BACKEND),
            counter(Hardware::BRANCH_MISSES),
            misses(CacheId::L1D),
            misses(CacheId::LL),
            misses(CacheId::DTLB),
            counter(Software::PAGE_FAULTS),
            counter(Software::CONTEXT_SWITCHES),
        ]
    }

    pub(super) fn read(mut counters: Counters) -> ([Option<f64>; EVENTS.len()], Option<String>) {
        let values = counters.each_mut().map(|counter| count(counter.as_mut().ok()?));
        let refusal = match &counters[INSTRUCTIONS] {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("{error}: kernel.perf_event_paranoid sets who may count"))
            }
            Err(error) => Some(format!("{error}: the processor, or the virtual machine, has none")),
            Ok(_) if values[INSTRUCTIONS].is_none() => Some("they never ran".to_owned()),
            Ok(_) => None,
        };
        (values, refusal)
    }

    /// Reads a counter, and scales its count up if the counter shared its place with others.
    fn count(counter: &mut Counter) -> Option<f64> {
        let read = counter.read_count_and_time().ok()?;
        let share = read.time_running as f64 / read.time_enabled as f64;
        (share > 0.0).then(|| read.count as f64 / share)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::EVENTS;

    pub(super) type Counters = ();

    pub(super) fn start() -> Counters {}

    pub(super) fn read(_: Counters) -> ([Option<f64>; EVENTS.len()], Option<String>) {
        ([None; EVENTS.len()], Some("perf events are Linux's".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_what_was_counted() {
        // Proves the ratios, that slices add up, and that events missing from one slice are not made up.
        let values = [200.0, 100.0, 20.0, 120.0, 1.0, 10.0, 5.0, 2.0, 8.0, 4.0].map(Some);
        let mut events = Events { values, seconds: 2.0, refusal: None };
        events.add(&events.clone());
        let text = grid(&[("v", &events)]).text();
        for figure in ["0.50", "10.00", "60.00", "100.00", "50.00", "20.00", "4.00", "2.00"] {
            assert!(text.contains(figure), "{figure} in {text}");
        }
        assert!(!notes(&[("v", &events)]).contains("none here"));
        events.add(&Events { seconds: 1.0, ..Events::default() });
        assert_eq!(events.fields()["cycles"], Value::Null);
        assert!(grid(&[("v", &events)]).text().contains(" - "));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn threads_are_counted() {
        // Proves, with an event that every machine has, that counters include threads that start after them, and that a
        // machine without hardware counters says so.
        let counting = Counting::start();
        const BYTES: usize = 64 << 20;
        std::thread::spawn(|| std::hint::black_box(vec![1_u8; BYTES])).join().unwrap();
        let events = counting.end();
        if let Some(faults) = events.values[FAULTS] {
            assert!(faults >= (BYTES / (4 << 20)) as f64, "{faults} faults for {BYTES} bytes");
        }
        assert_eq!(events.values[INSTRUCTIONS].is_none(), events.refusal.is_some());
        let has_note = notes(&[("v", &events)]).contains("none here");
        assert_eq!(has_note, events.refusal.is_some());
    }
}
