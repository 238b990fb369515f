//! Tests of every preset and its figures from the papers, and small runs.

use super::archetypes::ARCHETYPES;
use super::figure::{Base, Comparison, EVERYWHERE, Id, PaperSeries};
use super::outcome::Results;
use super::*;
use crate::command::BenchCommand;
use crate::lines::Point;
use crate::scheme::SchemeKind;
use crate::suite::plan::Plan;
use crate::workloads::ycsb::YcsbPlan;
use clap::ValueEnum;
use serde_json::json;

fn args(paper: Paper) -> PaperArgs {
    PaperArgs {
        paper,
        figure: None,
        table: None,
        records: 50_000_000,
        size: 1 << 30,
        warehouses: 8,
        branches: 50,
        workers: None,
        cc: SchemeKind::Serializable.into(),
        seconds: 1.0,
        commands: false,
        json: None,
        svg: None,
        report: None,
    }
}

#[test]
fn every_preset_is_a_valid_command_line() {
    // Proves that all flags of all presets parse, with several variants each, and that numbers are distinct.
    for &paper in Paper::value_variants() {
        let publication = publication(paper);
        for (index, preset) in publication.presets.iter().enumerate() {
            assert!(!preset.scale.is_empty() && !preset.runs.is_empty(), "{}", preset.id);
            assert!(publication.presets[..index].iter().all(|other| other.id != preset.id), "{}", preset.id);
            let mut variants = 0;
            for line in preset.lines(&args(paper)) {
                assert!(!line.contains(['{', '}']), "{line}");
                let kinds = match parsed(&line).unwrap_or_else(|error| panic!("{}: {error}", preset.id)) {
                    BenchCommand::Ycsb(args) => {
                        let plan = YcsbPlan::new(&args).unwrap();
                        let works = plan.tables[0].works.len() * plan.tables.len();
                        variants += plan.plan.variants.len() * works;
                        continue;
                    }
                    BenchCommand::Micro(args) => args.kinds,
                    BenchCommand::Tpcb(args) => args.kinds,
                    BenchCommand::Tpcc(args) => {
                        assert!([1, 4, 8].contains(&args.scale().unwrap().warehouses), "{line}");
                        args.kinds
                    }
                    _ => panic!("{line} is no workload"),
                };
                variants += Plan::of_kinds(&kinds).unwrap().variants.len();
            }
            assert!(variants > 1, "{}", preset.id);
        }
    }
}

#[test]
fn flags_are_filled_in() {
    // Proves what replaces the placeholders for sizes and workers, with and without flags.
    let lines = |preset: Id, args: &PaperArgs| publication(args.paper).preset(preset).unwrap().lines(args);
    let mut args = args(Paper::Microarchitecture);
    args.size = 20 << 20;
    assert!(lines(Id::Table(2), &args)[0].contains("--size 1048576,10485760,20971520 "));
    assert!(lines(Id::Table(2), &args)[0].contains("--workers 1 "));
    args.workers = Some(6);
    let scaling = PaperArgs { paper: Paper::Corobase, ..args.clone() };
    assert!(lines(Id::Figure(15), &scaling).last().unwrap().contains("--workers 1,2,4,6 "));
    assert!(lines(Id::Table(3), &args)[0].contains("--size 20971520 --rows 1,10,100 --workers 6 "));
    let of_archetypes = lines(Id::Table(3), &args);
    let schemes =
        ["dl-detect --index btree", "mvcc --index bwtree", "hstore --index btree", "silo --index masstree"];
    assert!(
        schemes.iter().zip(&of_archetypes).all(|(scheme, line)| line.contains(&format!("--cc {scheme} ")))
    );
    assert!(of_archetypes.len() == 5 && of_archetypes.iter().all(|line| line.matches("--cc ").count() == 1));
    let of_corobase = PaperArgs { paper: Paper::Corobase, ..args.clone() };
    assert!(lines(Id::Figure(6), &of_corobase)[0].contains(" --cc serializable"));
    let schemes = PaperArgs { paper: Paper::Cores, ..args.clone() };
    let line = &lines(Id::Figure(19), &schemes)[0];
    assert!(
        line.matches("--cc ").count() == 1 && line.contains("silo,") && !line.contains("snapshot"),
        "{line}"
    );
}

