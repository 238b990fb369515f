//! The checker: analyzes a history once, then gives a verdict for each model.

use crate::accesses::{accesses, by_key};
use crate::cycles;
use crate::edges::{Edge, Label, Sink};
use crate::facts::{Facts, Findings};
use crate::graph::{Graph, Kinds};
use crate::model::{History, Op, Status};
use crate::registers::{Registers, unknown_seen};
use crate::verdict::{Anomaly, Class, Dependency, Model, Order, Step, Verdict};

/// The number of cycles that are put into words. All cycles are counted.
const CYCLES_MAX: usize = 1_000;

const DATA: Kinds = Kinds::of(&[
    Dependency::WriteWrite,
    Dependency::WriteRead,
    Dependency::ReadWrite,
    Dependency::PredicateReadWrite,
]);

/// A history that was analyzed once. Any model can judge it.
pub struct Checker<'h> {
    facts: Facts<'h>,
    findings: Findings,
    /// The edges ww, wr and rw.
    edges: Vec<Edge>,
    sessions: bool,
}

/// Checks a history against one model. For several models, [`Checker`] does the shared work once.
pub fn check(history: &History, model: Model, order: Order) -> Verdict {
    Checker::new(history, order).verdict(model)
}

impl<'h> Checker<'h> {
    /// Analyzes a history.
    pub fn new(history: &'h History, order: Order) -> Self {
        let mut facts = Facts::of(history, order);
        let mut findings = Findings::default();
        let (all, starts) = by_key(&accesses(&facts, &mut findings), facts.keys.len());
        let items = || starts.windows(2).map(|pair| &all[pair[0]..pair[1]]).filter(|item| !item.is_empty());
        if facts.status.contains(&Status::Unknown) {
            let mut seen = Vec::new();
            items().for_each(|item| unknown_seen(item, &facts, &mut seen));
            count_seen(&mut facts.counted, &mut seen);
        }
        let mut sink = Sink { facts: &facts, findings: &mut findings, edges: Vec::with_capacity(all.len()) };
        let mut registers = Registers::default();
        for item in items() {
            if facts.keys.is_list(item[0].key) {
                crate::lists::item(item, &mut sink);
            } else {
                registers.item(item, &mut sink);
            }
        }
        let edges = sink.edges;
        Self { facts, findings, edges, sessions: false }
    }

    /// Sets if serializability and snapshot isolation must keep the order within each session as well. The default is
    /// off. Strict serializability always keeps this order.
    #[must_use]
    pub fn with_sessions(mut self, sessions: bool) -> Self {
        self.sessions = sessions;
        self
    }

    /// Judges the history.
    pub fn verdict(&self, model: Model) -> Verdict {
        let strict = model == Model::StrictSerializable;
        let mut edges = self.edges.clone();
        let mut nodes = self.facts.counted.len();
        if strict || self.sessions {
            self.add_sessions(&mut edges);
        }
        if strict {
            nodes = self.add_real_time(&mut edges);
        }
        let graph = Graph::of(nodes, &edges);
        let mut anomalies: Vec<Anomaly> = Vec::new();
        anomalies.extend(
            self.findings
                .found
                .iter()
                .filter(|(scope, _)| scope.concerns(model))
                .map(|(_, anomaly)| anomaly.clone()),
        );
        let mut violations = self.findings.count(model);
        let mut numbers = vec![u32::MAX; nodes];
        let mut worded = 0;
        for component in self.tangles(&graph, &mut numbers) {
            let Some((class, cycle)) = cycles::worst(&graph, &component, model, &mut numbers) else {
                continue;
            };
            violations += 1;
            if worded < CYCLES_MAX {
                worded += 1;
                anomalies.push(self.worded(class, &cycle));
            }
        }
        Verdict {
            model,
            order: self.facts.order,
            transactions: self.facts.counted.len(),
            committed: self.facts.counted.iter().filter(|counted| **counted).count(),
            dependencies: edges.len(),
            violations,
            anomalies,
        }
    }

    /// Returns the components to explain. These are the components of the data dependencies within each component of
    /// all edges, or the component itself if only sessions and real time close its cycles.
    fn tangles(&self, graph: &Graph, numbers: &mut [u32]) -> Vec<Vec<u32>> {
        let mut tangles = Vec::new();
        for component in graph.components() {
            let inner = graph.part(&component, DATA, numbers).components();
            if inner.is_empty() {
                tangles.push(component);
                continue;
            }
            let global = |part: Vec<u32>| part.iter().map(|node| component[*node as usize]).collect();
            let ordered = component.len() > inner.iter().map(Vec::len).sum();
            tangles.extend(inner.into_iter().map(global));
            if ordered && self.sessions {
                tangles.push(component);
            }
        }
        tangles
    }

