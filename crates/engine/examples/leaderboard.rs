//! A leaderboard: points by player, and an index with the players by points.
//!
//! `cargo run --example leaderboard`

use braiddb::{Database, Options, Result, Table};

/// Runs the example.
pub fn main() -> Result<()> {
    let db = Database::in_memory(Options { workers: 2, ..Options::default() })?;
    let points: Table<String, u64> = db.table("points")?;
    // The engine updates the index with every write.
    let by_points = db.index(points, "by points", |_, points| Some(points))?;

    // Many transactions at once. The engine runs conflicting transactions again.
    let players = ["Ada", "Eve", "Bob", "Zoe"];
    let games: Vec<u64> = (0..400).collect();
    let played = db.run_each(games, async move |tx, game: &u64| {
        let player = players[(game * game % 7 % 4) as usize];
        let before = tx.get(points, player).await?.unwrap_or(0);
        tx.put(points, player, before + game % 10).await
    });
    assert!(played.wait()?.iter().all(Result::is_ok));

    let best = db.run(async move |tx| {
        let mut rows = tx.scan_by(by_points, 0..).reverse().limit(3);
        let mut best = Vec::new();
        while let Some((points, player, _)) = rows.next().await? {
            best.push((player, points));
        }
        Ok(best)
    });
    let best = best.wait()?;
    for (place, (player, points)) in best.iter().enumerate() {
        println!("{}. {player}: {points}", place + 1);
    }
    assert!(best.len() == 3 && best.is_sorted_by(|a, b| a.1 >= b.1));
    Ok(())
}
