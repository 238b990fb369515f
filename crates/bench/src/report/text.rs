//! Short numbers, lists without duplicates, and text files.

use crate::{Failure, Result};
use std::path::Path;

/// Formats a number of records briefly.
pub fn short(n: u64) -> String {
    let (value, suffix) = match n {
        0..1_000 => (n as f64, ""),
        1_000..1_000_000 => (n as f64 / 1e3, "K"),
        _ => (n as f64 / 1e6, "M"),
    };
    if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}{suffix}")
    } else {
        format!("{value:.1}{suffix}")
    }
}

/// Formats a number of bytes with its unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Returns the values without duplicates, in the order of their first appearance.
pub(crate) fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Writes a file and prints its name.
pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// Writes results as JSON.
pub(crate) fn write_json(path: &Path, results: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(results).map_err(|error| Failure::new(error.to_string()))?;
    write(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_sizes_have_units() {
        // Proves the format of entries on axes and in tables.
        for (n, text) in [(10, "10"), (10_000, "10K"), (23_465_984, "23.5M"), (50_000_000, "50M")] {
            assert_eq!(short(n), text);
        }
        for (bytes, text) in [(12, "12 bytes"), (2048, "2.0 KiB"), (3 << 20, "3.0 MiB"), (5 << 29, "2.5 GiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