    fn counted(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.facts.counted.len() as u32).filter(|place| self.facts.counted[*place as usize])
    }

    fn add_sessions(&self, edges: &mut Vec<Edge>) {
        let all = self.facts.history.transactions();
        let mut order: Vec<u32> = self.counted().collect();
        order.sort_by_key(|place| {
            let transaction = &all[*place as usize];
            (transaction.session, transaction.begin.unwrap_or(0), *place)
        });
        for pair in order.windows(2) {
            let [first, second] = [pair[0], pair[1]];
            if all[first as usize].session == all[second as usize].session {
                edges.push(edge(first, second, Dependency::Session));
            }
        }
    }

    /// Adds a chain of moments, one for each end of a transaction. A transaction leads to the moment of its end, each
    /// moment leads to the next, and the last moment before a begin leads to the transaction that begins. This takes
    /// three edges per transaction instead of one for each pair. Returns the number of nodes.
    fn add_real_time(&self, edges: &mut Vec<Edge>) -> usize {
        let all = self.facts.history.transactions();
        let ended = |place: &u32| {
            let transaction = &all[*place as usize];
            let known = transaction.status == Status::Committed;
            transaction.end.filter(|_| known).map(|end| (end, *place))
        };
        let mut ends: Vec<(u64, u32)> = self.counted().filter_map(|place| ended(&place)).collect();
        ends.sort_unstable();
        let first = all.len() as u32;
        for (moment, (_, place)) in ends.iter().enumerate() {
            let node = first + moment as u32;
            edges.push(edge(*place, node, Dependency::RealTime));
            if moment > 0 {
                edges.push(edge(node - 1, node, Dependency::RealTime));
            }
        }
        for place in self.counted() {
            let Some(begin) = all[place as usize].begin else { continue };
            let before = ends.partition_point(|(end, _)| *end < begin) as u32;
            if before > 0 {
                edges.push(edge(first + before - 1, place, Dependency::RealTime));
            }
        }
        all.len() + ends.len()
    }

    /// Puts a cycle into words. Moments of the chain are left out: one edge joins their neighbors.
    fn worded(&self, class: Class, cycle: &[Edge]) -> Anomaly {
        let real = |node: u32| (node as usize) < self.facts.counted.len();
        let start = cycle.iter().position(|edge| real(edge.from)).unwrap_or(0);
        let mut steps: Vec<Step> = Vec::new();
        let mut since = None;
        for edge in cycle.iter().cycle().skip(start).take(cycle.len()) {
            let from = since.take().unwrap_or(edge.from);
            if real(edge.to) {
                steps.push(self.step(from, edge.to, edge.label));
            } else {
                since = Some(from);
            }
        }
        let transactions: Vec<u64> = steps.iter().map(|step| step.from).collect();
        let text =
            format!("{} transactions, each before the next and the last before the first", steps.len());
        Anomaly { class, transactions, text, cycle: steps }
    }

    fn step(&self, from: u32, to: u32, label: Label) -> Step {
        let facts = &self.facts;
        let (first, second) = (facts.id(from), facts.id(to));
        let key = match label.dependency {
            Dependency::Session | Dependency::RealTime => None,
            _ => Some(facts.keys.key(label.key)),
        };
        let name = facts.keys.key(label.key);
        let text = match label.dependency {
            Dependency::WriteWrite => format!(
                "{first} -ww-> {second}: key {name}, {} then {}",
                self.written(from, label.key),
                self.written(to, label.key)
            ),
            Dependency::WriteRead => {
                format!("{first} -wr-> {second}: key {name}, {} was read", self.written(from, label.key))
            }
            Dependency::ReadWrite => format!(
                "{first} -rw-> {second}: key {name}, {} was read, then came {}",
                self.read(from, label.key),
                self.written(to, label.key)
            ),
            Dependency::PredicateReadWrite => format!(
                "{first} -rw (range)-> {second}: key {name}, {} was read, then came {}",
                self.read(from, label.key),
                self.written(to, label.key)
            ),
            Dependency::Session => format!("{first} -session-> {second}"),
            Dependency::RealTime => {
                let all = facts.history.transactions();
                let end = all[from as usize].end.unwrap_or(0);
                let begin = all[to as usize].begin.unwrap_or(0);
                format!("{first} -real time-> {second}: ended at {end}, began at {begin}")
            }
        };
        Step { from: first, to: second, dependency: label.dependency, key, text }
    }

    /// Describes what a transaction left in an item.
    fn written(&self, place: u32, key: u32) -> String {
        let keys = &self.facts.keys;
        let ops = &self.facts.history.transactions()[place as usize].ops;
        let last = ops.iter().rev().find_map(|op| match op {
            Op::Write { key: other, value } if !keys.is_list(key) && keys.register(other) == key => {
                Some(value.map_or_else(|| "a deletion".to_string(), |value| value.to_string()))
            }
            Op::Append { key: other, value } if keys.is_list(key) && keys.list(other) == key => {
                Some(format!("+{value}"))
            }
            _ => None,
        });
        last.unwrap_or_else(|| "nothing".to_string())
    }

    /// Describes what a transaction saw in an item.
    fn read(&self, place: u32, key: u32) -> String {
        let keys = &self.facts.keys;
        let ops = &self.facts.history.transactions()[place as usize].ops;
        let first = ops.iter().find_map(|op| match op {
            Op::Read { key: other, value } if !keys.is_list(key) && keys.register(other) == key => {
                Some(*value)
            }
            Op::Scan { rows, .. } if !keys.is_list(key) => {
                rows.iter().find(|(other, _)| keys.register(other) == key).map(|(_, value)| Some(*value))
            }
            Op::List { key: other, values } if keys.is_list(key) && keys.list(other) == key => {
                Some(values.last().copied())
            }
            _ => None,
        });
        crate::accesses::shown(first.flatten())
    }
}

fn edge(from: u32, to: u32, dependency: Dependency) -> Edge {
    Edge { from, to, label: Label { dependency, key: 0 } }
}

/// Counts a transaction of unknown outcome as committed if a counted transaction saw its writes. Repeats this until
/// nothing changes. `seen` contains (reader, writer).
fn count_seen(counted: &mut [bool], seen: &mut Vec<(u32, u32)>) {
    seen.sort_unstable();
    seen.dedup();
    let mut queue: Vec<u32> = (0..counted.len() as u32).filter(|place| counted[*place as usize]).collect();
    while let Some(reader) = queue.pop() {
        let from = seen.partition_point(|(other, _)| *other < reader);
        for (_, writer) in seen[from..].iter().take_while(|(other, _)| *other == reader) {
            if !counted[*writer as usize] {
                counted[*writer as usize] = true;
                queue.push(*writer);
            }
        }
    }
}
