//! Measures the cost of a timestamp that is drawn from a shared counter, from a counter by batches, and from the
//! processor's clock: the figures of decision 19.
//!
//! `cargo run --release -p braiddb --example time_sources`

#[cfg(target_arch = "x86_64")]
fn main() {
    use std::arch::x86_64::{__rdtscp, _rdtsc};
    use std::sync::atomic::{AtomicU64, Ordering};

    static COUNTER: AtomicU64 = AtomicU64::new(0);
    const BATCH: u64 = 16;
    let draw = |by| COUNTER.fetch_add(by, Ordering::AcqRel);
    println!("nanoseconds for each time, the slowest thread of each run, medians of {RUNS} runs");
    for threads in [1, 2] {
        let counter = median(threads, |_| draw(1));
        let batches = median(threads, |i| if i.is_multiple_of(BATCH) { draw(BATCH) } else { i });
        // SAFETY: every x86-64 processor has the instruction.
        let clock = median(threads, |_| unsafe { _rdtsc() });
        // SAFETY: as above. The instruction writes to the variable and nowhere else.
        let ordered = median(threads, |_| unsafe { __rdtscp(&mut 0) });
        println!(
            "{threads} threads: counter {counter:.1}, batches of {BATCH} {batches:.1}, rdtsc {clock:.1}, \
             rdtscp {ordered:.1}"
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("skipped: only measured on x86-64");
}

#[cfg(target_arch = "x86_64")]
const RUNS: usize = 3;

/// Returns, as the median of some runs, the nanoseconds per call of the slowest of this many threads.
#[cfg(target_arch = "x86_64")]
fn median(threads: usize, draw: impl Fn(u64) -> u64 + Sync) -> f64 {
    const CALLS: u64 = 20_000_000;
    let start = std::sync::Barrier::new(threads);
    let one = || {
        start.wait();
        let began = std::time::Instant::now();
        std::hint::black_box((0..CALLS).fold(0, |all, i| all ^ draw(i)));
        began.elapsed().as_nanos() as f64 / CALLS as f64
    };
    let run = || {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|thread| thread.join().expect("it does not panic")).fold(0.0, f64::max)
        })
    };
    let mut runs: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}
