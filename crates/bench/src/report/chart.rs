//! Charts as SVG: lines over numeric values, or grouped bars.

use crate::{Failure, Result};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

const SIZE: (u32, u32) = (1100, 560);
const LEGEND_WIDTH: u32 = 240;
/// The width left for the names of categories, and the approximate width of a letter.
const PLOT_WIDTH: u32 = SIZE.0 - LEGEND_WIDTH - 110;
const LETTER_WIDTH: u32 = 7;
/// The most panels of a chart. If names need more room, they may touch.
const PANELS_MAX: usize = 12;
/// The lengths of dashes and gaps in a dashed line.
const DASH: i32 = 5;
const GAP: i32 = 4;
/// The height of a panel if there are several.
const PANEL_HEIGHT: u32 = 400;
/// The height of a note below the chart, and how many letters fit.
const NOTE_HEIGHT: u32 = 18;
const NOTE_LETTERS_MAX: usize = 170;
const NOTE_COLOUR: RGBColor = RGBColor(110, 110, 110);
const RANGE_COLOUR: RGBColor = RGBColor(40, 40, 40);
/// A panel shows values above its bars if it has at most this many. The values of more bars would touch.
const NUMBERED_BARS_MAX: usize = 24;

/// Colors that color-blind readers can tell apart (Okabe and Ito, then darker ones).
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

/// A figure that is a median, with the lowest and the highest of its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    pub(crate) range: Option<(f64, f64)>,
}

impl From<f64> for Measured {
    fn from(value: f64) -> Measured {
        Measured { value, range: None }
    }
}

impl Measured {
    /// Returns the highest point of the drawing.
    fn top(&self) -> f64 {
        self.range.map_or(self.value, |(_, highest)| highest.max(self.value))
    }
}

/// The contents of a chart: a figure per series and category.
pub(crate) struct Data {
    pub(crate) caption: &'static str,
    pub(crate) x_name: String,
    /// The name of the values, with their unit.
    pub(crate) y_name: &'static str,
    pub(crate) categories: Vec<String>,
    /// Names, and figures by category. None if there is no figure.
    pub(crate) series: Vec<(String, Vec<Option<Measured>>)>,
    pub(crate) lines: bool,
    /// Notes on where and how the figures were measured, one line each.
    pub(crate) notes: Vec<String>,
}

/// A series from a paper, drawn dashed beside the measured ones.
pub(crate) struct Theirs {
    pub(crate) name: String,
    /// The measured series whose color it gets. If no series has this name, it gets a color of its own.
    pub(crate) like: String,
    /// Values by category. None if there is no value.
    pub(crate) values: Vec<Option<f64>>,
}

/// Draws a chart as SVG text.
pub(crate) fn svg_of(data: &Data) -> Result<String> {
    svg_beside(data, &[])
}

/// Draws a chart, with series of others beside it, as SVG text.
pub(crate) fn svg_beside(data: &Data, theirs: &[Theirs]) -> Result<String> {
    let mut text = String::new();
    draw(data, theirs, &mut text).map_err(|e| Failure::new(format!("cannot draw the chart: {e}")))?;
    Ok(text)
}

/// The x axis: category `i` extends from `i` to `i + 1`, with its name in the middle.
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
    points: Vec<Option<Measured>>,
    colour: RGBColor,
    is_dashed: bool,
}

/// Returns the measured series, then the series of others.
fn series_of<'a>(data: &'a Data, theirs: &'a [Theirs]) -> Vec<Series<'a>> {
    let colour = |index: usize| COLOURS[index % COLOURS.len()];
    let ours = data.series.iter().enumerate().map(|(index, (name, points))| Series {
        name,
        points: points.clone(),
        colour: colour(index),
        is_dashed: false,
    });
    let theirs = theirs.iter().enumerate().map(|(index, one)| {
        let like = data.series.iter().position(|(name, _)| *name == one.like);
        let colour = colour(like.unwrap_or(data.series.len() + index));
        let points = one.values.iter().map(|value| value.map(Measured::from)).collect();
        Series { name: &one.name, points, colour, is_dashed: true }
    });
    ours.chain(theirs).collect()
}

