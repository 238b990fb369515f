//! Helpers for every run: threads bound to processors, a progress bar, and the median of several measurements.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns the median, and leaves the values sorted. There must be at least one value.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "there is something to find the middle of");
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

/// Makes a progress bar. The bar is hidden if standard error is not a terminal.
pub(crate) fn progress(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    ProgressBar::new(length).with_style(style)
}

/// Binds the thread to the `index`-th processor that it may use. If binding fails, the thread runs unbound.
#[cfg(target_os = "linux")]
pub(crate) fn pin(index: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if cpus.is_empty() {
        return;
    }
    let mut one = CpuSet::new();
    one.set(cpus[index % cpus.len()]);
    let _ = sched_setaffinity(None, &one);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between() {
        // Proves the median of an odd and of an even number of values.
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
