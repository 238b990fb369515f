//! Durable databases on a disk that crashes, fails and lies: nothing that was acknowledged is lost. `braid-lab check
//! crash` runs further seeds.

use braid_sim::crash::{Lie, Report, Settings, check_lie};
use braid_sim::storage::{Fault, FaultRule};
use braid_sim::{SCHEMES, Scheme};
use braiddb::storage::Operation;

fn checked(scheme: &Scheme, settings: &Settings) -> Report {
    let report = scheme.check_crashes(settings);
    report.unwrap_or_else(|failure| panic!("{failure}, under {} with {settings:?}", scheme.name))
}

fn all_under(scheme: &Scheme, settings: impl Iterator<Item = Settings>) -> Report {
    settings.map(|settings| checked(scheme, &settings)).fold(Report::default(), Report::plus)
}

fn all(settings: impl Iterator<Item = Settings>) -> Report {
    all_under(&SCHEMES[0], settings)
}

/// Proves that nothing is lost in crash states of the lives of some seeds, and that these states cover all cases:
/// faults, checkpoints, torn logs, checkpoints that replace damaged ones, and further lives.
#[test]
fn nothing_is_lost() {
    let all = all((0..24).map(Settings::seeded));
    assert_eq!(all.states, 24 * Settings::seeded(0).states);
    let counts = [all.faults, all.checkpoints, all.fallbacks, all.torn, all.lives - 24];
    assert!(counts.iter().all(|count| *count >= 5), "{all:?}");
}

/// Proves that nothing is lost under any other scheme.
#[test]
fn nothing_is_lost_under_other_schemes() {
    const LIVES: u64 = 2;
    let others = SCHEMES[1..].iter().zip((24..).step_by(LIVES as usize));
    let all = others.map(|(scheme, first)| all_under(scheme, (first..first + LIVES).map(Settings::seeded)));
    let all = all.fold(Report::default(), Report::plus);
    let counts = [all.faults, all.checkpoints, all.fallbacks, all.lives - LIVES * (SCHEMES.len() as u64 - 1)];
    assert!(counts.iter().all(|count| *count > 0), "{all:?}");
}

/// Proves that nothing is lost from tables with any kind of index that keeps no order of keys.
#[test]
fn nothing_is_lost_without_an_order() {
    for index in braiddb::IndexKind::ALL.iter().copied().filter(|kind| !kind.is_ordered()) {
        let all = all((200..204).map(|seed| Settings { kind: index.into(), ..Settings::seeded(seed) }));
        assert!(all.checkpoints > 0 && all.faults > 0, "{all:?}");
    }
}

/// Proves that equal settings give equal runs, and other seeds give other runs.
#[test]
fn a_seed_replays_exactly() {
    let run = |seed| checked(&SCHEMES[0], &Settings { states: 60, ..Settings::seeded(seed) });
    for seed in [1, 3, 7] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1).trace, run(5).trace);
}

/// Proves that no failure of this operation loses anything, whether it strikes once, forever, or repeatedly. What was
/// acknowledged is there. A failed log commits nothing, and reads continue. A log that has not failed continues when
/// the disk does.
fn survives(operation: Operation, fault: Fault) {
    const NTH_MAX: u64 = 10;
    const SEEDS: u64 = 1;
    let rules = |nth| {
        [
            FaultRule::once(operation, nth, fault),
            FaultRule::for_ever(operation, nth, fault),
            FaultRule::every(operation, nth, fault),
        ]
    };
    let settings = (1..=NTH_MAX * SEEDS).flat_map(|at| {
        let (nth, seed) = (at.div_ceil(SEEDS), 100 + at);
        rules(nth).map(|rule| Settings { fault: Some(rule), states: 20, ..Settings::seeded(seed) })
    });
    let all = all(settings);
    assert!(all.faults > NTH_MAX, "{all:?}");
}

/// Proves that nothing is lost if the device is full from any operation that takes room on, or for this operation
/// alone. Some lives have this at every such operation.
#[test]
fn full_at_every_operation() {
    for operation in [Operation::Write, Operation::Preallocate, Operation::Create] {
        let mut struck = 0;
        for seed in 100..102 {
            let faults = |nth| {
                let once = FaultRule::once(operation, nth, Fault::Full);
                let for_ever = FaultRule::for_ever(operation, nth, Fault::Full);
                let settings = |rule| Settings { fault: Some(rule), states: 4, ..Settings::seeded(seed) };
                all([once, for_ever].into_iter().map(settings)).faults
            };
            struck += (1..).take_while(|&nth| faults(nth) > 0).count();
        }
        assert!(struck >= if operation == Operation::Write { 50 } else { 5 }, "{operation:?}: {struck}");
    }
}

/// Proves that a log that finds no room although room was promised keeps no transaction waiting forever. Some
/// transactions are answered that their commit is not known to be durable. Such a commit is there later as a whole, or
/// not at all.
#[test]
fn a_log_that_stalls() {
    let settings = (20..40).map(|nth| {
        let rule = FaultRule::for_ever(Operation::Write, nth, Fault::Full);
        Settings { fault: Some(rule), states: 20, ..Settings::seeded(100 + nth) }
    });
    let all = all(settings);
    assert!(all.stalled > 5, "{all:?}");
}

/// Lines of the table: a test's name, the operation that fails, and the fault.
macro_rules! survived {
    ($($name:ident: $operation:ident $fault:expr;)+) => {
        $(#[test]
        fn $name() {
            survives(Operation::$operation, $fault);
        })+
    };
}

survived! {
    a_failed_sync_of_data: SyncData Fault::Fail;
    a_sync_of_data_that_loses_what_it_was_to_write: SyncData Fault::DropUnsynced;
    a_failed_sync_of_names: SyncDirectory Fault::Fail;
    a_sync_of_names_that_loses_some: SyncDirectory Fault::DropUnsynced;
    a_failed_write: Write Fault::Fail;
    a_torn_write: Write Fault::Torn;
    a_short_write: Write Fault::Short;
    a_write_without_room: Write Fault::Full;
    a_slow_write: Write Fault::Slow { ticks: 1_000_000 };
    a_failed_creation: Create Fault::Fail;
    a_creation_without_room: Create Fault::Full;
    a_preallocation_without_room: Preallocate Fault::Full;
    a_failed_rename: Rename Fault::Fail;
    a_failed_removal: Remove Fault::Fail;
    a_failed_list: List Fault::Fail;
    a_failed_opening: Open Fault::Fail;
    a_failed_read: Read Fault::Fail;
    a_short_read: Read Fault::Short;
}

/// Proves that no lying write makes recovery give a wrong state: a flipped bit, a misdirected write, or a lost write.
/// The damage is named, or the checkpoint before is used.
#[test]
fn lies_of_the_disk_are_noticed() {
    let mut ends = Vec::new();
    for fault in [Fault::BitFlip, Fault::Misdirected, Fault::Lost] {
        for nth in 1..=80 {
            for seed in 0..3 {
                let end = check_lie(seed, fault, nth).unwrap_or_else(|failure| panic!("{failure}"));
                ends.push(end);
            }
        }
    }
    let count = |end| ends.iter().filter(|other| **other == end).count();
    let counts = [Lie::Harmless, Lie::Replaced, Lie::Refused].map(count);
    assert!(counts.iter().all(|count| *count >= 5), "harmless, replaced, refused: {counts:?}");
}
