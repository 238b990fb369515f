//! Transaction scripts as data, run step by step on the real engine, and judged by brute force.
//!
//! A script ([`program`], read from text by [`parse`]) has initial rows and one to four transactions. A run ([`play`])
//! takes their steps in a given order, in a database of its own, and keeps what each transaction has observed. The
//! oracle ([`holds`]) looks for an order of the transactions that explains the observations on a model. [`check_specs`]
//! runs the known anomalies in every interleaving, and [`check_random`] runs scripts generated from seeds. Both run on
//! a [`Player`], such as [`Scheme`](crate::Scheme).

mod actor;
pub mod expression;
mod gate;
mod generate;
mod history;
mod interleavings;
mod model;
mod oracle;
mod player;
mod policy;
pub mod program;
mod shrink;
mod specs;
mod stage;
mod text;
mod tokens;

pub use generate::{RandomReport, check_random, generate};
pub use history::{Described, History, Observed, Outcome};
pub use interleavings::{count, count_of_phases, interleavings, interleavings_of_phases, is_serial};
pub use oracle::{answers_hold, holds};
pub use player::Player;
pub use specs::{SPECS, SpecReport, SpecResult, check_script, check_specs, spec};
pub use stage::{Move, Schedule, Variant, play};
pub use text::{ParseError, TRANSACTIONS_MAX, parse};

use program::Script;
use std::fmt;

/// Something that must not happen, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The outcome.
    pub what: String,
    /// The script, the schedule and the history, as text.
    pub how: String,
    /// The script's name.
    pub script: String,
    /// The seed that the script was generated from, if it was.
    pub seed: Option<u64>,
}

impl Failure {
    fn new(what: String, script: &Script, schedule: Option<&Schedule>, history: Option<&History>) -> Failure {
        let mut how = script.to_string();
        how.extend(schedule.map(|schedule| format!("{schedule}\n")));
        how.extend(history.map(|history| Described(script, history).to_string()));
        Failure { what: format!("{}: {what}", script.name), how, script: script.name.clone(), seed: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.how)
    }
}

impl std::error::Error for Failure {}
