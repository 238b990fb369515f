//! The chart: lines where one number is swept, bars in groups otherwise.

use crate::report::{Outcome, Row, short};
use crate::{Failure, Result};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (1100, 560);
const LEGEND_WIDTH: u32 = 240;
/// What is left of the width for the names of categories, and roughly what a letter of them takes.
const PLOT_WIDTH: u32 = SIZE.0 - LEGEND_WIDTH - 110;
const LETTER_WIDTH: u32 = 7;
/// Beyond, names may touch.
const PANELS_MAX: usize = 12;
/// What is drawn and what is left out of a dashed line.
const DASH: i32 = 5;
const GAP: i32 = 4;
/// The height of a panel where there are several.
const PANEL_HEIGHT: u32 = 400;

/// Colours that stay apart for colour-blind eyes (Okabe and Ito, then darker ones).
const COLOURS: [RGBColor; 16] = [
    RGBColor(153, 153, 153),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(240, 228, 66),
    RGBColor(80, 80, 80),
    RGBColor(136, 34, 85),
    RGBColor(153, 102, 51),
    RGBColor(68, 51, 136),
    RGBColor(170, 204, 85),
    RGBColor(34, 85, 51),
    RGBColor(255, 170, 150),
    RGBColor(0, 200, 200),
];

/// What a chart shows: a value per series and category.
pub(crate) struct Data {
    pub(crate) caption: &'static str,
    pub(crate) x_name: String,
    /// What the values are, with their unit.
    pub(crate) y_name: &'static str,
    pub(crate) categories: Vec<String>,
    /// Names, and values by category; None where there is none.
    pub(crate) series: Vec<(String, Vec<Option<f64>>)>,
    pub(crate) lines: bool,
}

/// A series that somebody else has measured: drawn dashed beside ours.
pub(crate) struct Theirs {
    pub(crate) name: String,
    /// Our series that it belongs to, whose colour it has; any other name, and it has a colour of its own.
    pub(crate) like: String,
    /// By category; None where there is none.
    pub(crate) values: Vec<Option<f64>>,
}

/// The caption and the unit of throughput, in thousands.
pub(crate) const THROUGHPUT: (&str, &str) =
    ("Transactions committed per second", "thousand transactions per second");

/// A parameter that can be swept: its name on the axis, its value for a row.
type Axis = (&'static str, fn(&Row) -> String);

const AXES: [Axis; 8] = [
    ("transactions open at once (batch)", |row| row.variant.batch.to_string()),
    ("records", |row| short(row.variant.records)),
    ("theta", |row| row.variant.theta.to_string()),
    ("workers", |row| row.variant.workers.to_string()),
    ("key bytes", |row| row.variant.key_bytes.to_string()),
    ("value bytes", |row| row.variant.value_bytes.to_string()),
    ("refill", |row| format!("{:?}", row.variant.refill).to_lowercase()),
    ("workload", |row| row.variant.workload.name.clone()),
];

/// The chart as SVG text.
pub(crate) fn svg(outcome: &Outcome) -> Result<String> {
    let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.measured).collect();
    if rows.is_empty() {
        return Err(Failure::new("there is nothing to draw: no mode has a form of the workload"));
    }
    svg_of(&arrange(&rows))
}

/// A chart of anything as SVG text.
pub(crate) fn svg_of(data: &Data) -> Result<String> {
    svg_beside(data, &[])
}

/// A chart of anything, with what others have measured beside it, as SVG text.
pub(crate) fn svg_beside(data: &Data, theirs: &[Theirs]) -> Result<String> {
    let mut text = String::new();
    draw(data, theirs, &mut text).map_err(|e| Failure::new(format!("cannot draw the chart: {e}")))?;
    Ok(text)
}

/// Finds out what varies, and lays it out.
fn arrange(rows: &[&Row]) -> Data {
    let values = |axis: &Axis| distinct(rows.iter().map(|row| axis.1(row)));
    let interleaved = rows.iter().filter(|row| row.variant.mode.interleaves());
    let batches = distinct(interleaved.map(|row| AXES[0].1(row)));
    let numeric: Vec<&Axis> = AXES[1..6].iter().filter(|axis| values(axis).len() > 1).collect();
    let others = values(&AXES[7]).len() > 1 || values(&AXES[6]).len() > 1;
    match (batches.len() > 1, numeric.as_slice(), others) {
        (true, [], false) => lines(rows, &AXES[0], batches),
        (false, [axis], false) => lines(rows, axis, values(axis)),
        _ => bars(rows),
    }
}

