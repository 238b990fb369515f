//! Tiemo Bang, Norman May, Ilia Petrov, Carsten Binnig: "The full story of 1000 cores", VLDB Journal, 2022.
//!
//! The paper's conflicts come from hundreds of cores on 4 warehouses. A few cores conflict as often on one warehouse,
//! so one warehouse runs beside the paper's 4. The paper's numbers for many cores stand beside Braid's in the table,
//! but no chart shows both.

use super::figure::{Base, Comparison, EVERYWHERE, Id, PaperSeries, Preset, Publication};
use crate::lines::Point;

pub(super) static CORES: Publication = Publication {
    title: "The full story of 1000 cores (VLDB Journal, 2022)",
    machine: "HPE Superdome Flex: 28 Xeon 8180 of 28 cores, 1568 hardware threads; DBx1000",
    presets: &PRESETS,
};

const LOW: &str = "as many warehouses as cores, up to 1568";
const BOTH: &str = "4 warehouses, and as many as cores";

fn scheme(point: &Point) -> Option<String> {
    Some(point.text("cc"))
}

/// Returns workers, warehouses and mode.
fn setting(point: &Point) -> String {
    let number = |field: &str, one: &str| {
        let number = point.number(field);
        if number == 1.0 { format!("1 {one}") } else { format!("{number} {one}s") }
    };
    format!("{}, {}, {}", number("workers", "worker"), number("warehouses", "warehouse"), point.text("mode"))
}

/// Returns the share of useful work in a transaction, both in rows and in the workload's own code.
fn useful(point: &Point) -> f64 {
    share(point, &["useful_work", "version_access"])
}

/// Returns the share of time that conflicts cost.
fn lost(point: &Point) -> f64 {
    share(point, &["waiting", "back_off", "aborted_work"])
}

fn share(point: &Point, activities: &[&str]) -> f64 {
    let shares = point.shares();
    shares.iter().filter(|(name, _)| activities.contains(&name.as_str())).map(|(_, share)| share).sum()
}

const BY_SCHEME: Comparison = Comparison {
    column: scheme,
    series: setting,
    base: Base::Column("no-wait"),
    same_scale: false,
    ..Comparison::new("throughput by that of no-wait", "scheme")
};

/// Returns how many of the successive optimizations a row was measured with, or `None` for any other combination.
fn optimised(point: &Point) -> Option<&'static str> {
    let is = |flag: &str| point.text(flag) == "true";
    let is_compiled = point.text("procedure") != "interpreted";
    match (&*point.text("front"), &*point.text("mode"), [is_compiled, is("sorted"), is("freeze")]) {
        ("none", "naive", [false, false, false]) => Some(BASE),
        ("hash", "naive", [false, false, false]) => Some("flat hash index (2)"),
        ("hash", "interleaved", [false, false, false]) => Some("and interleaved (5)"),
        ("hash", "interleaved", [true, false, false]) => Some("and compiled access (6)"),
        ("hash", "interleaved", [true, true, false]) => Some("and sorted updates (7)"),
        ("hash", "interleaved", [true, true, true]) => Some("and frozen tables (8)"),
        _ => None,
    }
}

const BASE: &str = "none of these";

const FULL_BY_NARROW: Comparison = Comparison {
    column: scheme,
    series: setting,
    base: Base::Those(|point| point.text("mix") == "narrow"),
    ..Comparison::new("throughput of the full mix by that of the narrow one", "scheme")
};

