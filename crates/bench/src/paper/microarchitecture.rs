//! Utku Sirin, Pınar Tözün, Danica Porobic, Ahmad Yasin, Anastasia Ailamaki: "Micro-architectural analysis of
//! in-memory OLTP: Revisited", VLDB Journal 30, 2021. Its systems are those of others; Silo, whose index is a
//! Masstree as ours, is the nearest to this engine. Where the paper normalises to DBMS D, which is not available to run
//! here, its ratios and ours are to different things, and no chart holds both.

use super::figure::{Base, Comparison, Id, PaperSeries, Preset, Publication};
use crate::lines::Point;

pub(super) static MICROARCHITECTURE: Publication = Publication {
    title: "Micro-architectural analysis of in-memory OLTP: Revisited (VLDB Journal 30, 2021)",
    machine: "one core of a Xeon E5-2680 v4, L3 35 MB, no hyperthreads, asynchronous logging",
    presets: &PRESETS,
};

/// What DBMS D, to which table 2 is normalised, loses as its database grows from 1 MB (section 4.2).
const DBMS_D: [f64; 4] = [1.0, 0.93, 0.84, 0.81];

/// A system's column of table 2 by its own first one: `at` of 1 MB, 10 MB, 10 GB and 100 GB.
const fn by_first(table_2: [f64; 4], at: usize) -> f64 {
    table_2[at] * DBMS_D[at] / table_2[0]
}

const SHORE_MT: [f64; 4] = [3.0, 2.9, 2.1, 1.6];
const DBMS_M: [f64; 3] = [2.8, 3.0, 3.0];
const DBMS_N: [f64; 4] = [7.8, 7.8, 6.4, 3.9];
const SILO: [f64; 4] = [75.4, 62.9, 27.5, 19.3];

const SIZES: [&str; 4] = ["1 MB", "10 MB", "10 GB", "100 GB"];

