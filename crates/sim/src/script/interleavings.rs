//! All orders in which the steps of several transactions can meet.

use super::program::{Script, Transaction};
use super::stage::Move;

/// Returns all interleavings of a script's steps, each once. The first is serial.
pub fn interleavings(script: &Script) -> impl Iterator<Item = Vec<Move>> {
    orders(script, 0)
}

/// Returns all interleavings of the steps and of the phases of the commits.
pub fn interleavings_of_phases(script: &Script) -> impl Iterator<Item = Vec<Move>> {
    orders(script, script.phases)
}

fn orders(script: &Script, phases: u32) -> impl Iterator<Item = Vec<Move>> {
    let mut next = Some(serial(script, phases));
    let steps: Vec<usize> = script.transactions.iter().map(|transaction| transaction.steps.len()).collect();
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut following = current.clone();
        if advance(&mut following) {
            next = Some(following);
        }
        Some(moves(&current, &steps))
    })
}

/// Returns the number of interleavings of steps.
pub fn count(script: &Script) -> u64 {
    count_orders(script, 0)
}

/// Returns the number of interleavings of steps and phases.
pub fn count_of_phases(script: &Script) -> u64 {
    count_orders(script, script.phases)
}

fn count_orders(script: &Script, phases: u32) -> u64 {
    let (mut total, mut placed) = (1u64, 0u64);
    for transaction in &script.transactions {
        for step in 1..=turns(transaction, phases) as u64 {
            placed += 1;
            total = total * placed / step; // a binomial coefficient at each turn, hence whole
        }
    }
    total
}

/// Returns true if each transaction takes all of its steps before another takes one.
pub fn is_serial(moves: &[Move]) -> bool {
    let mut parts: Vec<Option<u8>> = moves.iter().map(|each| each.transaction()).collect();
    parts.dedup();
    let turns = parts.len();
    parts.sort_unstable();
    parts.dedup();
    parts.len() == turns
}

/// Returns each turn of a transaction as a move: first its steps, then the phases of its commit.
fn moves(order: &[u8], steps: &[usize]) -> Vec<Move> {
    let mut left = steps.to_vec();
    let each = |at: &u8| match left[*at as usize].checked_sub(1) {
        Some(fewer) => {
            left[*at as usize] = fewer;
            Move::Step(*at)
        }
        None => Move::Phase(*at),
    };
    order.iter().map(each).collect()
}

fn serial(script: &Script, phases: u32) -> Vec<u8> {
    let all = script.transactions.iter().enumerate();
    all.flat_map(|(at, transaction)| std::iter::repeat_n(at as u8, turns(transaction, phases))).collect()
}

/// Returns the number of turns that a transaction takes. The commit of a declared reader has no phases.
fn turns(transaction: &Transaction, phases: u32) -> usize {
    transaction.steps.len() + if transaction.is_read_only { 0 } else { phases as usize }
}

/// Advances to the next permutation in lexicographic order. Returns false if there is none.
fn advance(order: &mut [u8]) -> bool {
    let Some(at) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let with = order.iter().rposition(|each| *each > order[at]).expect("the next one is greater");
    order.swap(at, with);
    order[at + 1..].reverse();
    true
}