static PRESETS: [Preset; 6] = [
    Preset {
        scale: LOW,
        runs: &[
            "tpcc --warehouses {warehouses} --mix narrow --workers {workers swept} --mode naive,auto --cc {schemes}",
        ],
        comparisons: &[Comparison {
            paper: &[PaperSeries { name: "any cores", like: "", cells: &[(EVERYWHERE, 1.0)] }],
            ..BY_SCHEME
        }],
        ..Preset::new(
            Id::Figure(7),
            "NewOrder and Payment with inserts and the full schema",
            "all schemes perform alike: inserts are the hot spot, by look-ups in the catalog and by allocation",
        )
    },
    Preset {
        scale: BOTH,
        runs: &[
            "tpcc --warehouses 4 --mix narrow --workers {workers} --mode naive,interleaved --batch 8 --front none,hash \
             --procedure interpreted,compiled --cc {schemes}",
            "tpcc --warehouses 4 --mix narrow --workers {workers} --mode interleaved --batch 8 --front hash --sorted --cc {schemes}",
            "tpcc --warehouses 4 --mix narrow --workers {workers} --mode interleaved --batch 8 --front hash --sorted --freeze --cc {schemes}",
        ],
        comparisons: &[Comparison {
            column: |point| optimised(point).map(|_| point.text("cc")),
            series: |point| optimised(point).unwrap_or_default().to_owned(),
            base: Base::Series(BASE),
            same_scale: false,
            ..Comparison::new("throughput by that with none of these optimisations", "scheme")
        }],
        ..Preset::new(
            Id::Figure(8),
            "optimisations of the system, added one after the other: those that can be left out here",
            "high conflict: the allocator up to 5.38 x and no concurrency control for read-only tables up to 4.33 x; low conflict: the \
             allocator up to 268 x, replication up to 227 x, the hash index up to 2.83 x for HSTORE, SILO and TICTOC; all factors \
             are of one optimisation, with up to 1568 cores",
        )
    },
    Preset {
        scale: BOTH,
        runs: &[
            "tpcc --warehouses 1 --mix narrow --workers {workers swept} --mode naive,auto --cc {schemes}",
            "tpcc --warehouses 4 --mix narrow --workers {workers swept} --mode naive,auto --cc {schemes}",
            "tpcc --warehouses {warehouses} --mix narrow --workers {workers swept} --mode naive,auto --cc {schemes}",
        ],
        comparisons: &[Comparison {
            paper: &[PaperSeries {
                name: "1568 cores, low conflict",
                like: "",
                cells: &[
                    ("no-wait", 1.0),
                    ("wait-die", 32.0 / 36.0),
                    ("dl-detect", 34.0 / 36.0),
                    ("occ", 39.0 / 36.0),
                    ("silo", 159.0 / 36.0),
                    ("tictoc", 197.0 / 36.0),
                ],
            }],
            ..BY_SCHEME
        }],
        ..Preset::new(
            Id::Figure(9),
            "NewOrder and Payment under high and low conflict, all optimisations in place",
            "high conflict: SILO and TICTOC peak at 4.6 and 5.3 M/s with 56 cores, DL_DETECT at 1.5 M/s with 16; low \
             conflict: all grow up to 1344 cores, TICTOC 197, SILO 159, OCC 39, NO_WAIT 36, DL_DETECT 34 and WAIT_DIE 32 M/s \
             with 1568",
        )
    },
    Preset {
        scale: BOTH,
        runs: &[
            "tpcc --warehouses 1 --mix narrow --workers {workers swept} --mode naive,auto --cc {schemes} --breakdown",
            "tpcc --warehouses {warehouses} --mix narrow --workers {workers swept} --mode naive,auto --cc {schemes} --breakdown",
        ],
        comparisons: &[
            Comparison {
                caption: "share of time: useful work and access to rows",
                value: Some(useful),
                base: Base::Nothing,
                ..BY_SCHEME
            },
            Comparison {
                caption: "share of time: waiting, back-off and aborted work",
                value: Some(lost),
                base: Base::Nothing,
                ..BY_SCHEME
            },
        ],
        ..Preset::new(
            Id::Figure(10),
            "where the time of NewOrder and Payment goes (as figures 3 and 5, with all optimisations)",
            "high conflict: waiting, back-off and aborts as each scheme is known for; low conflict: no waiting, and time for \
             concurrency control and commit that stays the same for SILO and TICTOC over cores",
        )
    },
    Preset {
        scale: "4 warehouses",
        runs: &[
            "tpcc --warehouses 1 --mix narrow,full --workers {workers swept} --mode auto --cc {schemes}",
            "tpcc --warehouses 4 --mix narrow,full --workers {workers swept} --mode auto --cc {schemes}",
        ],
        comparisons: &[FULL_BY_NARROW],
        ..Preset::new(
            Id::Figure(19),
            "the full mix by the narrow one, high conflict",
            "up to 56 cores the full mix is slower under all schemes, beyond it is faster under most; HSTORE 0.53-0.77 x, OCC \
             0.4 x",
        )
    },
    Preset {
        scale: LOW,
        runs: &[
            "tpcc --warehouses {warehouses} --mix narrow,full --workers {workers swept} --mode auto --cc {schemes}",
        ],
        comparisons: &[FULL_BY_NARROW],
        ..Preset::new(
            Id::Figure(22),
            "the full mix by the narrow one, low conflict",
            "slower under all schemes: HSTORE 0.69-0.88 x, MVCC 0.71-0.86 x, then TICTOC, then those of locking, SILO down to \
             0.24 x with 1568 cores, OCC 0.5 x",
        )
    },
];
