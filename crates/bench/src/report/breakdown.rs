//! The breakdown of the workers' time (`--breakdown`): a table, JSON fields, and stacked bars for the page.

use super::grid::{Grid, escaped};
use super::hardware::{self, Events};
use super::page::Part;
use braiddb::metrics::{Activity, Breakdown};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The breakdown of one variant.
pub(crate) struct Line {
    /// A name that distinguishes the variant from the others.
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) transactions_per_s: f64,
    pub(crate) breakdown: Breakdown,
    pub(crate) events: Events,
}

/// Returns the nanoseconds of worker time that a transaction takes.
fn transaction_ns(workers: usize, transactions_per_s: f64) -> f64 {
    if transactions_per_s > 0.0 { workers as f64 / transactions_per_s * 1e9 } else { 0.0 }
}

/// Returns the table: for each variant its shares, and below them the time per transaction.
pub(crate) fn grid(lines: &[Line]) -> Grid {
    let names = Activity::ALL.map(|activity| (activity.name(), true));
    let mut grid = Grid::new([("variant", false), ("of time", false)].into_iter().chain(names));
    for line in lines {
        grid.begin_group();
        let shares = line.breakdown.shares().map(|(_, share)| format!("{:.1}", share * 100.0));
        grid.push([line.name.clone(), "%".to_owned()].into_iter().chain(shares));
        let whole_ns = transaction_ns(line.workers, line.transactions_per_s);
        let parts = line.breakdown.shares().map(|(_, share)| format!("{:.0}", share * whole_ns));
        grid.push([String::new(), "ns/txn".to_owned()].into_iter().chain(parts));
    }
    grid
}

/// Explains how to read the table.
pub(crate) fn notes(lines: &[Line]) -> String {
    let mut notes =
        "shares of the workers' time, told by timing one round over their transactions in 512 (one after the other: in 64) by the \
                     processor's counter; ns/txn: the share of a worker's time for each transaction done\n"
            .to_owned();
    if lines.iter().any(|line| line.breakdown.total_ticks() == 0) {
        notes += "all 0: the mode runs below transactions, or the processor has no counter that is known\n";
    }
    let dropped: u64 = lines.iter().map(|line| line.breakdown.dropped()).sum();
    if dropped > 0 {
        let _ = writeln!(notes, "{dropped} stretches were left out: the thread was off its core");
    }
    notes
}

/// Returns the processor's counts, by variant.
fn events(lines: &[Line]) -> Vec<(&str, &Events)> {
    lines.iter().map(|line| (line.name.as_str(), &line.events)).collect()
}

/// Returns both tables, each with an explanation.
pub(crate) fn text(lines: &[Line]) -> String {
    let (times, counts) = (grid(lines).text(), hardware::grid(&events(lines)).text());
    format!("{times}\n\n{}\n{counts}\n\n{}", notes(lines), hardware::notes(&events(lines)))
}

/// Returns the breakdown's fields in a JSON row.
pub(crate) fn fields(
    breakdown: &Breakdown,
    events: &Events,
    workers: usize,
    transactions_per_s: f64,
) -> Value {
    let whole_ns = transaction_ns(workers, transactions_per_s);
    let of_each = |of: &dyn Fn(f64) -> f64| -> Map<String, Value> {
        breakdown.shares().map(|(activity, share)| (key(activity), json!(of(share)))).collect()
    };
    json!({
        "shares": of_each(&|share| share),
        "ns_per_transaction": of_each(&|share| share * whole_ns),
        "rounds": breakdown.rounds(),
        "dropped": breakdown.dropped(),
        "counters": events.fields(),
    })
}

fn key(activity: Activity) -> String {
    activity.name().replace([' ', '-'], "_")
}

/// Colors that color-blind readers can tell apart, in the order of the activities.
const COLOURS: [&str; Activity::ALL.len()] = [
    "#009e73", "#56b4e9", "#0072b2", "#e69f00", "#d55e00", "#f0e442", "#cc79a7", "#882255", "#505050",
    "#999999", "#ddcc99",
];
const WIDTH: f64 = 1100.0;
const NAME_WIDTH: f64 = 320.0;
const BAR_HEIGHT: f64 = 26.0;
const LEGEND_HEIGHT: f64 = 66.0;
const LEGEND_COLUMNS: usize = 6;

