//! Mistakes planted into what makes a database survive. The check of crashes must find each of them: a check that has
//! never failed shows little.

use braid_sim::crash::{Careless, Mistake, Settings};
use braid_sim::storage::{Fault, FaultRule};
use braid_sim::{SCHEMES, Scheme};
use braiddb::storage::Operation;
use braiddb::testing::PlantedDurability as Engine;
use braiddb::{checkpoint, wal};

/// The number of seeds of which one has to find the mistake. Some mistakes take more than a hundred.
const SEEDS: u64 = 200;

/// Finds the mistake, finds it again in the place that the failure names, and finds nothing without the mistake.
fn finds(mistake: Mistake, fault: Option<FaultRule>) {
    finds_under(SCHEMES[0], mistake, fault);
}

/// The same under the given scheme.
fn finds_under(scheme: Scheme, mistake: Mistake, fault: Option<FaultRule>) {
    let settings = |seed| Settings { mistake, fault: fault.clone(), ..Settings::seeded(seed) };
    let found = (0..SEEDS).find_map(|seed| scheme.check_crashes(&settings(seed)).err());
    let found = found.unwrap_or_else(|| panic!("{mistake:?} is not found from {SEEDS} seeds"));
    println!("{mistake:?}: {found}");
    let again = scheme.replay_crash(&settings(found.seed), &found.place).expect_err("it is there again");
    assert_eq!(again.place, found.place);
    let careful = Settings { mistake: Mistake::None, ..settings(found.seed) };
    assert_eq!(scheme.check_crashes(&careful).err(), None);
}

/// Lines of the table: a test's name, the mistake, and the fault that it needs to show.
macro_rules! planted {
    ($($name:ident: $mistake:expr, $fault:expr;)+) => {
        $(#[test]
        fn $name() {
            finds($mistake, $fault);
        })+
    };
}

fn every(operation: Operation, fault: Fault) -> Option<FaultRule> {
    Some(FaultRule::every(operation, 7, fault))
}

fn once(operation: Operation, fault: Fault) -> Option<FaultRule> {
    Some(FaultRule::once(operation, 8, fault))
}

/// Proves that mistakes about where a checkpoint's part of the log begins and ends, and about forgotten changes, are
/// found under the schemes without snapshots.
#[test]
fn mistakes_of_checkpoints_without_snapshots() {
    for scheme in SCHEMES.iter().filter(|scheme| !scheme.isolation.reads_snapshots()) {
        for mistake in [Engine::CheckpointBeforeLog, Engine::StartNotedLate, Engine::TouchedForgotten] {
            finds_under(*scheme, Mistake::Engine(mistake), None);
        }
    }
}

