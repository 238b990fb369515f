//! Functions of which the default scheme's instance is compiled once, in the engine's own library.
//!
//! `Database<C>` is generic over its scheme, so rustc compiles each of its functions again in every crate that calls
//! it. For most programs the scheme is [`Serializable`](super::Serializable), and a function that names no type of the
//! program is the same in all of them. `once!` declares such a function:
//!
//! 1. In the engine's library, it makes an instance for `Serializable` that is not generic.
//! 2. A program's instance for `Serializable` is a call of that instance. The condition
//!    ([`IS_DEFAULT`](super::ConcurrencyControl::IS_DEFAULT)) is constant, so the other branch, with all that it
//!    calls, is not compiled there.
//! 3. Under every other scheme, the function is compiled as any generic function.
//!
//! Use it for edges that take long to compile and are seldom called: a call through `once!` is not inlined, and a
//! future that it returns is boxed.

/// Declares functions as the module describes: `fn name<'t>(argument: Type<C>, ...) -> Type<C> = expression;` for every
/// scheme `C`, where the expression uses the arguments.
macro_rules! once {
    ($(
        $(#[$attribute:meta])*
        $visible:vis fn $name:ident<$($life:lifetime),*>($($arg:ident: $type:ty),* $(,)?) -> $result:ty = $body:expr;
    )*) => {$(
        $(#[$attribute])*
        $visible fn $name<$($life,)* C: $crate::cc::ConcurrencyControl>($($arg: $type),*) -> $result {
            fn for_scheme<$($life,)* C: $crate::cc::ConcurrencyControl>($($arg: $type),*) -> $result {
                $body
            }
            if C::IS_DEFAULT {
                let for_default = {
                    type C = $crate::cc::Serializable;
                    #[inline(never)]
                    fn for_default<$($life),*>($($arg: $type),*) -> $result {
                        for_scheme::<C>($($arg),*)
                    }
                    for_default as fn($($type),*) -> $result
                };
                // SAFETY: `IS_DEFAULT` is true for `Serializable` alone, so the two types are the same.
                let same: fn($($type),*) -> $result = unsafe { std::mem::transmute(for_default) };
                same($($arg),*)
            } else {
                for_scheme::<C>($($arg),*)
            }
        }
    )*};
}
pub(crate) use once;
