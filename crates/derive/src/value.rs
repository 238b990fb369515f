//! Structs as values: their fields and a version.

use crate::attributes::{self, OfStruct};
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{DeriveInput, Fields, Member, Result};

/// A field of the struct.
struct Field {
    member: Member,
    /// The type by which it is encoded.
    encoded: TokenStream,
    is_serde: bool,
}

pub fn of_struct(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let OfStruct { name, version, previous } = attributes::of_struct(input)?;
    let (ident, fields) = (&input.ident, of_fields(fields)?);
    let (encode, decode) = (encode(&fields), decode(&fields));
    let (shape_format, type_names) = shape(&fields);
    let checked = fields.iter().filter(|field| !field.is_serde).map(|field| &field.encoded);
    let define_fields: Vec<_> =
        checked.map(|encoded| quote!(<#encoded as ::braiddb::Value>::define(to);)).collect();
    let define_previous = previous
        .as_ref()
        .map(|previous| quote!(to.earlier(|to| <#previous as ::braiddb::Value>::define(to));));
    let newer = format!("{} of version {version} or earlier", name.value());
    let other = match &previous {
        Some(previous) => quote! {
            <#previous as ::braiddb::Value>::view(bytes).map(<#ident as ::core::convert::From<#previous>>::from)
        },
        None => {
            let older = format!("{} of version {version}", name.value());
            quote!(::core::result::Result::Err(::braiddb::Error::malformed(#older, bytes.len())))
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::braiddb::Value for #ident {
            const NAME: &'static str = #name;
            fn define(to: &mut ::braiddb::Definitions) {
                if to.add(#name, #version, ::std::format!(#shape_format #(, #type_names)*)) {
                    #(#define_fields)*
                    #define_previous
                }
            }
            type Input<'v> = &'v #ident;
            type Encoded<'v> = ::std::vec::Vec<u8>;
            type View<'t> = #ident;
            #[allow(unused_mut, reason = "a struct may have one field, or none")]
            fn encode<'v>(input: Self::Input<'v>) -> ::braiddb::Result<Self::Encoded<'v>> {
                let _ = input;
                let mut to = ::braiddb::derived::Encoder::default();
                #encode
                ::core::result::Result::Ok(to.finish(#version))
            }
            #[allow(unused_mut, reason = "a struct may have one field, or none")]
            fn view(bytes: &[u8]) -> ::braiddb::Result<#ident> {
                let mut from = ::braiddb::derived::Decoder::new(#name, bytes)?;
                match from.version() {
                    #version => { #decode }
                    newer if newer > #version => {
                        ::core::result::Result::Err(::braiddb::Error::malformed(#newer, bytes.len()))
                    }
                    _ => #other,
                }
            }
        }
        #[automatically_derived]
        impl ::braiddb::Field for #ident {
            const BYTES: ::core::option::Option<usize> = ::core::option::Option::None;
        }
        #[automatically_derived]
        impl ::braiddb::OwnedField for #ident {
            fn input(&self) -> &#ident {
                self
            }
            fn read(bytes: &[u8]) -> ::braiddb::Result<#ident> {
                <#ident as ::braiddb::Value>::view(bytes)
            }
        }
    })
}

fn of_fields(fields: &Fields) -> Result<Vec<Field>> {
    let of_field = |(member, field): (Member, &syn::Field)| {
        let (ty, is_serde) = (&field.ty, attributes::is_serde(field)?);
        let encoded = if is_serde { quote!(::braiddb::Serde<#ty>) } else { quote!(#ty) };
        Ok(Field { member, encoded, is_serde })
    };
    fields.members().zip(fields).map(of_field).collect()
}

/// A format string, and what it is given: the names of the fields' types.
fn shape(fields: &[Field]) -> (String, Vec<TokenStream>) {
    let (mut parts, mut type_names) = (Vec::new(), Vec::new());
    for field in fields {
        let name = match &field.member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        if field.is_serde {
            parts.push(format!("{name}: serde"));
        } else {
            let encoded = &field.encoded;
            parts.push(format!("{name}: {{}}"));
            type_names.push(quote!(<#encoded as ::braiddb::Value>::type_name()));
        }
    }
    (format!("{{{{{}}}}}", parts.join(", ")), type_names)
}

fn encode(fields: &[Field]) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(at, Field { member, encoded, is_serde })| {
        let input = match is_serde {
            true => quote!(&input.#member),
            false => quote!(<#encoded as ::braiddb::OwnedField>::input(&input.#member)),
        };
        match at + 1 == count {
            false => quote!(to.field::<#encoded>(#input)?;),
            true => quote!(to.last::<#encoded>(#input)?;),
        }
    });
    quote!(#(#each)*)
}

fn decode(fields: &[Field]) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(at, Field { member, encoded, is_serde })| {
        let bytes = match at + 1 == count {
            false => quote!(from.field::<#encoded>()?),
            true => quote!(from.last()),
        };
        let read = match is_serde {
            true => quote!(<#encoded as ::braiddb::Value>::view),
            false => quote!(<#encoded as ::braiddb::OwnedField>::read),
        };
        quote!(#member: #read(#bytes)?)
    });
    // (The fields of an expression are evaluated as they are written.)
    match count {
        0 => quote!(from.end().map(|()| Self {})),
        _ => quote!(::core::result::Result::Ok(Self { #(#each,)* })),
    }
}
