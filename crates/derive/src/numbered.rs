//! Enums without fields, encoded as their numbers.

use crate::numbers;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Ident, Result};

pub fn key(input: &DeriveInput, of: &DataEnum) -> Result<TokenStream> {
    let (name, Numbered { number, variants }) = (&input.ident, numbered(input, of)?);
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::KeyAs for #name {
            type As = #number;
            fn to_key(&self) -> #number {
                match self {
                    #(Self::#variants => Self::#variants as #number,)*
                }
            }
            fn from_key(__number: #number) -> ::core::option::Option<Self> {
                match __number {
                    #(__number if __number == Self::#variants as #number => ::core::option::Option::Some(Self::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }
        }
    })
}

pub fn value(input: &DeriveInput, of: &DataEnum) -> Result<TokenStream> {
    let (name, Numbered { number, variants }) = (&input.ident, numbered(input, of)?);
    let text = name.to_string();
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::Value for #name {
            const NAME: &'static str = #text;
            fn type_name() -> ::std::string::String {
                <#number as ::braiddb::Value>::type_name()
            }
            type Input<'v> = #name;
            type Encoded<'v> = <#number as ::braiddb::Value>::Encoded<'v>;
            type View<'t> = #name;
            fn encode<'v>(__input: Self::Input<'v>) -> ::braiddb::Result<Self::Encoded<'v>> {
                <#number as ::braiddb::Value>::encode(match __input {
                    #(Self::#variants => Self::#variants as #number,)*
                })
            }
            fn view(__bytes: &[u8]) -> ::braiddb::Result<#name> {
                match <#number as ::braiddb::Value>::view(__bytes)? {
                    #(__number if __number == Self::#variants as #number => ::core::result::Result::Ok(Self::#variants),)*
                    _ => ::core::result::Result::Err(::braiddb::Error::malformed(#text, __bytes.len())),
                }
            }
        }
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::Field for #name {
            const BYTES: ::core::option::Option<usize> = <#number as ::braiddb::Field>::BYTES;
        }
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::OwnedField for #name {
            fn input(&self) -> #name {
                match self {
                    #(Self::#variants => Self::#variants,)*
                }
            }
            fn read(__bytes: &[u8]) -> ::braiddb::Result<#name> {
                <#name as ::braiddb::Value>::view(__bytes)
            }
        }
    })
}

struct Numbered<'i> {
    /// The type of the numbers.
    number: Ident,
    variants: Vec<&'i Ident>,
}

fn numbered<'i>(input: &DeriveInput, of: &'i DataEnum) -> Result<Numbered<'i>> {
    let number = numbers::type_of(input)?;
    let variants = numbers::of(input, of)?.into_iter().map(|(variant, _)| &variant.ident).collect();
    Ok(Numbered { number, variants })
}
