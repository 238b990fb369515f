//! Finds which fields to put into one column: the partition of a row's fields that has the fewest misses for given
//! queries.
//!
//! The cost follows equations 1 and 2 of Zhang, Wei, Xiang and Xiao, "A Performance Evaluation of DRAM Access for
//! In-Memory Databases" (IEEE Access, 2021). The cost of a partition is the number of missed cache lines, summed over
//! the queries and over the groups of fields that each query touches. The cheapest partition wins.
//!
//! **Model.** A group of w bytes for each of R rows has Rw / 64 lines. The model does not know where in a line a row
//! begins, and takes each byte as equally probable. On average, a row lies in 1 + (w - 1) / 64 lines, and a line has
//! parts of (w + 63) / w rows. A query that picks a share s of the rows, spread over the table, meets a line with a
//! probability of 1 - (1 - s)^((w + 63) / w). With s = 1 it meets all lines. If s is very small, each row has its own
//! line. All misses cost the same: the model ignores that consecutive lines arrive sooner.
//!
//! **Fields that the same queries read are in one group** (a *class*). For one query, f(w) = w (1 - a b^(1 / w)) R / 64
//! with a = 1 - s and b = a^63. f is concave: 1 - a b^x is concave in x, and w g(1 / w) is concave in w if g is
//! concave. Also f(w) >= 0. Suppose that a class of c bytes is split between two groups, t bytes in one and c - t in
//! the other. The cost is a sum of f(x + t) and f(y + c - t) over queries. It is concave in t, so it is least at an
//! end, t = 0 or t = c. At that end the queries of the class no longer touch one of the groups, which costs no more.
//! Fields that no query reads are a group of their own for the same reason: f is non-decreasing, so they can only make
//! other groups wider.
//!
//! **Search.** The cost is a sum over groups. The best partition of a set of classes therefore follows from the best
//! partitions of its subsets. This takes 3^n steps for n classes, and finds the same partition as trying all of them.
//! With more than `CLASSES_MAX` classes, the search repeatedly merges the two groups whose merging saves most, until no
//! merge saves anything. `misses(advised) <= misses(NSM)` and `<= misses(DSM)` hold in both cases.

use super::workload::{Query, Workload};
use std::collections::HashMap;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// All partitions of up to this many classes are considered: 3^14 are 5 million steps.
const CLASSES_MAX: usize = 14;

/// The fields of a column, by their numbers.
pub type Group = Vec<usize>;

/// The advised partition.
pub struct Advice {
    /// The groups, ordered by their first fields.
    pub groups: Vec<Group>,
    /// The fields that no query reads.
    pub unread: Group,
    /// True if the model has no better partition.
    pub is_best: bool,
}

/// Finds the groups.
pub fn advise(workload: &Workload) -> Advice {
    let (classes, unread) = classes(workload);
    let is_best = classes.len() <= CLASSES_MAX;
    let mut groups = if is_best { best(workload, &classes) } else { merged(workload, &classes) };
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort_unstable();
    let fields: usize = groups.iter().map(Vec::len).sum();
    assert_eq!(fields + unread.len(), workload.fields.len(), "each field is in one group");
    Advice { groups, unread, is_best }
}

/// The weighted misses of all queries.
pub fn cost(workload: &Workload, groups: &[Group]) -> f64 {
    workload.queries.iter().map(|query| query.weight * misses(workload, query, groups)).sum()
}

/// The misses of a query.
pub fn misses(workload: &Workload, query: &Query, groups: &[Group]) -> f64 {
    let touched = groups.iter().filter(|group| group.iter().any(|&field| query.reads[field]));
    touched.map(|group| lines(workload.rows, bytes(workload, group), query.share)).sum()
}

/// The bytes of a row in a group.
pub fn bytes(workload: &Workload, group: &Group) -> u64 {
    group.iter().map(|&field| workload.fields[field].bytes).sum()
}

