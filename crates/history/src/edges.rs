//! The dependencies while they are collected, before they become a graph.

use crate::accesses::Access;
use crate::facts::{Facts, Findings, NONE, Scope};
use crate::verdict::{Class, Dependency};

/// No transaction: stands for the writer of the initial versions.
pub(crate) const NOBODY: u32 = u32::MAX;

/// One dependency: `from` is before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub from: u32,
    pub to: u32,
    pub label: Label,
}

/// The reason for a dependency, and its item (0 if there is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub dependency: Dependency,
    pub key: u32,
}

/// Takes what the passes over items find.
pub(crate) struct Sink<'a, 'h> {
    pub facts: &'a Facts<'h>,
    pub findings: &'a mut Findings,
    pub edges: Vec<Edge>,
}

impl Sink<'_, '_> {
    pub fn edge(&mut self, from: u32, to: u32, dependency: Dependency, key: u32) {
        if from == to || from == NOBODY || to == NOBODY {
            return;
        }
        if self.facts.counted[from as usize] && self.facts.counted[to as usize] {
            self.edges.push(Edge { from, to, label: Label { dependency, key } });
        }
    }

    /// Notes that `read` saw the version that `writer` wrote.
    pub fn read_of(&mut self, read: &Access, writer: u32) {
        self.edge(writer, read.txn, Dependency::WriteRead, read.key);
        if writer == NOBODY || writer == read.txn {
            return;
        }
        let (facts, reader) = (self.facts, read.txn);
        let (written, snapshot) = (facts.commit[writer as usize], facts.snapshot[reader as usize]);
        let commit = facts.commit[reader as usize];
        if written == NONE {
            return;
        }
        if commit != NONE && written > commit {
            self.findings.add(Scope::All, Class::StampMismatch, facts, &[writer, reader], || {
                let (writer, reader, key) = (facts.id(writer), facts.id(reader), facts.keys.key(read.key));
                format!("transaction {reader}, commit stamp {commit}, saw key {key} of transaction {writer}, commit stamp {written}")
            });
        }
        if snapshot != NONE && written > snapshot {
            self.findings.add(Scope::Snapshot, Class::SnapshotMismatch, facts, &[writer, reader], || {
                let (writer, reader, key) = (facts.id(writer), facts.id(reader), facts.keys.key(read.key));
                format!("transaction {reader} with snapshot {snapshot} saw key {key} of transaction {writer}, commit stamp {written}")
            });
        }
    }

    /// Notes that `read` saw the version that `next` replaced.
    pub fn replaced_by(&mut self, read: &Access, next: u32) {
        let dependency = if read.predicate { Dependency::PredicateReadWrite } else { Dependency::ReadWrite };
        self.edge(read.txn, next, dependency, read.key);
        let (facts, reader) = (self.facts, read.txn);
        let (written, snapshot) = (facts.commit[next as usize], facts.snapshot[reader as usize]);
        if next == reader || written == NONE || snapshot == NONE || written > snapshot {
            return;
        }
        self.findings.add(Scope::Snapshot, Class::SnapshotMismatch, facts, &[reader, next], || {
            let (next, reader, key) = (facts.id(next), facts.id(reader), facts.keys.key(read.key));
            format!("transaction {reader} with snapshot {snapshot} did not see key {key} of transaction {next}, commit stamp {written}")
        });
    }

    /// Notes that `to` replaced the version that `from` wrote.
    pub fn written_over(&mut self, from: u32, to: u32, key: u32) {
        self.edge(from, to, Dependency::WriteWrite, key);
        if from == NOBODY || from == to {
            return;
        }
        let facts = self.facts;
        let (commit, snapshot) = (facts.commit[from as usize], facts.snapshot[to as usize]);
        if commit != NONE && snapshot != NONE && commit > snapshot {
            self.findings.add(Scope::Snapshot, Class::Interference, facts, &[from, to], || {
                let (from, to, key) = (facts.id(from), facts.id(to), facts.keys.key(key));
                format!("transactions {from} and {to} wrote key {key}: one committed at {commit}, the other has snapshot {snapshot}")
            });
        }
    }

    /// Reports a read of something that must not be seen.
    pub fn bad_read(&mut self, class: Class, read: &Access, value: i64, writer: Option<u32>) {
        let facts = self.facts;
        let who = [read.txn, writer.unwrap_or(read.txn)];
        let who = if writer.is_some() { &who[..] } else { &who[..1] };
        self.findings.add(Scope::All, class, facts, who, || {
            let (reader, key) = (facts.id(read.txn), facts.keys.key(read.key));
            let writer = writer.map_or(0, |writer| facts.id(writer));
            let why = match class {
                Class::G1a => format!("which transaction {writer} wrote and aborted"),
                Class::G1b => format!("which transaction {writer} itself wrote over"),
                Class::OwnWrite => "before it wrote it itself".to_string(),
                Class::Duplicate => "more than once".to_string(),
                _ => "which nobody wrote".to_string(),
            };
            format!("transaction {reader} saw {value} in key {key}, {why}")
        });
    }
}
