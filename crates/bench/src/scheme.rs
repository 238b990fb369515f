//! The values of `--cc`: a scheme from the engine's table, and whether read-only transactions are declared.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use std::ffi::OsStr;

/// A scheme, and which parts of the benchmark exist for it.
pub(crate) trait Scheme: braiddb::ConcurrencyControl {
    /// True for CoroBase's schemes. They have the modes that only the comparison with CoroBase needs. Each of these
    /// modes compiles every workload once more.
    const HAS_PAPERS_MODES: bool;
}

/// A function of a scheme, called with the scheme as a type.
pub(crate) trait WithScheme {
    type Output;
    fn with<C: Scheme>(self) -> Self::Output;
}

macro_rules! kinds {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {
        /// A scheme of concurrency control.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SchemeKind {
            $(
                #[doc = concat!("`", $name, "`")]
                $scheme,
            )*
        }

        impl SchemeKind {
            /// Every scheme that the program is built with, in the order of the engine's table.
            pub const ALL: &[SchemeKind] = &[$(SchemeKind::$scheme),*];

            /// Returns the name on the command line and in results.
            pub fn name(self) -> &'static str {
                match self {
                    $(SchemeKind::$scheme => $name,)*
                }
            }

            /// Returns [`Scheme::HAS_PAPERS_MODES`].
            pub(crate) const fn has_papers_modes(self) -> bool {
                matches!(self, SchemeKind::Serializable | SchemeKind::Snapshot)
            }

            fn promise(self) -> &'static str {
                match self {
                    $(SchemeKind::$scheme => promise(stringify!($promise)),)*
                }
            }

            /// Calls `what` with the scheme as a type. Each call of this function compiles `what` for every scheme.
            pub(crate) fn with<W: WithScheme>(self, what: W) -> W::Output {
                match self {
                    $(SchemeKind::$scheme => what.with::<braiddb::$scheme>(),)*
                }
            }
        }

        $(impl Scheme for braiddb::$scheme {
            const HAS_PAPERS_MODES: bool = SchemeKind::$scheme.has_papers_modes();
        })*

        const CHOICES: &[Cc] = &[
            $(Cc { scheme: SchemeKind::$scheme, declares: false },)*
            Cc { scheme: SchemeKind::Serializable, declares: true },
        ];
    };
}

braid_schemes::built_schemes!(kinds);

/// Returns the names of all serializable schemes of the engine, as a value of `--cc`.
pub(crate) fn serializable() -> String {
    let all = braid_schemes::NAMES.iter().filter(|&&name| name != "snapshot");
    all.copied().collect::<Vec<_>>().join(",")
}

/// Turns the table's column of promises into help text.
fn promise(word: &str) -> &'static str {
    match word {
        "Serializable" => "Strict serializability, of transactions that fail as well",
        "Snapshot" => "Snapshot isolation",
        _ => "Strict serializability of transactions that commit",
    }
}

/// A value of `--cc`: how transactions are isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cc {
    /// The scheme.
    pub scheme: SchemeKind,
    /// True if read-only transactions declare themselves when they begin.
    pub declares: bool,
}

impl Cc {
    /// Every value: each scheme that the program is built with, and `declared`.
    pub const ALL: &[Cc] = CHOICES;

    /// Returns the name on the command line and in results.
    pub fn name(self) -> &'static str {
        if self.declares { "declared" } else { self.scheme.name() }
    }
}

impl From<SchemeKind> for Cc {
    fn from(scheme: SchemeKind) -> Cc {
        Cc { scheme, declares: false }
    }
}

impl Cc {
    fn possible(self) -> PossibleValue {
        let help = match self.declares {
            true => "As serializable; transactions that only read declare it when they begin",
            false => self.scheme.promise(),
        };
        PossibleValue::new(self.name()).help(help)
    }
}

impl ValueParserFactory for Cc {
    type Parser = CcParser;

    fn value_parser() -> CcParser {
        CcParser
    }
}

/// Parses a value of `--cc`. For a scheme that the program is not built with, the error says how to build it.
#[derive(Clone, Debug)]
pub struct CcParser;

impl TypedValueParser for CcParser {
    type Value = Cc;

    fn parse_ref(&self, command: &Command, flag: Option<&Arg>, value: &OsStr) -> Result<Cc, clap::Error> {
        if let Some(why) = value.to_str().and_then(braid_schemes::not_built) {
            return Err(clap::Error::raw(ErrorKind::InvalidValue, why + "\n").with_cmd(command));
        }
        let names = PossibleValuesParser::new(Cc::ALL.iter().map(|cc| cc.possible()));
        let name = names.parse_ref(command, flag, value)?;
        Ok(*Cc::ALL.iter().find(|cc| cc.name() == name).expect("it is one of these"))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Cc::ALL.iter().map(|cc| cc.possible())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_schemes_is_what_can_be_chosen() {
        // Proves that each name chooses the scheme of that name, as a type, and that no two choices share a name.
        struct TypeName;
        impl WithScheme for TypeName {
            type Output = &'static str;
            fn with<C: Scheme>(self) -> &'static str {
                std::any::type_name::<C>()
            }
        }
        let parse = |name: &str| CcParser.parse_ref(&Command::new("bench"), None, name.as_ref()).unwrap();
        assert!(Cc::ALL.len() == SchemeKind::ALL.len() + 1 && SchemeKind::ALL.len() >= 4);
        for cc in Cc::ALL {
            assert_eq!(parse(cc.name()), *cc);
        }
        let names = ["no-wait", "silo", "declared"].map(|name| parse(name).scheme.with(TypeName));
        let type_name = std::any::type_name::<braiddb::NoWait>;
        assert_eq!(names[0], type_name());
        assert!(names[1] != names[0] && names[2] == std::any::type_name::<braiddb::Serializable>());
    }
}
