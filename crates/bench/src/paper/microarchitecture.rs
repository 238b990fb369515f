//! Utku Sirin, Pınar Tözün, Danica Porobic, Ahmad Yasin, Anastasia Ailamaki: "Micro-architectural analysis of in-memory
//! OLTP: Revisited", VLDB Journal 30, 2021.
//!
//! The paper measures several systems. Here, schemes and indexes of this engine that are of the same kinds stand in for
//! them; see `archetypes`. Where the paper normalizes to DBMS D, which has no stand-in here, its figures are converted
//! to be relative to Shore-MT, and Braid's are relative to the archetype of Shore-MT.

use super::archetypes::series;
use super::figure::{Base, Comparison, Id, PaperSeries, Preset, Publication};
use crate::lines::Point;
use braiddb::{Front, IndexKind};

pub(super) static MICROARCHITECTURE: Publication = Publication {
    title: "Micro-architectural analysis of in-memory OLTP: Revisited (VLDB Journal 30, 2021)",
    machine: "one core of a Xeon E5-2680 v4, L3 35 MB, no hyperthreads, asynchronous logging",
    presets: &PRESETS,
};

/// Relative throughput of DBMS D as its database grows from 1 MB (section 4.2). Table 2 is normalized to DBMS D.
const DBMS_D: [f64; 4] = [1.0, 0.93, 0.84, 0.81];
const SHORE_MT: [f64; 4] = [3.0, 2.9, 2.1, 1.6];
/// DBMS M ran with three sizes only.
const DBMS_M: [f64; 4] = [2.8, 3.0, 3.0, f64::NAN];
const DBMS_N: [f64; 4] = [7.8, 7.8, 6.4, 3.9];
const SILO: [f64; 4] = [75.4, 62.9, 27.5, 19.3];

/// Divides a system's throughput by its own throughput with 1 MB.
const fn by_first(of: [f64; 4]) -> [f64; 4] {
    let mut ratios = [1.0; 4];
    let mut at = 1;
    while at < 4 {
        ratios[at] = of[at] * DBMS_D[at] / of[0];
        at += 1;
    }
    ratios
}

/// Converts figures that are normalized to one system to figures normalized to another.
const fn by<const N: usize>(of: [f64; N], base: [f64; N]) -> [f64; N] {
    let mut ratios = of;
    let mut at = 0;
    while at < N {
        ratios[at] = of[at] / base[at];
        at += 1;
    }
    ratios
}

const SIZES: [&str; 4] = ["1 MB", "10 MB", "10 GB", "100 GB"];

