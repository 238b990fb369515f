//! Whether transactions are compiled with the program.

use clap::ValueEnum;

/// How transactions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProcedureKind {
    /// Functions of the program, with tables, columns and types known when it was compiled
    Compiled,
    /// Tables and columns are named, and looked up at each use
    Interpreted,
}

impl ProcedureKind {
    /// The name on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProcedureKind::Compiled => "compiled",
            ProcedureKind::Interpreted => "interpreted",
        }
    }
}