/// Draws the categories in panels, one below the other, with as many panels as the names need.
fn draw(data: &Data, theirs: &[Theirs], text: &mut String) -> Drawn {
    let all = data.categories.len();
    let longest = data.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    let in_a_row = (PLOT_WIDTH / (longest * LETTER_WIDTH + LETTER_WIDTH * 2)).max(1) as usize;
    // Lines stay in one panel, because their categories are numbers, which are short.
    let panels = if data.lines { 1 } else { all.div_ceil(in_a_row).clamp(1, PANELS_MAX) };
    let in_a_panel = all.div_ceil(panels).max(1);
    let height = if panels == 1 { SIZE.1 } else { PANEL_HEIGHT * panels as u32 };
    let below = NOTE_HEIGHT * data.notes.len() as u32;
    let root = SVGBackend::with_string(text, (SIZE.0, height + below)).into_drawing_area();
    root.fill(&WHITE)?;
    let (charts, notes) = root.split_vertically(height);
    for (line, note) in data.notes.iter().enumerate() {
        let style = ("sans-serif", 12).into_font().color(&NOTE_COLOUR);
        notes.draw(&Text::new(cut(note), (20, line as i32 * NOTE_HEIGHT as i32), style))?;
    }
    for (panel, area) in charts.split_evenly((panels, 1)).into_iter().enumerate() {
        let range = (panel * in_a_panel).min(all)..((panel + 1) * in_a_panel).min(all);
        draw_panel(data, &series_of(data, theirs), range, &area)?;
    }
    root.present()?;
    Ok(())
}

