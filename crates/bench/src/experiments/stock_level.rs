//! `braid bench stock-level`: TPC-C's StockLevel, by the layout of the rows that it reads. The tables' records are
//! compared with projections, for several numbers of warehouses. The layouts of blocks are those of Zhang, Wei, Xiang
//! and Xiao, "A Performance Evaluation of DRAM Access for In-Memory Databases" (IEEE Access, 2021).

use crate::args::parse_seconds;
use crate::beside::{self, Beside, Row};
use crate::engine::{self, Database, Options, Serializable};
use crate::report::environment::Environment;
use crate::report::{write, write_json};
use crate::{Failure, Result};
use braid_tpcc::{Input, Layout, Mix, Scale, Settings, StockLevels, Tpcc};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// `braid bench stock-level`.
#[derive(Args, Clone, Debug)]
pub struct StockLevelArgs {
    /// Warehouses, about 100 MB each, and half as much again for each layout
    #[arg(long, default_value = "1,5,10,20", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub warehouses: Vec<u32>,
    /// Layouts; ratios are to the first
    #[arg(long, default_value = "records,nsm,pax,dsm,lines", value_delimiter = ',')]
    pub layout: Vec<Layout>,
    /// Seconds per variant, divided among the repeats
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all layouts, one after the other; medians are reported
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws throughput, divided by that of the first layout, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

const SEED: u64 = 1;
/// Transactions whose results are compared across layouts.
const COMPARED: usize = 200;

/// The result of one layout with one number of warehouses.
#[derive(Serialize)]
struct Figure {
    warehouses: u32,
    layout: &'static str,
    transactions_per_s: f64,
    spread: f64,
}

impl Beside for Figure {
    const SETTING: &'static [(&'static str, bool)] = &[("warehouses", true)];
    const ROWS: &'static [Row<Self>] = &[
        ("K/s", |one| format!("{:.2}", one.transactions_per_s / 1e3)),
        ("µs", |one| format!("{:.0}", 1e6 / one.transactions_per_s)),
        ("spread", |one| format!("{:.0} %", one.spread * 100.0)),
    ];

    fn setting(&self) -> Vec<String> {
        vec![self.warehouses.to_string()]
    }
    fn variant(&self) -> &str {
        self.layout
    }
    fn transactions_per_s(&self) -> f64 {
        self.transactions_per_s
    }
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    seconds: f64,
    repeats: u32,
    figures: &'a [Figure],
}

/// Runs `braid bench stock-level`.
pub(crate) fn run(args: &StockLevelArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let mut figures = Vec::new();
    for &warehouses in &args.warehouses {
        figures.extend(of_size(Scale::full(warehouses), args)?);
    }
    println!("{}\n\n{}", environment.summary(), beside::text(&figures));
    if let Some(path) = &args.json {
        let StockLevelArgs { seconds, repeats, .. } = *args;
        write_json(path, &Json { environment: &environment, seconds, repeats, figures: &figures })?;
    }
    args.svg.as_ref().map_or(Ok(()), |path| write(path, &svg(&figures, environment.notes())?))
}

/// Runs all layouts in turns, once per repeat.
fn of_size(scale: Scale, args: &StockLevelArgs) -> Result<Vec<Figure>> {
    let settings = Settings { mix: Mix::StockLevel, ..Settings::new(scale) };
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<Serializable> = Database::in_memory(options).map_err(engine::failure)?;
    let tpcc =
        Tpcc::load(&db, settings, SEED, crate::args::processors(), &|_, _| {}).map_err(engine::failure)?;
    let levels = args.layout.iter().map(|layout| StockLevels::new(&tpcc, &db, *layout));
    let levels = levels.collect::<braiddb::Result<Vec<_>>>().map_err(engine::failure)?;
    let run = |levels: &StockLevels, input: &Input| {
        let tx = db.begin()?;
        tx.declare_read_only();
        levels.run(&tx, input)
    };
    let mut source = tpcc.inputs((0, 1), SEED);
    for _ in 0..COMPARED {
        let input = source.next();
        let found = levels.iter().map(|levels| run(levels, &input));
        let found = found.collect::<braiddb::Result<Vec<u64>>>().map_err(engine::failure)?;
        if found.iter().any(|low| *low != found[0]) {
            return Err(Failure::new(
                "layouts of the same rows have come to different numbers of low stocks",
            ));
        }
    }
    let slice = Duration::from_secs_f64(args.seconds / f64::from(args.repeats));
    let mut rates = vec![Vec::new(); levels.len()];
    for _ in 0..args.repeats {
        for (levels, rates) in levels.iter().zip(&mut rates) {
            let (begun, mut count) = (Instant::now(), 0u32);
            while count == 0 || begun.elapsed() < slice {
                std::hint::black_box(run(levels, &source.next()).map_err(engine::failure)?);
                count += 1;
            }
            rates.push(f64::from(count) / begun.elapsed().as_secs_f64());
        }
    }
    let figure = |(layout, rates): (&Layout, Vec<f64>)| figure(scale.warehouses, *layout, rates);
    Ok(args.layout.iter().zip(rates).map(figure).collect())
}

fn figure(warehouses: u32, layout: Layout, mut rates: Vec<f64>) -> Figure {
    rates.sort_by(f64::total_cmp);
    let transactions_per_s = rates[rates.len() / 2];
    let spread = (rates[rates.len() - 1] - rates[0]) / transactions_per_s;
    Figure { warehouses, layout: layout.name(), transactions_per_s, spread }
}

fn svg(figures: &[Figure], notes: Vec<String>) -> Result<String> {
    let caption = "StockLevels by those of the first layout";
    beside::svg(figures, (caption, "warehouses".into()), notes, |one| Some(one.warehouses.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    /// Proves that every layout finds the same numbers of low stocks, and that the table and the chart contain all
    /// layouts.
    #[test]
    fn layouts_are_run_beside_each_other() {
        let command = StockLevelArgs::augment_args(clap::Command::new("stock-level").no_binary_name(true));
        let found = command.try_get_matches_from(["--seconds", "0.01", "--repeats", "1"]).unwrap();
        let args = StockLevelArgs::from_arg_matches(&found).unwrap();
        let figures = of_size(Scale::small(2), &args).unwrap();
        assert_eq!(figures.len(), 5);
        assert!(figures.iter().all(|figure| figure.transactions_per_s > 0.0));
        let (text, svg) = (beside::text(&figures), svg(&figures, Vec::new()).unwrap());
        assert!(text.contains("lines") && svg.contains("pax"), "{text}");
    }
}
