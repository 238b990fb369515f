//! The command line.

use crate::engines::PEERS;
use crate::peer::Class;
use braid_bench::args::{parse_count, processors};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Other engines beside Braid: the same transactions through each one's natural interface
#[derive(Clone, Debug, Parser)]
#[command(name = "braid-peers", version, subcommand_negates_reqs = true)]
pub struct Args {
    /// Records to begin with, of 8 + 8 bytes
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    pub records: u64,
    /// Transactions: rN, rmwN, m, uN, sN, i, tpcb; N a number
    #[arg(long, value_delimiter = ',', default_value = "r1,r10,m,u10,s100,i")]
    pub workload: Vec<String>,
    /// What commits promise; only equals are compared
    #[arg(long, value_enum, default_value = "memory")]
    pub class: Class,
    /// Threads, each with its own transactions (class memory)
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    pub threads: Vec<usize>,
    /// Clients, each of which waits for its commit (class sync): threads, or transactions in flight
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    pub clients: Vec<usize>,
    /// Threads of a peer that keeps many transactions in flight on one (class sync); unless given, a processor is left
    /// for its log
    #[arg(long, default_value_t = processors().max(2) - 1)]
    pub workers: usize,
    /// The skew of requests by Zipf; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    pub theta: f64,
    /// Branches of TPC-B; each has 100,000 accounts
    #[arg(long, default_value_t = 4)]
    pub branches: u64,
    /// How long each workload is measured in each repeat
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// How often every peer has its turn
    #[arg(long, default_value_t = 5)]
    pub repeats: usize,
    /// Peers to compare, by name; all unless given
    #[arg(long, value_delimiter = ',', value_parser = peer_name)]
    pub peers: Vec<String>,
    /// A PostgreSQL server to compare as well, such as postgres://user@localhost/db
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    /// A Redis or Valkey server to compare as well, such as redis://localhost or unix:///run/redis.sock; it must have a
    /// database that is empty
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Where peers that have files have them; unless given: memory (if the system shows it as a folder) in class
    /// memory, the system's folder for temporary files in class sync
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Of all draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A peer that takes longer in one repeat, loading included, is ended and counts as failed
    #[arg(long, default_value_t = 1800)]
    pub limit_s: u64,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Nothing, as a rule: what this program says to itself
    #[command(subcommand)]
    pub inner: Option<Inner>,
}

/// What this program says to itself.
#[derive(Clone, Debug, Subcommand)]
pub enum Inner {
    /// Measures one peer in this process
    #[command(hide = true)]
    Measure {
        /// The order, as JSON
        order: String,
        /// Where the answer goes
        answer: PathBuf,
    },
}

fn peer_name(name: &str) -> Result<String, String> {
    let names: Vec<&str> = PEERS.iter().map(|facts| facts.name).collect();
    match names.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("there is no peer {name:?}: expected some of {}", names.join(", "))),
    }
}
