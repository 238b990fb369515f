//! What `--cc` chooses: a scheme of the engine's table, and whether transactions declare that they only read.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// A scheme, and what of the benchmark there is for it.
pub(crate) trait Scheme: braiddb::ConcurrencyControl {
    /// The modes that only the comparison with CoroBase needs, whose scheme is one of these: each is as much code again for every
    /// workload.
    const HAS_PAPERS_MODES: bool;
}

/// What is done with a scheme, which is known as a type there.
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
            /// Every one, in the order of the engine's table.
            pub const ALL: &[SchemeKind] = &[$(SchemeKind::$scheme),*];

            /// The names of those that are serializable, as a value of `--cc`.
            pub(crate) fn serializable() -> String {
                let all = SchemeKind::ALL.iter().filter(|&&scheme| scheme != SchemeKind::Snapshot);
                all.map(|scheme| scheme.name()).collect::<Vec<_>>().join(",")
            }

            /// The name on the command line and in results.
            pub fn name(self) -> &'static str {
                match self {
                    $(SchemeKind::$scheme => $name,)*
                }
            }

            /// As [`Scheme::HAS_PAPERS_MODES`].
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

braiddb::schemes!(kinds);

/// The table's column of promises as help text.
fn promise(word: &str) -> &'static str {
    match word {
        "Serializable" => "Strict serializability, of transactions that fail as well",
        "Snapshot" => "Snapshot isolation",
        _ => "Strict serializability of transactions that commit",
    }
}

/// How transactions are kept apart: a value of `--cc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cc {
    /// The scheme that decides.
    pub scheme: SchemeKind,
    /// Transactions that only read declare it when they begin.
    pub declares: bool,
}

impl Cc {
    /// Every choice: each scheme, and `declared`.
    pub const ALL: &[Cc] = CHOICES;

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        if self.declares { "declared" } else { self.scheme.name() }
    }
}

impl From<SchemeKind> for Cc {
    fn from(scheme: SchemeKind) -> Cc {
        Cc { scheme, declares: false }
    }
}

impl ValueEnum for Cc {
    fn value_variants<'a>() -> &'a [Cc] {
        Cc::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.declares {
            true => "As serializable; transactions that only read declare it when they begin",
            false => self.scheme.promise(),
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_schemes_is_what_can_be_chosen() {
        // Proves that each name chooses the scheme that it names, as a type, and that no two choices share a name.
        struct TypeName;
        impl WithScheme for TypeName {
            type Output = &'static str;
            fn with<C: Scheme>(self) -> &'static str {
                std::any::type_name::<C>()
            }
        }
        assert!(Cc::ALL.len() == SchemeKind::ALL.len() + 1 && SchemeKind::ALL.len() >= 4);
        for cc in Cc::ALL {
            assert_eq!(Cc::from_str(cc.name(), false), Ok(*cc));
        }
        let names = ["no-wait", "silo", "declared"]
            .map(|name| Cc::from_str(name, false).unwrap().scheme.with(TypeName));
        let type_name = std::any::type_name::<braiddb::NoWait>;
        assert_eq!(names[0], type_name());
        assert!(names[1] != names[0] && names[2] == std::any::type_name::<braiddb::Serializable>());
    }
}
