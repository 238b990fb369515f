//! Locks, untracked reads and divided commits in scripts: the interleavings show what they are meant to show.

use braid_sim::script::program::{Action, Busy, Seen};
use braid_sim::script::{
    History, Move, Outcome, Player, Schedule, Variant, count, count_of_phases, generate, interleavings,
    interleavings_of_phases, parse, spec,
};
use braid_sim::{SCHEMES, Scheme};
use braiddb::SchemeName;
use std::collections::BTreeSet;

/// Returns the histories of a script in every interleaving, on one worker and on two.
fn histories(scheme: Scheme, name: &str) -> Vec<History> {
    let script = spec(name).expect("there is a script of that name").expect("it can be read");
    let play = |moves: Vec<Move>, workers| {
        let schedule = Schedule { moves, workers, seed: 1, variant: Variant::default() };
        scheme.play(&script, &schedule).unwrap_or_else(|fault| panic!("{fault}\n{script}{schedule}"))
    };
    interleavings(&script).flat_map(|moves| [play(moves.clone(), 1), play(moves, 2)]).collect()
}

fn committed(history: &History) -> usize {
    history.transactions.iter().filter(|one| one.is_committed()).count()
}

/// Proves that of two transactions that lock two rows in opposite orders, one always commits. However they meet,
/// neither waits forever, and they never both abort.
#[test]
fn opposite_orders_end() {
    for scheme in SCHEMES {
        let all = histories(*scheme, "lock-opposite-orders");
        assert!(all.iter().all(|history| committed(history) >= 1), "{scheme:?}");
        // If a transaction has the whole database, the other one waits before it has anything.
        let all_commit = scheme.name == SchemeName::HStore;
        assert!(all_commit || all.iter().any(|history| committed(history) == 1), "{scheme:?}");
    }
}

/// Proves that a transaction that waits for a row continues if the holder has not written it, and aborts if the holder
/// has. A transaction that may read what was committed after it began continues with what it then finds. Under
/// timestamp ordering a transaction does not wait for a later one in the order.
#[test]
fn who_waits_goes_on_or_gives_way() {
    let script = |end: &str| {
        let text = format!(
            "row t[1] = 1\ntransaction old\n begin\n lock t[1]\n commit\n\
             transaction young\n lock t[1]\n {end}\n commit"
        );
        parse("wait", &text).unwrap_or_else(|error| panic!("{error}"))
    };
    for (end, expected) in [
        ("get t[1]", Outcome::Committed),
        ("put t[1] = 2", Outcome::Conflict),
        ("delete t[1]", Outcome::Conflict),
    ] {
        for scheme in SCHEMES {
            // OCC cannot tell when a missing row was deleted.
            let gives_way =
                scheme.isolation.reads_snapshots() || scheme.name == SchemeName::Occ && end == "put t[1] = 2";
            let expected = match scheme.name {
                SchemeName::TimestampOrdering | SchemeName::MultiVersion => Outcome::Conflict,
                _ if gives_way => expected,
                _ => Outcome::Committed,
            };
            for workers in [1, 2] {
                // The older transaction asks for the row while the younger one has it.
                let moves: Vec<Move> = [0, 1, 0, 1, 0, 1].map(Move::Step).into();
                let history = scheme
                    .play(&script(end), &Schedule { moves, workers, seed: 1, variant: Variant::default() });
                let history = history.unwrap_or_else(|fault| panic!("{fault}"));
                assert_eq!(history.transactions[0].outcome, expected, "{}, {end}: {history:?}", scheme.name);
                assert_eq!(history.transactions[1].outcome, Outcome::Committed);
                let (old, young) = (&history.transactions[0], &history.transactions[1]);
                if expected == Outcome::Committed {
                    assert!(old.ended > young.ended, "it has waited: {history:?}");
                }
            }
        }
    }
}

/// Proves the use of several versions: a transaction that reads what has been overwritten since it began is not refused
/// under multi-version timestamp ordering, and is refused with one version.
#[test]
fn older_readers_find_older_versions() {
    let text = "row t[1] = 1\ntransaction old\n begin\n x = get t[1]; put t[2] = x\n commit\n\
                transaction young\n put t[1] = 2\n commit";
    let script = parse("versions", text).unwrap_or_else(|error| panic!("{error}"));
    for (name, expected) in [("mvcc", Outcome::Committed), ("timestamp", Outcome::Conflict)] {
        let scheme = Scheme::named(name).expect("it is in the table");
        // The older transaction begins, the younger one commits, and then the older one reads.
        let moves: Vec<Move> = [0, 1, 1, 0, 0].map(Move::Step).into();
        let history =
            scheme.play(&script, &Schedule { moves, workers: 2, seed: 1, variant: Variant::default() });
        let history = history.unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(history.transactions[1].outcome, Outcome::Committed);
        assert_eq!(history.transactions[0].outcome, expected, "{name}: {history:?}");
    }
}

