//! Yongjun He, Jiacheng Lu, Tianzheng Wang: "CoroBase: Coroutine-Oriented Main-Memory Database Engine", PVLDB
//! 14(3), 2021. The paper's names for the modes: Naïve is `naive`, ERMIA `prefetch`, CoroBase `interleaved`.

use super::figure::{Base, Comparison, EVERYWHERE, Id, PaperSeries, Preset, Publication};
use crate::lines::Point;
use crate::report::short;

const RECORDS: &str = "a billion records of 8 + 8 bytes, batches of 8";

pub(super) static COROBASE: Publication = Publication {
    title: "CoroBase (PVLDB 14(3), 2021)",
    machine: "two Xeon Gold 6252 of 24 cores, 48 threads or 96 hyperthreads, snapshot isolation",
    presets: &PRESETS,
};

/// Returns the mode, with its batch if it has one.
fn mode(point: &Point) -> Option<String> {
    let batch = point.number("batch");
    let mode = point.text("mode");
    Some(if batch > 1.0 { format!("{mode} {batch}") } else { mode })
}

fn workload(point: &Point) -> Option<String> {
    Some(point.text("workload"))
}

/// Returns the workload. For TPC-C, that is the name of the mix.
fn work(point: &Point) -> String {
    match point.text("mix").as_str() {
        "" => point.text("workload"),
        "full" => "TPC-C".to_owned(),
        mix => format!("TPC-{}", mix.to_uppercase()),
    }
}

const WAREHOUSES: &str = "1000 warehouses, batches of 8";