#[test]
fn figures_of_the_papers_are_as_printed() {
    // Proves that numbers from the text of the papers stand in the tables where they belong, and that they are drawn
    // only if they are ratios with the same base.
    let check = |paper: Paper, id: Id, comparison: usize, row: &str, cells: &[(&str, f64)]| {
        let comparison = &publication(paper).preset(id).unwrap().comparisons[comparison];
        let compared = comparison.of(&[]);
        let name = format!("{row} (paper)");
        let line =
            compared.series.iter().find(|line| line.name == name).unwrap_or_else(|| panic!("{id}: {row}"));
        for (column, expected) in cells {
            let at = compared.columns.iter().position(|name| name == column).unwrap();
            let ratio = line.ratios[at].unwrap();
            assert!((ratio - expected).abs() < 0.005, "{id}, {row}, {column}: {ratio}");
        }
        assert_eq!(comparison.svg(&compared, Vec::new()).unwrap().contains(&name), comparison.same_scale);
    };
    let corobase = |id, row, cells| check(Paper::Corobase, id, 0, row, cells);
    corobase(Id::Figure(5), "48 threads, at best", &[("amac-mk", 2.3), ("coro-mk", 2.56)]);
    corobase(Id::Figure(6), "48 threads", &[("interleaved 8", 1.8), ("corobase-fn 8", 1.25)]);
    corobase(Id::Figure(6), "96 hyperthreads", &[("interleaved 8", 1.3)]);
    corobase(Id::Figure(8), "CoroBase at best", &[("u10", 1.77)]);
    corobase(Id::Figure(11), "CoroBase at worst", &[("10K", 0.8736)]);
    // 1,487,147 / 1,306,197, and so on.
    corobase(
        Id::Table(2),
        "48 threads",
        &[("prefetch", 1.139), ("interleaved 8", 1.14), ("hybrid 8", 1.288)],
    );
    corobase(
        Id::Table(2),
        "96 hyperthreads",
        &[("prefetch", 1.106), ("interleaved 8", 1.068), ("hybrid 8", 1.107)],
    );
    corobase(Id::Figure(14), "48 threads, at best", &[("naive", 1.0), ("interleaved 8", 1.3)]);
    corobase(Id::Figure(15), "CoroBase at best", &[("48", 1.34)]);
    let micro = |table, comparison, row, cells| {
        check(Paper::Microarchitecture, Id::Table(table), comparison, row, cells)
    };
    // 27.5 x DBMS D's 0.84 / 75.4, and so on.
    micro(2, 1, "Silo", &[("1 MB", 1.0), ("10 MB", 0.776), ("10 GB", 0.306), ("100 GB", 0.207)]);
    micro(2, 1, "DBMS M", &[("1 MB", 1.0), ("10 GB", 0.9)]);
    // Relative to Shore-MT: 75.4 / 3.0, and so on.
    micro(2, 0, "Silo", &[("1 MB", 25.133), ("10 MB", 21.69), ("10 GB", 13.095), ("100 GB", 12.063)]);
    micro(2, 0, "DBMS N", &[("1 MB", 2.6), ("100 GB", 2.438)]);
    micro(2, 0, "DBMS M", &[("1 MB", 0.933), ("10 GB", 1.429)]);
    micro(3, 0, "Silo", &[("1 row", 12.063), ("10 rows", 11.429), ("100 rows", 8.571)]);
    micro(4, 0, "Silo", &[("tpcb", 10.882), ("tpcc", 16.667)]);
    micro(5, 0, "hash, compiled", &[("micro", 9.0), ("tpcc", 5.0)]);
    micro(5, 0, "hash, interpreted", &[("tpcc", 1.0)]);
    micro(6, 0, "Silo", &[("long", 1.0), ("text50", 0.7)]);
    micro(14, 0, "Silo", &[("1 MB", 0.8), ("100 GB", 0.9)]);
    micro(15, 0, "DBMS M", &[("1 row", 0.7), ("100 rows", 0.5)]);
    micro(16, 0, "hash, compiled", &[("micro", 11.5)]);
    micro(17, 0, "DBMS N", &[("text50", 0.9)]);
}