/// Proves that a lock that does not wait is refused in some interleaving, and that the refused transaction commits.
#[test]
fn refused_and_committed() {
    for scheme in SCHEMES {
        let all = histories(*scheme, "lock-nowait");
        let refused = |history: &&History| {
            history.transactions.iter().any(|one| one.seen.contains(&Seen::Refused) && one.is_committed())
        };
        assert!(all.iter().filter(refused).any(|history| committed(history) == 2), "{scheme:?}");
    }
}

/// Proves that two workers take different jobs: never the same job, and in some interleaving both at once.
#[test]
fn different_jobs() {
    // If a transaction has the whole database, all jobs count as locked.
    for scheme in SCHEMES.iter().filter(|scheme| scheme.name != SchemeName::HStore) {
        let all = histories(*scheme, "lock-job-queue");
        let mut ends = BTreeSet::new();
        for history in all {
            let jobs: Vec<i64> = history.last.values().copied().collect();
            assert_eq!(jobs.iter().filter(|job| **job > 1).count(), committed(&history), "{history:?}");
            ends.insert(jobs);
        }
        assert!(ends.contains(&vec![11, 22]) && ends.contains(&vec![21, 12]), "{scheme:?}: {ends:?}");
    }
}

/// Proves that write skew through untracked reads commits in every interleaving that is not serial.
#[test]
fn untracked_skew_commits() {
    for scheme in SCHEMES {
        let all = histories(*scheme, "peek-write-skew");
        assert!(all.iter().all(|history| committed(history) == 2), "{scheme:?}");
        let skew = |history: &&History| history.last.values().eq(&[21, 12]);
        assert!(all.iter().filter(skew).count() > all.len() / 2, "{scheme:?}");
    }
}

/// Proves that phases are interleaved after the commit, each once and in every order, and that declared readers have
/// none.
#[test]
fn phases_are_dealt_in() {
    let text = "row t[1] = 1\nphases 2\n\
        transaction a\n put t[1] = 2\n commit\n\
        transaction b\n get t[1]\n commit\n";
    let script = parse("phases", text).unwrap_or_else(|error| panic!("{error}"));
    let all: BTreeSet<String> = interleavings_of_phases(&script).map(|moves| format!("{moves:?}")).collect();
    assert_eq!((count(&script), all.len()), (6, 70), "4! / (2! 2!), and 8! / (4! 4!)");
    let first = interleavings_of_phases(&script).next();
    let of = |at| [Move::Step(at), Move::Step(at), Move::Phase(at), Move::Phase(at)];
    assert_eq!(first, Some([of(0), of(1)].concat()));
    let script = parse("phases", &text.replace("transaction b", "transaction b readonly"));
    let script = script.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(interleavings_of_phases(&script).count(), 15, "6! / (4! 2!)");
    assert_eq!(count_of_phases(&script), 15);
}

/// Proves that a divided commit stays begun and not ended until its last phase, while another transaction comes and
/// goes.
#[test]
fn parted_commits_stay() {
    let text = "row t[1] = 1\nrow t[2] = 1\nphases 4\n\
        transaction a\n get t[1]\n put t[2] = 2\n commit\n\
        transaction b\n get t[1]\n commit\n";
    let script = parse("phases", text).unwrap_or_else(|error| panic!("{error}"));
    for phases in 0..4 {
        let mut moves = [0, 0, 0].map(Move::Step).to_vec();
        moves.extend([Move::Phase(0)].repeat(phases));
        moves.extend([Move::Step(1), Move::Step(1)]);
        moves.extend([Move::Phase(1)].repeat(4));
        moves.extend([Move::Phase(0)].repeat(4 - phases));
        let history =
            SCHEMES[0].play(&script, &Schedule { moves, workers: 2, seed: 1, variant: Variant::default() });
        let history = history.unwrap_or_else(|fault| panic!("{fault}"));
        let (a, b) = (&history.transactions[0], &history.transactions[1]);
        assert!(a.ends < b.begins && b.ended < a.ended, "{phases}: {history:?}");
        assert_eq!(committed(&history), 2);
    }
}

/// Proves that random scripts sometimes lock, in all ways, and sometimes read untracked.
#[test]
fn random_scripts_lock() {
    let mut found = [0; 4];
    for seed in 0..1000 {
        let (script, _) = generate(seed);
        let steps = script.transactions.iter().flat_map(|transaction| &transaction.steps);
        for statement in steps.flat_map(|step| &step.statements) {
            match statement.action {
                Action::Lock { busy: Busy::Wait, .. } => found[0] += 1,
                Action::Lock { busy: Busy::Fail, .. } => found[1] += 1,
                Action::Lock { busy: Busy::Skip, .. } => found[2] += 1,
                Action::Peek { .. } => found[3] += 1,
                _ => {}
            }
        }
    }
    assert!(found.iter().all(|count| *count > 50), "{found:?}");
}
