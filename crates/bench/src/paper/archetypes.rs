//! Stand-ins for the kinds of systems that Sirin et al. compare. Each archetype combines the concurrency control scheme
//! and the index of this engine that are typical of its kind. The comparison shows how much of a system's rank comes
//! from these two parts. No archetype has SQL, pages on disk or the lock manager of a general server.

use crate::lines::Point;
use braiddb::IndexKind;

/// A kind of system.
pub(super) struct Archetype {
    /// The name in series.
    pub(super) name: &'static str,
    /// The value of `--cc`.
    cc: &'static str,
    index: IndexKind,
}

/// Stand-ins for Shore-MT, DBMS M, DBMS N and Silo, in the order of the paper's tables, and then this engine's
/// defaults.
pub(super) const ARCHETYPES: [Archetype; 5] = [
    Archetype { name: "locking", cc: "dl-detect", index: IndexKind::BTree },
    Archetype { name: "multi-version", cc: "mvcc", index: IndexKind::BwTree },
    Archetype { name: "partitioned", cc: "hstore", index: IndexKind::BTree },
    Archetype { name: "optimistic", cc: "silo", index: IndexKind::Masstree },
    Archetype { name: "default", cc: "serializable", index: IndexKind::Masstree },
];

impl Archetype {
    /// Returns the flags of the archetype.
    pub(super) fn flags(&self) -> String {
        format!("--cc {} --index {}", self.cc, self.index.name())
    }
}

/// Returns the series of a result: its archetype and its mode.
pub(super) fn series(point: &Point) -> String {
    let (cc, index) = (point.text("cc"), point.text("index"));
    let found = ARCHETYPES.iter().find(|one| one.cc == cc && one.index.name() == index);
    let name = found.map_or_else(|| format!("{cc}, {index}"), |one| one.name.to_owned());
    format!("{name}, {}", point.text("mode"))
}
