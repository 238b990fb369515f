//! Presets: command lines of `braid bench`, and comparisons of their ratios with the paper's. Results are addressed by
//! the field names of the JSON files.

use super::archetypes::ARCHETYPES;
use crate::Result;
use crate::command::PaperArgs;
use crate::lines::Point;
use crate::report::chart::{self, Data, Measured};
use crate::report::distinct;
use crate::report::grid::Grid;
use crate::scheme;
use serde::Serialize;

/// A paper whose figures and tables have presets.
pub(super) struct Publication {
    pub(super) title: &'static str,
    /// The machine of the paper's measurements.
    pub(super) machine: &'static str,
    pub(super) presets: &'static [Preset],
}

/// The figure or table that a preset reproduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Figure(u32),
    Table(u32),
}

/// The preset of one figure or table.
pub(super) struct Preset {
    pub(super) id: Id,
    pub(super) title: &'static str,
    /// The paper's result, in words.
    pub(super) paper: &'static str,
    /// The size of the paper's tables.
    pub(super) scale: &'static str,
    /// Command lines after `braid bench`; [`fill`] replaces the parts in braces.
    pub(super) runs: &'static [&'static str],
    /// Ratios, with the paper's if it gives numbers. `--svg` draws the first.
    pub(super) comparisons: &'static [Comparison],
    /// True if the paper's figure shows something that only hardware counters measure.
    pub(super) counts_hardware: bool,
}

/// Braid's ratios, with the paper's beside them.
pub(super) struct Comparison {
    /// A description of the ratios.
    pub(super) caption: &'static str,
    /// A description of the columns.
    pub(super) x_name: &'static str,
    /// Returns the column of a result, or `None` if the result is not part of the comparison.
    pub(super) column: fn(&Point) -> Option<String>,
    /// Returns the series of a result.
    pub(super) series: fn(&Point) -> String,
    /// Returns the figure of a result. `None` stands for throughput; the ranges of ratios come from its slices.
    pub(super) value: Option<fn(&Point) -> f64>,
    /// The figures' divisor.
    pub(super) base: Base,
    pub(super) paper: &'static [PaperSeries],
    /// True if the paper's ratios and Braid's have the same base, so that one chart can show both.
    pub(super) same_scale: bool,
    /// True if the columns are growing numbers, which are drawn as lines. Otherwise bars are drawn.
    pub(super) lines: bool,
}

/// The divisor of figures.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    /// The series of this name, in the same column.
    Series(&'static str),
    /// The column of this name, in the same series.
    Column(&'static str),
    /// The first column, in the same series.
    FirstColumn,
    /// The result in the same column and series for which the function returns true. Results for which it returns false
    /// are divided.
    Those(fn(&Point) -> bool),
    /// Nothing: the figures are ratios themselves.
    Nothing,
}

/// A series from the paper.
pub(super) struct PaperSeries {
    pub(super) name: &'static str,
    /// The measured series that it corresponds to, whose color it gets.
    pub(super) like: &'static str,
    /// Values by column; see [`EVERYWHERE`].
    pub(super) cells: &'static [(&'static str, f64)],
}

/// The name of a cell that applies to every column.
pub(super) const EVERYWHERE: &str = "*";

/// A comparison with its figures.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) caption: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) series: Vec<Line>,
}

/// A series: values by column.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// True if the series is the paper's; false if it was measured here.
    pub(super) is_paper: bool,
    pub(super) ratios: Vec<Option<f64>>,
    /// The lowest and the highest ratio of the throughput of slices. Each slice is divided by the slice of the same
    /// repeat.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ranges: Vec<Option<(f64, f64)>>,
    #[serde(skip)]
    like: &'static str,
}

impl Publication {
    /// Returns the preset of a figure or table.
    pub(super) fn preset(&self, id: Id) -> Option<&'static Preset> {
        self.presets.iter().find(|preset| preset.id == id)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Id::Figure(number) => write!(f, "figure {number}"),
            Id::Table(number) => write!(f, "table {number}"),
        }
    }
}

impl Preset {
    /// Makes a preset with its texts only. Its fields say what it runs and compares.
    pub(super) const fn new(id: Id, title: &'static str, paper: &'static str) -> Preset {
        Preset { id, title, paper, scale: "", runs: &[], comparisons: &[], counts_hardware: false }
    }

