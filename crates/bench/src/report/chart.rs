//! Charts: lines over the values of a number, or bars in groups, as SVG.

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

/// A series of a paper, drawn dashed beside ours.
pub(crate) struct Theirs {
    pub(crate) name: String,
    /// Our series that it belongs to, whose colour it has; any other name, and it has a colour of its own.
    pub(crate) like: String,
    /// By category; None where there is none.
    pub(crate) values: Vec<Option<f64>>,
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
}
