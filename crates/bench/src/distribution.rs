//! Request distributions, which choose the record of a request: uniform, Zipfian or latest. A draw allocates nothing
//! and shares no state.
//!
//! Zipfian with 0 < theta < 1 uses the quick method of Gray et al., "Quickly generating billion-record synthetic
//! databases" (SIGMOD 1994), as YCSB does. For theta >= 1, rejection-inversion (Hoermann and Derflinger, 1996) is used,
//! which is exact there. A bijection scrambles the ranks, so that popular records are not adjacent.

pub use braid_tpcc::Rng;

/// A request distribution, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// All records are equally likely.
    Uniform,
    /// A few records are popular, wherever they lie.
    Zipfian,
    /// The newest records are popular.
    Latest,
}

/// Draws record numbers that are less than the number of records.
#[derive(Clone, Debug)]
pub struct Source {
    records: u64,
    draw: Draw,
}

#[derive(Clone, Debug)]
enum Draw {
    Uniform,
    Zipfian { zipf: Zipf, scramble: u64 },
    Latest(Zipf),
}

impl Source {
    /// Makes a source that draws from `records` records.
    pub fn new(kind: Kind, records: u64, theta: f64) -> Self {
        assert!(records > 0, "there are records");
        let draw = match kind {
            _ if theta == 0.0 && kind != Kind::Latest => Draw::Uniform,
            Kind::Uniform => Draw::Uniform,
            Kind::Zipfian => {
                Draw::Zipfian { zipf: Zipf::new(records, theta), scramble: scramble_of(records) }
            }
            Kind::Latest => Draw::Latest(Zipf::new(records, theta)),
        };
        Source { records, draw }
    }

    /// Draws the number of a record. The latest distribution draws from the numbers 0 to `newest`, inclusive, and
    /// prefers high ones. The other distributions draw from the records that existed at the start.
    #[inline(always)]
    pub fn number(&self, rng: &mut Rng, newest: u64) -> u64 {
        match &self.draw {
            Draw::Uniform => rng.below(self.records),
            // No overflow: either the rank and the factor are each below 2^32, or the factor is 1.
            Draw::Zipfian { zipf, scramble } => zipf.rank(rng) * scramble % self.records,
            Draw::Latest(zipf) => newest.saturating_sub(zipf.rank(rng)),
        }
    }

    /// Returns true if `number` depends on its second argument.
    pub fn follows_inserts(&self) -> bool {
        matches!(self.draw, Draw::Latest(_))
    }
}

/// A factor f such that rank -> rank * f mod records is a bijection: any prime that does not divide
/// `records`.
fn scramble_of(records: u64) -> u64 {
    const PRIMES: [u64; 2] = [2_654_435_761, 2_246_822_519];
    if records >= 1 << 32 {
        return 1;
    }
    PRIMES
        .into_iter()
        .find(|&p| !records.is_multiple_of(p))
        .expect("no number below 2^32 is divided by both primes")
}

/// Ranks from 0: rank r with probability proportional to (r + 1)^-theta.
#[derive(Clone, Debug)]
enum Zipf {
    Quick { n: f64, zeta_n: f64, second: f64, alpha: f64, eta: f64 },
    Rejection { n: f64, theta: f64, h_first: f64, h_last: f64, s: f64 },
}

impl Zipf {
    fn new(records: u64, theta: f64) -> Self {
        let n = records as f64;
        if theta < 1.0 {
            let (zeta_n, zeta_2) = (zeta(records, theta), zeta(2.min(records), theta));
            let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta_n);
            let second = 1.0 + 0.5f64.powf(theta);
            return Zipf::Quick { n, zeta_n, second, alpha: 1.0 / (1.0 - theta), eta };
        }
        let h_first = integral(1.5, theta) - 1.0;
        let h_last = integral(n + 0.5, theta);
        let s = 2.0 - integral_inverse(integral(2.5, theta) - 2f64.powf(-theta), theta);
        Zipf::Rejection { n, theta, h_first, h_last, s }
    }

    #[inline]
    fn rank(&self, rng: &mut Rng) -> u64 {
        match *self {
            Zipf::Quick { n, zeta_n, second, alpha, eta } => {
                let u = rng.unit();
                let uz = u * zeta_n;
                if uz < 1.0 {
                    return 0;
                }
                if uz < second {
                    return 1.min(n as u64 - 1);
                }
                ((n * (eta * u - eta + 1.0).powf(alpha)) as u64).min(n as u64 - 1)
            }
            Zipf::Rejection { n, theta, h_first, h_last, s } => loop {
                let u = h_last + rng.unit() * (h_first - h_last);
                let x = integral_inverse(u, theta);
                let k = x.round().clamp(1.0, n);
                if k - x <= s || u >= integral(k + 0.5, theta) - k.powf(-theta) {
                    return k as u64 - 1;
                }
            },
        }
    }
}

