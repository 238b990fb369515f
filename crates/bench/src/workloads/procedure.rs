//! The flag `--procedure`: whether transactions are compiled with the program.

use clap::ValueEnum;

/// How transactions are implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProcedureKind {
    /// Functions of the program, which knows tables, columns and types when it is compiled
    Compiled,
    /// Statements that name tables and columns, which are looked up at each use
    Interpreted,
}

impl ProcedureKind {
    /// Returns the name on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProcedureKind::Compiled => "compiled",
            ProcedureKind::Interpreted => "interpreted",
        }
    }
}
