//! Every order in which the steps of several transactions can meet.

use super::program::Script;
use super::stage::Move;

/// All interleavings of a script's steps, each once, the first one serial.
pub fn interleavings(script: &Script) -> impl Iterator<Item = Vec<Move>> {
    let mut next = Some(serial(script));
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut following = current.clone();
        if advance(&mut following) {
            next = Some(following);
        }
        Some(current.into_iter().map(Move::Step).collect())
    })
}

/// How many interleavings there are.
pub fn count(script: &Script) -> u64 {
    let (mut total, mut placed) = (1u64, 0u64);
    for transaction in &script.transactions {
        for step in 1..=transaction.steps.len() as u64 {
            placed += 1;
            total = total * placed / step; // a binomial coefficient at each turn, hence whole
        }
    }
    total
}

/// Does each transaction take all of its steps before another takes one?
pub fn is_serial(moves: &[Move]) -> bool {
    let mut parts: Vec<Move> = moves.to_vec();
    parts.dedup();
    let turns = parts.len();
    parts.sort_unstable_by_key(|part| part.transaction());
    parts.dedup();
    parts.len() == turns
}

fn serial(script: &Script) -> Vec<u8> {
    let all = script.transactions.iter().enumerate();
    all.flat_map(|(at, transaction)| std::iter::repeat_n(at as u8, transaction.steps.len())).collect()
}

/// The next permutation in lexicographic order; false: there is none.
fn advance(order: &mut [u8]) -> bool {
    let Some(at) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let with = order.iter().rposition(|each| *each > order[at]).expect("the next one is greater");
    order.swap(at, with);
    order[at + 1..].reverse();
    true
}
