//! Scripts on the real engine: the anomaly table in every interleaving, random scripts, and the oracle on modified
//! histories.

use braid_history::Model;
use braid_sim::script::program::Seen;
use braid_sim::script::{
    Player, SPECS, SpecReport, check_random, check_script, check_specs, generate, holds, spec,
};
use braid_sim::{Isolation, Random, SCHEMES, Scheme};

/// Random scripts for each scheme.
const RANDOM: u64 = 1_000;

fn snapshot() -> Scheme {
    Scheme::named("snapshot").expect("the engine has it")
}

fn assert_none(failures: &[braid_sim::script::Failure]) {
    let all: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(all.is_empty(), "{}", all.join("\n\n"));
}

/// Proves, for one scheme of each promise, that over every interleaving it shows the anomalies that it allows and no
/// others, and that every history is what the scheme promises. `braid-lab check isolation --cc all` does this for each
/// scheme.
#[test]
fn every_interleaving() {
    for scheme in &[Scheme::named("serializable").expect("the engine has it"), snapshot()] {
        let report: SpecReport = check_specs(scheme);
        assert_none(&report.failures);
        assert!(report.specs.iter().all(|spec| spec.whole > 0), "{report:?}");
        assert_eq!(report.specs.len(), SPECS.len());
        if scheme.isolation == Isolation::Snapshot {
            finds_known_anomalies(&report);
        }
    }
}

/// Checks that the oracle, judging by serializability, finds the write skews in all interleavings but the serial ones,
/// and in receipt-report the six schedules that are known to be bad. Each is found with one worker and with two.
fn finds_known_anomalies(report: &SpecReport) {
    let of = |name: &str| {
        let found = report.specs.iter().find(|spec| spec.name == format!("{name}.spec"));
        found.unwrap_or_else(|| panic!("{name} is there")).clone()
    };
    assert_eq!(of("receipt-report").anomalies, 2 * 6);
    for name in ["g1c", "g2", "project-manager", "referential-integrity", "total-cash"] {
        assert_eq!(of(name).anomalies, of(name).runs - 2 * 2, "{name}");
    }
    assert!(report.anomalies() > 0 && report.aborted() > 0);
}

/// Proves that random scripts show what each scheme promises, and that they show anomalies where those are allowed.
#[test]
fn random_scripts() {
    for scheme in SCHEMES {
        let report = check_random(scheme, 0..RANDOM);
        assert_none(&report.failures);
        assert_eq!(report.scripts, RANDOM);
        assert!(report.committed > report.aborted && report.aborted > 0, "{report:?}");
        if scheme.isolation == Isolation::Snapshot {
            assert!(report.anomalies > report.scripts / 30, "{report:?}");
            assert!(report.stale > 0, "{report:?}");
        }
    }
}

/// Proves that a seed decides everything.
#[test]
fn seeds_repeat() {
    let run = |seed| {
        let (script, schedule) = generate(seed);
        let history = snapshot().play(&script, &schedule).expect("the engine keeps its promises");
        format!("{script}{schedule}{history:?}")
    };
    for seed in 0..200 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(0), run(1));
}

/// Proves that every judgment rejects a history of the engine in which one committed observation, or the last state, is
/// changed to something that was never written.
#[test]
fn tampered_histories_are_rejected() {
    let mut tampered = 0;
    for seed in 0..4000 {
        let (script, schedule) = generate(seed);
        if script.to_string().contains("peek") {
            continue; // in a serial order it may have seen anything
        }
        let honest = snapshot().play(&script, &schedule).expect("the engine keeps its promises");
        assert!(holds(Model::SnapshotIsolation, &script, &honest));
        let mut random = Random::new(seed);
        let mut history = honest.clone();
        let committed = history.transactions.iter_mut().filter(|one| one.is_committed());
        let mut all: Vec<&mut Seen> = committed.flat_map(|one| &mut one.seen).collect();
        if all.is_empty() || random.chance(10) {
            history.last.insert((0, 100), 0);
        } else {
            let at = random.below(all.len() as u64) as usize;
            match &mut *all[at] {
                Seen::Value(value) => *value = Some(-1),
                Seen::Rows(rows) => rows.push((100, 0)),
                Seen::Done | Seen::Exists | Seen::Found(_) | Seen::Refused => continue, // another order may explain the contrary
            }
        }
        tampered += 1;
        for model in [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation] {
            assert!(!holds(model, &script, &history), "{model} seed {seed}\n{script}{history:?}");
        }
    }
    assert!(tampered > 1000, "{tampered}");
}

/// Proves that the check reports a script with a wrong expectation: no anomaly where there is one, an anomaly where
/// there is none, and no expectation.
#[test]
fn wrong_expectations_are_found() {
    for (name, expectation, expected) in [
        ("g2", "expect snapshot none\n", "no anomaly was expected"),
        ("p4", "expect snapshot anomaly\n", "no interleaving shows it"),
        ("p4", "", "does not say what to expect under snapshot"),
    ] {
        let text = format!("{expectation}{}", spec(name).unwrap().unwrap());
        let script = braid_sim::script::parse(name, &text).unwrap();
        let mut failures = Vec::new();
        check_script(&snapshot(), &script, u64::MAX, &mut failures);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].to_string().contains(expected), "{}", failures[0]);
    }
}