/// The name of what makes a series: those of mode, scheme and durability that vary; the mode, if none does.
fn means(rows: &[&Row]) -> impl Fn(&Row) -> String {
    const MEANS: [fn(&Row) -> &'static str; 3] =
        [|row| row.variant.mode.name(), |row| row.variant.cc.name(), |row| row.variant.durability.name()];
    let varies = |of: &fn(&Row) -> &'static str| rows.iter().any(|row| of(row) != of(rows[0]));
    let mut varied: Vec<_> = MEANS.into_iter().filter(varies).collect();
    if varied.is_empty() {
        varied.push(MEANS[0]);
    }
    move |row| varied.iter().map(|of| of(row)).collect::<Vec<_>>().join(", ")
}

/// Lines over the values of one axis, a series per mode, scheme and durability; modes without batches are level lines.
fn lines(rows: &[&Row], axis: &Axis, categories: Vec<String>) -> Data {
    let is_batch = std::ptr::eq(axis, &AXES[0]) || axis.0 == AXES[0].0;
    let name = means(rows);
    let series = distinct(rows.iter().map(|row| name(row)))
        .into_iter()
        .map(|mode| {
            let of_mode: Vec<&&Row> = rows.iter().filter(|row| name(row) == mode).collect();
            let value = |category: &String| {
                let level = is_batch && !of_mode[0].variant.mode.interleaves();
                let row = of_mode.iter().find(|row| level || axis.1(row) == *category)?;
                Some(row.transactions_per_s / 1e3)
            };
            let values = categories.iter().map(value).collect();
            (mode, values)
        })
        .collect();
    let (caption, y_name) = THROUGHPUT;
    Data { caption, x_name: axis.0.to_owned(), y_name, categories, series, lines: true }
}

/// Bars: a category per group of work, a series per mode, scheme and durability (and batch and refill, where they vary).
fn bars(rows: &[&Row]) -> Data {
    let varied: Vec<&Axis> =
        AXES[1..6].iter().filter(|a| distinct(rows.iter().map(|r| a.1(r))).len() > 1).collect();
    let interleaved = || rows.iter().filter(|row| row.variant.mode.interleaves());
    let batches = distinct(interleaved().map(|row| AXES[0].1(row))).len() > 1;
    let refills = distinct(interleaved().map(|row| AXES[6].1(row))).len() > 1;
    let category = |row: &Row| {
        let parts = varied.iter().map(|axis| format!(", {} {}", axis.1(row), axis.0.trim_end_matches('s')));
        let name = row.variant.workload.name.clone() + &parts.collect::<String>();
        if varied.iter().any(|axis| axis.0 == "workers") && row.variant.workers > 1 {
            name + "s"
        } else {
            name
        }
    };
    let means = means(rows);
    let name = |row: &Row| {
        let mut name = means(row);
        if row.variant.mode.interleaves() {
            name += &if batches { format!(" {}", row.variant.batch) } else { String::new() };
            name += &if refills { format!(" {}", AXES[6].1(row)) } else { String::new() };
        }
        name
    };
    let categories = distinct(rows.iter().map(|row| category(row)));
    let series = distinct(rows.iter().map(|row| name(row)))
        .into_iter()
        .map(|series| {
            let value = |of: &String| {
                let row = rows.iter().find(|row| category(row) == *of && name(row) == series)?;
                Some(row.transactions_per_s / 1e3)
            };
            let values = categories.iter().map(value).collect();
            (series, values)
        })
        .collect();
    let (caption, y_name) = THROUGHPUT;
    Data { caption, x_name: "workload".to_owned(), y_name, categories, series, lines: false }
}

/// The values without repetition, in the order of their first appearance.
pub(crate) fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// The x axis: category `i` reaches from `i` to `i + 1`, its name in the middle.
struct Categories<'a>(&'a [String]);

impl Ranged for Categories<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (f64::from(limit.1 - limit.0) * value / self.0.len() as f64).round() as i32
    }
    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.0.len()).map(|i| i as f64 + 0.5).collect()
    }
    fn range(&self) -> Range<f64> {
        0.0..self.0.len() as f64
    }
}

impl ValueFormatter<f64> for Categories<'_> {
    fn format_ext(&self, value: &f64) -> String {
        self.0.get(*value as usize).cloned().unwrap_or_default()
    }
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// A series as it is drawn.
struct Series<'a> {
    name: &'a str,
    values: &'a [Option<f64>],
    colour: RGBColor,
    is_dashed: bool,
}

