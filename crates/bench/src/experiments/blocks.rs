//! `braid bench blocks`: sums over all rows of a table, computed from its records and from projections with several
//! layouts. Plain arrays, which no database can beat, are run for comparison. The layouts of blocks are those of Zhang,
//! Wei, Xiang and Xiao, "A Performance Evaluation of DRAM Access for In-Memory Databases" (IEEE Access, 2021).

use crate::args::{parse_count, parse_seconds};
use crate::beside::{self, Beside, Row};
use crate::engine::{self, Database, Options, Serializable, mix};
use crate::report::environment::Environment;
use crate::report::{write, write_json};
use crate::{Failure, Result};
use braiddb::{Columns, Plain, Projection, ProjectionOptions, Selection, Table, Transaction};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// `braid bench blocks`.
#[derive(Args, Clone, Debug)]
pub struct BlocksArgs {
    /// Records in the table
    #[arg(long, default_value = "1M,10M", value_delimiter = ',', value_parser = parse_count)]
    pub records: Vec<u64>,
    /// Fields of a record, 8 bytes each
    #[arg(long, default_value = "10")]
    pub fields: Fields,
    /// Number of fields that are summed; values above --fields are skipped
    #[arg(long, default_value = "1,2,5,10", value_delimiter = ',')]
    pub read: Vec<usize>,
    /// The share of rows that is summed, chosen by a condition on one more field; 1 means all rows, without a condition
    #[arg(long, default_value = "1,0.1", value_delimiter = ',', value_parser = parse_share)]
    pub selected: Vec<f64>,
    /// The share of rows written since the columns were read
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = parse_share)]
    pub written: Vec<f64>,
    /// Layouts; ratios are to the first
    #[arg(long, default_value = "records,nsm,pax,dsm,arrays", value_delimiter = ',')]
    pub layout: Vec<Layout>,
    /// Rows in a block of NSM, PAX and grouped columns
    #[arg(long, default_value = "8192", value_parser = clap::value_parser!(u32).range(1..))]
    pub block_rows: u32,
    /// Seconds per variant, divided among the repeats
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
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

/// The number of fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fields {
    /// 80 bytes
    #[value(name = "10")]
    Ten,
    /// 800 bytes
    #[value(name = "100")]
    Hundred,
}

/// The places where fields can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// The table's records, without a projection
    Records,
    /// A projection with one column, which holds the whole record
    Nsm,
    /// A projection with a column for each field, in blocks
    Pax,
    /// Like pax, in one block
    Dsm,
    /// A projection with two columns, in blocks: the field with the condition, and all other fields together
    Grouped,
    /// An array for each field, without a database
    Arrays,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Records => "records",
            Layout::Nsm => "nsm",
            Layout::Pax => "pax",
            Layout::Dsm => "dsm",
            Layout::Grouped => "grouped",
            Layout::Arrays => "arrays",
        }
    }
}

fn parse_share(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("{text:?} is not a share between 0 and 1")),
    }
}

type Record<const N: usize> = Plain<[u64; N]>;
type Db = Database<Serializable>;

/// A query: the sum of the first `read` fields of the rows whose last field is below a limit.
#[derive(Clone, Copy)]
struct Query {
    read: usize,
    limit: Option<u64>,
}

/// The last field is taken modulo this number, so that a limit selects a share of the rows.
const LAST_MAX: u64 = 1 << 20;

impl Query {
    fn new(read: usize, selected: f64) -> Query {
        let limit = (selected < 1.0).then_some((selected * LAST_MAX as f64) as u64);
        Query { read, limit }
    }

    /// Evaluates the query row by row.
    #[inline(always)]
    fn row<const N: usize>(self, row: &[u64; N]) -> u64 {
        match self.limit {
            Some(limit) if row[N - 1] >= limit => 0,
            _ => row[..self.read].iter().fold(0, |sum: u64, value| sum.wrapping_add(*value)),
        }
    }

    /// Evaluates the query column by column: first the condition, then the selected rows of each column.
    fn columns(self, columns: &[&[u64]], selection: &mut Selection) -> u64 {
        let (last, columns) = (columns[columns.len() - 1], &columns[..self.read]);
        let Some(limit) = self.limit else {
            let sum = |column: &&[u64]| column.iter().fold(0, |sum: u64, value| sum.wrapping_add(*value));
            return columns.iter().map(sum).fold(0, u64::wrapping_add);
        };
        selection.select(last, |value| value < limit);
        let sum = |column: &&[u64]| {
            selection.iter().fold(0, |sum: u64, &row| sum.wrapping_add(column[row as usize]))
        };
        columns.iter().map(sum).fold(0, u64::wrapping_add)
    }