#[test]
fn schemes_are_compared_by_time_and_by_mix() {
    // Proves that shares of time are summed by category, and that mixes are told apart.
    let point = |cc: &str, mix: &str, speed: f64| {
        let shares = json!({"useful_work": 0.3, "version_access": 0.2, "waiting": 0.1, "aborted_work": 0.15});
        Point::of(json!({
            "cc": cc, "mix": mix, "workers": 2, "warehouses": 1, "mode": "auto",
            "transactions_per_s": speed, "breakdown": {"shares": shares},
        }))
    };
    let points = [point("silo", "narrow", 10.0), point("silo", "full", 6.0)];
    let ours = |figure: u32, comparison: usize| {
        let preset = publication(Paper::Cores).preset(Id::Figure(figure)).unwrap();
        let compared = preset.comparisons[comparison].of(&points);
        let line = compared.series.iter().rfind(|line| !line.is_paper).unwrap();
        (compared.columns[0].clone(), line.name.clone(), line.ratios[0].unwrap())
    };
    let setting = "2 workers, 1 warehouse, auto";
    assert_eq!(ours(10, 0), ("silo".into(), setting.into(), 0.5));
    assert_eq!(ours(10, 1), ("silo".into(), setting.into(), 0.25));
    assert_eq!(ours(19, 0), ("silo".into(), setting.into(), 0.6));

    let point = |front: &str, mode: &str, procedure: &str, [sorted, freeze]: [bool; 2], speed: f64| {
        Point::of(json!({
            "cc": "silo", "front": front, "mode": mode, "procedure": procedure, "sorted": sorted, "freeze": freeze,
            "transactions_per_s": speed,
        }))
    };
    let points = [
        point("none", "naive", "interpreted", [false; 2], 10.0),
        point("none", "interleaved", "interpreted", [false; 2], 11.0),
        point("hash", "naive", "interpreted", [false; 2], 12.0),
        point("hash", "interleaved", "compiled", [false; 2], 18.0),
        point("hash", "interleaved", "compiled", [true, false], 19.0),
        point("hash", "interleaved", "compiled", [true, true], 20.0),
    ];
    let compared = publication(Paper::Cores).preset(Id::Figure(8)).unwrap().comparisons[0].of(&points);
    let ratios: Vec<_> = compared.series.iter().flat_map(|line| line.ratios.clone()).collect();
    assert_eq!(ratios, [Some(1.0), Some(1.2), Some(1.8), Some(1.9), Some(2.0)]);
}

#[test]
fn ratios_are_to_what_is_asked_for() {
    // Proves each base, cells that apply to every column, columns that only the paper has, and what is omitted.
    let point = |mode: &str, size: u64, write: bool, speed: f64| {
        Point::of(json!({"mode": mode, "size": size, "write": write, "transactions_per_s": speed}))
    };
    let points =
        [point("naive", 1, false, 10.0), point("naive", 2, false, 5.0), point("auto", 1, false, 40.0)];
    let written = [point("naive", 1, false, 10.0), point("naive", 1, true, 8.0)];
    let ratios = |base: Base, points: &[Point]| {
        let comparison = Comparison {
            column: |point| (point.number("size") > 0.0).then(|| point.text("size")),
            series: |point| point.text("mode"),
            base,
            paper: &[PaperSeries { name: "theirs", like: "naive", cells: &[("9", 3.0), (EVERYWHERE, 2.0)] }],
            ..Comparison::new("ratios", "size")
        };
        let compared = comparison.of(points);
        // One line for the names, and one between the paper's rows and Braid's.
        assert_eq!(compared.grid().text().lines().count(), 2 + compared.series.len());
        compared.series.into_iter().map(|line| (line.name, line.ratios)).collect::<Vec<_>>()
    };
    let line = |name: &str, ratios: &[Option<f64>]| (name.to_owned(), ratios.to_vec());
    let theirs = line("theirs (paper)", &[Some(2.0), Some(2.0), Some(3.0)]);
    assert_eq!(
        ratios(Base::Series("naive"), &points),
        [
            theirs.clone(),
            line("naive", &[Some(1.0), Some(1.0), None]),
            line("auto", &[Some(4.0), None, None])
        ]
    );
    for base in [Base::FirstColumn, Base::Column("1")] {
        assert_eq!(
            ratios(base, &points),
            [
                theirs.clone(),
                line("naive", &[Some(1.0), Some(0.5), None]),
                line("auto", &[Some(1.0), None, None])
            ]
        );
    }
    assert_eq!(ratios(Base::Nothing, &points)[1], line("naive", &[Some(10.0), Some(5.0), None]));
    assert_eq!(ratios(Base::Those(|point| !point.writes()), &written)[1], line("naive", &[Some(0.8), None]));
    assert_eq!(ratios(Base::Series("auto"), &written)[1], line("naive", &[None, None]));
}

