//! Results of several variants side by side: a table with a column for each variant, and a chart of ratios.

use crate::Result;
use crate::report::chart::{self, Data, Measured};
use crate::report::distinct;
use crate::report::grid::Grid;

/// A row of the table: its name, and the figure as text.
pub(crate) type Row<F> = (&'static str, fn(&F) -> String);

/// The result of one variant in one setting.
pub(crate) trait Beside: Sized + 'static {
    /// The names of the parameters that distinguish settings; true means that the values are numbers.
    const SETTING: &'static [(&'static str, bool)];
    const ROWS: &'static [Row<Self>];

    /// Returns the values of the setting, in the order of `SETTING`.
    fn setting(&self) -> Vec<String>;
    fn variant(&self) -> &str;
    fn transactions_per_s(&self) -> f64;
}

/// Returns the figures that have the same setting as `of`, one for each variant.
pub(crate) fn group<'f, F: Beside>(figures: &'f [F], of: &F) -> impl Iterator<Item = &'f F> {
    let setting = of.setting();
    figures.iter().filter(move |one| one.setting() == setting)
}

/// Returns the first figure of each setting.
pub(crate) fn groups<F: Beside>(figures: &[F]) -> impl Iterator<Item = &F> {
    let is_first =
        |figure: &&F| group(figures, figure).next().is_some_and(|first| std::ptr::eq(first, *figure));
    figures.iter().filter(is_first)
}

fn of_variant<'f, F: Beside>(figures: &'f [F], of: &F, variant: &str) -> Option<&'f F> {
    group(figures, of).find(|one| one.variant() == variant)
}

fn variants<F: Beside>(figures: &[F]) -> Vec<String> {
    distinct(figures.iter().map(|figure| figure.variant().to_owned()))
}

/// Returns the table.
pub(crate) fn text<F: Beside>(figures: &[F]) -> String {
    let variants = variants(figures);
    let names = F::SETTING.iter().copied().chain([("figure", false)]);
    let mut grid = Grid::new(names.chain(variants.iter().map(|name| (name.as_str(), true))));
    for first in groups(figures) {
        grid.begin_group();
        for (at, (name, value)) in F::ROWS.iter().enumerate() {
            let setting = if at == 0 { first.setting() } else { vec![String::new(); F::SETTING.len()] };
            let values = variants
                .iter()
                .map(|variant| of_variant(figures, first, variant).map_or("-".to_owned(), value));
            grid.push(setting.into_iter().chain([(*name).to_owned()]).chain(values));
        }
    }
    grid.text()
}

/// Draws throughput as bars, divided by the throughput of the first variant. `category` names a setting, or returns
/// `None` if the setting is not drawn.
pub(crate) fn svg<F: Beside>(
    figures: &[F],
    (caption, x_name): (&'static str, String),
    notes: Vec<String>,
    category: impl Fn(&F) -> Option<String>,
) -> Result<String> {
    let variants = variants(figures);
    let drawn: Vec<(&F, String)> =
        groups(figures).filter_map(|first| category(first).map(|name| (first, name))).collect();
    let ratio = |first: &F, variant: &str| {
        let base = of_variant(figures, first, &variants[0])?.transactions_per_s();
        let ratio = of_variant(figures, first, variant)?.transactions_per_s() / base;
        Some(ratio).filter(|ratio| ratio.is_finite()).map(Measured::from)
    };
    let bars = |variant: &String| drawn.iter().map(|(first, _)| ratio(first, variant)).collect();
    chart::svg_of(&Data {
        caption,
        x_name,
        y_name: "ratio",
        categories: drawn.iter().map(|(_, name)| name.clone()).collect(),
        series: variants.iter().map(|variant| (variant.clone(), bars(variant))).collect(),
        lines: false,
        notes,
    })
}
