//! Where something was lost, and how to get there again.

use std::fmt;
use std::str::FromStr;

/// A crash, named by the sequence of crashes that leads to it: each life but the first began after the crash before.
/// Each crash is a boundary and the seed of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Vec<(u64, u64)>);

impl Place {
    /// Returns the crashes in order.
    pub fn crashes(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Returns the place of a crash in the life that begins here.
    pub(super) fn then(&self, boundary: u64, seed: u64) -> Place {
        Place(self.0.iter().copied().chain([(boundary, seed)]).collect())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (boundary, seed)) in self.0.iter().enumerate() {
            write!(f, "{}{boundary}:{seed}", if i > 0 { "/" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let crash = |part: &str| {
            let (boundary, seed) = part.split_once(':')?;
            Some((boundary.parse().ok()?, seed.parse().ok()?))
        };
        let crashes: Option<_> = text.split('/').map(crash).collect();
        crashes.map(Place).ok_or_else(|| "boundary:seed, or several with / in between".to_string())
    }
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the whole check.
    pub seed: u64,
    /// The crash after which it was found. Empty if it was found during the first life.
    pub place: Place,
    /// The operation before that crash.
    pub after: String,
    /// The fault.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}", self.seed)?;
        if !self.place.0.is_empty() {
            write!(f, ", crash {} ({})", self.place, self.after)?;
        }
        write!(f, ": {}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a place is read as it is written, and that other texts are refused.
    #[test]
    fn places_are_read_as_written() {
        let place = Place::default().then(120, 7).then(3, u64::MAX);
        assert_eq!(place.to_string(), "120:7/3:18446744073709551615");
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", "1", "1:", "1:2/", "a:b", "1:2:3"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