/// Draws a bar for each variant, divided by its shares, as SVG for the page.
pub(crate) fn bars(lines: &[Line]) -> String {
    let height = LEGEND_HEIGHT + BAR_HEIGHT * lines.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" \
         fill=\"currentColor\">"
    );
    let legend_width = WIDTH / LEGEND_COLUMNS as f64;
    for (i, activity) in Activity::ALL.into_iter().enumerate() {
        let (x, y) = ((i % LEGEND_COLUMNS) as f64 * legend_width, (i / LEGEND_COLUMNS) as f64 * 24.0 + 8.0);
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"13\" height=\"13\" fill=\"{}\"/><text x=\"{:.1}\" \
             y=\"{:.1}\">{}</text>",
            COLOURS[i],
            x + 19.0,
            y + 11.0,
            activity.name()
        );
    }
    for (line, at) in lines.iter().zip(0u32..) {
        let y = LEGEND_HEIGHT + BAR_HEIGHT * f64::from(at);
        let _ = write!(svg, "<text x=\"0\" y=\"{:.1}\">{}</text>", y + 14.0, escaped(&line.name));
        let mut x = NAME_WIDTH;
        for ((activity, share), colour) in line.breakdown.shares().zip(COLOURS) {
            let width = share * (WIDTH - NAME_WIDTH);
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"><title>{}: {:.1} %</title></rect>",
                BAR_HEIGHT - 6.0,
                activity.name(),
                share * 100.0
            );
            x += width;
        }
    }
    svg + "</svg>"
}

/// Returns the parts of the page that show the breakdown.
pub(crate) fn parts(lines: &[Line]) -> [Part; 6] {
    [
        Part::Heading("Where the time goes"),
        Part::Chart(bars(lines)),
        Part::Table(grid(lines)),
        Part::Notes(notes(lines)),
        Part::Table(hardware::grid(&events(lines))),
        Part::Notes(hardware::notes(&events(lines))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use braiddb::{Database, Options, Table};

    /// Returns the breakdown of a short measurement.
    fn line() -> Line {
        let db: Database = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let table: Table<u64, u64> = db.table("t").unwrap();
        db.set_profiling(true);
        db.worker().run_each(0..20_000, async |tx, key| tx.put(table, *key, 1).await, |r| r.unwrap());
        let breakdown = db.statistics().breakdown;
        assert!(breakdown.total_ticks() > 0);
        Line {
            name: "a < b".to_owned(),
            workers: 2,
            transactions_per_s: 1e6,
            breakdown,
            events: Events::default(),
        }
    }

    #[test]
    fn parts_come_to_the_whole() {
        // Proves that the shares in the JSON add up to 1, and the nanoseconds to the time of a transaction.
        let line = line();
        let fields = fields(&line.breakdown, &line.events, line.workers, line.transactions_per_s);
        let sum = |of: &str| -> f64 {
            let parts = fields[of].as_object().unwrap();
            assert_eq!(parts.len(), Activity::ALL.len());
            parts.values().map(|part| part.as_f64().unwrap()).sum()
        };
        assert!((sum("shares") - 1.0).abs() < 1e-6);
        assert!((sum("ns_per_transaction") - 2000.0).abs() < 1e-3);
        assert!(fields["shares"]["useful_work"].is_number() && fields["rounds"].as_u64() > Some(0));
    }

    #[test]
    fn bars_are_as_wide_as_the_shares() {
        // Proves that each variant's bar is complete, and that its name cannot become markup.
        let lines = [line(), line()];
        let svg = bars(&lines);
        assert_eq!(svg.matches("<rect").count(), Activity::ALL.len() * (1 + lines.len()));
        assert_eq!(svg.matches("<title>").count(), Activity::ALL.len() * lines.len());
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
        let widths = svg.split(" width=\"").skip(1 + Activity::ALL.len());
        let width: f64 = widths.map(|rest| rest[..rest.find('"').unwrap()].parse::<f64>().unwrap()).sum();
        assert!((width - 2.0 * (WIDTH - NAME_WIDTH)).abs() < 2.0, "{width}");
        let text = grid(&lines).text();
        assert!(text.contains("ns/txn") && text.contains("aborted work"), "{text}");
    }

    #[test]
    fn nothing_measured_is_said() {
        // Proves that a variant without measurements has zeros and a note, and that nothing is divided by zero.
        let lines = [Line {
            name: String::new(),
            workers: 1,
            transactions_per_s: 0.0,
            breakdown: Breakdown::default(),
            events: Events::default(),
        }];
        assert!(notes(&lines).contains("all 0"));
        assert!(grid(&lines).text().contains("0.0"));
        assert_eq!(fields(&lines[0].breakdown, &lines[0].events, 1, 0.0)["shares"]["index"], 0.0);
    }
}
