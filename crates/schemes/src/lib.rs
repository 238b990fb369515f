//! The engine's generic code, compiled once for every scheme.
//!
//! The engine is generic over the scheme of concurrency control, so a test that goes through all schemes would compile the engine's
//! operations for each of them again. A crate that is compiled with `opt-level` 0 or 1 uses the functions which a crate that it
//! depends on has compiled for the same types. So the tests of this crate, and the benchmark, say `use braid_schemes as _;`, and compile little more
//! than themselves. Nothing here is ever run, and nothing depends on what is here: what is not, a test compiles itself.
//!
//! (Release builds do not share: there this crate is empty.)

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

#[cfg(debug_assertions)]
mod operations;
#[cfg(debug_assertions)]
pub use operations::*;