/// Table 2: transactions per second of naïve, ERMIA, CoroBase and hybrid, divided by naïve's.
const fn of_table_2(threads: [f64; 4]) -> [(&'static str, f64); 4] {
    [
        ("naive", 1.0),
        ("prefetch", threads[1] / threads[0]),
        ("interleaved 8", threads[2] / threads[0]),
        ("hybrid 8", threads[3] / threads[0]),
    ]
}

const BY_MODE: Comparison = Comparison {
    column: mode,
    base: Base::Column("naive"),
    ..Comparison::new("throughput by that of naive", "mode")
};

const BY_WORKLOAD: Comparison = Comparison {
    column: workload,
    series: |point| point.text("mode"),
    base: Base::Series("naive"),
    ..Comparison::new("throughput by that of naive", "workload")
};

static PRESETS: [Preset; 13] = [
    Preset {
        scale: "a billion keys",
        runs: &[
            "ycsb --workload probe --records {records} --workers {workers} --mode naive,prefetch,interleaved",
        ],
        comparisons: &[Comparison {
            paper: &[PaperSeries {
                name: "48 threads, at best",
                like: "ours",
                cells: &[("naive", 1.0), ("amac-mk", 2.3), ("coro-mk", 2.56), ("coro-fn-mk", 2.56 / 1.17)],
            }],
            column: |point| Some(point.text("mode")),
            ..BY_MODE
        }],
        ..Preset::new(
            Id::Figure(5),
            "index probes, 10 per request",
            "AMAC-MK up to 2.3 x naive and 2.96 x prefetch (as printed), CORO-MK up to 2.56 x and 1.99 x, 17 % above \
             CORO-FN-MK",
        )
    },
    Preset {
        scale: RECORDS,
        runs: &["ycsb --workload r10 --records {records} --workers {workers} --batch 8,48 --mode \
                 naive,prefetch,amac-mk,coro-mk,coro-fn-mk,corobase-fn,interleaved,hybrid"],
        comparisons: &[Comparison {
            caption: "throughput by that of prefetch",
            base: Base::Column("prefetch"),
            paper: &[
                PaperSeries {
                    name: "48 threads",
                    like: "ours",
                    cells: &[
                        ("prefetch", 1.0),
                        ("coro-fn-mk", 1.25),
                        ("corobase-fn 8", 1.25),
                        ("interleaved 8", 1.8),
                    ],
                },
                PaperSeries {
                    name: "96 hyperthreads",
                    like: "",
                    cells: &[("prefetch", 1.0), ("interleaved 8", 1.3)],
                },
            ],
            ..BY_MODE
        }],
        ..Preset::new(
            Id::Figure(6),
            "10 reads per transaction",
            "CoroBase 1.8 x prefetch (1.3 x with hyperthreads), 15-18 % below AMAC-MK; CoroBase-FN and CORO-FN-MK up to \
             1.25 x prefetch",
        )
    },
    Preset {
        scale: RECORDS,
        runs: &["ycsb --workload r1,r2,r4,r8,r16,r32,r64 --records {records} --workers {workers} --mode \
                 naive,prefetch,amac-mk,coro-mk,interleaved"],
        comparisons: &[Comparison { lines: true, ..BY_WORKLOAD }],
        ..Preset::new(
            Id::Figure(7),
            "reads per transaction",
            "CoroBase above every multi-get at 1-4 reads, and above all but AMAC-MK beyond",
        )
    },
    Preset {
        scale: RECORDS,
        runs: &[
            "ycsb --workload u10,m --records {records} --workers {workers} --mode naive,prefetch,interleaved",
        ],
        comparisons: &[Comparison {
            paper: &[
                PaperSeries { name: "ERMIA", like: "prefetch", cells: &[("u10", 1.77 / 1.45)] },
                PaperSeries { name: "CoroBase at best", like: "interleaved", cells: &[("u10", 1.77)] },
            ],
            ..BY_WORKLOAD
        }],
        ..Preset::new(
            Id::Figure(8),
            "10 blind updates; 8 reads and 2 read-modify-writes",
            "updates up to 1.77 x naive and 1.45 x prefetch; the mix gains less",
        )
    },
    Preset {
        scale: RECORDS,
        runs: &[
            "ycsb --workload s1,s10,s100,s1000 --records {records} --workers {workers} --batch 16 --mode \
                 naive,prefetch,interleaved",
        ],
        comparisons: &[Comparison { lines: true, ..BY_WORKLOAD }],
        ..Preset::new(
            Id::Figure(9),
            "scans",
            "the gain diminishes with longer scans until all modes converge",
        )
    },
    Preset {
        scale: "a billion records, 96 hyperthreads",
        runs: &[
            "ycsb --workload r10 --records 5M --workers {workers} --key-bytes 8,16,32,64 --mode \
             naive,prefetch,amac-mk,corobase-fn,interleaved",
            "ycsb --workload r10 --records 5M --workers {workers} --value-bytes 8,64,256,1024 --mode \
             naive,prefetch,amac-mk,corobase-fn,interleaved",
        ],
        ..Preset::new(
            Id::Figure(10),
            "key and value sizes, 10 reads per transaction",
            "CoroBase keeps its place at every key length and value size; CoroBase-FN loses with long keys",
        )
    },
    Preset {
        scale: "up to a billion records, 96 hyperthreads",
        runs: &["ycsb --workload r10 --records 10K,100K,1M,10M,{records} --workers {workers} --mode \
                 naive,prefetch,amac-mk,coro-fn-mk,corobase-fn,interleaved"],
        comparisons: &[Comparison {
            x_name: "records",
            column: |point| Some(short(point.number("records") as u64)),
            lines: true,
            paper: &[
                PaperSeries {
                    name: "CoroBase at worst",
                    like: "interleaved",
                    cells: &[("10K", 1.0 - 0.1264)],
                },
                PaperSeries { name: "CoroBase-FN at worst", like: "corobase-fn", cells: &[("10K", 0.5)] },
                PaperSeries { name: "CORO-FN-MK at worst", like: "coro-fn-mk", cells: &[("10K", 0.5)] },
            ],
            ..BY_WORKLOAD
        }],
        ..Preset::new(
            Id::Figure(11),
            "table sizes, 10 reads per transaction",
            "up to 12.64 % below naive at 10 K records, which the caches hold (nested: up to 50 %); gains grow with size",
        )
    },
    Preset {
        scale: "a billion records, 96 hyperthreads",
        runs: &["ycsb --workload probe,r10,u10,rmw10 --records {records} --workers {workers} --theta \
                 0,0.5,0.9,0.99,1.2 --mode naive,prefetch,interleaved"],
        ..Preset::new(
            Id::Figure(12),
            "skew: probes, reads, updates, read-modify-writes",
            "all modes gain from skew on reads; updates under high skew contend, and CoroBase falls below prefetch",
        )
    },
    Preset {
        scale: WAREHOUSES,
        runs: &["tpcc --warehouses {warehouses} --mix full --workers {workers} --batch 8,48 --mode \
                 naive,prefetch,interleaved,hybrid,auto"],
        comparisons: &[Comparison {
            paper: &[
                PaperSeries {
                    name: "48 threads",
                    like: "ours",
                    cells: &of_table_2([1_306_197.0, 1_487_147.0, 1_489_567.0, 1_682_290.0]),
                },
                PaperSeries {
                    name: "96 hyperthreads",
                    like: "",
                    cells: &of_table_2([1_985_490.0, 2_195_667.0, 2_120_033.0, 2_197_260.0]),
                },
            ],
            ..BY_MODE
        }],
        ..Preset::new(
            Id::Table(2),
            "TPC-C",
            "at 48 threads ERMIA and CoroBase 1.14 x naive, hybrid 1.29 x; at 96 hyperthreads 1.11, 1.07 and 1.11 x: not \
             bound by memory",
        )
    },
    Preset {
        scale: "a billion records; 1000 warehouses",
        runs: &[
            "ycsb --workload r10 --records {records} --workers {workers} --mode naive,prefetch,interleaved",
            "tpcc --warehouses {warehouses} --mix full,ch --workers {workers} --batch 8 --mode \
             naive,prefetch,interleaved",
        ],
        comparisons: &[Comparison { column: |point| Some(work(point)), ..BY_WORKLOAD }],
        counts_hardware: true,
        ..Preset::new(
            Id::Figure(13),
            "stall cycles of YCSB, TPC-C and TPC-CH",
            "less than half of TPC-C's cycles are memory stalls, more of the others'; CoroBase has fewer with all of them",
        )
    },
    Preset {
        scale: WAREHOUSES,
        runs: &["tpcc --warehouses {warehouses} --mix cr --workers {workers} --batch 8,48 --mode \
                 naive,prefetch,interleaved,hybrid,auto"],
        comparisons: &[Comparison {
            paper: &[
                PaperSeries {
                    name: "48 threads, at best",
                    like: "ours",
                    cells: &[("naive", 1.0), ("interleaved 8", 1.3)],
                },
                PaperSeries {
                    name: "96 hyperthreads, at best",
                    like: "",
                    cells: &[("naive", 1.0), ("interleaved 8", 1.55)],
                },
            ],
            ..BY_MODE
        }],
        ..Preset::new(
            Id::Figure(14),
            "TPC-CR, which only reads",
            "CoroBase up to 1.3 x naive (1.55 x with hyperthreads, where it is 4 % above ERMIA); hybrid up to 1.08 x \
             CoroBase",
        )
    },
    Preset {
        scale: WAREHOUSES,
        // The last line sweeps workers, and the others sweep the size of Q2*.
        runs: &[
            "tpcc --warehouses {warehouses} --mix ch --suppliers 10 --workers {workers} --batch 8 --mode \
             naive,prefetch,interleaved,hybrid,auto",
            "tpcc --warehouses {warehouses} --mix ch --suppliers 30 --workers {workers} --batch 8 --mode \
             naive,prefetch,interleaved,hybrid,auto",
            "tpcc --warehouses {warehouses} --mix ch --suppliers 100 --workers {workers} --batch 8 --mode \
             naive,prefetch,interleaved,hybrid,auto",
            "tpcc --warehouses {warehouses} --mix ch --suppliers 300 --workers {workers} --batch 8 --mode \
             naive,prefetch,interleaved,hybrid,auto",
            "tpcc --warehouses {warehouses} --mix ch --suppliers 100 --workers {workers swept} --batch 8 --mode \
             naive,prefetch,interleaved,hybrid,auto",
        ],
        comparisons: &[
            Comparison {
                caption: "throughput by that of prefetch, 100 suppliers",
                x_name: "workers",
                column: |point| (point.number("suppliers") == 100.0).then(|| point.text("workers")),
                base: Base::Series("prefetch"),
                lines: true,
                paper: &[PaperSeries {
                    name: "CoroBase at best",
                    like: "interleaved",
                    cells: &[("48", 1.34)],
                }],
                ..BY_WORKLOAD
            },
            Comparison {
                caption: "throughput by that of naive",
                x_name: "suppliers",
                column: |point| Some(point.text("suppliers")),
                lines: true,
                paper: &[
                    PaperSeries {
                        name: "CoroBase, lowest",
                        like: "interleaved",
                        cells: &[(EVERYWHERE, 1.37)],
                    },
                    PaperSeries {
                        name: "CoroBase, highest",
                        like: "interleaved",
                        cells: &[(EVERYWHERE, 1.71)],
                    },
                ],
                ..BY_WORKLOAD
            },
        ],
        ..Preset::new(
            Id::Figure(15),
            "TPC-CH: over workers, and over sizes of Q2*",
            "with 100 suppliers CoroBase up to 1.34 x ERMIA; over sizes 1.37 to 1.71 x naive and 1.25 to 1.39 x ERMIA at \
             48 threads; hybrid up to 1.36 x CoroBase",
        )
    },
    Preset {
        scale: "a billion records or 1000 warehouses, batches of 1 to 16",
        runs: &[
            "ycsb --workload m --records {records} --workers {workers} --batch 1,2,4,8,16,32,48 --mode \
             naive,prefetch,interleaved",
            "tpcc --warehouses {warehouses} --mix full,ch --workers {workers} --batch 1,2,4,8,16 --mode \
             naive,prefetch,interleaved",
        ],
        comparisons: &[Comparison {
            column: |point| Some(point.text("batch")),
            series: |point| format!("{} {}", work(point), point.text("mode")),
            value: Some(|point| point.number("mean_us")),
            base: Base::FirstColumn,
            lines: true,
            ..Comparison::new("mean latency by that of batch 1", "transactions open at once (batch)")
        }],
        ..Preset::new(
            Id::Figure(16),
            "latency by batch: 8 reads and 2 read-modify-writes, TPC-C, TPC-CH",
            "batch 4 is best; beyond it latency grows in proportion to the batch, less so with TPC-CH",
        )
    },
];