/// Ours, then theirs.
fn series_of<'a>(data: &'a Data, theirs: &'a [Theirs]) -> Vec<Series<'a>> {
    let colour = |index: usize| COLOURS[index % COLOURS.len()];
    let ours = data.series.iter().enumerate().map(|(index, (name, values))| Series {
        name,
        values,
        colour: colour(index),
        is_dashed: false,
    });
    let theirs = theirs.iter().enumerate().map(|(index, one)| {
        let like = data.series.iter().position(|(name, _)| *name == one.like);
        let colour = colour(like.unwrap_or(data.series.len() + index));
        Series { name: &one.name, values: &one.values, colour, is_dashed: true }
    });
    ours.chain(theirs).collect()
}

/// Draws the categories in as many panels, one below the other, as their names need room.
fn draw(data: &Data, theirs: &[Theirs], text: &mut String) -> Drawn {
    let all = data.categories.len();
    let longest = data.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    let in_a_row = (PLOT_WIDTH / (longest * LETTER_WIDTH + LETTER_WIDTH * 2)).max(1) as usize;
    // Lines are not broken: their categories are numbers, and short.
    let panels = if data.lines { 1 } else { all.div_ceil(in_a_row).clamp(1, PANELS_MAX) };
    let in_a_panel = all.div_ceil(panels).max(1);
    let height = if panels == 1 { SIZE.1 } else { PANEL_HEIGHT * panels as u32 };
    let root = SVGBackend::with_string(text, (SIZE.0, height)).into_drawing_area();
    root.fill(&WHITE)?;
    for (panel, area) in root.split_evenly((panels, 1)).into_iter().enumerate() {
        let range = (panel * in_a_panel).min(all)..((panel + 1) * in_a_panel).min(all);
        draw_panel(data, &series_of(data, theirs), range, &area)?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(data: &Data, series: &[Series<'_>], range: Range<usize>, area: &Area<'_>) -> Drawn {
    let (plot, legend) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let values = series.iter().flat_map(|one| one.values[range.clone()].iter().flatten());
    let top = values.fold(0.0f64, |top, &value| top.max(value)) * 1.06;
    let categories = &data.categories[range.clone()];
    let mut chart = ChartBuilder::on(&plot)
        .caption(data.caption, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(52)
        .y_label_area_size(78)
        .build_cartesian_2d(Categories(categories), 0.0..top.max(1e-9))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(&data.x_name)
        .y_desc(data.y_name)
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .y_label_formatter(&|value| ((value * 1e6).round() / 1e6).to_string())
        .draw()?;
    let draw_series = if data.lines { draw_line } else { draw_bars };
    for (index, one) in series.iter().enumerate() {
        let part = Series { values: &one.values[range.clone()], ..*one };
        draw_series(&mut chart, &part, (index, series.len()))?;
        let y = 60 + 24 * index as i32;
        if one.is_dashed {
            let across = [(6, y + 7), (22, y + 7)];
            legend.draw(&DashedPathElement::new(across, DASH, GAP, one.colour.stroke_width(3)))?;
        } else {
            legend.draw(&Rectangle::new([(6, y), (22, y + 14)], one.colour.filled()))?;
        }
        legend.draw(&Text::new(one.name.to_owned(), (30, y), ("sans-serif", 15)))?;
    }
    Ok(())
}

type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<Categories<'a>, plotters::coord::types::RangedCoordf64>>;

/// The number of a series, and how many there are.
type Place = (usize, usize);

fn draw_line(chart: &mut Chart<'_, '_>, series: &Series<'_>, _: Place) -> Drawn {
    let values = series.values.iter().enumerate();
    let points: Vec<(f64, f64)> =
        values.filter_map(|(at, value)| Some((at as f64 + 0.5, (*value)?))).collect();
    let (dot, line) = (series.colour.filled(), series.colour.stroke_width(3));
    if series.is_dashed {
        chart
            .draw_series(points.iter().map(|&point| Circle::new(point, 5, series.colour.stroke_width(2))))?;
        chart.draw_series(DashedLineSeries::new(points, DASH, GAP, line))?;
    } else {
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 4, dot)))?;
        chart.draw_series(LineSeries::new(points, line))?;
    }
    Ok(())
}

fn draw_bars(chart: &mut Chart<'_, '_>, series: &Series<'_>, (index, of): Place) -> Drawn {
    let width = 0.84 / of as f64;
    let bars = series.values.iter().enumerate().filter_map(|(category, value)| {
        let left = category as f64 + 0.08 + width * index as f64;
        Some((left, left + width * 0.92, (*value)?))
    });
    if series.is_dashed {
        let outline = |(left, right, top)| {
            let corners = vec![(left, 0.0), (left, top), (right, top), (right, 0.0)];
            DashedPathElement::new(corners, DASH, GAP, series.colour.stroke_width(2))
        };
        chart.draw_series(bars.map(outline))?;
    } else {
        let colour = series.colour.filled();
        chart.draw_series(
            bars.map(|(left, right, top)| Rectangle::new([(left, 0.0), (right, top)], colour)),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Mode;
    use crate::report::tests::example;
    use crate::scheme::SchemeKind;

    #[test]
    fn long_names_get_panels_of_their_own() {
        // Proves that a chart grows by panels when the names of its categories need room, and loses none of them.
        let draw = |names: &[&str]| {
            let categories: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let series = vec![("naive".to_owned(), vec![Some(1.0); names.len()])];
            let x_name = "work".to_owned();
            svg_of(&Data { caption: "", x_name, y_name: "", categories, series, lines: false }).unwrap()
        };
        let panels = |svg: &str| svg.matches("\nwork\n</text>").count();
        let long = ["a name that is as long as half of the chart", "another one", "a third", "a fourth"];
        let svg = draw(&long);
        assert!(long.iter().all(|name| svg.contains(name)));
        assert_eq!((panels(&draw(&["a", "b", "c", "d"])), panels(&svg)), (1, 2));
    }

    #[test]
    fn figures_of_others_are_dashed_beside_ours() {
        // Proves that they are in the chart and its legend, in our series' colour, as lines and as bars, and that
        // the axis reaches as far as they do.
        let naive = ("naive".to_owned(), vec![Some(1.0), Some(1.0)]);
        let values = vec![Some(4.0), Some(2.0)];
        let theirs = Theirs { name: "ERMIA (paper)".to_owned(), like: "naive".to_owned(), values };
        for lines in [true, false] {
            let categories = vec!["a".to_owned(), "b".to_owned()];
            let (x_name, series) = ("work".to_owned(), vec![naive.clone()]);
            let data = Data { caption: "", x_name, y_name: "", categories, series, lines };
            let [alone, beside] =
                [svg_of(&data), svg_beside(&data, std::slice::from_ref(&theirs))].map(|svg| svg.unwrap());
            assert!(!alone.contains("ERMIA") && beside.contains("ERMIA (paper)"));
            assert!(!alone.contains("\n4") && beside.contains("\n4"), "{beside}");
            let dashes = |svg: &str| svg.matches("stroke=\"#999999\"").count();
            assert!(dashes(&beside) > dashes(&alone) + 3, "{beside}");
        }
    }

    #[test]
    fn a_sweep_makes_lines_and_a_comparison_bars() {
        // Proves which chart is chosen, and that axes, units and legend are in it.
        let check = |outcome: &Outcome, expect_lines: bool| {
            let rows: Vec<&Row> = outcome.rows.iter().collect();
            assert_eq!(arrange(&rows).lines, expect_lines);
            let svg = svg(outcome).unwrap();
            for part in ["thousand transactions per second", "interleaved", "naive", "</svg>"] {
                assert!(svg.contains(part), "{part}");
            }
        };
        check(&example(&["r10"], &[Mode::Naive, Mode::Interleaved], &[8, 16, 32]), true);
        check(&example(&["r10", "m"], &[Mode::Naive, Mode::Interleaved], &[48]), false);
    }

    #[test]
    fn schemes_side_by_side_are_told_apart() {
        // Proves that what differs in the scheme alone makes series of its own, named after it.
        let mut outcome = example(&["r10", "m"], &[Mode::Interleaved, Mode::Interleaved], &[48]);
        for (i, row) in outcome.rows.iter_mut().enumerate() {
            row.variant.cc = [SchemeKind::Snapshot, SchemeKind::Serializable][i % 2].into();
        }
        let data = arrange(&outcome.rows.iter().collect::<Vec<_>>());
        let names: Vec<&str> = data.series.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["snapshot", "serializable"]);
        assert!(data.series.iter().all(|(_, values)| values.iter().all(Option::is_some)));
    }
}