/// Cells of all four sizes.
const fn by_size(values: [f64; 4]) -> [(&'static str, f64); 4] {
    [(SIZES[0], values[0]), (SIZES[1], values[1]), (SIZES[2], values[2]), (SIZES[3], values[3])]
}

/// Cells of the three sizes that DBMS M was run with.
const fn by_size_of_m(values: [f64; 3]) -> [(&'static str, f64); 3] {
    [(SIZES[0], values[0]), (SIZES[1], values[1]), (SIZES[2], values[2])]
}

const fn by_rows(values: [f64; 3]) -> [(&'static str, f64); 3] {
    [("1 row", values[0]), ("10 rows", values[1]), ("100 rows", values[2])]
}

const fn by_benchmark(tpcb: f64, tpcc: f64) -> [(&'static str, f64); 2] {
    [("tpcb", tpcb), ("tpcc", tpcc)]
}

const fn by_column(string: f64) -> [(&'static str, f64); 2] {
    [("long", 1.0), ("text50", string)]
}

const fn of_paper(name: &'static str, cells: &'static [(&'static str, f64)]) -> PaperSeries {
    PaperSeries { name, like: "", cells }
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

fn mode(point: &Point) -> String {
    point.text("mode")
}

const BY_SIZE: Comparison = Comparison {
    column: size,
    series: mode,
    lines: true,
    ..Comparison::new("throughput by that with 1 MB", "keys and values")
};

const BY_ROWS: Comparison = Comparison {
    column: rows,
    series: mode,
    lines: true,
    ..Comparison::new("throughput by that of 1 row", "rows of a transaction")
};

/// Ratios of ours to naive beside ratios of others to DBMS D.
const TO_NAIVE: &str = "ours by naive, the paper's by DBMS D";

/// Ratios of long columns and columns of text.
const BY_TYPE: Comparison = Comparison {
    column: |point| Some(point.text("column")),
    series: mode,
    ..Comparison::new("throughput by that of long columns", "type of both columns")
};

const READS: Comparison = Comparison {
    base: Base::Those(|point| !point.writes()),
    caption: "updates by reads: throughput",
    ..BY_SIZE
};

/// Sizes, for reads.
const TABLE_2: Preset = Preset {
    scale: "databases of 1 MB to 100 GB",
    runs: &["micro --size {sizes} --rows 1 --workers {workers} --mode naive,prefetch,interleaved,auto"],
    comparisons: &[
        Comparison {
            paper: &[
                of_paper("DBMS D", &by_size(DBMS_D)),
                of_paper(
                    "Shore-MT",
                    &by_size([1.0, by_first(SHORE_MT, 1), by_first(SHORE_MT, 2), by_first(SHORE_MT, 3)]),
                ),
                of_paper(
                    "DBMS M",
                    &by_size_of_m([
                        1.0,
                        DBMS_M[1] * DBMS_D[1] / DBMS_M[0],
                        DBMS_M[2] * DBMS_D[2] / DBMS_M[0],
                    ]),
                ),
                of_paper(
                    "DBMS N",
                    &by_size([1.0, by_first(DBMS_N, 1), by_first(DBMS_N, 2), by_first(DBMS_N, 3)]),
                ),
                of_paper("Silo", &by_size([1.0, by_first(SILO, 1), by_first(SILO, 2), by_first(SILO, 3)])),
            ],
            ..BY_SIZE
        },
        Comparison {
            caption: TO_NAIVE,
            base: Base::Series("naive"),
            same_scale: false,
            paper: &[
                of_paper("DBMS D", &by_size([1.0; 4])),
                of_paper("Shore-MT", &by_size(SHORE_MT)),
                of_paper("DBMS M", &by_size_of_m(DBMS_M)),
                of_paper("DBMS N", &by_size(DBMS_N)),
                of_paper("Silo", &by_size(SILO)),
            ],
            ..BY_SIZE
        },
    ],
    ..Preset::new(
        Id::Table(2),
        "size of the database, 1 row read",
        "normalised to DBMS D, which is not available here: ours are by naive and by the first column, to which the paper's \
         are brought with the section's figures for DBMS D. Silo, the nearest relative, keeps 21 % of its throughput at \
         100 GB",
    )
};

/// Rows, for reads.
const TABLE_3: Preset = Preset {
    scale: "databases of 100 GB",
    runs: &["micro --size {size} --rows 1,10,100 --workers {workers} --mode naive,prefetch,interleaved,auto"],
    comparisons: &[
        Comparison {
            caption: TO_NAIVE,
            base: Base::Series("naive"),
            same_scale: false,
            paper: &[
                of_paper("DBMS D", &by_rows([1.0; 3])),
                of_paper("Shore-MT", &by_rows([1.6, 0.7, 0.7])),
                of_paper("DBMS M", &by_rows([3.0, 3.7, 3.9])),
                of_paper("DBMS N", &by_rows([3.9, 2.1, 1.7])),
                of_paper("Silo", &by_rows([19.3, 8.0, 6.0])),
            ],
            ..BY_ROWS
        },
        BY_ROWS,
    ],
    ..Preset::new(
        Id::Table(3),
        "work of a transaction: 1, 10 and 100 rows read",
        "normalised to DBMS D, which is not available here: ours are by naive and by the first column. Silo, the nearest \
         relative, is at 4.9, 3.8 and 3.5 x DBMS N",
    )
};

/// TPC-B and TPC-C.
const TABLE_4: Preset = Preset {
    scale: "databases of 100 GB",
    runs: &[
        "tpcb --scale {branches} --workers {workers} --mode naive,prefetch,interleaved,auto",
        "tpcc --warehouses {warehouses} --workers {workers} --mode naive,prefetch,interleaved,auto",
    ],
    comparisons: &[Comparison {
        column: |point| Some(point.text("benchmark")),
        series: mode,
        base: Base::Series("naive"),
        same_scale: false,
        paper: &[
            of_paper("DBMS D", &by_benchmark(1.0, 1.0)),
            of_paper("Shore-MT", &by_benchmark(1.7, 1.2)),
            of_paper("DBMS M", &by_benchmark(2.2, 3.1)),
            of_paper("DBMS N", &by_benchmark(5.4, 2.7)),
            of_paper("Silo", &by_benchmark(18.5, 20.0)),
        ],
        ..Comparison::new(TO_NAIVE, "benchmark")
    }],
    ..Preset::new(
        Id::Table(4),
        "TPC-B and TPC-C",
        "normalised to DBMS D, which is not available here: ours are by naive. Silo, the nearest relative, is at 18.5 x with \
         TPC-B and 20 x with TPC-C",
    )
};

/// Types, for reads.
const TABLE_6: Preset = Preset {
    scale: "databases of 100 GB (DBMS M: 10 GB)",
    runs: &["micro --size {size} --rows 1 --column long,text50 --workers {workers} --mode \
             naive,prefetch,interleaved,auto"],
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
        "by its own throughput with long columns: Silo, the nearest relative, and DBMS M 0.7 x, DBMS N 1 x",
    )
};

/// Updates by reads, over sizes.
const TABLE_14: Preset = Preset {
    scale: "databases of 1 MB to 100 GB",
    runs: &[
        "micro --size {sizes} --rows 1 --workers {workers} --mode naive,prefetch,interleaved,auto",
        "micro --write --size {sizes} --rows 1 --workers {workers} --mode naive,prefetch,interleaved,auto",
    ],
    comparisons: &[Comparison {
        paper: &[
            of_paper("DBMS D", &by_size([0.7, 0.7, 0.8, 0.8])),
            of_paper("Shore-MT", &by_size([0.5, 0.5, 0.6, 0.6])),
            of_paper("DBMS M", &by_size_of_m([0.7; 3])),
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

/// Updates by reads, over rows.
const TABLE_15: Preset = Preset {
    scale: "databases of 100 GB",
    runs: &[
        "micro --size {size} --rows 1,10,100 --workers {workers} --mode naive,prefetch,interleaved,auto",
        "micro --write --size {size} --rows 1,10,100 --workers {workers} --mode naive,prefetch,interleaved,auto",
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

/// Types, for updates.
const TABLE_17: Preset = Preset {
    scale: "databases of 100 GB (DBMS M: 10 GB)",
    runs: &["micro --write --size {size} --rows 1 --column long,text50 --workers {workers} --mode \
             naive,prefetch,interleaved,auto"],
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
        "by its own throughput with long columns: Silo, the nearest relative, and DBMS M 0.6 x, DBMS N 0.9 x",
    )
};

static PRESETS: [Preset; 7] = [TABLE_2, TABLE_3, TABLE_4, TABLE_6, TABLE_14, TABLE_15, TABLE_17];
