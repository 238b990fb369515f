//! A directed graph as rows of edges, and its strongly connected components (Tarjan, SIAM J. Comput. 1972).

use crate::edges::{Edge, Label};
use crate::verdict::Dependency;

/// The edges of each node, side by side.
pub(crate) struct Graph {
    starts: Vec<u32>,
    targets: Vec<u32>,
    labels: Vec<Label>,
}

/// A set of dependencies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub const fn of(all: &[Dependency]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < all.len() {
            bits |= 1 << all[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    pub const fn has(self, dependency: Dependency) -> bool {
        self.0 & (1 << dependency as u8) != 0
    }
}

impl Graph {
    pub fn of(nodes: usize, edges: &[Edge]) -> Self {
        let mut starts = vec![0_u32; nodes + 1];
        for edge in edges {
            starts[edge.from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; edges.len()];
        let mut labels = vec![Label { dependency: Dependency::WriteWrite, key: 0 }; edges.len()];
        for edge in edges {
            let place = &mut next[edge.from as usize];
            targets[*place as usize] = edge.to;
            labels[*place as usize] = edge.label;
            *place += 1;
        }
        Self { starts, targets, labels }
    }

    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The edges that leave a node.
    pub fn from(&self, node: u32) -> impl Iterator<Item = Edge> + '_ {
        let range = self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize;
        range.map(move |at| Edge { from: node, to: self.targets[at], label: self.labels[at] })
    }

    /// The components of more than one node. No edge leads from a node to itself.
    pub fn components(&self) -> Vec<Vec<u32>> {
        Tarjan::new(self).run()
    }

    /// Returns the part of the graph between the given nodes, with edges of the given kinds. Its nodes are numbered by
    /// their place in `nodes`. `numbers` is working space of `nodes()` entries, which are all `u32::MAX` before the
    /// call and after.
    pub fn part(&self, nodes: &[u32], kinds: Kinds, numbers: &mut [u32]) -> Self {
        for (number, node) in nodes.iter().enumerate() {
            numbers[*node as usize] = number as u32;
        }
        let mut edges = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            for edge in self.from(*node).filter(|edge| kinds.has(edge.label.dependency)) {
                let to = numbers[edge.to as usize];
                if to != u32::MAX {
                    edges.push(Edge { from: number as u32, to, label: edge.label });
                }
            }
        }
        for node in nodes {
            numbers[*node as usize] = u32::MAX;
        }
        Self::of(nodes.len(), &edges)
    }
}

/// The state of a depth-first walk without recursion.
struct Tarjan<'g> {
    graph: &'g Graph,
    /// When a node was met, counted from 1. 0: not yet. The highest value: the node's component is complete.
    met: Vec<u32>,
    /// The earliest met node that is known to be reachable.
    low: Vec<u32>,
    /// The next edge to look at.
    cursor: Vec<u32>,
    path: Vec<u32>,
    open: Vec<u32>,
    components: Vec<Vec<u32>>,
}

const COMPLETE: u32 = u32::MAX;

impl<'g> Tarjan<'g> {
    fn new(graph: &'g Graph) -> Self {
        let nodes = graph.nodes();
        let cursor = graph.starts[..nodes].to_vec();
        let (met, low) = (vec![0; nodes], vec![0; nodes]);
        Self { graph, met, low, cursor, path: Vec::new(), open: Vec::new(), components: Vec::new() }
    }

    fn run(mut self) -> Vec<Vec<u32>> {
        let mut clock = 0;
        for root in 0..self.graph.nodes() as u32 {
            if self.met[root as usize] == 0 {
                self.walk(root, &mut clock);
            }
        }
        self.components
    }

    fn meet(&mut self, node: u32, clock: &mut u32) {
        *clock += 1;
        self.met[node as usize] = *clock;
        self.low[node as usize] = *clock;
        self.path.push(node);
        self.open.push(node);
    }

    fn walk(&mut self, root: u32, clock: &mut u32) {
        self.meet(root, clock);
        while let Some(&node) = self.path.last() {
            let at = node as usize;
            if self.cursor[at] < self.graph.starts[at + 1] {
                let to = self.graph.targets[self.cursor[at] as usize];
                self.cursor[at] += 1;
                match self.met[to as usize] {
                    0 => self.meet(to, clock),
                    COMPLETE => {}
                    met => self.low[at] = self.low[at].min(met),
                }
                continue;
            }
            self.path.pop();
            if let Some(&parent) = self.path.last() {
                self.low[parent as usize] = self.low[parent as usize].min(self.low[at]);
            }
            if self.low[at] == self.met[at] {
                self.complete(node);
            }
        }
    }

    fn complete(&mut self, node: u32) {
        let from = self.open.iter().rposition(|open| *open == node).expect("a node on the path is open");
        self.open[from..].iter().for_each(|open| self.met[*open as usize] = COMPLETE);
        if self.open.len() - from > 1 {
            self.components.push(self.open[from..].to_vec());
        }
        self.open.truncate(from);
    }
}
