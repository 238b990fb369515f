//! Makes a failing run smaller while it still fails.

use super::program::Script;
use super::stage::{Move, Schedule};
use super::text::parse;

/// Leaves out transactions, steps, moves, haste, rows and filler, one at a time, while `fails` still holds without
/// them.
pub(super) fn shrink(
    script: Script,
    schedule: Schedule,
    fails: impl Fn(&Script, &Schedule) -> bool,
) -> (Script, Schedule) {
    let mut current = (script, schedule);
    loop {
        let smaller = candidates(&current.0, &current.1)
            .filter_map(|(script, schedule)| {
                // Parsed again, because a script that uses an unset variable is invalid.
                let script = parse(&script.name, &script.to_string()).ok()?;
                Some((script, schedule))
            })
            .find(|(script, schedule)| fails(script, schedule));
        match smaller {
            Some(smaller) => current = smaller,
            None => return current,
        }
    }
}

type Run = (Script, Schedule);

fn candidates<'r>(script: &'r Script, schedule: &'r Schedule) -> impl Iterator<Item = Run> + 'r {
    let without_transaction = (0..script.transactions.len()).map(move |at| {
        let (mut script, mut schedule) = (script.clone(), schedule.clone());
        script.transactions.remove(at);
        schedule.moves.retain(|each| each.transaction() != Some(at as u8));
        for each in &mut schedule.moves {
            if let Move::Step(other) | Move::Start(other) | Move::Phase(other) = each
                && *other > at as u8
            {
                *other -= 1;
            }
        }
        (script, schedule)
    });
    let steps = script.transactions.iter().enumerate().flat_map(|(at, transaction)| {
        (0..transaction.steps.len().saturating_sub(1)).map(move |step| (at, step))
    });
    let without_step = steps.map(move |(at, step)| {
        let (mut script, mut schedule) = (script.clone(), schedule.clone());
        script.transactions[at].steps.remove(step);
        let mut own =
            schedule.moves.iter().enumerate().filter(|(_, each)| each.transaction() == Some(at as u8));
        if let Some((place, _)) = own.nth(step) {
            schedule.moves.remove(place);
        }
        (script, schedule)
    });
    let others = schedule.moves.iter().enumerate().filter(|(_, each)| each.transaction().is_none());
    let without_move = others.map(move |(place, _)| {
        let mut schedule = schedule.clone();
        schedule.moves.remove(place);
        (script.clone(), schedule)
    });
    let starts = schedule.moves.iter().enumerate();
    let without_start = starts.filter_map(move |(place, each)| {
        let Move::Start(at) = each else { return None };
        let mut schedule = schedule.clone();
        schedule.moves[place] = Move::Step(*at);
        Some((script.clone(), schedule))
    });
    let without_row = script.rows.keys().map(move |place| {
        let mut script = script.clone();
        script.rows.remove(place);
        (script, schedule.clone())
    });
    let without_filler =
        (script.filler > 0).then(|| (Script { filler: 0, ..script.clone() }, schedule.clone()));
    without_transaction
        .chain(without_step)
        .chain(without_move)
        .chain(without_start)
        .chain(without_row)
        .chain(without_filler)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::script::{generate, holds, play};
    use braid_history::Model;
    use braiddb::Snapshot;

    /// Proves that the remaining run still fails, and that nothing more can be left out.
    #[test]
    fn little_is_left() {
        let is_anomaly = |script: &Script, schedule: &Schedule| {
            let history = play::<Snapshot>(script, schedule, Kind::default());
            history.is_ok_and(|history| !holds(Model::Serializable, script, &history))
        };
        let steps = |script: &Script| script.transactions.iter().map(|one| one.steps.len()).sum::<usize>();
        let mut anomalies = (0..).map(generate).filter(|(script, schedule)| is_anomaly(script, schedule));
        for _ in 0..5 {
            let (script, schedule) = anomalies.next().expect("seeds do not end");
            let before = steps(&script);
            let (script, schedule) = shrink(script, schedule, is_anomaly);
            assert!(is_anomaly(&script, &schedule));
            assert!(steps(&script) < before || steps(&script) <= 6, "{script}{schedule}");
            for (smaller, schedule) in candidates(&script, &schedule) {
                let read = parse("smaller", &smaller.to_string());
                assert!(!read.is_ok_and(|script| is_anomaly(&script, &schedule)), "{script}\nand\n{smaller}");
            }
        }
    }
}
