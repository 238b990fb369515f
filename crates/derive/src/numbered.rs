//! Enums without fields, as their numbers.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Ident, Result};

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

const INTEGERS: [&str; 8] = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"];

fn numbered<'i>(input: &DeriveInput, of: &'i DataEnum) -> Result<Numbered<'i>> {
    if let Some(attribute) = input.attrs.iter().find(|attribute| attribute.path().is_ident("braid")) {
        let message = "an enum is stored as its number, and has no name and no version";
        return Err(Error::new_spanned(attribute, message));
    }
    let mut number = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if let Some(ident) = meta.path.get_ident().filter(|ident| INTEGERS.iter().any(|int| ident == int))
            {
                number = Some(ident.clone());
            }
            Ok(())
        })?;
    }
    let needs_repr = "say as what the enum is stored: #[repr(u8)], or another integer of at most 64 bits";
    let number = number.ok_or_else(|| Error::new_spanned(&input.ident, needs_repr))?;
    if of.variants.is_empty() {
        return Err(Error::new_spanned(&input.ident, "an enum without variants has no values"));
    }
    for variant in &of.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let message = "a variant with fields is not stored; put them into a struct of their own, or into a field with #[braid(serde)]";
            return Err(Error::new_spanned(variant, message));
        }
        if variant.discriminant.is_none() {
            let message = format!("say which number is stored, so that it stays: `{} = …`", variant.ident);
            return Err(Error::new_spanned(variant, message));
        }
    }
    Ok(Numbered { number, variants: of.variants.iter().map(|variant| &variant.ident).collect() })
}
