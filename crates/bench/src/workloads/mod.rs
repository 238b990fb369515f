//! The workloads, each in its own file or folder. `suite` defines what a workload is.

mod interpreter;
pub(crate) mod micro;
mod procedure;
pub(crate) mod smallbank;
mod text;
pub(crate) mod tpcb;
pub mod tpcc;
pub mod ycsb;

#[cfg(test)]
mod tests;

pub use procedure::ProcedureKind;

/// Parses a number of rows from the command line.
fn parse_rows(text: &str) -> Result<u64, String> {
    crate::args::parse_within(text, 1, 4_000_000_000).map(|n| n as u64)
}
