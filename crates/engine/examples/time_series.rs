//! A time series: measurements by sensor and time, which expire, and a table of their hourly means, which stays.
//!
//! `cargo run --example time_series`

use braiddb::{Database, Options, Result, Table};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// By sensor and time since 1970: a temperature.
type Measurements = Table<(String, Duration), f64>;
/// By sensor and the number of the hour since 1970: the sum and the number of its measurements.
type Hours = Table<(String, u64), (f64, u64)>;

const HOUR: Duration = Duration::from_secs(3600);
/// Older measurements are deleted.
const KEPT: Duration = Duration::from_secs(24 * 3600);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Writes a measurement and adds it to its hour: both or neither.
fn measure(
    db: &Database,
    tables: (Measurements, Hours),
    sensor: &str,
    at: Duration,
    value: f64,
) -> Result<()> {
    let hour = at.as_secs() / HOUR.as_secs();
    db.transact(|tx| {
        tx.put(tables.0, (sensor, at), value)?;
        let (sum, count) = tx.get(tables.1, (sensor, hour))?.unwrap_or_default();
        tx.put(tables.1, (sensor, hour), (sum + value, count + 1))
    })
}

/// Runs the example.
pub fn main() -> Result<()> {
    let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    let (measurements, hours): (Measurements, Hours) = (db.table("measurements")?, db.table("hours")?);
    let expiry =
        db.expiry(measurements, "measurements by age", |(_, at), _| UNIX_EPOCH.checked_add(*at + KEPT))?;

    // A measurement for each minute of the last two days.
    let now = now();
    for minute in 0..2 * 24 * 60 {
        let at = now - Duration::from_secs(60 * minute);
        measure(&db, (measurements, hours), "roof", at, 20.0 + (minute % 10) as f64)?;
    }

    // In a long-running program, `expiry.sweep_every(interval)` sweeps by a thread.
    let deleted = expiry.sweep(u64::MAX)?;
    println!("{deleted} measurements have expired");
    assert!((1439..=1441).contains(&deleted), "those of the first of two days");

    // Reads the latest ten minutes, newest first, and the hourly means, which go back for both days.
    let latest = db.run(async move |tx| {
        let mut rows =
            tx.scan(measurements, ("roof", Duration::ZERO)..=("roof", Duration::MAX)).reverse().limit(10);
        let mut values = Vec::new();
        while let Some((_, value)) = rows.next().await? {
            values.push(value);
        }
        let (mut sum, mut count) = (0.0, 0);
        let mut of_roof = tx.scan(hours, ("roof", 0)..=("roof", u64::MAX));
        of_roof.for_each(|_, hour| (sum, count) = (sum + hour.0, count + hour.1)).await?;
        Ok((values, sum / count as f64, count))
    });
    let (latest, mean, count) = latest.wait()?;
    println!("the latest: {latest:?}; the mean of {count}: {mean:.1}");
    assert_eq!((latest.len(), count), (10, 2 * 24 * 60));
    Ok(())
}