    /// Evaluates the condition on its column first, then reads the other fields of the selected rows, row by row.
    fn grouped<const REST: usize>(
        self,
        rest: &[[u64; REST]],
        last: &[u64],
        selection: &mut Selection,
    ) -> u64 {
        let (read, reads_last) = (self.read.min(REST), self.read > REST);
        let row = |(rest, last): (&[u64; REST], &u64)| {
            let first = if reads_last { *last } else { 0 };
            rest[..read].iter().fold(first, |sum, value| sum.wrapping_add(*value))
        };
        let Some(limit) = self.limit else {
            return rest.iter().zip(last).map(row).fold(0, u64::wrapping_add);
        };
        selection.select(last, |value| value < limit);
        let rows = selection.iter().map(|&at| (&rest[at as usize], &last[at as usize]));
        rows.map(row).fold(0, u64::wrapping_add)
    }
}

fn record<const N: usize>(number: u64, version: u64) -> [u64; N] {
    let mut record = std::array::from_fn(|field| number.wrapping_mul(field as u64 + 1).wrapping_add(version));
    record[N - 1] = mix(number) % LAST_MAX;
    record
}

/// A loaded table and its projections. `REST` is the number of a record's fields without the last one.
struct Loaded<const N: usize, const REST: usize> {
    db: Db,
    table: Table<u64, Record<N>>,
    nsm: Projection<u64, Record<N>, ([u64; N],)>,
    pax: Projection<u64, Record<N>, [u64; N]>,
    dsm: Projection<u64, Record<N>, [u64; N]>,
    grouped: Projection<u64, Record<N>, ([u64; REST], u64)>,
    arrays: Vec<Vec<u64>>,
    records: u64,
}

/// Records that one transaction writes.
const CHUNK: u64 = 1000;

impl<const N: usize, const REST: usize> Loaded<N, REST> {
    fn new(records: u64, args: &BlocksArgs) -> braiddb::Result<Self> {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
        let table = db.table("records")?;
        let blocks = |rows: u64| {
            let mut options = ProjectionOptions::default();
            options.block_rows = rows.clamp(1, u64::from(u32::MAX)) as usize;
            options
        };
        let rows = u64::from(args.block_rows);
        let nsm = db.projection_with(table, "nsm", blocks(rows), |_, record: &[u64; N]| Some((*record,)))?;
        let pax = db.projection_with(table, "pax", blocks(rows), |_, record: &[u64; N]| Some(*record))?;
        let dsm = db.projection_with(table, "dsm", blocks(records), |_, record: &[u64; N]| Some(*record))?;
        let grouped = db.projection_with(table, "grouped", blocks(rows), |_, record: &[u64; N]| {
            const { assert!(REST + 1 == N) };
            Some((std::array::from_fn(|field| record[field]), record[REST]))
        })?;
        let loaded = Loaded { db, table, nsm, pax, dsm, grouped, arrays: Vec::new(), records };
        loaded.write((0..records).collect(), 0)?;
        Ok(loaded)
    }

    fn write(&self, numbers: Vec<u64>, version: u64) -> braiddb::Result<()> {
        for chunk in numbers.chunks(CHUNK as usize) {
            let put = |number: &u64| (*number, record::<N>(*number, version));
            let rows: Vec<_> = chunk.iter().map(put).collect();
            self.db.transact(|tx| rows.iter().try_for_each(|(key, row)| tx.put(self.table, key, row)))?;
        }
        Ok(())
    }

    /// Refreshes the projections of these layouts, then writes a share of the rows, spread evenly.
    fn prepare(&mut self, layouts: &[Layout], written: f64, version: u64) -> braiddb::Result<()> {
        for layout in layouts {
            match layout {
                Layout::Records => {}
                Layout::Nsm => drop(self.nsm.refresh()?),
                Layout::Pax => drop(self.pax.refresh()?),
                Layout::Dsm => drop(self.dsm.refresh()?),
                Layout::Grouped => drop(self.grouped.refresh()?),
                Layout::Arrays => {}
            }
        }
        let count = (written * self.records as f64) as u64;
        let numbers = (0..count).map(|at| (at as f64 / written) as u64).collect();
        self.write(numbers, version)?;
        if layouts.contains(&Layout::Arrays) {
            self.arrays = vec![Vec::with_capacity(self.records as usize); N];
            let arrays = &mut self.arrays;
            let tx = self.db.begin()?;
            tx.declare_read_only();
            tx.scan_all(self.table).for_each(|_, row| {
                row.iter().zip(&mut *arrays).for_each(|(value, array)| array.push(*value));
            })?;
        }
        Ok(())
    }