/// The lines of a group that a query touches when it reads a share of the rows.
fn lines(rows: u64, bytes: u64, share: f64) -> f64 {
    assert!(bytes > 0);
    assert!(share > 0.0 && share <= 1.0);
    let rows_of_line = (bytes + LINE_BYTES - 1) as f64 / bytes as f64;
    // Computes 1 - (1 - s)^n without losing a very small share to rounding.
    let met = -(rows_of_line * (-share).ln_1p()).exp_m1();
    rows as f64 * bytes as f64 / LINE_BYTES as f64 * met
}

/// Groups the fields by the queries that read them, and returns the unread fields separately.
fn classes(workload: &Workload) -> (Vec<Group>, Group) {
    let mut by_readers: HashMap<Vec<bool>, usize> = HashMap::new();
    let (mut classes, mut unread): (Vec<Group>, Group) = (Vec::new(), Vec::new());
    for field in 0..workload.fields.len() {
        let readers: Vec<bool> = workload.queries.iter().map(|query| query.reads[field]).collect();
        if !readers.contains(&true) {
            unread.push(field);
            continue;
        }
        let class = *by_readers.entry(readers).or_insert(classes.len());
        classes.resize(classes.len().max(class + 1), Vec::new());
        classes[class].push(field);
    }
    (classes, unread)
}

/// The cheapest partition of the classes. Sets of classes are bits; `least[set]` is the cost of the best partition of a
/// set, and `last[set]` is a group of that partition.
fn best(workload: &Workload, classes: &[Group]) -> Vec<Group> {
    let sets = 1usize << classes.len();
    let alone: Vec<f64> = (0..sets).map(|set| cost(workload, &[union(classes, set)])).collect();
    let (mut least, mut last) = (alone.clone(), (0..sets).collect::<Vec<usize>>());
    for set in 1..sets {
        // The groups of a set that contain its lowest class; the other groups partition the rest.
        let lowest = set & set.wrapping_neg();
        let rest = set ^ lowest;
        let mut part = rest;
        while part > 0 {
            part = (part - 1) & rest;
            let group = part | lowest;
            let total = alone[group] + least[set ^ group];
            if total < least[set] {
                (least[set], last[set]) = (total, group);
            }
        }
    }
    let (mut set, mut groups) = (sets - 1, Vec::new());
    while set > 0 {
        groups.push(union(classes, last[set]));
        set ^= last[set];
    }
    groups
}

fn union(classes: &[Group], set: usize) -> Group {
    let within = classes.iter().enumerate().filter(|(class, _)| set >> class & 1 == 1);
    within.flat_map(|(_, fields)| fields.iter().copied()).collect()
}

/// A partition that merging any two groups does not improve, and that is no worse than one group.
fn merged(workload: &Workload, classes: &[Group]) -> Vec<Group> {
    let mut groups: Vec<(usize, Group)> = classes.iter().cloned().enumerate().collect();
    let mut known = HashMap::new(); // by the numbers of two groups; a merged group has a new number
    for number in classes.len().. {
        let Some((a, b)) = most_saving(workload, &groups, &mut known) else { break };
        let (_, group) = groups.swap_remove(b); // b > a
        groups[a].1.extend(group);
        groups[a].0 = number;
    }
    let groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    let whole = vec![classes.concat()];
    if cost(workload, &whole) < cost(workload, &groups) { whole } else { groups }
}

/// The two groups whose merging saves most, or `None` if no merge saves anything.
fn most_saving(
    workload: &Workload,
    groups: &[(usize, Group)],
    known: &mut HashMap<(usize, usize), f64>,
) -> Option<(usize, usize)> {
    let mut most = (0.0, None);
    for (b, (number_b, group_b)) in groups.iter().enumerate() {
        for (a, (number_a, group_a)) in groups[..b].iter().enumerate() {
            let numbers = (*number_a.min(number_b), *number_a.max(number_b));
            let saved = *known.entry(numbers).or_insert_with(|| {
                let merged = [group_a.as_slice(), group_b].concat();
                cost(workload, &[group_a.clone(), group_b.clone()]) - cost(workload, &[merged])
            });
            if saved > most.0 {
                most = (saved, Some((a, b)));
            }
        }
    }
    most.1
}

#[cfg(test)]
mod tests;
