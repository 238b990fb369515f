//! Reduces a tangle of transactions (a strongly connected component) to one small cycle and its class.
//!
//! The search begins with the worst class and leaves out kinds of edges: a cycle of ww alone is G0, whatever other
//! edges the same transactions have. Searches are breadth first, and each finds a shortest cycle through its start. A
//! budget of steps limits how many starts are tried.

use crate::edges::Edge;
use crate::graph::{Graph, Kinds};
use crate::verdict::{Class, Dependency, Model};
use std::collections::VecDeque;

use Dependency::{PredicateReadWrite, ReadWrite, RealTime, Session, WriteRead, WriteWrite};

const WRITES: Kinds = Kinds::of(&[WriteWrite]);
const FLOW: Kinds = Kinds::of(&[WriteWrite, WriteRead]);
const ANTI: Kinds = Kinds::of(&[ReadWrite, PredicateReadWrite]);
const DATA: Kinds = Kinds::of(&[WriteWrite, WriteRead, ReadWrite, PredicateReadWrite]);
const ORDERED: Kinds = Kinds::of(&[WriteWrite, WriteRead, ReadWrite, PredicateReadWrite, Session]);
const ALL: Kinds = Kinds::of(&[WriteWrite, WriteRead, ReadWrite, PredicateReadWrite, Session, RealTime]);

/// The number of edges that the searches in one component may look at.
const STEPS_MAX: usize = 2_000_000;

/// Returns the class and the edges of the worst cycle in a component, if the model forbids a cycle there.
pub(crate) fn worst(
    graph: &Graph,
    nodes: &[u32],
    model: Model,
    numbers: &mut [u32],
) -> Option<(Class, Vec<Edge>)> {
    let whole = graph.part(nodes, ALL, numbers);
    let search = |kinds: Kinds| {
        let mut numbers = vec![u32::MAX; whole.nodes()];
        let everything: Vec<u32> = (0..whole.nodes() as u32).collect();
        let part = whole.part(&everything, kinds, &mut numbers);
        shortest(&part)
    };
    let found = if let Some(cycle) = search(WRITES) {
        Some((Class::G0, cycle))
    } else if let Some(cycle) = search(FLOW) {
        Some((Class::G1c, cycle))
    } else if model == Model::SnapshotIsolation {
        without_adjacent_anti(&whole)
    } else if let Some(cycle) = single(&whole) {
        Some((Class::GSingle, cycle))
    } else if let Some(cycle) = search(DATA) {
        let phantom = cycle.iter().any(|edge| edge.label.dependency == PredicateReadWrite);
        Some((if phantom { Class::G2 } else { Class::G2Item }, cycle))
    } else if let Some(cycle) = search(ORDERED) {
        Some((Class::SessionViolation, cycle))
    } else {
        search(ALL).map(|cycle| (Class::RealTimeViolation, cycle))
    };
    let (class, mut cycle) = found?;
    let class = refined(class, &cycle);
    for edge in &mut cycle {
        edge.from = nodes[edge.from as usize];
        edge.to = nodes[edge.to as usize];
    }
    Some((class, cycle))
}

/// Gives lost updates and write skews, which are special cases, their own names.
fn refined(class: Class, cycle: &[Edge]) -> Class {
    let data = |edge: &&Edge| DATA.has(edge.label.dependency);
    match class {
        Class::GSingle => {
            let anti = cycle.iter().find(|edge| ANTI.has(edge.label.dependency));
            let key = anti.map(|edge| edge.label.key);
            let same = cycle.iter().filter(data).all(|edge| Some(edge.label.key) == key);
            // The reader overwrote the item as well if a ww edge leads to the reader.
            let reader = anti.map(|edge| edge.from);
            let writes = cycle.iter().any(|edge| {
                edge.label.dependency == WriteWrite && Some(edge.to) == reader && Some(edge.label.key) == key
            });
            if same && writes { Class::LostUpdate } else { class }
        }
        Class::G2Item if cycle.len() == 2 && cycle.iter().all(|edge| ANTI.has(edge.label.dependency)) => {
            if cycle[0].label.key == cycle[1].label.key {
                Class::LostUpdate
            } else {
                Class::WriteSkew
            }
        }
        _ => class,
    }
}

