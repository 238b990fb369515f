//! The dependencies on one register.
//!
//! With stamps, the versions of committed writers are ordered by commit stamp. By values, a version follows another if
//! its writer had read the other version before it wrote. A register that was never deleted begins with absence, so a
//! transaction that saw it absent is before all its writers. All other pairs of versions stay without an order.
//! Anomalies may be missed, but none is invented.

use crate::accesses::{Access, What};
use crate::edges::{NOBODY, Sink};
use crate::facts::{Facts, NONE, Scope};
use crate::model::Status;
use crate::verdict::{Class, Order};

/// A version. Number 0 is the initial absence.
struct Version {
    txn: u32,
    absent: bool,
    commit: u64,
}

/// Where a value comes from.
enum Source {
    Version(usize),
    Bad(Class, Option<u32>),
    /// The value was written twice, so its writer is unknown.
    Unclear,
}

/// Working space, reused for each item.
#[derive(Default)]
pub(crate) struct Registers {
    /// The place of each write of a value, sorted by value.
    writes: Vec<(i64, u32)>,
    versions: Vec<Version>,
    /// The version of each access that is a final write of a counted transaction.
    version_of: Vec<u32>,
    /// Each read, with the version that it saw.
    reads: Vec<(u32, u32)>,
    /// (version, the version that replaced it)
    successors: Vec<(u32, u32)>,
}

impl Registers {
    /// Adds the dependencies on the register whose accesses these are.
    pub fn item(&mut self, accesses: &[Access], sink: &mut Sink<'_, '_>) {
        self.collect(accesses, sink);
        let stamped = sink.facts.order == Order::Stamps
            && self.versions.iter().skip(1).all(|version| version.commit != NONE);
        let vague = accesses.iter().any(|access| {
            access.what == What::Delete && sink.facts.status[access.txn as usize] == Status::Unknown
        });
        self.resolve(accesses, stamped, vague, sink);
        if stamped {
            self.order_by_stamps();
        } else {
            self.order_by_values(accesses, sink);
        }
        self.emit(accesses, sink);
    }

