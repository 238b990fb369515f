//! The kinds of systems that Sirin et al. compare, each by the scheme of concurrency control and the index of this engine that are its
//! own kind's. What they show is how much of a system's place comes from these two; SQL, pages on disk and a lock manager of
//! a general server are in none of them.

use crate::lines::Point;
use braiddb::IndexKind;

/// A kind of system.
pub(super) struct Archetype {
    /// What it is called in series.
    pub(super) name: &'static str,
    /// As `--cc` has it.
    cc: &'static str,
    index: IndexKind,
}

/// In the order of the paper's tables: Shore-MT, DBMS M, DBMS N, Silo; and what this engine takes where nothing is said.
pub(super) const ARCHETYPES: [Archetype; 5] = [
    Archetype { name: "locking", cc: "dl-detect", index: IndexKind::BTree },
    Archetype { name: "multi-version", cc: "mvcc", index: IndexKind::BwTree },
    Archetype { name: "partitioned", cc: "hstore", index: IndexKind::BTree },
    Archetype { name: "optimistic", cc: "silo", index: IndexKind::Masstree },
    Archetype { name: "default", cc: "serializable", index: IndexKind::Masstree },
];

impl Archetype {
    /// Its flags.
    pub(super) fn flags(&self) -> String {
        format!("--cc {} --index {}", self.cc, self.index.name())
    }
}

/// The series of a result: its archetype, and how it was executed.
pub(super) fn series(point: &Point) -> String {
    let (cc, index) = (point.text("cc"), point.text("index"));
    let found = ARCHETYPES.iter().find(|one| one.cc == cc && one.index.name() == index);
    let name = found.map_or_else(|| format!("{cc}, {index}"), |one| one.name.to_owned());
    format!("{name}, {}", point.text("mode"))
}
