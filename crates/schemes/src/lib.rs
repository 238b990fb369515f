//! What goes for every scheme: the engine's generic code, compiled once for each.
//!
//! The engine is generic over the scheme of concurrency control, so a test that goes through all schemes would compile the engine's
//! operations for each of them again. A crate that is compiled with `opt-level` 0 or 1 uses the functions which a crate that it
//! depends on has compiled for the same types. So the tests of this crate, and the benchmark, say `use braid_schemes as _;`, and compile little more
//! than themselves. No code of that is ever run, and nothing depends on it: what is not here, a test compiles itself. (Release builds do not
//! share: there it is left out.)
//!
//! And which schemes programs are built with.

#![forbid(unsafe_code)]

/// `under_all_schemes!(f(arguments))` calls `f::<Scheme>(arguments)` with each scheme of the engine's table.
#[macro_export]
macro_rules! under_all_schemes {
    ($f:ident($($argument:expr),*)) => {
        $crate::under_all_schemes!(@each ($) $f ($($argument),*))
    };
    // (`$d` is a dollar sign, for the inner macro's own.)
    (@each ($d:tt) $f:ident ($($argument:expr),*)) => {{
        macro_rules! each {
            ($d($d name:literal $d module:ident $d scheme:ident $d promise:ident,)*) => {
                $d($f::<braiddb::$d scheme>($($argument),*);)*
            };
        }
        braiddb::schemes!(each);
    }};
}

/// The engine's table of schemes as far as programs are built with them, as `braiddb::schemes!`: all with the feature `every-scheme`, else
/// two. Benchmarks and checks are compiled for each scheme again, which takes most of the time of a build.
#[cfg(feature = "every-scheme")]
#[macro_export]
macro_rules! built_schemes {
    ($then:ident) => {
        braiddb::schemes!($then);
    };
}

/// The engine's table of schemes as far as programs are built with them, as `braiddb::schemes!`: all with the feature `every-scheme`, else
/// two. Benchmarks and checks are compiled for each scheme again, which takes most of the time of a build.
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
        /// The names of all schemes that the engine has, those included that a program is not built with.
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

/// Why a flag's value `name` is not taken, where it is the name of a scheme that the program is not built with.
pub fn not_built(name: &str) -> Option<String> {
    (NAMES.contains(&name) && !BUILT.contains(&name))
        .then(|| format!("scheme {name} is not in this build: build it with `--features every-scheme`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_are_left_out_are_known() {
        // Proves that what is built is the beginning of the engine's table, and that others, and no names of anything else, are said to
        // be left out.
        assert_eq!(BUILT, &NAMES[..BUILT.len()]);
        assert!(BUILT.len() == NAMES.len() || !cfg!(feature = "every-scheme"));
        assert!(BUILT.iter().all(|name| not_built(name).is_none()) && not_built("declared").is_none());
        assert!(
            NAMES[BUILT.len()..].iter().all(|name| not_built(name).is_some_and(|why| why.contains(name)))
        );
    }
}

#[cfg(debug_assertions)]
mod operations;
#[cfg(debug_assertions)]
pub use operations::*;