/// Returns the cells of all four sizes.
const fn by_size(values: [f64; 4]) -> [(&'static str, f64); 4] {
    [(SIZES[0], values[0]), (SIZES[1], values[1]), (SIZES[2], values[2]), (SIZES[3], values[3])]
}

/// Returns the cells of the three sizes that DBMS M ran with.
const fn by_size_of_m(values: [f64; 4]) -> [(&'static str, f64); 3] {
    [(SIZES[0], values[0]), (SIZES[1], values[1]), (SIZES[2], values[2])]
}

const fn by_rows(values: [f64; 3]) -> [(&'static str, f64); 3] {
    [("1 row", values[0]), ("10 rows", values[1]), ("100 rows", values[2])]
}

const fn by_benchmark([tpcb, tpcc]: [f64; 2]) -> [(&'static str, f64); 2] {
    [("tpcb", tpcb), ("tpcc", tpcc)]
}

const fn by_column(string: f64) -> [(&'static str, f64); 2] {
    [("long", 1.0), ("text50", string)]
}

const fn of_paper(name: &'static str, cells: &'static [(&'static str, f64)]) -> PaperSeries {
    let like = match name.as_bytes() {
        b"Shore-MT" => LOCKING,
        b"DBMS M" => "multi-version, naive",
        b"DBMS N" => "partitioned, naive",
        b"Silo" => "optimistic, naive",
        _ => "",
    };
    PaperSeries { name, like, cells }
}

fn size(point: &Point) -> Option<String> {
    const UNITS: [(&str, u64); 3] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let bytes = point.number("size") as u64;
    let whole = UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    Some(whole.map_or(format!("{bytes} B"), |(name, unit)| format!("{} {name}", bytes / unit)))
}

fn rows(point: &Point) -> Option<String> {
    let rows = point.number("rows");
    Some(if rows == 1.0 { "1 row".to_owned() } else { format!("{rows} rows") })
}

fn benchmark(point: &Point) -> Option<String> {
    Some(point.text("benchmark"))
}

/// The series that others are divided by: the archetype of Shore-MT, one transaction after the other.
const LOCKING: &str = "locking, naive";
const BY_LOCKING: &str = "throughput by that of locking, one after the other";

const BY_SIZE: Comparison = Comparison {
    column: size,
    series,
    lines: true,
    ..Comparison::new("throughput by that with 1 MB", "keys and values")
};

const BY_ROWS: Comparison = Comparison {
    column: rows,
    series,
    lines: true,
    ..Comparison::new("throughput by that of 1 row", "rows of a transaction")
};

/// Ratios for long columns and for text columns.
const BY_TYPE: Comparison = Comparison {
    column: |point| Some(point.text("column")),
    series,
    ..Comparison::new("throughput by that of long columns", "type of both columns")
};

const READS: Comparison = Comparison {
    base: Base::Those(|point| !point.writes()),
    caption: "updates by reads: throughput",
    ..BY_SIZE
};

/// Reads, by size.
const TABLE_2: Preset = Preset {
    scale: "databases of 1 MB to 100 GB",
    runs: &["micro --size {sizes} --rows 1 --workers {workers} --mode naive,auto {archetype}"],
    comparisons: &[
        Comparison {
            caption: BY_LOCKING,
            base: Base::Series(LOCKING),
            lines: false,
            paper: &[
                of_paper("DBMS D", &by_size(by([1.0; 4], SHORE_MT))),
                of_paper("Shore-MT", &by_size([1.0; 4])),
                of_paper("DBMS M", &by_size_of_m(by(DBMS_M, SHORE_MT))),
                of_paper("DBMS N", &by_size(by(DBMS_N, SHORE_MT))),
                of_paper("Silo", &by_size(by(SILO, SHORE_MT))),
            ],
            ..BY_SIZE
        },
        Comparison {
            paper: &[
                of_paper("DBMS D", &by_size(DBMS_D)),
                of_paper("Shore-MT", &by_size(by_first(SHORE_MT))),
                of_paper("DBMS M", &by_size_of_m(by_first(DBMS_M))),
                of_paper("DBMS N", &by_size(by_first(DBMS_N))),
                of_paper("Silo", &by_size(by_first(SILO))),
            ],
            ..BY_SIZE
        },
    ],
    ..Preset::new(
        Id::Table(2),
        "size of the database, 1 row read",
        "Silo is ahead of all others at every size, at 25 to 12 x Shore-MT, the others at 0.9 to 3 x; it keeps 21 % of its \
         throughput at 100 GB, as each miss weighs more where there are few instructions",
    )
};

/// Reads, by number of rows.
const TABLE_3: Preset = Preset {
    scale: "databases of 100 GB",
    runs: &["micro --size {size} --rows 1,10,100 --workers {workers} --mode naive,auto {archetype}"],
    comparisons: &[
        Comparison {
            caption: BY_LOCKING,
            base: Base::Series(LOCKING),
            lines: false,
            paper: &[
                of_paper("DBMS D", &by_rows(by([1.0; 3], SHORE_MT_BY_ROWS))),
                of_paper("Shore-MT", &by_rows([1.0; 3])),
                of_paper("DBMS M", &by_rows(by([3.0, 3.7, 3.9], SHORE_MT_BY_ROWS))),
                of_paper("DBMS N", &by_rows(by([3.9, 2.1, 1.7], SHORE_MT_BY_ROWS))),
                of_paper("Silo", &by_rows(by([19.3, 8.0, 6.0], SHORE_MT_BY_ROWS))),
            ],
            ..BY_ROWS
        },
        BY_ROWS,
    ],
    ..Preset::new(
        Id::Table(3),
        "work of a transaction: 1, 10 and 100 rows read",
        "the more rows, the closer DBMS N and Silo are to DBMS D, whose code outside of its storage manager weighs less \
         then: Silo 19, 8 and 6 x of it, Shore-MT 1.6, 0.7 and 0.7 x",
    )
};

const SHORE_MT_BY_ROWS: [f64; 3] = [1.6, 0.7, 0.7];
const SHORE_MT_BY_BENCHMARK: [f64; 2] = [1.7, 1.2];

/// TPC-B and TPC-C.
const TABLE_4: Preset = Preset {
    scale: "databases of 100 GB",
    runs: &[
        "tpcb --scale {branches} --workers {workers} --mode naive,auto {archetype}",
        "tpcc --warehouses {warehouses} --workers {workers} --mode naive,auto {archetype}",
    ],
    comparisons: &[Comparison {
        column: benchmark,
        series,
        base: Base::Series(LOCKING),
        paper: &[
            of_paper("DBMS D", &by_benchmark(by([1.0; 2], SHORE_MT_BY_BENCHMARK))),
            of_paper("Shore-MT", &by_benchmark([1.0; 2])),
            of_paper("DBMS M", &by_benchmark(by([2.2, 3.1], SHORE_MT_BY_BENCHMARK))),
            of_paper("DBMS N", &by_benchmark(by([5.4, 2.7], SHORE_MT_BY_BENCHMARK))),
            of_paper("Silo", &by_benchmark(by([18.5, 20.0], SHORE_MT_BY_BENCHMARK))),
        ],
        ..Comparison::new(BY_LOCKING, "benchmark")
    }],
    ..Preset::new(
        Id::Table(4),
        "TPC-B and TPC-C",
        "Silo is at 11 and 17 x Shore-MT, DBMS N at 3.2 and 2.3 x, DBMS M at 1.3 and 2.6 x",
    )
};

/// Returns the index and how transactions are made, which is what the paper varies for DBMS M. TPC-C scans, and a hash
/// index has no order, so for TPC-C the front of an ordered index stands in for the hash index.
fn access(point: &Point) -> String {
    let is_hash =
        point.text("index") == IndexKind::Cuckoo.name() || point.text("front") == Front::Hash.name();
    let index = if is_hash { "hash" } else { "B-tree" };
    let procedure = match &*point.text("procedure") {
        "interpreted" => "interpreted",
        _ => "compiled",
    };
    format!("{index}, {procedure}")
}

const COMPILED: &str = "B-tree, compiled";
const INTERPRETED: &str = "B-tree, interpreted";

const BY_INTERPRETED: Comparison = Comparison {
    column: benchmark,
    series: access,
    base: Base::Series(INTERPRETED),
    ..Comparison::new("throughput by that of a B-tree and interpreted transactions", "benchmark")
};

const fn of_dbms_m(like: &'static str, cells: &'static [(&'static str, f64)]) -> PaperSeries {
    PaperSeries { name: like, like, cells }
}

const MICRO_OF_DBMS_M: &str = "micro --size {size} --rows 10 --workers {workers} --mode naive --cc mvcc --index bwtree,cuckoo \
                               --procedure interpreted,compiled";
const TPCC_OF_DBMS_M: &str = "tpcc --warehouses {warehouses} --mix narrow --workers {workers} --mode naive --cc mvcc --index bwtree \
                              --front none,hash --procedure interpreted,compiled";

/// Reads, by index and compilation.
const TABLE_5: Preset = Preset {
    scale: "a database of 10 GB (TPC-C: 32 GB)",
    runs: &[MICRO_OF_DBMS_M, TPCC_OF_DBMS_M],
    comparisons: &[Comparison {
        paper: &[
            of_dbms_m(INTERPRETED, &[("micro", 1.0), ("tpcc", 1.0)]),
            of_dbms_m(COMPILED, &[("micro", 5.0), ("tpcc", 5.0)]),
            of_dbms_m("hash, interpreted", &[("micro", 1.5), ("tpcc", 1.0)]),
            of_dbms_m("hash, compiled", &[("micro", 9.0), ("tpcc", 5.0)]),
        ],
        ..BY_INTERPRETED
    }],
    ..Preset::new(
        Id::Table(5),
        "kind of index, transactions compiled or not; 10 rows read, TPC-C",
        "compiling makes 5 to 6 x; a hash index 1.5 to 1.8 x a B-tree with the micro-benchmark, nothing with TPC-C",
    )
};

/// Reads, by type.
const TABLE_6: Preset = Preset {
    scale: "databases of 100 GB (DBMS M: 10 GB)",
    runs: &[
        "micro --size {size} --rows 1 --column long,text50 --workers {workers} --mode naive,auto {archetype}",
    ],
    comparisons: &[Comparison {
        paper: &[
            of_paper("DBMS M", &by_column(0.7)),
            of_paper("DBMS N", &by_column(1.0)),
            of_paper("Silo", &by_column(0.7)),
        ],
        ..BY_TYPE
    }],
    ..Preset::new(
        Id::Table(6),
        "type of the columns, 1 row read",
        "by its own throughput with long columns: Silo and DBMS M 0.7 x, DBMS N 1 x",
    )
};

/// Updates divided by reads, by size.
const TABLE_14: Preset = Preset {
    scale: "databases of 1 MB to 100 GB",
    runs: &[
        "micro --size {sizes} --rows 1 --workers {workers} --mode naive,auto {archetype}",
        "micro --write --size {sizes} --rows 1 --workers {workers} --mode naive,auto {archetype}",
    ],
    comparisons: &[Comparison {
        paper: &[
            of_paper("DBMS D", &by_size([0.7, 0.7, 0.8, 0.8])),
            of_paper("Shore-MT", &by_size([0.5, 0.5, 0.6, 0.6])),
            of_paper("DBMS M", &by_size_of_m([0.7; 4])),
            of_paper("DBMS N", &by_size([0.7, 0.7, 0.7, 0.8])),
            of_paper("Silo", &by_size([0.8, 0.8, 0.8, 0.9])),
        ],
        ..READS
    }],
    ..Preset::new(
        Id::Table(14),
        "size of the database, 1 row updated by 1 row read",
        "updates at 0.5 to 0.9 of the throughput of reads, closer as the database grows; Silo 0.8 to 0.9",
    )
};

/// Updates divided by reads, by number of rows.
const TABLE_15: Preset = Preset {
    scale: "databases of 100 GB",
    runs: &[
        "micro --size {size} --rows 1,10,100 --workers {workers} --mode naive,auto {archetype}",
        "micro --write --size {size} --rows 1,10,100 --workers {workers} --mode naive,auto {archetype}",
    ],
    comparisons: &[Comparison {
        column: rows,
        x_name: BY_ROWS.x_name,
        paper: &[
            of_paper("DBMS D", &by_rows([0.8, 0.8, 0.7])),
            of_paper("Shore-MT", &by_rows([0.6, 0.8, 0.8])),
            of_paper("DBMS M", &by_rows([0.7, 0.5, 0.5])),
            of_paper("DBMS N", &by_rows([0.8, 0.8, 0.8])),
            of_paper("Silo", &by_rows([0.9, 0.9, 0.9])),
        ],
        ..READS
    }],
    ..Preset::new(
        Id::Table(15),
        "work of a transaction: rows updated by rows read",
        "updates at 0.5 to 0.9 of the throughput of reads; Silo 0.9 at 1, 10 and 100 rows",
    )
};

/// Updates, by index and compilation.
const TABLE_16: Preset = Preset {
    scale: "a database of 10 GB",
    runs: &["micro --write --size {size} --rows 10 --workers {workers} --mode naive --cc mvcc --index \
             bwtree,cuckoo --procedure interpreted,compiled"],
    comparisons: &[Comparison {
        paper: &[
            of_dbms_m(INTERPRETED, &[("micro", 1.0)]),
            of_dbms_m(COMPILED, &[("micro", 5.0)]),
            of_dbms_m("hash, interpreted", &[("micro", 1.5)]),
            of_dbms_m("hash, compiled", &[("micro", 11.5)]),
        ],
        ..BY_INTERPRETED
    }],
    ..Preset::new(
        Id::Table(16),
        "kind of index, transactions compiled or not; 10 rows updated",
        "compiling makes 5 to 7.7 x, a hash index 1.5 to 2.3 x a B-tree",
    )
};

/// Updates, by type.
const TABLE_17: Preset = Preset {
    scale: "databases of 100 GB (DBMS M: 10 GB)",
    runs: &[
        "micro --write --size {size} --rows 1 --column long,text50 --workers {workers} --mode naive,auto {archetype}",
    ],
    comparisons: &[Comparison {
        paper: &[
            of_paper("DBMS M", &by_column(0.6)),
            of_paper("DBMS N", &by_column(0.9)),
            of_paper("Silo", &by_column(0.6)),
        ],
        ..BY_TYPE
    }],
    ..Preset::new(
        Id::Table(17),
        "type of the columns, 1 row updated",
        "by its own throughput with long columns: Silo and DBMS M 0.6 x, DBMS N 0.9 x",
    )
};

/// Makes the preset of a figure that breaks down cycles, from the transactions of a table.
const fn cycles(
    number: u32,
    title: &'static str,
    paper: &'static str,
    scale: &'static str,
    runs: &'static [&'static str],
) -> Preset {
    Preset { scale, runs, counts_hardware: true, ..Preset::new(Id::Figure(number), title, paper) }
}

static PRESETS: [Preset; 20] = [
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_14,
    TABLE_15,
    TABLE_16,
    TABLE_17,
    cycles(
        1,
        "where cycles go: 1 row read, by size",
        "fewer than 30 % of the cycles retire instructions at 10 GB and beyond; DBMS D and M wait for instructions, Shore-MT, \
         DBMS N and Silo for data",
        TABLE_2.scale,
        &["micro --size {sizes} --rows 1 --workers {workers} --mode naive,interleaved --batch 8 {archetype}"],
    ),
    cycles(
        5,
        "where cycles go: 1, 10 and 100 rows read",
        "the more rows, the less DBMS D and M wait for instructions",
        TABLE_3.scale,
        &[
            "micro --size {size} --rows 1,10,100 --workers {workers} --mode naive,interleaved --batch 8 {archetype}",
        ],
    ),
    cycles(
        8,
        "where cycles go: TPC-B",
        "all but DBMS M wait less for data than with 1 row read, as branches and tellers stay in the caches",
        TABLE_4.scale,
        &["tpcb --scale {branches} --workers {workers} --mode naive,interleaved --batch 8 {archetype}"],
    ),
    cycles(
        9,
        "where cycles go: TPC-C",
        "all wait less for data than with the micro-benchmark; DBMS D and M wait for instructions",
        TABLE_4.scale,
        &[
            "tpcc --warehouses {warehouses} --workers {workers} --mode naive,interleaved --batch 8 {archetype}",
        ],
    ),
    cycles(
        10,
        "where cycles go: kind of index, transactions compiled or not; 10 rows read",
        "compiling halves the waits for instructions, whatever the index; without it a B-tree waits more for data than a \
         hash index, with it as much",
        TABLE_5.scale,
        &[MICRO_OF_DBMS_M],
    ),
    cycles(
        11,
        "where cycles go: kind of index, transactions compiled or not; NewOrder and Payment",
        "compiling takes away most waits for instructions; the index makes no difference",
        TABLE_5.scale,
        &[TPCC_OF_DBMS_M],
    ),
    cycles(
        12,
        "where cycles go: type of the columns, 1 row read",
        "DBMS M waits more for data with strings, DBMS N less, Silo as much",
        TABLE_6.scale,
        &["micro --size {size} --rows 1 --column long,text50 --workers {workers} --mode naive {archetype}"],
    ),
    cycles(
        17,
        "where cycles go: 1 row updated, by size",
        "as with reads; Shore-MT and DBMS M wait more for data, DBMS N and Silo less, as an update finds what its read has \
         fetched",
        TABLE_14.scale,
        &["micro --write --size {sizes} --rows 1 --workers {workers} --mode naive {archetype}"],
    ),
    cycles(
        18,
        "where cycles go: 1, 10 and 100 rows updated",
        "as with reads",
        TABLE_15.scale,
        &["micro --write --size {size} --rows 1,10,100 --workers {workers} --mode naive {archetype}"],
    ),
    cycles(
        19,
        "where cycles go: kind of index, transactions compiled or not; 10 rows updated",
        "compiling takes away most waits for instructions, as with reads",
        TABLE_16.scale,
        TABLE_16.runs,
    ),
    cycles(
        20,
        "where cycles go: type of the columns, 1 row updated",
        "DBMS M waits for data as much with strings as without, DBMS N less, Silo as much",
        TABLE_17.scale,
        &[
            "micro --write --size {size} --rows 1 --column long,text50 --workers {workers} --mode naive {archetype}",
        ],
    ),
];