    fn collect(&mut self, accesses: &[Access], sink: &mut Sink<'_, '_>) {
        let facts = sink.facts;
        self.writes.clear();
        self.version_of.clear();
        self.version_of.resize(accesses.len(), 0);
        self.versions.clear();
        self.versions.push(Version { txn: NOBODY, absent: true, commit: 0 });
        for (place, access) in accesses.iter().enumerate() {
            if matches!(access.what, What::Write | What::Overwritten) {
                self.writes.push((access.value, place as u32));
            }
            let last = matches!(access.what, What::Write | What::Delete);
            if last && facts.counted[access.txn as usize] {
                self.version_of[place] = self.versions.len() as u32;
                let commit = facts.commit[access.txn as usize];
                self.versions.push(Version { txn: access.txn, absent: access.what == What::Delete, commit });
            }
        }
        self.writes.sort_unstable();
        for pair in self.writes.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let [first, second] = [0, 1].map(|at: usize| accesses[pair[at].1 as usize].txn);
            sink.findings.add(Scope::All, Class::Duplicate, facts, &[first, second], || {
                let key = facts.keys.key(accesses[0].key);
                let (first, second) = (facts.id(first), facts.id(second));
                format!("transactions {first} and {second} both wrote {} to key {key}", pair[0].0)
            });
        }
    }

    /// Finds the version of each read.
    fn resolve(&mut self, accesses: &[Access], stamped: bool, vague: bool, sink: &mut Sink<'_, '_>) {
        let facts = sink.facts;
        self.reads.clear();
        for (place, read) in accesses.iter().enumerate() {
            if !facts.counted[read.txn as usize] {
                continue;
            }
            let version = match read.what {
                What::ReadAbsent => self.absence(facts.snapshot[read.txn as usize], stamped, vague),
                What::Read => match self.source(accesses, read, facts) {
                    Source::Version(version) => Some(version),
                    Source::Unclear => None,
                    Source::Bad(class, writer) => {
                        sink.bad_read(class, read, read.value, writer);
                        None
                    }
                },
                _ => None,
            };
            if let Some(version) = version {
                self.reads.push((place as u32, version as u32));
            }
        }
    }

    /// Returns the version of a read that saw nothing, if it is certain: the only absence, or the newest absence in
    /// the reader's snapshot.
    fn absence(&self, snapshot: u64, stamped: bool, vague: bool) -> Option<usize> {
        let absences = || self.versions.iter().enumerate().filter(|(_, version)| version.absent);
        if vague {
            return None;
        }
        if absences().nth(1).is_none() {
            return Some(0);
        }
        if !stamped || snapshot == NONE {
            return None;
        }
        let visible = absences().filter(|(_, version)| version.commit <= snapshot);
        visible.max_by_key(|(at, version)| (version.commit, *at)).map(|(at, _)| at)
    }

    fn source(&self, accesses: &[Access], read: &Access, facts: &Facts<'_>) -> Source {
        let from = self.writes.partition_point(|(value, _)| *value < read.value);
        let mut same = self.writes[from..].iter().take_while(|(value, _)| *value == read.value);
        let Some((_, place)) = same.next() else { return Source::Bad(Class::GarbageRead, None) };
        if same.next().is_some() {
            return Source::Unclear;
        }
        let write = &accesses[*place as usize];
        if write.txn == read.txn {
            Source::Bad(Class::OwnWrite, None)
        } else if !facts.counted[write.txn as usize] {
            Source::Bad(Class::G1a, Some(write.txn))
        } else if write.what == What::Overwritten {
            Source::Bad(Class::G1b, Some(write.txn))
        } else {
            Source::Version(self.version_of[*place as usize] as usize)
        }
    }

    fn order_by_stamps(&mut self) {
        let mut order: Vec<u32> = (0..self.versions.len() as u32).collect();
        order[1..].sort_by_key(|version| self.versions[*version as usize].commit);
        self.successors.clear();
        self.successors.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
        self.successors.sort_unstable();
    }

    fn order_by_values(&mut self, accesses: &[Access], sink: &mut Sink<'_, '_>) {
        let facts = sink.facts;
        self.successors.clear();
        let mut follows = vec![false; self.versions.len()];
        for (read, version) in &self.reads {
            // A transaction's accesses to one item are adjacent.
            let txn = accesses[*read as usize].txn;
            let rest = accesses.iter().enumerate().skip(*read as usize + 1);
            let own = rest.take_while(|(_, access)| access.txn == txn);
            for (place, _) in own.filter(|(place, _)| self.version_of[*place] != 0) {
                self.successors.push((*version, self.version_of[place]));
                follows[self.version_of[place] as usize] = true;
            }
        }
        self.successors.sort_unstable();
        for pair in self.successors.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let [first, second] = [0, 1].map(|at: usize| self.versions[pair[at].1 as usize].txn);
            sink.findings.add(Scope::All, Class::LostUpdate, facts, &[first, second], || {
                let key = facts.keys.key(accesses[0].key);
                let (first, second) = (facts.id(first), facts.id(second));
                format!(
                    "transactions {first} and {second} read one version of key {key} and both replaced it"
                )
            });
        }
        // The other pairs of a lost update have no place in the order.
        self.successors.dedup_by_key(|(version, _)| *version);
        let readers = self.reads.iter().filter(|(_, version)| *version == 0).count().max(1);
        let heads_max = (4 * accesses.len() / readers).max(1);
        let heads = (1..self.versions.len() as u32).filter(|version| !follows[*version as usize]);
        self.successors.extend(heads.take(heads_max).map(|head| (0, head)));
        self.successors.sort_unstable();
    }

    fn emit(&mut self, accesses: &[Access], sink: &mut Sink<'_, '_>) {
        let key = accesses[0].key;
        for (from, to) in &self.successors {
            sink.written_over(self.versions[*from as usize].txn, self.versions[*to as usize].txn, key);
        }
        for (read, version) in &self.reads {
            let read = &accesses[*read as usize];
            sink.read_of(read, self.versions[*version as usize].txn);
            let from = self.successors.partition_point(|(before, _)| before < version);
            for (_, next) in self.successors[from..].iter().take_while(|(before, _)| before == version) {
                sink.replaced_by(read, self.versions[*next as usize].txn);
            }
        }
    }
}

/// Adds (reader, writer) for each value read from a transaction whose outcome is unknown.
pub(crate) fn unknown_seen(accesses: &[Access], facts: &Facts<'_>, seen: &mut Vec<(u32, u32)>) {
    let unknown = |access: &&Access| {
        matches!(access.what, What::Write | What::Overwritten)
            && facts.status[access.txn as usize] == Status::Unknown
    };
    let mut writers: Vec<(i64, u32)> =
        accesses.iter().filter(unknown).map(|access| (access.value, access.txn)).collect();
    if writers.is_empty() {
        return;
    }
    writers.sort_unstable();
    let mut look_up = |reader: u32, value: i64| {
        if let Ok(at) = writers.binary_search_by_key(&value, |(value, _)| *value) {
            seen.push((reader, writers[at].1));
        }
    };
    for access in accesses {
        match access.what {
            What::Read => look_up(access.txn, access.value),
            What::ReadList => {
                crate::accesses::elements(facts, access).iter().for_each(|value| look_up(access.txn, *value));
            }
            _ => {}
        }
    }
}