    /// Returns the preset's command lines. A run with the placeholder for archetypes becomes one line per archetype.
    pub(super) fn lines(&self, args: &PaperArgs) -> Vec<String> {
        let of_run = |run: &&str| match run.contains(EACH_ARCHETYPE) {
            true => {
                ARCHETYPES.iter().map(|one| fill(&run.replace(EACH_ARCHETYPE, &one.flags()), args)).collect()
            }
            false => vec![fill(run, args)],
        };
        self.runs.iter().flat_map(of_run).collect()
    }
}

/// The sizes of the micro-benchmark's tables, up to the requested size.
const SIZES: [u64; 6] = [1 << 20, 10 << 20, 100 << 20, 1 << 30, 10 << 30, 100 << 30];
/// Sweeps do not exceed this number of workers.
const WORKERS_MAX: usize = 1024;

/// The placeholder for the flags of an archetype.
const EACH_ARCHETYPE: &str = "{archetype}";

/// Fills the values of `args` into a command line, and adds the scheme if the line names none.
fn fill(run: &str, args: &PaperArgs) -> String {
    let comma = |numbers: Vec<String>| numbers.join(",");
    let sizes = SIZES.into_iter().filter(|&size| size < args.size).chain([args.size]);
    let all = args.workers.unwrap_or_else(crate::args::processors);
    let doubled = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < all.min(WORKERS_MAX));
    let swept = doubled.chain([all]).map(|n| n.to_string());
    let line = run
        .replace("{records}", &args.records.to_string())
        .replace("{size}", &args.size.to_string())
        .replace("{sizes}", &comma(sizes.map(|size| size.to_string()).collect()))
        .replace("{warehouses}", &args.warehouses.to_string())
        .replace("{branches}", &args.branches.to_string())
        .replace("{workers}", &args.workers.unwrap_or(1).to_string())
        .replace("{workers swept}", &comma(swept.collect()));
    let line = match run.contains("{schemes}") {
        true => line.replace("{schemes}", &scheme::serializable()),
        false if !run.contains("--cc ") => format!("{line} --cc {}", args.cc.name()),
        false => line,
    };
    format!("bench {line} --seconds {}", args.seconds)
}

impl Comparison {
    /// Makes a comparison of throughput with defaults for all other fields.
    pub(super) const fn new(caption: &'static str, x_name: &'static str) -> Comparison {
        Comparison {
            caption,
            x_name,
            column: |point| Some(point.text("mode")),
            series: |_| "ours".to_owned(),
            value: None,
            base: Base::FirstColumn,
            paper: &[],
            same_scale: true,
            lines: false,
        }
    }

    /// Computes the figures: the paper's first, then Braid's.
    pub(super) fn of(&self, points: &[Point]) -> Compared {
        let found: Vec<(String, String, &Point)> = points
            .iter()
            .filter_map(|point| Some(((self.column)(point)?, (self.series)(point), point)))
            .collect();
        let of_paper = self.paper.iter().flat_map(|series| series.cells.iter());
        let of_paper = of_paper.map(|cell| cell.0.to_owned()).filter(|name| name != EVERYWHERE);
        let columns = distinct(found.iter().map(|one| one.0.clone()).chain(of_paper));
        let find = |column: &str, series: &str, fits: &dyn Fn(&Point) -> bool| {
            let found = found.iter().find(|one| one.0 == column && one.1 == series && fits(one.2));
            found.map(|one| one.2)
        };
        let point = |column: &str, series: &str| find(column, series, &|_| true);
        let ratio = |column: &String, series: &String| {
            let above = match self.base {
                Base::Those(are_base) => find(column, series, &|point| !are_base(point))?,
                _ => point(column, series)?,
            };
            let below = match self.base {
                Base::Series(name) => point(column, name)?,
                Base::Column(name) => point(name, series)?,
                Base::FirstColumn => point(&columns[0], series)?,
                Base::Those(are_base) => find(column, series, &are_base)?,
                Base::Nothing => return Some(self.figure(above).into()),
            };
            self.ratio(above, below)
        };
        let paper = self.paper.iter().map(|series| Line {
            name: format!("{} (paper)", series.name),
            is_paper: true,
            ratios: columns.iter().map(|column| series.cell(column)).collect(),
            ranges: Vec::new(),
            like: series.like,
        });
        let ours = distinct(found.iter().map(|one| one.1.clone())).into_iter().map(|name| {
            let found: Vec<Option<Measured>> = columns.iter().map(|column| ratio(column, &name)).collect();
            Line {
                ratios: found.iter().map(|one| Some(one.as_ref()?.value)).collect(),
                ranges: found.iter().map(|one| one.as_ref()?.range).collect(),
                name,
                is_paper: false,
                like: "",
            }
        });
        let series = paper.chain(ours).collect();
        Compared { caption: self.caption, columns, series }
    }

