//! The named workloads: YCSB A-F as defined, and the workloads of the papers.

use crate::distribution::Kind;
use crate::{Failure, Result};

/// A workload, by its name on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The name: `a` … `f`, `r10`, `m`, `u10`, `rmw10`, `s100`, `i`, `probe`.
    pub name: String,
    /// The work of its transactions.
    pub shape: Shape,
    /// The request distribution, unless another is requested.
    pub distribution: Kind,
}

/// The work of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Point reads, then read-modify-writes.
    Point {
        /// Reads per transaction.
        reads: usize,
        /// Read-modify-writes per transaction.
        rmws: usize,
    },
    /// Blind updates.
    Update {
        /// Updates per transaction.
        updates: usize,
    },
    /// Additions to records, made at the commit.
    Increase {
        /// Records per transaction.
        rows: usize,
    },
    /// One scan of this many records.
    Scan {
        /// Records per scan.
        rows: usize,
        /// True if rows are passed to a closure; false if they are requested one by one.
        for_each: bool,
    },
    /// Inserts of new records.
    Insert {
        /// Inserts per transaction.
        inserts: usize,
    },
    /// Index probes that touch no record.
    Probe {
        /// Probes per transaction.
        probes: usize,
    },
    /// Operations drawn from a mix.
    Mixed {
        /// Shares of the operations.
        mix: Mix,
        /// Operations per transaction.
        operations: usize,
    },
}

/// Shares of operations in percent. The rest up to 100 is read-modify-writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Point reads.
    pub read: u64,
    /// Updates.
    pub update: u64,
    /// Inserts.
    pub insert: u64,
    /// Scans of 1 to 100 records, with uniform lengths.
    pub scan: u64,
}

impl Shape {
    /// Returns the operations per transaction. A scan is one operation.
    pub fn operations(self) -> usize {
        match self {
            Shape::Point { reads, rmws } => reads + rmws,
            Shape::Update { updates } => updates,
            Shape::Increase { rows } => rows,
            Shape::Scan { .. } => 1,
            Shape::Insert { inserts } => inserts,
            Shape::Probe { probes } => probes,
            Shape::Mixed { operations, .. } => operations,
        }
    }

    /// Returns true if transactions add records.
    pub fn inserts(self) -> bool {
        match self {
            Shape::Insert { .. } => true,
            Shape::Mixed { mix, .. } => mix.insert > 0,
            _ => false,
        }
    }

    /// Returns roughly how many records a transaction touches.
    pub fn weight(self) -> usize {
        match self {
            Shape::Scan { rows, .. } => rows,
            Shape::Mixed { mix, operations } if mix.scan > 0 => 50 * operations,
            other => other.operations(),
        }
    }
}

impl Workload {
    /// Returns the workload of a name. If the name does not give the operations per transaction, `operations` does.
    pub fn parse(name: &str, operations: Option<usize>) -> Result<Self> {
        let name = name.to_ascii_lowercase();
        let shape = match standard(&name, operations.unwrap_or(1)) {
            Some(shape) => shape,
            None => counted(&name, operations)?,
        };
        if operations.is_some_and(|n| n != shape.operations()) {
            return Err(Failure::new(format!(
                "--reads does not apply to workload {name}, whose name says how many operations a transaction has"
            )));
        }
        let distribution = match name.as_str() {
            "d" => Kind::Latest,
            "a" | "b" | "c" | "e" | "f" => Kind::Zipfian,
            _ => Kind::Uniform,
        };
        Ok(Workload { name, shape, distribution })
    }
}

/// Returns the shape of YCSB's six workloads and of names without a number.
fn standard(name: &str, operations: usize) -> Option<Shape> {
    let mixed = |read, update, insert, scan| {
        Some(Shape::Mixed { mix: Mix { read, update, insert, scan }, operations })
    };
    match name {
        "a" => mixed(50, 50, 0, 0),
        "b" => mixed(95, 5, 0, 0),
        "c" | "r" => Some(Shape::Point { reads: operations, rmws: 0 }),
        "d" => mixed(95, 0, 5, 0),
        "e" => mixed(0, 0, 5, 95),
        "f" => mixed(50, 0, 0, 0),
        "m" => Some(Shape::Point { reads: 8, rmws: 2 }),
        "i" => Some(Shape::Insert { inserts: operations }),
        "u" => Some(Shape::Update { updates: operations }),
        "rmw" => Some(Shape::Point { reads: 0, rmws: operations }),
        _ => None,
    }
}

