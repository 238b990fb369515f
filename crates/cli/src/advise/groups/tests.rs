//! Compares the advice with independently computed results.

use super::super::workload::Field;
use super::*;
use braid_history::generate::Random;

/// A relative difference of costs up to this may be rounding.
const ROUNDING: f64 = 1e-9;

/// A workload of random fields and queries. Some queries read all rows.
fn random(random: &mut Random, fields: u64, queries: u64) -> Workload {
    let field = |random: &mut Random| {
        let bytes_max = [4, 16, 64, 300][random.below(4) as usize];
        1 + random.below(bytes_max)
    };
    let fields: Vec<Field> =
        (0..fields).map(|at| Field { name: format!("f{at}"), bytes: field(random) }).collect();
    let query = |random: &mut Random| {
        let mut reads: Vec<bool> = fields.iter().map(|_| random.below(2) == 0).collect();
        reads[random.below(fields.len() as u64) as usize] = true;
        let share = [1.0, 0.5, 0.1, 0.01, 1e-6][random.below(5) as usize];
        Query { reads, share, weight: (1 + random.below(100)) as f64 / 10.0 }
    };
    let queries = (0..queries).map(|_| query(random)).collect();
    Workload { rows: 1_000_000, fields, queries }
}

/// The cost by the paper's definition and the model in the module's head, written a second time without code from
/// `groups.rs`.
fn oracle_cost(workload: &Workload, group_of: &[usize]) -> f64 {
    let mut cost = 0.0;
    for query in &workload.queries {
        for group in 0..group_of.len() {
            let fields: Vec<usize> = (0..group_of.len()).filter(|&field| group_of[field] == group).collect();
            if fields.iter().any(|&field| query.reads[field]) {
                let w: f64 = fields.iter().map(|&field| workload.fields[field].bytes as f64).sum();
                let met = 1.0 - (1.0 - query.share).powf((w + 63.0) / w);
                cost += query.weight * workload.rows as f64 * w / 64.0 * met;
            }
        }
    }
    cost
}

/// Every way to assign each of n fields to one of n groups.
fn assignments(n: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..n.pow(n as u32)).map(move |code| (0..n).map(|field| code / n.pow(field as u32) % n).collect())
}

/// All groups, and the group of fields that no query reads.
fn all(advice: &Advice) -> Vec<Group> {
    let unread = (!advice.unread.is_empty()).then(|| advice.unread.clone());
    advice.groups.iter().cloned().chain(unread).collect()
}

/// Each field is in one group, and no query has to read a field that no query needs. Neither whole rows nor a column
/// for each field is better.
fn check(workload: &Workload, advice: &Advice, seed: u64) {
    let mut fields = all(advice).concat();
    fields.sort_unstable();
    assert_eq!(fields, (0..workload.fields.len()).collect::<Group>(), "seed {seed}");
    let is_read = |field: &usize| workload.queries.iter().any(|query| query.reads[*field]);
    assert!(!advice.unread.iter().any(is_read) && advice.groups.concat().iter().all(is_read), "seed {seed}");
    let nsm = vec![fields.clone()];
    let dsm: Vec<Group> = fields.iter().map(|&field| vec![field]).collect();
    let most = cost(workload, &nsm).min(cost(workload, &dsm)) * (1.0 + ROUNDING);
    assert!(cost(workload, &advice.groups) <= most, "seed {seed}");
}

/// No assignment of fields to groups beats the advice, so neither classes nor subsets leave a better assignment out.
#[test]
fn the_advice_is_the_best_of_all_partitions() {
    for seed in 0..300 {
        let mut source = Random::new(seed);
        let (fields, queries) = (1 + source.below(5), 1 + source.below(6));
        let workload = random(&mut source, fields, queries);
        let advice = advise(&workload);
        check(&workload, &advice, seed);
        let best = assignments(fields as usize)
            .map(|group_of| oracle_cost(&workload, &group_of))
            .fold(f64::INFINITY, f64::min);
        let advised = cost(&workload, &advice.groups);
        assert!((advised - best).abs() <= best * ROUNDING, "seed {seed}: {advised}, and {best} is the best");
        assert!(advice.is_best);
    }
}

/// Merging keeps the same promises, both with few classes, where it is no better than the best partition, and with more
/// classes than the full search takes.
#[test]
fn merging_is_no_worse_than_whole_rows_or_a_column_for_each_field() {
    for seed in 0..100 {
        let mut source = Random::new(seed);
        let count = 2 + source.below(6);
        let workload = random(&mut source, count, 5);
        let (classes, unread) = classes(&workload);
        let groups = merged(&workload, &classes);
        assert!(cost(&workload, &groups) >= cost(&workload, &best(&workload, &classes)) * (1.0 - ROUNDING));
        check(&workload, &Advice { groups, unread, is_best: false }, seed);
    }
    for seed in 0..5 {
        let workload = random(&mut Random::new(seed), 60, 12);
        let advice = advise(&workload);
        assert!(!advice.is_best, "seed {seed}");
        check(&workload, &advice, seed);
    }
}

/// The largest permitted file is answered in seconds, with finite costs.
#[test]
fn the_largest_workload_is_advised() {
    let mut workload = random(&mut Random::new(1), 256, 24);
    workload.rows = 1_000_000_000_000_000;
    workload.fields.iter_mut().for_each(|field| field.bytes = 1 << 30);
    workload.queries.iter_mut().for_each(|query| query.weight = 1e15);
    let advice = advise(&workload);
    check(&workload, &advice, 1);
    assert!(cost(&workload, &advice.groups).is_finite());
}

/// The model by hand. A scan touches all lines. A few rows touch the line of each and, depending on the row's length,
/// the next line. A query never touches more lines than there are.
#[test]
fn lines_are_counted() {
    assert_eq!(lines(64, 8, 1.0), 8.0);
    assert_eq!(lines(64, 100, 1.0), 100.0);
    let one_row = |bytes| lines(1_000_000, bytes, 1e-6);
    assert!((one_row(1) - 1.0).abs() < 1e-4);
    assert!((one_row(65) - 2.0).abs() < 1e-4);
    assert!((one_row(640) - (1.0 + 639.0 / 64.0)).abs() < 1e-3);
    assert!(
        (lines(1_000_000_000, 8, 1e-300) / 1.109375e-291 - 1.0).abs() < 1e-9,
        "it is not rounded to nothing"
    );
    assert!(lines(64, 8, 0.5) < 8.0);
}

/// With one field that is summed and rows that are looked up as a whole, the summed field stays alone and the others
/// are together. With look-ups alone the advice is whole rows, and unread fields are apart.
#[test]
fn scans_and_look_ups_pull_apart_and_together() {
    let field = |bytes| Field { name: String::new(), bytes };
    let query = |reads: &[bool], share, weight| Query { reads: reads.to_vec(), share, weight };
    let look_up = || query(&[true, true, true, false], 1e-5, 1.0);
    let mut workload = Workload {
        rows: 10_000_000,
        fields: vec![field(8), field(8), field(24), field(100)],
        queries: vec![query(&[false, true, false, false], 1.0, 5.0), look_up()],
    };
    let advice = advise(&workload);
    assert_eq!((advice.groups, advice.unread), (vec![vec![0, 2], vec![1]], vec![3]));
    workload.queries = vec![look_up(), query(&[true, false, false, false], 1e-5, 1.0)];
    assert_eq!(advise(&workload).groups, [vec![0, 1, 2]]);
}
