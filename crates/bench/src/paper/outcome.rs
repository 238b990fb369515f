//! The results of a preset's command lines, across benchmarks.

use super::figure::{Compared, Id, Preset, Publication};
use crate::Result;
use crate::command::PaperArgs;
use crate::lines::{Point, list, points};
use crate::report::page::{Page, Part};
use crate::report::{distinct, short, size, write};
use crate::suite::outcome::Outcome;
use crate::suite::show;
use serde_json::json;

/// All results of a preset.
pub(super) struct Results {
    pub(super) publication: &'static Publication,
    pub(super) preset: &'static Preset,
    pub(super) outcomes: Vec<Outcome>,
}

impl Results {
    /// Returns the title for readers.
    pub(super) fn title(publication: &Publication, preset: &Preset) -> String {
        format!("{}, {}: {}", publication.title, preset.id, preset.title)
    }

    fn points(&self) -> Vec<Point> {
        self.outcomes.iter().flat_map(points).collect()
    }

    fn compared(&self) -> Vec<Compared> {
        let points = self.points();
        self.preset.comparisons.iter().map(|comparison| comparison.of(&points)).collect()
    }

    /// Prints all results and writes the requested files.
    pub(super) fn show(&self, args: &PaperArgs) -> Result<()> {
        for outcome in &self.outcomes {
            println!("{}", outcome.text());
        }
        let compared = self.compared();
        for one in &compared {
            println!("{}\n", one.grid().text());
        }
        print!("{}", self.notes());
        if let Some(path) = &args.json {
            write(path, &self.json(&compared))?;
        }
        if let Some(path) = &args.svg {
            write(path, &self.svg(&compared)?)?;
        }
        let Some(directory) = &args.report else { return Ok(()) };
        self.page(&compared)?.write(directory, &self.json(&compared))
    }

    /// Returns the chart of ratios, or the chart of throughput if there are no ratios.
    pub(super) fn svg(&self, compared: &[Compared]) -> Result<String> {
        match (self.preset.comparisons.first(), compared.first()) {
            (Some(comparison), Some(compared)) => {
                comparison.svg(compared, self.outcomes[0].environment.notes())
            }
            _ => self.outcomes[0].throughput(),
        }
    }

    /// Returns all results as JSON, with what the paper says.
    pub(super) fn json(&self, compared: &[Compared]) -> String {
        let all = json!({
            "environment": &self.outcomes[0].environment,
            "paper": {
                "title": self.publication.title,
                "preset": self.preset.id.to_string(),
                "says": self.preset.paper,
                "machine": self.publication.machine,
                "scale": self.preset.scale,
            },
            "comparisons": compared,
            "rows": self.outcomes.iter().flat_map(|outcome| list(&outcome.json(), "rows")).collect::<Vec<_>>(),
            "databases": self.outcomes.iter().flat_map(|outcome| list(&outcome.json(), "databases")).collect::<Vec<_>>(),
        });
        serde_json::to_string_pretty(&all).expect("text and finite numbers serialise")
    }

    fn page(&self, compared: &[Compared]) -> Result<Page<'_>> {
        let mut parts = vec![Part::Heading("Beside the paper")];
        for (comparison, compared) in self.preset.comparisons.iter().zip(compared) {
            parts.push(Part::Chart(comparison.svg(compared, self.outcomes[0].environment.notes())?));
            parts.push(Part::Table(compared.grid()));
        }
        parts.push(Part::Notes(self.notes()));
        for outcome in &self.outcomes {
            parts.extend(show::page(outcome, "")?.parts);
        }
        let environment = &self.outcomes[0].environment;
        Ok(Page { title: self.preset.title, environment, parts })
    }

    /// Describes what the paper says, what was measured here, and how the setups differ.
    pub(super) fn notes(&self) -> String {
        let points = self.points();
        let counters = if self.preset.counts_hardware { counters(self.preset.id) } else { String::new() };
        let ours = ranges(&points).map_or(String::new(), |ranges| format!("ours:  {ranges}\n"));
        format!(
            "paper: {}\n{ours}set-up: there {}; {}\n        here {}; {}\n{counters}",
            self.preset.paper,
            self.publication.machine,
            self.preset.scale,
            self.outcomes[0].environment.summary(),
            scale(&points),
        )
    }
}

/// Describes the scale of the measured setup: the parameters that papers name, with their values.
fn scale(points: &[Point]) -> String {
    const NAMES: [(&str, &str); 6] = [
        ("records", "records"),
        ("size", "of keys and values"),
        ("scale", "branches"),
        ("warehouses", "warehouses"),
        ("workers", "workers"),
        ("cc", "concurrency control"),
    ];
    let shown = |field: &str, point: &Point| match field {
        "size" => size(point.number(field) as u64),
        "cc" => point.text(field),
        _ => short(point.number(field) as u64),
    };
    let values = |(field, name): (&str, &str)| {
        let found = points.iter().filter(|point| !point.text(field).is_empty());
        let values = distinct(found.map(|point| shown(field, point)));
        (!values.is_empty()).then(|| format!("{} {name}", values.join(", ")))
    };
    NAMES.into_iter().filter_map(values).collect::<Vec<_>>().join("; ")
}

/// Returns the lowest and the highest ratio of each mode to the first mode of its group, or `None` if there is only one
/// mode.
fn ranges(points: &[Point]) -> Option<String> {
    let mut ranges: Vec<(String, f64, f64)> = Vec::new();
    for point in points.iter().filter(|point| point.number("ratio") > 0.0) {
        let (name, ratio) = (point.text("mode"), point.number("ratio"));
        match ranges.iter_mut().find(|range| range.0 == name) {
            Some((_, low, high)) => (*low, *high) = (low.min(ratio), high.max(ratio)),
            None => ranges.push((name, ratio, ratio)),
        }
    }
    let parts = ranges.iter().skip(1).map(|(name, low, high)| format!("{name} {low:.2}-{high:.2} x"));
    let (first, parts) = (&ranges.first()?.0, parts.collect::<Vec<_>>());
    (!parts.is_empty()).then(|| format!("{} of {first}", parts.join(", ")))
}

/// The kernel's names for the processor's counters: on x86, on x86 with two kinds of cores, on Arm.
const COUNTERS: [&str; 3] = ["cpu", "cpu_core", "armv8_pmuv3_0"];

/// Says in one line how to obtain a figure of stall cycles.
fn counters(figure: Id) -> String {
    let devices = std::path::Path::new("/sys/bus/event_source/devices");
    match COUNTERS.iter().find(|name| devices.join(name).exists()) {
        Some(_) => {
            "hardware counters: this machine has them; `--breakdown` on the commands above counts them, \
                    and `perf stat --topdown` tells the stall cycles themselves\n"
                .to_owned()
        }
        None => format!(
            "hardware counters: this machine shows none, so no stall cycles, only what they cost; `cargo xtask cache paper PAPER \
             --{figure}` simulates instructions and misses, and `--breakdown` on the commands above says where the time \
             goes\n"
        ),
    }
}