/// Returns the shape of the papers' names that end in a number.
fn counted(name: &str, operations: Option<usize>) -> Result<Shape> {
    let unknown = || {
        Failure::new(format!(
            "unknown workload {name:?}: expected a, b, c, d, e, f, rN, m, uN, addN, rmwN, sN, eN, i or probe, N a number"
        ))
    };
    if name == "probe" {
        return Ok(Shape::Probe { probes: operations.unwrap_or(10) });
    }
    let digits = name.find(|c: char| c.is_ascii_digit()).ok_or_else(unknown)?;
    let n: usize = name[digits..].parse().ok().filter(|n| (1..=1_000_000).contains(n)).ok_or_else(unknown)?;
    match &name[..digits] {
        "r" => Ok(Shape::Point { reads: n, rmws: 0 }),
        "rmw" => Ok(Shape::Point { reads: 0, rmws: n }),
        "u" => Ok(Shape::Update { updates: n }),
        "add" => Ok(Shape::Increase { rows: n }),
        "s" => Ok(Shape::Scan { rows: n, for_each: false }),
        "e" => Ok(Shape::Scan { rows: n, for_each: true }),
        "i" => Ok(Shape::Insert { inserts: n }),
        "probe" => Ok(Shape::Probe { probes: n }),
        _ => Err(unknown()),
    }
}

/// One operation of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads one record.
    Read,
    /// Replaces one record without reading it.
    Update,
    /// Adds a record.
    Insert,
    /// Reads records in key order.
    Scan,
    /// Reads a record and replaces it.
    ReadModifyWrite,
}

impl Mix {
    /// Returns the operation for a draw below 100.
    #[inline(always)]
    pub fn pick(self, draw: u64) -> Operation {
        let Mix { read, update, insert, scan } = self;
        match draw {
            d if d < read => Operation::Read,
            d if d < read + update => Operation::Update,
            d if d < read + update + insert => Operation::Insert,
            d if d < read + update + insert + scan => Operation::Scan,
            _ => Operation::ReadModifyWrite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of 100 draws are of each operation: read, update, insert, scan, read-modify-write.
    fn shares(name: &str) -> [usize; 5] {
        use Operation::*;
        let Shape::Mixed { mix, operations: 1 } = Workload::parse(name, None).unwrap().shape else {
            panic!("{name} is a mix of one operation per transaction")
        };
        [Read, Update, Insert, Scan, ReadModifyWrite]
            .map(|operation| (0..100).filter(|&d| mix.pick(d) == operation).count())
    }

    #[test]
    fn ycsb_mixes_are_as_defined() {
        // Proves the shares of the operations of YCSB A-F.
        assert_eq!(shares("a"), [50, 50, 0, 0, 0]);
        assert_eq!(shares("B"), [95, 5, 0, 0, 0]);
        assert_eq!(shares("d"), [95, 0, 5, 0, 0]);
        assert_eq!(shares("e"), [0, 0, 5, 95, 0]);
        assert_eq!(shares("f"), [50, 0, 0, 0, 50]);
        assert_eq!(Workload::parse("c", None).unwrap().shape, Shape::Point { reads: 1, rmws: 0 });
        assert_eq!(Workload::parse("d", None).unwrap().distribution, Kind::Latest);
        assert_eq!(Workload::parse("a", None).unwrap().distribution, Kind::Zipfian);
    }

    #[test]
    fn names_of_the_papers_are_understood() {
        // Proves the shape of each name, and that all of these workloads draw uniformly.
        let check = |name: &str, shape: Shape| {
            let workload = Workload::parse(name, None).unwrap();
            assert_eq!((workload.shape, workload.distribution), (shape, Kind::Uniform), "{name}");
        };
        check("r1", Shape::Point { reads: 1, rmws: 0 });
        check("r10", Shape::Point { reads: 10, rmws: 0 });
        check("m", Shape::Point { reads: 8, rmws: 2 });
        check("u10", Shape::Update { updates: 10 });
        check("rmw10", Shape::Point { reads: 0, rmws: 10 });
        check("s1000", Shape::Scan { rows: 1000, for_each: false });
        check("e100", Shape::Scan { rows: 100, for_each: true });
        check("i", Shape::Insert { inserts: 1 });
        check("probe", Shape::Probe { probes: 10 });
    }

    #[test]
    fn operations_override_where_the_name_leaves_them_open() {
        // Proves that `--reads` applies to YCSB, and is refused if it would contradict the name.
        assert_eq!(Workload::parse("c", Some(10)).unwrap().shape.operations(), 10);
        assert_eq!(Workload::parse("a", Some(4)).unwrap().shape.operations(), 4);
        assert!(Workload::parse("r4", Some(10)).is_err());
        for bad in ["", "x", "r", "r0", "s1x", "10"].into_iter().filter(|n| *n != "r") {
            assert!(Workload::parse(bad, None).is_err(), "{bad}");
        }
    }
}
