//! Tests that run under all schemes, and the code that they share.
//!
//! The tests open databases under [`AnyScheme`](braiddb::AnyScheme), so the engine is compiled for them once and not
//! for each scheme. Debug builds of the tests share what this crate has compiled: see `compiled.rs` of the engine.
//!
//! The macro [`built_schemes`] lists the schemes that benchmarks are built with.

#![forbid(unsafe_code)]

use braiddb::{LabOptions, Options, SchemeName};

/// Returns these options, for a database under this scheme.
pub fn under(scheme: SchemeName, options: Options) -> Options {
    Options { lab: LabOptions { scheme, ..options.lab }, ..options }
}

/// Compiles the engine's operations under [`AnyScheme`](braiddb::AnyScheme) for the tests of this crate, and under
/// each scheme for the benchmarks, which name the schemes. The function never runs.
///
/// # Errors
///
/// Returns the errors of the operations.
#[cfg(debug_assertions)]
pub fn use_all() -> braiddb::Result<()> {
    #[cfg(feature = "every-scheme")]
    macro_rules! each {
        ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {
            $(braiddb::compiled::use_all::<braiddb::$scheme>()?;)*
        };
    }
    #[cfg(feature = "every-scheme")]
    braiddb::schemes!(each);
    braiddb::compiled::use_all::<braiddb::AnyScheme>()
}

/// `under_all_schemes!(f(arguments))` calls `f(scheme, arguments)` with the name of each scheme of the engine.
#[macro_export]
macro_rules! under_all_schemes {
    ($f:ident($($argument:expr),*)) => {
        for scheme in braiddb::SchemeName::ALL {
            $f(*scheme $(, $argument)*);
        }
    };
}

/// Like `braiddb::schemes!`, but only with the schemes that programs are built with: all with the feature
/// `every-scheme`, otherwise two. Benchmarks are compiled again for each scheme, which takes most of the time of a
/// build.
#[cfg(feature = "every-scheme")]
#[macro_export]
macro_rules! built_schemes {
    ($then:ident) => {
        braiddb::schemes!($then);
    };
}

/// Like `braiddb::schemes!`, but only with the schemes that programs are built with: all with the feature
/// `every-scheme`, otherwise two. Benchmarks are compiled again for each scheme, which takes most of the time of a
/// build.
#[cfg(not(feature = "every-scheme"))]
#[macro_export]
macro_rules! built_schemes {
    ($then:ident) => {
        $then! {
            "serializable" serializable Serializable Serializable,
            "snapshot" snapshot Snapshot Snapshot,
        }
    };
}

macro_rules! names {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => { &[$($name),*] };
}

macro_rules! all {
    ($($row:tt)*) => {
        /// The names of all schemes that the engine has, including the schemes that a program is not built with.
        pub const NAMES: &[&str] = names!($($row)*);
    };
}
braiddb::schemes!(all);

macro_rules! built {
    ($($row:tt)*) => {
        const BUILT: &[&str] = names!($($row)*);
    };
}
built_schemes!(built);

/// Explains why the value `name` of a flag is refused, if it names a scheme that the program is not built with.
pub fn not_built(name: &str) -> Option<String> {
    (NAMES.contains(&name) && !BUILT.contains(&name))
        .then(|| format!("scheme {name} is not in this build: build it with `--features every-scheme`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_are_left_out_are_known() {
        // Proves that the built schemes are the beginning of the engine's table. Also proves that the engine's other
        // schemes, and no other names, are reported as not built.
        assert_eq!(BUILT, &NAMES[..BUILT.len()]);
        assert!(BUILT.len() == NAMES.len() || !cfg!(feature = "every-scheme"));
        assert!(BUILT.iter().all(|name| not_built(name).is_none()) && not_built("declared").is_none());
        assert!(
            NAMES[BUILT.len()..].iter().all(|name| not_built(name).is_some_and(|why| why.contains(name)))
        );
    }
}