    fn figure(&self, point: &Point) -> f64 {
        self.value.map_or_else(|| point.number("transactions_per_s"), |value| value(point))
    }

    fn ratio(&self, above: &Point, below: &Point) -> Option<Measured> {
        let divisor = self.figure(below);
        let value = (divisor > 0.0).then(|| self.figure(above) / divisor)?;
        let range = if self.value.is_none() { range(above, below) } else { None };
        // The ratio of two medians can lie outside the range of the slices' ratios.
        Some(Measured { value, range: range.map(|(low, high)| (low.min(value), high.max(value))) })
    }

    /// Draws Braid's series, and the paper's dashed if they have the same scale.
    pub(super) fn svg(&self, compared: &Compared, notes: Vec<String>) -> Result<String> {
        let has_ratios = |column: usize| {
            compared.series.iter().any(|line| self.is_drawn(line) && line.ratios[column].is_some())
        };
        let drawn: Vec<usize> = (0..compared.columns.len()).filter(|&column| has_ratios(column)).collect();
        let values = |line: &Line| drawn.iter().map(|&column| line.ratios[column]).collect::<Vec<_>>();
        let point = |line: &Line, column: usize| {
            let range = line.ranges.get(column).copied().flatten();
            line.ratios[column].map(|value| Measured { value, range })
        };
        let points = |line: &Line| drawn.iter().map(|&column| point(line, column)).collect();
        let of = |is_paper: bool| compared.series.iter().filter(move |line| line.is_paper == is_paper);
        let data = Data {
            caption: self.caption,
            x_name: self.x_name.to_owned(),
            y_name: if let Base::Nothing = self.base { "share" } else { "ratio" },
            categories: drawn.iter().map(|&column| compared.columns[column].clone()).collect(),
            series: of(false).map(|line| (line.name.clone(), points(line))).collect(),
            lines: self.lines,
            notes,
        };
        let paper: Vec<chart::Theirs> = of(true)
            .filter(|line| self.is_drawn(line))
            .map(|line| chart::Theirs {
                name: line.name.clone(),
                like: line.like.to_owned(),
                values: values(line),
            })
            .collect();
        chart::svg_beside(&data, &paper)
    }

    fn is_drawn(&self, line: &Line) -> bool {
        self.same_scale || !line.is_paper
    }
}

/// Returns the lowest and the highest ratio of two results' slices. Each slice is divided by the slice of the same
/// repeat. Returns `None` if the slices do not yield a range.
fn range(above: &Point, below: &Point) -> Option<(f64, f64)> {
    let (above, below) = (above.numbers("slices_per_s"), below.numbers("slices_per_s"));
    if above.len() != below.len() || above == below || below.contains(&0.0) {
        return None;
    }
    let ratios = above.iter().zip(&below).map(|(above, below)| above / below);
    let bounds = ratios.fold((f64::INFINITY, 0.0f64), |(low, high), one| (low.min(one), high.max(one)));
    (above.len() > 1).then_some(bounds)
}

impl PaperSeries {
    fn cell(&self, column: &str) -> Option<f64> {
        self.cells.iter().find(|cell| cell.0 == column || cell.0 == EVERYWHERE).map(|cell| cell.1)
    }
}

impl Compared {
    /// Returns the table: the paper's rows, then Braid's.
    pub(super) fn grid(&self) -> Grid {
        let columns = self.columns.iter().map(|name| (name.as_str(), true));
        let mut grid = Grid::new([(self.caption, false)].into_iter().chain(columns));
        for (index, line) in self.series.iter().enumerate() {
            if index > 0 && line.is_paper != self.series[index - 1].is_paper {
                grid.begin_group();
            }
            let cell = |ratio: &Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            grid.push(std::iter::once(line.name.clone()).chain(line.ratios.iter().map(cell)));
        }
        grid
    }
}
