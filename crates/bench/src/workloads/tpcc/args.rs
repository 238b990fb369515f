//! The command line of `braid bench tpcc`.

use crate::suite::args::KindsArgs;
use crate::workloads::ProcedureKind;
use crate::{Failure, Result};
use braid_tpcc::{Home, Mix, Scale, Settings};
use clap::Args;

/// `braid bench tpcc`.
#[derive(Args, Clone, Debug)]
pub struct TpccArgs {
    /// Warehouses, about 100 MB each
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub warehouses: u32,
    /// Divides the number of items and of a district's customers by this, for a quick look
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub scale_down: u32,
    /// Suppliers; Q2* reads a fifth of them [default: 100, fewer if there are too few items]
    #[arg(long)]
    pub suppliers: Option<u32>,
    /// Transactions that run; several mixes run in turns on the same tables
    #[arg(long, default_value = "full", value_delimiter = ',')]
    pub mix: Vec<Mix>,
    /// Percent of an order's lines that another warehouse supplies
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub remote_items: u32,
    /// Percent of payments by customers of another warehouse
    #[arg(long, default_value = "15", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub remote_payments: u32,
    /// How workers choose their home warehouses
    #[arg(long, default_value = "uniform")]
    pub home: Home,
    /// Freezes the tables that no transaction writes, so that items are read without concurrency control
    #[arg(long)]
    pub freeze: bool,
    /// Orders access stocks in the order of their keys, so that orders that lock rows do not deadlock with each other
    #[arg(long)]
    pub sorted: bool,
    /// How transactions are implemented: compiled with the program, or with names of tables and columns that are looked
    /// up at each use; both are compared. `interpreted` supports the mixes narrow, new-order and payment
    #[arg(long, default_value = "compiled", value_delimiter = ',')]
    pub procedure: Vec<ProcedureKind>,
    /// Flags of every workload with several kinds of transactions.
    #[command(flatten)]
    pub kinds: KindsArgs,
}

impl TpccArgs {
    /// Returns the size of the database.
    pub fn scale(&self) -> Result<Scale> {
        let full = Scale::full(self.warehouses);
        let (customers, items) = (full.customers / self.scale_down, full.items / self.scale_down);
        let scale = Scale { customers, items, ..full };
        let suppliers = self.suppliers.unwrap_or(full.suppliers.min(scale.supplied_by()));
        let scale = Scale { suppliers, ..scale };
        scale.check().map_err(Failure::new)?;
        Ok(scale)
    }

    /// Returns the settings of a mix, for compiled transactions.
    pub fn settings(&self, mix: Mix) -> Result<Settings> {
        Ok(Settings {
            interpreted: false,
            scale: self.scale()?,
            mix,
            remote_items: self.remote_items,
            remote_payments: self.remote_payments,
            home: self.home,
            sorted: self.sorted,
        })
    }

    /// Returns the mixes, each with the requested implementations.
    pub(super) fn mixes(&self) -> Result<Vec<(Mix, ProcedureKind)>> {
        let of_mix = |&mix: &Mix| self.procedure.iter().map(move |&procedure| (mix, procedure));
        let mut mixes: Vec<(Mix, ProcedureKind)> = Vec::new();
        for (mix, procedure) in self.mix.iter().flat_map(of_mix) {
            if procedure == ProcedureKind::Interpreted && !mix.is_interpretable() {
                return Err(Failure::new(format!(
                    "--procedure interpreted has NewOrder and Payment only: choose --mix narrow, new-order or payment, not {}",
                    mix.name()
                )));
            }
            if !mixes.contains(&(mix, procedure)) {
                mixes.push((mix, procedure));
            }
        }
        Ok(mixes)
    }
}

/// A whole command line.
#[cfg(test)]
#[derive(clap::Parser)]
pub(super) struct Line {
    #[command(flatten)]
    pub(super) args: TpccArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, ValueEnum};

    fn parsed(line: &str) -> TpccArgs {
        Line::try_parse_from(["tpcc"].into_iter().chain(line.split_whitespace())).unwrap().args
    }

    #[test]
    fn the_specification_is_the_default() {
        // Proves the defaults, scaling down, several mixes, and that too many suppliers are refused.
        let args = parsed("");
        assert_eq!(args.scale().unwrap(), Scale::full(4));
        let settings = args.settings(Mix::Full).unwrap();
        assert_eq!((settings.remote_items, settings.remote_payments), (1, 15));
        let small = parsed("--warehouses 2 --scale-down 50 --mix narrow,cr,ch,query2 --home worker");
        let scale = small.scale().unwrap();
        assert_eq!((scale.warehouses, scale.customers, scale.items, scale.suppliers), (2, 60, 2000, 100));
        assert_eq!(small.mix, [Mix::Narrow, Mix::Reads, Mix::Hybrid, Mix::Query2]);
        assert!(parsed("--suppliers 10001").scale().is_err());
        assert!(Line::try_parse_from(["tpcc", "--remote-items", "101"]).is_err());
    }

    #[test]
    fn mixes_are_compiled_or_interpreted() {
        // Proves that each mix occurs once per requested implementation, by default compiled, and that mixes with other
        // transactions cannot be interpreted.
        use ProcedureKind::{Compiled, Interpreted};
        assert_eq!(parsed("").mixes().unwrap(), [(Mix::Full, Compiled)]);
        let both = parsed("--mix narrow,payment,narrow --procedure interpreted,compiled").mixes().unwrap();
        let narrow = [(Mix::Narrow, Interpreted), (Mix::Narrow, Compiled)];
        assert_eq!(both, [narrow, [(Mix::Payment, Interpreted), (Mix::Payment, Compiled)]].concat());
        let refused = parsed("--mix narrow,full --procedure interpreted").mixes().unwrap_err();
        assert!(refused.to_string().contains("not full"), "{refused}");
    }

    #[test]
    fn names_of_mixes_are_those_of_the_command_line() {
        // Proves that `Mix::name` and the parser agree, and that `ALL` is complete.
        for mix in Mix::value_variants() {
            assert_eq!(mix.to_possible_value().unwrap().get_name(), mix.name());
        }
        assert_eq!(Mix::value_variants(), Mix::ALL);
    }
}