    fn run(&self, layout: Layout, query: Query, selection: &mut Selection) -> braiddb::Result<u64> {
        let tx = self.db.begin()?;
        tx.declare_read_only();
        let mut sum = 0u64;
        match layout {
            Layout::Records => {
                let mut rows = tx.scan_all(self.table);
                rows.for_each(|_, row| sum = sum.wrapping_add(query.row(row)))?;
            }
            Layout::Nsm => each(&self.nsm, &tx, |(rows,)| {
                sum = rows.iter().fold(sum, |sum, row| sum.wrapping_add(query.row(row)));
            })?,
            Layout::Pax | Layout::Dsm => {
                let projection = if layout == Layout::Pax { &self.pax } else { &self.dsm };
                each(projection, &tx, |columns| sum = sum.wrapping_add(query.columns(&columns, selection)))?;
            }
            Layout::Grouped => each(&self.grouped, &tx, |(rest, last)| {
                sum = sum.wrapping_add(query.grouped(rest, last, selection));
            })?,
            Layout::Arrays => {
                let columns: Vec<&[u64]> = self.arrays.iter().map(Vec::as_slice).collect();
                sum = query.columns(&columns, selection);
            }
        }
        Ok(sum)
    }
}

fn each<const N: usize, R: Columns>(
    projection: &Projection<u64, Record<N>, R>,
    tx: &Transaction,
    mut f: impl FnMut(R::Slices<'_>),
) -> braiddb::Result<()> {
    let mut scan = projection.scan_all(tx)?;
    while let Some(batch) = scan.next()? {
        f(batch.columns());
    }
    Ok(())
}

/// The result of one layout in one setting.
#[derive(Serialize)]
struct Figure {
    records: u64,
    fields: usize,
    read: usize,
    selected: f64,
    written: f64,
    layout: &'static str,
    scans_per_s: f64,
    spread: f64,
    rows_per_s: f64,
    /// Bytes of the summed fields and of the field with the condition.
    bytes_per_s: f64,
}

impl Beside for Figure {
    const SETTING: &'static [(&'static str, bool)] =
        &[("records", true), ("fields", true), ("read", true), ("selected", true), ("written", true)];
    const ROWS: &'static [Row<Self>] = &[
        ("M rows/s", |one| format!("{:.1}", one.rows_per_s / 1e6)),
        ("GB/s", |one| format!("{:.2}", one.bytes_per_s / 1e9)),
        ("spread", |one| format!("{:.0} %", one.spread * 100.0)),
    ];

    fn setting(&self) -> Vec<String> {
        let shares = [self.selected, self.written].map(|share| share.to_string());
        [self.records.to_string(), self.fields.to_string(), self.read.to_string()]
            .into_iter()
            .chain(shares)
            .collect()
    }
    fn variant(&self) -> &str {
        self.layout
    }
    fn transactions_per_s(&self) -> f64 {
        self.scans_per_s
    }
}

#[derive(Serialize)]
struct Json<'a> {
    environment: &'a Environment,
    block_rows: u32,
    seconds: f64,
    repeats: u32,
    figures: &'a [Figure],
}

/// Runs `braid bench blocks`.
pub(crate) fn run(args: &BlocksArgs) -> Result<()> {
    let environment = Environment::of_this_machine();
    let mut figures = Vec::new();
    for &records in &args.records {
        match args.fields {
            Fields::Ten => of_size::<10, 9>(records, args, &mut figures)?,
            Fields::Hundred => of_size::<100, 99>(records, args, &mut figures)?,
        }
    }
    println!("{}\n\n{}", environment.summary(), beside::text(&figures));
    if let Some(path) = &args.json {
        let BlocksArgs { block_rows, seconds, repeats, .. } = *args;
        write_json(
            path,
            &Json { environment: &environment, block_rows, seconds, repeats, figures: &figures },
        )?;
    }
    args.svg.as_ref().map_or(Ok(()), |path| write(path, &svg(&figures, environment.notes())?))
}

