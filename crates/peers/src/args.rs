//! The command line.

use crate::engines::PEERS;
use crate::peer::Class;
use braid_bench::args::{parse_count, processors};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Compares other engines with Braid: the same transactions through each engine's natural interface
#[derive(Clone, Debug, Parser)]
#[command(name = "braid-peers", version, subcommand_negates_reqs = true)]
pub struct Args {
    /// Records at first, of 8 + 8 bytes
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    pub records: u64,
    /// Workloads: rN, rmwN, m, uN, sN, i, tpcb; N is a number
    #[arg(long, value_delimiter = ',', default_value = "r1,r10,m,u10,s100,i")]
    pub workload: Vec<String>,
    /// The promise of a commit; only peers with the same promise are compared
    #[arg(long, value_enum, default_value = "memory")]
    pub class: Class,
    /// Threads, each with its own transactions (class memory)
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    pub threads: Vec<usize>,
    /// Clients, each of which waits for its commit (class sync); a client is a thread or a transaction in flight
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    pub clients: Vec<usize>,
    /// Threads of a peer that keeps many transactions in flight on one thread (class sync); by default, one processor
    /// is left for its log
    #[arg(long, default_value_t = processors().max(2) - 1)]
    pub workers: usize,
    /// Skew of the Zipfian requests; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    pub theta: f64,
    /// Branches of TPC-B; each has 100,000 accounts
    #[arg(long, default_value_t = 4)]
    pub branches: u64,
    /// How long each workload is measured in each repeat
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Number of turns of each peer
    #[arg(long, default_value_t = 5)]
    pub repeats: usize,
    /// Peers to compare, by name [default: all]
    #[arg(long, value_delimiter = ',', value_parser = peer_name)]
    pub peers: Vec<String>,
    /// A PostgreSQL server to compare as well, such as postgres://user@localhost/db
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    /// A Redis or Valkey server to compare as well, such as redis://localhost or unix:///run/redis.sock; one of its
    /// databases must be empty
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Directory for the files of the peers [default: in class memory, memory if the system shows it as a folder; in class
    /// sync, the system's folder for temporary files]
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A peer that takes longer than this in one repeat, loading included, is ended and counts as failed
    #[arg(long, default_value_t = 1800)]
    pub limit_s: u64,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Used only when the program starts itself
    #[command(subcommand)]
    pub inner: Option<Inner>,
}

/// Commands that the program gives itself.
#[derive(Clone, Debug, Subcommand)]
pub enum Inner {
    /// Measures one peer in this process
    #[command(hide = true)]
    Measure {
        /// The order, as JSON
        order: String,
        /// The file for the answer
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
