//! Structs and enums as values with a name: their contents, and a version.

use crate::attributes::{self, OfType};
use crate::fields;
use crate::variants::Variants;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Fields, Path, Result};

/// The bodies of the derived functions.
struct Bodies {
    /// A format string for the shape, and its arguments.
    shape: (String, Vec<TokenStream>),
    /// Adds the definitions of the fields' types.
    define: TokenStream,
    /// Writes `__input` to `__to`.
    encode: TokenStream,
    /// Reads a value of this version from `__from`, as a result.
    decode: TokenStream,
    /// The conditions, besides the version, under which the value has the newest versions.
    is_newest: Vec<TokenStream>,
    /// Whether `__to` and `__from` are changed before the last part is taken.
    changes: (bool, bool),
}

pub fn of_struct(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let of =
        attributes::of_type(input, "a struct of values needs a name that stays: #[braid(name = \"…\")]")?;
    let fields = fields::of(fields)?;
    let bodies = Bodies {
        shape: fields::shape(&fields),
        define: fields::define(&fields),
        encode: fields::encode(&fields, |_, member| quote!(&__input.#member)),
        decode: fields::decode(&quote!(Self), &fields),
        is_newest: fields::is_newest(&fields),
        changes: (!fields.is_empty(), fields.len() > 1),
    };
    Ok(derived(input, &of, &bodies))
}

pub fn of_enum(input: &DeriveInput, of_data: &DataEnum) -> Result<TokenStream> {
    let needs_name =
        "an enum of values whose variants have fields needs a name that stays: #[braid(name = \"…\")]";
    let of = attributes::of_type(input, needs_name)?;
    let variants = Variants::of(input, of_data)?;
    let OfType { name, version, .. } = &of;
    let expected = format!("variant of {} of version {version} that is known", name.value());
    let bodies = Bodies {
        shape: variants.shape(fields::shape),
        define: variants.define(),
        encode: variants.encode(),
        decode: variants.decode(&expected),
        is_newest: vec![variants.is_newest()],
        changes: (true, true),
    };
    let (numbers, derived) = (variants.numbers(), derived(input, &of, &bodies));
    Ok(quote!(const _: () = { #numbers #derived };))
}

fn derived(input: &DeriveInput, of: &OfType, bodies: &Bodies) -> TokenStream {
    let check = of.previous.as_ref().map(|previous| check_previous(of, previous));
    let (value, field) = (value(input, of, bodies), owned_field(input, of, bodies));
    quote!(#check #value #field)
}

/// Generates a check that `previous` is a previous version of the type.
fn check_previous(OfType { name, version, .. }: &OfType, previous: &Path) -> TokenStream {
    quote! {
        const _: () = {
            ::core::assert!(
                ::braiddb::derived::is_same(<#previous as ::braiddb::Value>::NAME, #name),
                "the previous version of a type has the same name",
            );
            let version = <#previous as ::braiddb::Value>::VERSION;
            ::core::assert!(version > 0 && version < #version, "the previous version of a type is a lower one");
        };
    }
}

fn value(input: &DeriveInput, of: &OfType, bodies: &Bodies) -> TokenStream {
    let (ident, OfType { name, version, previous }) = (&input.ident, of);
    let (define, Bodies { encode, decode, .. }) = (define(of, bodies), bodies);
    let (mut_to, mut_from) = (mutable(bodies.changes.0), mutable(bodies.changes.1));
    let or_earlier = if previous.is_some() { " or earlier" } else { "" };
    let expected = format!("{} of version {version}{or_earlier}", name.value());
    let malformed =
        quote!(::core::result::Result::Err(::braiddb::Error::malformed(#expected, __bytes.len())));
    let earlier = match previous {
        Some(previous) => quote! {
            <#previous as ::braiddb::Value>::view(__bytes).map(<#ident as ::core::convert::From<#previous>>::from)
        },
        None => malformed.clone(),
    };
    quote! {
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::Value for #ident {
            const NAME: &'static str = #name;
            const VERSION: u16 = #version;
            fn define(__to: &mut ::braiddb::Definitions) {
                #define
            }
            type Input<'v> = &'v #ident;
            type Encoded<'v> = ::std::vec::Vec<u8>;
            type View<'t> = #ident;
            fn encode<'v>(__input: Self::Input<'v>) -> ::braiddb::Result<Self::Encoded<'v>> {
                let _ = __input;
                let #mut_to __to = ::braiddb::derived::Encoder::default();
                #encode
                ::core::result::Result::Ok(__to.finish(#version))
            }
            fn view(__bytes: &[u8]) -> ::braiddb::Result<#ident> {
                let #mut_from __from = ::braiddb::derived::Decoder::new(#name, __bytes)?;
                let __version = __from.version();
                if __version == #version {
                    #decode
                } else if __version > #version {
                    #malformed
                } else {
                    #earlier
                }
            }
        }
    }
}

fn owned_field(input: &DeriveInput, of: &OfType, bodies: &Bodies) -> TokenStream {
    let (ident, OfType { name, version, .. }) = (&input.ident, of);
    let (is_newest, mut_from) = (&bodies.is_newest, mutable(bodies.changes.1));
    quote! {
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::Field for #ident {
            const BYTES: ::core::option::Option<usize> = ::core::option::Option::None;
        }
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::OwnedField for #ident {
            fn input(&self) -> &#ident {
                self
            }
            fn read(__bytes: &[u8]) -> ::braiddb::Result<#ident> {
                <#ident as ::braiddb::Value>::view(__bytes)
            }
            fn is_newest(__bytes: &[u8]) -> ::braiddb::Result<bool> {
                let #mut_from __from = ::braiddb::derived::Decoder::new(#name, __bytes)?;
                ::core::result::Result::Ok(__from.version() == #version #(&& #is_newest)*)
            }
        }
    }
}

/// Adds the definitions of the type, of its fields and of its previous versions.
fn define(OfType { name, version, previous }: &OfType, bodies: &Bodies) -> TokenStream {
    let (Bodies { shape: (format, given), define, .. }, previous) = (bodies, previous.as_ref());
    let of_previous =
        previous.map(|previous| quote!(__to.earlier(|__to| <#previous as ::braiddb::Value>::define(__to));));
    quote! {
        if __to.add(#name, #version, ::std::format!(#format #(, #given)*)) {
            #define
            #of_previous
            __to.end();
        }
    }
}

/// Returns `mut` if the variable is changed.
fn mutable(changes: bool) -> TokenStream {
    if changes { quote!(mut) } else { quote!() }
}