/// Returns as much of a note as fits.
fn cut(note: &str) -> String {
    match note.char_indices().nth(NOTE_LETTERS_MAX) {
        Some((at, _)) => format!("{}…", &note[..at]),
        None => note.to_owned(),
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(data: &Data, series: &[Series<'_>], range: Range<usize>, area: &Area<'_>) -> Drawn {
    let (plot, legend) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let points = series.iter().flat_map(|one| one.points[range.clone()].iter().flatten());
    let top = points.fold(0.0f64, |top, point| top.max(point.top())) * 1.06;
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
        let part = Series { points: one.points[range.clone()].to_vec(), ..*one };
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

/// The position of a series, and the number of series.
type Place = (usize, usize);

fn draw_line(chart: &mut Chart<'_, '_>, series: &Series<'_>, _: Place) -> Drawn {
    let at = |(category, point): (usize, &Option<Measured>)| Some((category as f64 + 0.5, (*point)?));
    let found: Vec<(f64, Measured)> = series.points.iter().enumerate().filter_map(at).collect();
    let points: Vec<(f64, f64)> = found.iter().map(|(x, point)| (*x, point.value)).collect();
    let (dot, line) = (series.colour.filled(), series.colour.stroke_width(3));
    if series.is_dashed {
        chart
            .draw_series(points.iter().map(|&point| Circle::new(point, 5, series.colour.stroke_width(2))))?;
        chart.draw_series(DashedLineSeries::new(points, DASH, GAP, line))?;
    } else {
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 4, dot)))?;
        chart.draw_series(LineSeries::new(points, line))?;
    }
    draw_ranges(chart, &found, series.colour)
}

fn draw_bars(chart: &mut Chart<'_, '_>, series: &Series<'_>, (index, of): Place) -> Drawn {
    let width = 0.84 / of as f64;
    let left = |category: usize| category as f64 + 0.08 + width * index as f64;
    let at = |(category, point): (usize, &Option<Measured>)| Some((left(category) + width * 0.46, (*point)?));
    let found: Vec<(f64, Measured)> = series.points.iter().enumerate().filter_map(at).collect();
    let edges = |middle: f64| (middle - width * 0.46, middle + width * 0.46);
    if series.is_dashed {
        let outline = |&(middle, Measured { value, .. }): &(f64, Measured)| {
            let (left, right) = edges(middle);
            let corners = vec![(left, 0.0), (left, value), (right, value), (right, 0.0)];
            DashedPathElement::new(corners, DASH, GAP, series.colour.stroke_width(2))
        };
        chart.draw_series(found.iter().map(outline))?;
    } else {
        let bar = |&(middle, Measured { value, .. }): &(f64, Measured)| {
            let (left, right) = edges(middle);
            Rectangle::new([(left, 0.0), (right, value)], series.colour.filled())
        };
        chart.draw_series(found.iter().map(bar))?;
    }
    draw_ranges(chart, &found, RANGE_COLOUR)?;
    if of * series.points.len() <= NUMBERED_BARS_MAX {
        draw_numbers(chart, &found)?;
    }
    Ok(())
}

/// Draws a line from the lowest to the highest of the values behind each point.
fn draw_ranges(chart: &mut Chart<'_, '_>, points: &[(f64, Measured)], colour: RGBColor) -> Drawn {
    let style = colour.stroke_width(1);
    let ranges = points.iter().filter_map(|(x, point)| Some((*x, point.range?)));
    chart
        .draw_series(ranges.clone().map(|(x, (low, high))| PathElement::new([(x, low), (x, high)], style)))?;
    let ends = ranges.flat_map(|(x, (low, high))| [(x, low), (x, high)]);
    chart.draw_series(ends.map(|end| EmptyElement::at(end) + PathElement::new([(-4, 0), (4, 0)], style)))?;
    Ok(())
}

/// Writes the figures above their bars.
fn draw_numbers(chart: &mut Chart<'_, '_>, points: &[(f64, Measured)]) -> Drawn {
    let above = Pos::new(HPos::Center, VPos::Bottom);
    let style = ("sans-serif", 12).into_font().color(&RANGE_COLOUR).pos(above);
    let number = |(x, point): &(f64, Measured)| {
        EmptyElement::at((*x, point.top())) + Text::new(three_digits(point.value), (0, -2), style.clone())
    };
    chart.draw_series(points.iter().map(number))?;
    Ok(())
}

/// Formats a figure with three digits, or more if it is greater than 999.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        small if small < 1.0 => 3,
        small if small < 10.0 => 2,
        small if small < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_get_panels_of_their_own() {
        // Proves that a chart gets more panels when the names of its categories need room, and loses none of them.
        let draw = |names: &[&str]| {
            let categories: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let series = vec![("naive".to_owned(), vec![Some(1.0.into()); names.len()])];
            let x_name = "work".to_owned();
            svg_of(&Data { caption: "", x_name, y_name: "", categories, series, lines: false, notes: vec![] })
                .unwrap()
        };
        let panels = |svg: &str| svg.matches("\nwork\n</text>").count();
        let long = ["a name that is as long as half of the chart", "another one", "a third", "a fourth"];
        let svg = draw(&long);
        assert!(long.iter().all(|name| svg.contains(name)));
        assert_eq!((panels(&draw(&["a", "b", "c", "d"])), panels(&svg)), (1, 2));
    }

    #[test]
    fn ranges_and_numbers_are_drawn() {
        // Proves that the lowest and the highest values are marked and lie within the axis, that bars show their
        // figures if they fit, and that notes stand below.
        let draw = |range, bars: usize, lines| {
            let point = Measured { value: 2.0, range };
            let categories = (0..bars).map(|number| number.to_string()).collect();
            let series = vec![("naive".to_owned(), vec![Some(point); bars])];
            let notes = vec!["where".to_owned(), "how ".repeat(100)];
            svg_of(&Data {
                caption: "",
                x_name: "work".to_owned(),
                y_name: "",
                categories,
                series,
                lines,
                notes,
            })
            .unwrap()
        };
        for (lines, colour) in [(false, "#282828"), (true, "#999999")] {
            let (with, without) = (draw(Some((1.0, 8.0)), 3, lines), draw(None, 3, lines));
            let strokes = |svg: &str| svg.matches(&format!("stroke=\"{colour}\"")).count();
            assert_eq!(strokes(&with) - strokes(&without), 3 * 3, "a line and two ends each");
            assert!(
                with.contains("\n8") && !without.contains("\n8"),
                "the axis reaches as far as the ranges"
            );
            assert!(with.contains("where") && with.contains('…'));
        }
        let numbers = |bars| draw(None, bars, false).matches("\n2.00\n").count();
        assert_eq!((numbers(3), numbers(NUMBERED_BARS_MAX + 1)), (3, 0));
    }

    #[test]
    fn figures_of_others_are_dashed_beside_ours() {
        // Proves that the series of others are in the chart and its legend, in the color of the corresponding series,
        // as lines and as bars, and that the axis covers them.
        let naive = ("naive".to_owned(), vec![Some(1.0.into()), Some(1.0.into())]);
        let values = vec![Some(4.0), Some(2.0)];
        let theirs = Theirs { name: "ERMIA (paper)".to_owned(), like: "naive".to_owned(), values };
        for lines in [true, false] {
            let categories = vec!["a".to_owned(), "b".to_owned()];
            let (x_name, series) = ("work".to_owned(), vec![naive.clone()]);
            let data = Data { caption: "", x_name, y_name: "", categories, series, lines, notes: vec![] };
            let [alone, beside] =
                [svg_of(&data), svg_beside(&data, std::slice::from_ref(&theirs))].map(|svg| svg.unwrap());
            assert!(!alone.contains("ERMIA") && beside.contains("ERMIA (paper)"));
            assert!(!alone.contains("\n4") && beside.contains("\n4"), "{beside}");
            let dashes = |svg: &str| svg.matches("stroke=\"#999999\"").count();
            assert!(dashes(&beside) > dashes(&alone) + 3, "{beside}");
        }
    }
}
