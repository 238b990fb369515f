//! Which fields to put into one column: the partition of a row's fields that has the fewest misses for some queries.
//!
//! Equations 1 and 2 of Zhang, Wei, Xiang and Xiao, "A Performance Evaluation of DRAM Access for In-Memory Databases" (IEEE Access,
//! 2021): a partition costs the sum, over queries and over the groups of fields that a query touches, of the lines of the cache that it
//! misses, and the least of all partitions is taken.
//!
//! **Model.** A group of w bytes for each of R rows has Rw / 64 lines. Where a row begins in a line is not known, so each byte is as probable:
//! a row is in 1 + (w - 1) / 64 lines, and a line has parts of (w + 63) / w rows, on average. A query that picks a share s of
//! the rows, spread over the table, meets a line with a probability of 1 - (1 - s)^((w + 63) / w). With s = 1 these are all lines; where s is very
//! small, each row has its own. A miss is a miss: the model does not know that lines one after the other come sooner.
//!
//! **Fields that the same queries read are in one group** (a *class*). For one query, f(w) = w (1 - a b^(1 / w)) R / 64 with a = 1 - s and
//! b = a^63. It is concave: 1 - a b^x is in x, and w g(1 / w) is in w if g is concave. Also f(w) >= 0. Suppose that a class of c bytes is in
//! two groups, t bytes in one and c - t in the other. The cost is a sum of f(x + t) and f(y + c - t) over queries, concave in t, so it is
//! least at an end, t = 0 or t = c; and there one of the groups is rid of the queries of the class, which costs no more.
//! Fields that no query reads are a group of their own for the same reason: f does not fall, so they can only make others wider.
//!
//! **Search.** The cost is a sum over groups. So of all partitions of a set of classes, the least is found from those of its subsets: 3^n steps
//! for n classes, and what looking at each partition would find. With more than `CLASSES_MAX` classes, the two groups whose
//! merging saves most are merged until nothing is saved. `misses(advised) <= misses(NSM)` and `<= misses(DSM)` hold in both cases.

use super::workload::{Query, Workload};
use std::collections::HashMap;

/// Bytes of a line of the cache.
pub const LINE_BYTES: u64 = 64;
/// All partitions of that many classes are considered: 3^14 are 5 million steps.
const CLASSES_MAX: usize = 14;

/// The fields of a column, by their numbers.
pub type Group = Vec<usize>;

/// What is advised.
pub struct Advice {
    /// In the order of their first fields.
    pub groups: Vec<Group>,
    /// What no query reads.
    pub unread: Group,
    /// Whether there is no better partition by the model.
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

/// The misses of all queries by their weights.
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

/// The lines of a group that are met where a share of the rows is read.
fn lines(rows: u64, bytes: u64, share: f64) -> f64 {
    assert!(bytes > 0);
    assert!(share > 0.0 && share <= 1.0);
    let rows_of_line = (bytes + LINE_BYTES - 1) as f64 / bytes as f64;
    // 1 - (1 - s)^n, so that a very small share is not lost to rounding.
    let met = -(rows_of_line * (-share).ln_1p()).exp_m1();
    rows as f64 * bytes as f64 / LINE_BYTES as f64 * met
}

/// Fields that the same queries read, and those that none does.
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

/// The partition of the classes that costs least. Sets of classes are bits; `least[set]` is the cost of the best partition of a set, and
/// `last[set]` a group of it.
fn best(workload: &Workload, classes: &[Group]) -> Vec<Group> {
    let sets = 1usize << classes.len();
    let alone: Vec<f64> = (0..sets).map(|set| cost(workload, &[union(classes, set)])).collect();
    let (mut least, mut last) = (alone.clone(), (0..sets).collect::<Vec<usize>>());
    for set in 1..sets {
        // The groups of a set that have its lowest class: the others are what is left.
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

/// A partition that no merging of two groups makes better, and that is no worse than one group.
fn merged(workload: &Workload, classes: &[Group]) -> Vec<Group> {
    let mut groups: Vec<(usize, Group)> = classes.iter().cloned().enumerate().collect();
    let mut known = HashMap::new(); // by the numbers of two groups; a merged group has a new one
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

/// The two groups whose merging saves most; `None` if none saves anything.
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