/// The sum of i^-theta for i from 1 to n. Beyond the first million terms, the Euler-Maclaurin formula is used.
fn zeta(n: u64, theta: f64) -> f64 {
    const EXACT: u64 = 1_000_000;
    let head: f64 = (1..=n.min(EXACT)).map(|i| (i as f64).powf(-theta)).sum();
    if n <= EXACT {
        return head;
    }
    let (a, b) = (EXACT as f64, n as f64);
    head + integral(b, theta) - integral(a, theta) + (b.powf(-theta) - a.powf(-theta)) / 2.0
}

/// The integral of t^-theta from 1 to x.
fn integral(x: f64, theta: f64) -> f64 {
    if (theta - 1.0).abs() < 1e-9 { x.ln() } else { (x.powf(1.0 - theta) - 1.0) / (1.0 - theta) }
}

/// The x whose integral is y.
fn integral_inverse(y: f64, theta: f64) -> f64 {
    if (theta - 1.0).abs() < 1e-9 { y.exp() } else { (1.0 + y * (1.0 - theta)).powf(1.0 / (1.0 - theta)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    /// Counts how often each record comes up in `draws` draws from `records` records.
    fn frequencies(source: &Source, records: u64, draws: u64) -> Vec<u64> {
        let mut rng = Rng::new(SEED);
        let mut counts = vec![0; records as usize];
        for _ in 0..draws {
            counts[source.number(&mut rng, records - 1) as usize] += 1;
        }
        counts
    }

    /// Checks that the most popular ranks come up as often as the definition says.
    fn check_zipf(theta: f64, tolerance: f64) {
        let (records, draws) = (10_000, 1_000_000);
        let zipf = Zipf::new(records, theta);
        let mut rng = Rng::new(SEED);
        let mut counts = vec![0u64; records as usize];
        for _ in 0..draws {
            counts[zipf.rank(&mut rng) as usize] += 1;
        }
        let total = zeta(records, theta);
        for (rank, &count) in counts.iter().enumerate().take(2) {
            let expected = ((rank + 1) as f64).powf(-theta) / total * draws as f64;
            assert!(
                (count as f64 / expected - 1.0).abs() < tolerance,
                "theta {theta} rank {rank}: {count} draws, expected {expected}"
            );
        }
        let head: u64 = counts[..100].iter().sum();
        let expected = zeta(100, theta) / total * draws as f64;
        assert!(
            (head as f64 / expected - 1.0).abs() < tolerance,
            "theta {theta}: head {head}, expected {expected}"
        );
    }

    #[test]
    fn zipfian_frequencies_follow_the_definition() {
        // Proves that both methods are right, below, at and above theta = 1.
        for theta in [0.5, 0.9, 0.99] {
            check_zipf(theta, 0.1);
        }
        for theta in [1.0, 1.2, 2.0] {
            check_zipf(theta, 0.03);
        }
    }

    #[test]
    fn uniform_draws_every_record_alike() {
        // Proves that no record is favored: each of 100 comes up within 10 % of its share.
        let counts = frequencies(&Source::new(Kind::Uniform, 100, 0.0), 100, 1_000_000);
        assert!(counts.iter().all(|&c| (9_000..11_000).contains(&c)), "{counts:?}");
    }

    #[test]
    fn zipfian_scrambling_is_a_bijection() {
        // Proves that scrambling loses no record and moves popular records apart.
        let records = 1_000;
        let f = scramble_of(records);
        let mut seen: Vec<u64> = (0..records).map(|r| r * f % records).collect();
        assert!(seen[0].abs_diff(seen[1]) > 1);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..records));
    }

    #[test]
    fn latest_prefers_the_newest() {
        // Proves that the newest record comes up most often, and that numbers stay in range.
        let counts = frequencies(&Source::new(Kind::Latest, 1_000, 0.99), 1_000, 100_000);
        assert_eq!(counts.iter().max(), counts.last());
    }

    #[test]
    fn one_record_is_enough() {
        // Proves that the smallest table draws its only record under every distribution.
        for kind in [Kind::Uniform, Kind::Zipfian, Kind::Latest] {
            assert_eq!(Source::new(kind, 1, 0.99).number(&mut Rng::new(SEED), 0), 0);
        }
    }

    #[test]
    fn zeta_of_many_is_close_to_the_sum() {
        // Proves that the formula for large tables agrees with the sum itself.
        let exact: f64 = (1..=3_000_000u64).map(|i| (i as f64).powf(-0.99)).sum();
        assert!((zeta(3_000_000, 0.99) / exact - 1.0).abs() < 1e-9);
    }
}
