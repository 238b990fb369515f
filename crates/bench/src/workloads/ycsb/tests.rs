//! Tests of every workload in every mode and under every scheme, and of the yardsticks.

use super::{YcsbArgs, YcsbPlan, run};
use crate::args::Mode;
use crate::scheme::SchemeKind;
use crate::suite::outcome::Outcome;

fn outcome(flags: &str) -> Outcome {
    let args = YcsbArgs::of_line(&format!("--repeats 1 {flags}")).unwrap();
    let outcome = run(&YcsbPlan::new(&args).unwrap()).unwrap();
    for row in &outcome.rows {
        assert_eq!(row.measured, row.transactions_per_s > 0.0, "{row:?}");
    }
    outcome
}

#[test]
fn every_workload_runs_in_every_mode_that_has_a_form_of_it() {
    // Proves that all transactions commit and find their records, with short and with long keys.
    const RUN: &str = "--records 2K --seconds 0.01 --batch 4 --workers 2";
    const MODES: &str = "naive,prefetch,amac-mk,coro-mk,coro-fn-mk,corobase-fn,interleaved,hybrid,auto";
    const POINT: &[&str] = &["c", "f", "r4", "r7", "r10", "m"];
    for key_bytes in [8, 20] {
        let outcome = outcome(&format!(
            "{RUN} --key-bytes {key_bytes} --mode {MODES} --workload a,b,c,d,e,f,r4,r7,r10,m,u10,add2,rmw2,s10,i,probe"
        ));
        assert_eq!(outcome.rows.len(), 16 * 9);
        for row in &outcome.rows {
            let (workload, mode) = (row.text("workload").unwrap(), row.variant.mode);
            let is_plain = matches!(mode, Mode::Naive | Mode::Prefetch | Mode::Interleaved | Mode::Auto);
            let is_nested = mode == Mode::CorobaseFn && workload == "rmw2";
            let has_reads = POINT.contains(&workload) && workload != "f";
            assert_eq!(row.measured, is_plain || is_nested || has_reads, "{workload} {mode:?}");
        }
        assert!(outcome.databases.iter().all(|database| database.conditions[0].holds));
    }
}

#[test]
fn transactions_are_driven_by_calls() {
    // Proves that transactions driven by calls commit and find their records under every scheme, on two threads that
    // conflict. Other kinds of work, and long keys, have no figures in that mode.
    let schemes: Vec<&str> = SchemeKind::ALL.iter().map(|scheme| scheme.name()).collect();
    let flags =
        "--records 200 --seconds 0.02 --workers 2 --mode interactive --workload r10,m,u10,add2,s10,i,a,probe";
    for key_bytes in [8, 20] {
        let outcome = outcome(&format!("{flags} --key-bytes {key_bytes} --cc {}", schemes.join(",")));
        assert_eq!(outcome.rows.len(), 8 * schemes.len());
        for row in &outcome.rows {
            let has_form = key_bytes == 8 && !matches!(row.text("workload"), Some("a" | "probe"));
            assert_eq!(row.measured, has_form, "{row:?}");
        }
        assert!(outcome.databases.iter().all(|database| database.conditions[0].holds));
    }
}

#[test]
fn every_scheme_runs_every_kind_of_work() {
    // Proves that the schemes of the engine's table run in turns, with writes and scans that conflict. Exactly the
    // schemes whose records the yardsticks know have figures for the yardsticks.
    let names: Vec<&str> = SchemeKind::ALL.iter().map(|scheme| scheme.name()).collect();
    let schemes = names.join(",");
    let mixed = outcome(&format!(
        "--records 1K --seconds 0.02 --batch 4 --workers 2 --mode naive,interleaved,auto --workload a,e,f,m,u10,s10,i --cc {schemes}"
    ));
    assert_eq!(mixed.rows.len(), 7 * 3 * names.len());
    assert!(mixed.rows.iter().all(|row| row.measured));
    let by_hand = outcome(&format!(
        "--records 20K --seconds 0.01 --mode naive,hand-sequential,hand-interleaved --cc {schemes}"
    ));
    for row in &by_hand.rows {
        let has_versions = matches!(row.variant.cc.scheme, SchemeKind::Serializable | SchemeKind::Snapshot);
        assert_eq!(row.measured, has_versions || row.variant.mode == Mode::Naive);
    }
}

#[test]
fn checkpoints_and_counted_transactions() {
    // Proves that a run ends after the requested number of transactions, and that checkpoints are made meanwhile.
    let outcome = outcome(
        "--records 1K --workload u10 --mode naive --seconds 60 --transactions 200 --checkpoints --durability async",
    );
    assert_eq!(outcome.rows[0].transactions, 200);
}

#[test]
fn a_scheme_without_snapshots_is_refused_without_a_log() {
    // Proves that all schemes run on disk with a log, and that an error names the flags if a scheme cannot run without
    // a log.
    for (scheme, durability) in
        SchemeKind::ALL.iter().flat_map(|scheme| [(scheme, "async"), (scheme, "none")])
    {
        let flags = format!("--cc {} --durability {durability}", scheme.name());
        let line = format!("--records 1K --seconds 0.01 --mode naive {flags}");
        let outcome = run(&YcsbPlan::new(&YcsbArgs::of_line(&line).unwrap()).unwrap());
        let has_snapshots = matches!(scheme, SchemeKind::Serializable | SchemeKind::Snapshot);
        match outcome {
            Ok(outcome) => {
                assert!(outcome.rows[0].measured && (has_snapshots || durability == "async"), "{flags}");
            }
            Err(error) => {
                let start = format!("--cc {} with --durability {durability}: ", scheme.name());
                let is_right =
                    !has_snapshots && durability == "none" && error.to_string().starts_with(&start);
                assert!(is_right, "{flags}: {error}");
            }
        }
    }
}