fn of_size<const N: usize, const REST: usize>(
    records: u64,
    args: &BlocksArgs,
    figures: &mut Vec<Figure>,
) -> Result<()> {
    if records == 0 {
        return Err(Failure::new("--records must be 1 at least"));
    }
    let mut loaded = Loaded::<N, REST>::new(records, args).map_err(engine::failure)?;
    for (version, &written) in args.written.iter().enumerate() {
        loaded.prepare(&args.layout, written, version as u64 + 1).map_err(engine::failure)?;
        for &read in args.read.iter().filter(|&&read| (1..=N).contains(&read)) {
            for &selected in &args.selected {
                let setting = Setting { read, selected, written };
                figures.extend(measure(&loaded, setting, args)?);
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Setting {
    read: usize,
    selected: f64,
    written: f64,
}

/// Runs all layouts in turns, once per repeat.
fn measure<const N: usize, const REST: usize>(
    loaded: &Loaded<N, REST>,
    setting: Setting,
    args: &BlocksArgs,
) -> Result<Vec<Figure>> {
    let query = Query::new(setting.read, setting.selected);
    let slice = Duration::from_secs_f64(args.seconds / f64::from(args.repeats));
    let (mut selection, mut sums) = (Selection::default(), Vec::new());
    let mut rates = vec![Vec::new(); args.layout.len()];
    for _ in 0..args.repeats {
        for (layout, rates) in args.layout.iter().zip(&mut rates) {
            let (begun, mut scans) = (Instant::now(), 0u32);
            while scans == 0 || begun.elapsed() < slice {
                sums.push(loaded.run(*layout, query, &mut selection).map_err(engine::failure)?);
                scans += 1;
            }
            rates.push(f64::from(scans) / begun.elapsed().as_secs_f64());
        }
    }
    if sums.iter().any(|sum| *sum != sums[0]) {
        return Err(Failure::new("scans of the same rows have come to different sums"));
    }
    let figure = |(layout, rates): (&Layout, Vec<f64>)| figure::<N>(loaded.records, setting, *layout, rates);
    Ok(args.layout.iter().zip(rates).map(figure).collect())
}

fn figure<const N: usize>(records: u64, setting: Setting, layout: Layout, mut rates: Vec<f64>) -> Figure {
    rates.sort_by(f64::total_cmp);
    let scans_per_s = rates[rates.len() / 2];
    let Setting { read, selected, written } = setting;
    let columns = read + usize::from(selected < 1.0);
    let rows_per_s = scans_per_s * records as f64;
    Figure {
        records,
        fields: N,
        read,
        selected,
        written,
        layout: layout.name(),
        scans_per_s,
        spread: (rates[rates.len() - 1] - rates[0]) / scans_per_s,
        rows_per_s,
        bytes_per_s: rows_per_s * (columns * size_of::<u64>()) as f64,
    }
}

/// Draws the results of the largest table.
fn svg(figures: &[Figure], notes: Vec<String>) -> Result<String> {
    let last = figures
        .last()
        .ok_or_else(|| Failure::new("nothing was run: --read names no number of fields that a record has"))?;
    let x_name = format!(
        "fields read of {}, shares of rows selected and written since; {} records",
        last.fields, last.records
    );
    beside::svg(figures, ("Scans by those of the first layout", x_name), notes, |one| {
        let is_drawn = one.records == last.records;
        is_drawn.then(|| format!("{}, {}, {}", one.read, one.selected, one.written))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn args(flags: &str) -> BlocksArgs {
        let command = BlocksArgs::augment_args(clap::Command::new("blocks").no_binary_name(true));
        let found = command.try_get_matches_from(flags.split_whitespace()).unwrap();
        BlocksArgs::from_arg_matches(&found).unwrap()
    }

    /// Proves that every layout computes the same sums in every setting, with and without rows written since, and that
    /// the table and the chart contain all layouts.
    #[test]
    fn layouts_are_run_beside_each_other() {
        let flags = "--layout records,nsm,pax,dsm,grouped,arrays --records 3K --read 1,10,99 --selected 1,0.3 --written 0,0.05,1 --block-rows 100 --seconds 0.01 --repeats 1";
        for (fields, settings) in [("10", 2), ("100", 3)] {
            let (mut figures, args) = (Vec::new(), args(&format!("{flags} --fields {fields}")));
            match args.fields {
                Fields::Ten => of_size::<10, 9>(3000, &args, &mut figures).unwrap(),
                Fields::Hundred => of_size::<100, 99>(3000, &args, &mut figures).unwrap(),
            }
            assert_eq!(figures.len(), 6 * settings * 2 * 3);
            assert!(figures.iter().all(|figure| figure.scans_per_s > 0.0));
            let (text, svg) = (beside::text(&figures), svg(&figures, Vec::new()).unwrap());
            assert!(text.contains("grouped") && svg.contains("10, 0.3, 0.05"), "{text}");
        }
        assert!(parse_share("1.5").is_err() && parse_share("x").is_err());
    }
}