#[test]
fn ranges_are_of_slices_of_the_same_turn() {
    // Proves that the table for programs and the chart give a ratio of throughputs the range of its slices' ratios,
    // each within one repeat. A figure other than throughput, or with one slice, has no range.
    let point = |mode: &str, slices: &[f64]| {
        Point::of(
            json!({"mode": mode, "transactions_per_s": slices[slices.len() / 2], "slices_per_s": slices, "mean_us": 1.0}),
        )
    };
    let ranges = |value: Option<fn(&Point) -> f64>, points: &[Point]| {
        let comparison = Comparison { value, ..Comparison::new("ratios", "mode") };
        let compared = comparison.of(points);
        let marks = comparison.svg(&compared, Vec::new()).unwrap().matches("stroke=\"#282828\"").count();
        (compared.series[0].ranges.clone(), marks)
    };
    let both = [point("naive", &[10.0, 20.0, 20.0]), point("auto", &[40.0, 60.0, 20.0])];
    // The whole bar, and its two ends.
    assert_eq!(ranges(None, &both), (vec![None, Some((1.0, 4.0))], 3));
    assert_eq!(ranges(Some(|point| point.number("mean_us")), &both), (vec![None, None], 0));
    let once = [point("naive", &[10.0]), point("auto", &[40.0])];
    assert_eq!(ranges(None, &once), (vec![None, None], 0));
}

/// Runs a preset briefly, and checks everything that it shows.
fn check_run(args: &PaperArgs, expected: &[&str]) -> serde_json::Value {
    let publication = publication(args.paper);
    let preset = preset(publication, args).unwrap();
    let results = Results { publication, preset, outcomes: measure(preset, args).unwrap() };
    let directory = tempdir(&preset.id.to_string());
    let files = PaperArgs {
        json: Some(directory.join("out.json")),
        svg: Some(directory.join("out.svg")),
        report: Some(directory.join("page")),
        ..args.clone()
    };
    results.show(&files).unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let (notes, svg, html) = (results.notes(), read("out.svg"), read("page/index.html"));
    for text in expected {
        assert!(svg.contains(text) && html.contains(text), "{text}");
    }
    assert!(notes.contains(preset.paper) && notes.contains("set-up: there"), "{notes}");
    assert_eq!(read("out.json"), read("page/results.json"));
    let json = serde_json::from_str(&read("out.json")).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    json
}

fn tempdir(name: &str) -> std::path::PathBuf {
    let name = format!("braid-paper-{}-{}", std::process::id(), name.replace(' ', "-"));
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn presets_run_to_their_end() {
    // Proves that presets with several workloads run, and that everything written contains the rows, the ratios and the
    // paper's figures.
    let args = |paper| PaperArgs { records: 2000, size: 20 << 10, seconds: 0.01, branches: 2, ..args(paper) };
    let of_corobase = PaperArgs { figure: Some(8), ..args(Paper::Corobase) };
    let json = check_run(&of_corobase, &["CoroBase at best (paper)", "interleaved"]);
    assert_eq!(json["rows"].as_array().unwrap().len(), 6);
    assert_eq!(json["rows"][0]["benchmark"], "ycsb");
    assert_eq!(json["comparisons"][0]["series"].as_array().unwrap().len(), 5);
    let of_writes = PaperArgs { table: Some(14), ..args(Paper::Microarchitecture) };
    let json = check_run(&of_writes, &["Silo (paper)", "optimistic, auto", "20 KB"]);
    assert_eq!(
        (&json["rows"][0]["benchmark"], &json["paper"]["preset"]),
        (&"micro".into(), &"table 14".into())
    );
    // Reads and updates each have databases of their own.
    assert_eq!(json["databases"].as_array().unwrap().len(), 2 * ARCHETYPES.len());
    let series = json["comparisons"][0]["series"].as_array().unwrap();
    let ours = series.iter().find(|line| line["name"] == "locking, naive").unwrap();
    assert!(ours["ratios"].as_array().unwrap().iter().any(|ratio| ratio.as_f64() > Some(0.0)));
    let of_procedures = PaperArgs { table: Some(16), ..args(Paper::Microarchitecture) };
    let json = check_run(&of_procedures, &["hash, interpreted", "B-tree, compiled (paper)"]);
    assert_eq!(json["rows"].as_array().unwrap().len(), 4);
}

#[test]
fn numbers_without_a_preset_are_refused() {
    // Proves that the message lists what exists.
    let asked = PaperArgs { table: Some(99), ..args(Paper::Microarchitecture) };
    let error = run(&asked).unwrap_err().to_string();
    assert!(error.contains("table 99") && error.contains("table 17"), "{error}");
}