planted! {
    a_checkpoint_that_counts_before_its_log:
        Mistake::Engine(Engine::CheckpointBeforeLog), None;
    a_log_that_is_cut_too_early:
        Mistake::Engine(Engine::LogTruncatedTooEarly), None;
    a_checkpoint_that_notes_its_start_late:
        Mistake::Engine(Engine::StartNotedLate), None;
    changes_that_are_looked_up_before_the_start_is_noted:
        Mistake::Engine(Engine::TouchedTakenEarly), None;
    changes_that_are_forgotten:
        Mistake::Engine(Engine::TouchedForgotten), None;
    a_failed_checkpoint_that_forgets_what_was_changed:
        Mistake::Engine(Engine::TouchedForgottenByFailure), every(Operation::Create, Fault::Fail);
    files_that_are_not_looked_for:
        Mistake::Engine(Engine::FilesNotLookedFor), None;
    room_that_is_not_kept_back:
        Mistake::Engine(Engine::NothingKeptBack), None;
    a_checkpoint_after_the_log_has_ended:
        Mistake::Engine(Engine::CheckpointAfterLog), once(Operation::SyncDirectory, Fault::DropUnsynced);
    a_last_record_that_is_dropped:
        Mistake::Engine(Engine::LastRecordDropped), None;
    a_first_record_that_is_applied_again:
        Mistake::Engine(Engine::FirstRecordAgain), None;
    rows_of_cleared_tables_that_are_kept:
        Mistake::Engine(Engine::ClearedRowsKept), None;
    timestamps_that_begin_anew:
        Mistake::Engine(Engine::ClockNotResumed), None;
    a_mark_of_closing_that_outlives_the_opening:
        Mistake::Storage(Careless::RemovalIgnored("closed")), None;
    a_mark_of_closing_that_is_taken_away_after_the_first_write:
        Mistake::Storage(Careless::RemovedLate("closed")), None;
    a_mark_of_closing_that_is_published_before_the_log_is_durable:
        Mistake::Engine(Engine::MarkBeforeLog), None;
    a_mark_of_closing_that_is_not_synced:
        Mistake::Storage(Careless::DataUnsynced("closed")), None;
    the_name_of_the_mark_of_closing_that_is_not_synced:
        Mistake::Storage(Careless::NameUnsynced("closed")), None;
    rows_whose_checksums_are_not_looked_at:
        Mistake::Engine(Engine::Checkpoint(checkpoint::Planted::NoChecksum)), None;
    records_whose_checksums_are_not_looked_at:
        Mistake::Engine(Engine::Log(wal::Planted::NoChecksum)), None;
    torn_records_that_count:
        Mistake::Engine(Engine::Log(wal::Planted::TornTail)), None;
    segments_that_count_wherever_they_belong:
        Mistake::Engine(Engine::Log(wal::Planted::AnySegment)), None;
    a_log_that_is_not_synced:
        Mistake::Storage(Careless::DataUnsynced("log-")), None;
    files_of_rows_that_are_not_synced:
        Mistake::Storage(Careless::DataUnsynced("rows-")), None;
    manifests_that_are_not_synced:
        Mistake::Storage(Careless::DataUnsynced("checkpoint-")), None;
    an_identity_that_is_not_synced:
        Mistake::Storage(Careless::DataUnsynced("database")), None;
    a_directory_that_is_not_synced:
        Mistake::Storage(Careless::NamesUnsynced), None;
    names_of_segments_that_are_not_synced:
        Mistake::Storage(Careless::NameUnsynced("log-")), None;
    the_name_of_the_identity_that_is_not_synced:
        Mistake::Storage(Careless::NameUnsynced("database")), None;
    names_of_manifests_that_are_not_synced:
        Mistake::Storage(Careless::NameUnsynced("checkpoint-")), None;
    a_manifest_before_the_names_of_its_files:
        Mistake::Storage(Careless::CreationUnsynced("checkpoint-")), None;
    a_rename_that_is_not_synced:
        Mistake::Storage(Careless::RenameUnsynced("checkpoint-")), None;
    a_log_that_is_written_late:
        Mistake::Storage(Careless::WriteKeptBack("log-")), None;
    a_manifest_that_is_written_late:
        Mistake::Storage(Careless::WriteKeptBack("checkpoint-")), None;
    rows_that_are_written_late:
        Mistake::Storage(Careless::WriteKeptBack("rows-")), None;
    a_failed_sync_that_is_ignored:
        Mistake::Storage(Careless::FailedSyncIgnored), every(Operation::SyncData, Fault::DropUnsynced);
    a_failed_sync_that_is_repeated:
        Mistake::Storage(Careless::FailedSyncRepeated), every(Operation::SyncData, Fault::DropUnsynced);
    a_failed_sync_of_names_that_is_repeated:
        Mistake::Storage(Careless::FailedNamesRepeated), every(Operation::SyncDirectory, Fault::DropUnsynced);
    a_failed_write_that_is_ignored:
        Mistake::Storage(Careless::FailedWriteIgnored), every(Operation::Write, Fault::Fail);
    a_short_write_that_is_taken_for_whole:
        Mistake::Storage(Careless::ShortWriteIgnored), every(Operation::Write, Fault::Short);
    commits_that_are_acknowledged_too_early:
        Mistake::AsyncAsSync, None;
    readers_that_are_acknowledged_too_early:
        Mistake::ReadersAsyncAsSync, None;
}