/// Returns a shortest cycle of a graph within the budget. Returns some cycle if there is any.
fn shortest(graph: &Graph) -> Option<Vec<Edge>> {
    let components = graph.components();
    let mut search = Search::new(graph);
    let mut best: Option<Vec<Edge>> = None;
    for start in components.iter().flatten() {
        if best.is_some() && search.steps > STEPS_MAX {
            break;
        }
        let limit = best.as_ref().map_or(usize::MAX, Vec::len);
        if limit <= 2 {
            break;
        }
        if let Some(cycle) = search.path(*start, *start, limit, |_| true) {
            best = Some(cycle);
        }
    }
    best
}

/// Returns a shortest cycle with exactly one anti-dependency.
fn single(graph: &Graph) -> Option<Vec<Edge>> {
    let mut search = Search::new(graph);
    let mut best: Option<Vec<Edge>> = None;
    for edge in (0..graph.nodes() as u32).flat_map(|node| graph.from(node)) {
        if !ANTI.has(edge.label.dependency) {
            continue;
        }
        let limit = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
        if limit <= 1 || search.steps > STEPS_MAX {
            break;
        }
        if let Some(mut cycle) = search.path(edge.to, edge.from, limit, |kind| FLOW.has(kind)) {
            cycle.insert(0, edge);
            best = Some(cycle);
        }
    }
    best
}

/// Returns a closed walk without two adjacent anti-dependencies. Each node becomes two: reached by an anti-dependency
/// (odd) or not (even). Another anti-dependency may follow only from the even node.
fn without_adjacent_anti(graph: &Graph) -> Option<(Class, Vec<Edge>)> {
    if let Some(cycle) = single(graph) {
        return Some((Class::GSingle, cycle));
    }
    let mut edges = Vec::new();
    for edge in (0..graph.nodes() as u32).flat_map(|node| graph.from(node)) {
        let (from, to, label) = (2 * edge.from, 2 * edge.to, edge.label);
        if ANTI.has(label.dependency) {
            edges.push(Edge { from, to: to + 1, label });
        } else {
            edges.push(Edge { from, to, label });
            edges.push(Edge { from: from + 1, to, label });
        }
    }
    let mut cycle = shortest(&Graph::of(2 * graph.nodes(), &edges))?;
    for edge in &mut cycle {
        edge.from /= 2;
        edge.to /= 2;
    }
    let anti = cycle.iter().filter(|edge| ANTI.has(edge.label.dependency)).count();
    let ordered = cycle.iter().any(|edge| !DATA.has(edge.label.dependency));
    let class = match anti {
        _ if ordered => Class::SessionViolation,
        0 | 1 => Class::GSingle,
        _ => Class::GNonadjacent,
    };
    Some((class, cycle))
}

/// Breadth-first search with its working space.
struct Search<'g> {
    graph: &'g Graph,
    /// For each node: the number of the search that last reached it (its `round`), and the edge by which it did.
    reached: Vec<(u32, Option<Edge>)>,
    round: u32,
    steps: usize,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph) -> Self {
        Self { graph, reached: vec![(0, None); graph.nodes()], round: 0, steps: 0 }
    }

    /// Returns a shortest path of at least one edge and fewer than `limit` edges, along edges that `allowed` lets
    /// pass.
    fn path(
        &mut self,
        from: u32,
        to: u32,
        limit: usize,
        allowed: impl Fn(Dependency) -> bool,
    ) -> Option<Vec<Edge>> {
        self.round += 1;
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((node, length)) = queue.pop_front() {
            if length + 1 >= limit {
                return None;
            }
            for edge in self.graph.from(node) {
                self.steps += 1;
                let fresh = self.reached[edge.to as usize].0 != self.round;
                if !fresh || !allowed(edge.label.dependency) {
                    continue;
                }
                self.reached[edge.to as usize] = (self.round, Some(edge));
                if edge.to == to {
                    return Some(self.unwind(from, to));
                }
                queue.push_back((edge.to, length + 1));
            }
        }
        None
    }

    fn unwind(&self, from: u32, to: u32) -> Vec<Edge> {
        let mut path = Vec::new();
        let mut at = to;
        while let Some(edge) = self.reached[at as usize].1 {
            path.push(edge);
            at = edge.from;
            if at == from {
                break;
            }
        }
        path.reverse();
        path
    }
}
