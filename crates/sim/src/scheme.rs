//! The schemes of concurrency control, with what each promises, and how it runs workloads, plays scripts and is checked with
//! crashes. They come from the engine's own table. What they run does not know them: it takes a type, or a [`Player`].

use crate::crash;
use crate::isolation::Isolation;
use crate::ledger::Report;
use crate::scheduler::{Settings, Violation, run};
use crate::script::program::Script;
use crate::script::{History, Player, Schedule, play};
use crate::workload::{Entry, WorkloadId};
use braiddb::IndexKind;

/// A scheme.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// As on the command line.
    pub name: &'static str,
    /// What its transactions are judged by.
    pub isolation: Isolation,
    /// The kind of index of all tables.
    pub index: IndexKind,
    run: Run,
    play: Play,
    check_crashes: CheckCrashes,
    replay_crash: ReplayCrash,
}

type Run = fn(WorkloadId, &Settings, Isolation) -> Result<Report, Violation>;
type Play = fn(&Script, &Schedule, IndexKind) -> Result<History, String>;
type CheckCrashes = fn(&crash::Settings) -> Result<crash::Report, Box<crash::Failure>>;
type ReplayCrash = fn(&crash::Settings, &crash::Place) -> Result<crash::Report, Box<crash::Failure>>;

macro_rules! all {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {
        /// Every scheme that the program is built with.
        pub const SCHEMES: &[Scheme] = &[$(Scheme {
            name: $name,
            isolation: Isolation::$promise,
            index: IndexKind::Masstree,
            run: |workload, settings, isolation| {
                run(Entry::<braiddb::$scheme>::of(workload), settings, isolation)
            },
            play: play::<braiddb::$scheme>,
            check_crashes: crash::check::<braiddb::$scheme>,
            replay_crash: crash::replay::<braiddb::$scheme>,
        }),*];
    };
}
braid_schemes::built_schemes!(all);

impl Scheme {
    /// The scheme of this name.
    pub fn named(name: &str) -> Option<Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name == name).copied()
    }

    /// The same engine, judged by another promise: a stronger one than it makes must be found to be broken.
    pub fn judged_by(self, isolation: Isolation) -> Scheme {
        Scheme { isolation, ..self }
    }

    /// The same, with tables that have an index of this kind.
    pub fn indexed_by(self, index: IndexKind) -> Scheme {
        Scheme { index, ..self }
    }

    /// Runs one workload from one seed.
    pub fn run(&self, workload: WorkloadId, settings: &Settings) -> Result<Report, Violation> {
        (self.run)(workload, &Settings { index: self.index, ..*settings }, self.isolation)
    }

    /// Checks crashes of a durable database, as [`crash::check`]. (The settings say which index its tables have.)
    pub fn check_crashes(&self, settings: &crash::Settings) -> Result<crash::Report, Box<crash::Failure>> {
        (self.check_crashes)(settings)
    }

    /// Looks at one of these crashes again, as [`crash::replay`].
    pub fn replay_crash(
        &self,
        settings: &crash::Settings,
        place: &crash::Place,
    ) -> Result<crash::Report, Box<crash::Failure>> {
        (self.replay_crash)(settings, place)
    }
}

impl Player for Scheme {
    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String> {
        (self.play)(script, schedule, self.index)
    }
}
