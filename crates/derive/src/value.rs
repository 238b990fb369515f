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
        checked.map(|encoded| quote!(<#encoded as ::braiddb::Value>::define(__to);)).collect();
    let define_previous = previous
        .as_ref()
        .map(|previous| quote!(__to.earlier(|__to| <#previous as ::braiddb::Value>::define(__to));));
    let newer = match &previous {
        Some(_) => format!("{} of version {version} or earlier", name.value()),
        None => format!("{} of version {version}", name.value()),
    };
    let (check_previous, other) = match &previous {
        Some(previous) => (
            quote! {
                const _: () = {
                    ::core::assert!(
                        ::braiddb::derived::is_same(<#previous as ::braiddb::Value>::NAME, #name),
                        "the previous version of a struct has the same name",
                    );
                    let version = <#previous as ::braiddb::Value>::VERSION;
                    ::core::assert!(version > 0 && version < #version, "the previous version of a struct is a lower one");
                };
            },
            quote! {
                <#previous as ::braiddb::Value>::view(__bytes)
                    .map(<#ident as ::core::convert::From<#previous>>::from)
            },
        ),
        None => (
            quote!(),
            quote!(::core::result::Result::Err(::braiddb::Error::malformed(#newer, __bytes.len()))),
        ),
    };
    let is_newest = is_newest(&fields);
    let (mut_to, mut_from) = (mutable(!fields.is_empty()), mutable(fields.len() > 1));
    Ok(quote! {
        #check_previous
        #[automatically_derived]
        #[allow(deprecated)]
        impl ::braiddb::Value for #ident {
            const NAME: &'static str = #name;
            const VERSION: u16 = #version;
            fn define(__to: &mut ::braiddb::Definitions) {
                if __to.add(#name, #version, ::std::format!(#shape_format #(, #type_names)*)) {
                    #(#define_fields)*
                    #define_previous
                    __to.end();
                }
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
                    ::core::result::Result::Err(::braiddb::Error::malformed(#newer, __bytes.len()))
                } else {
                    #other
                }
            }
        }
        #[automatically_derived]
        #[allow(deprecated)]
        impl ::braiddb::Field for #ident {
            const BYTES: ::core::option::Option<usize> = ::core::option::Option::None;
        }
        #[automatically_derived]
        #[allow(deprecated)]
        impl ::braiddb::OwnedField for #ident {
            fn input(&self) -> &#ident {
                self
            }
            fn read(__bytes: &[u8]) -> ::braiddb::Result<#ident> {
                <#ident as ::braiddb::Value>::view(__bytes)
            }
            fn is_newest(__bytes: &[u8]) -> ::braiddb::Result<bool> {
                let #mut_from __from = ::braiddb::derived::Decoder::new(#name, __bytes)?;
                ::core::result::Result::Ok(__from.version() == #version #is_newest)
            }
        }
    })
}

/// `mut`, where something changes.
fn mutable(changes: bool) -> TokenStream {
    if changes { quote!(mut) } else { quote!() }
}

/// What else has to hold of a value for it to be of the newest versions.
fn is_newest(fields: &[Field]) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(at, Field { encoded, is_serde, .. })| {
        let bytes = match at + 1 == count {
            false => quote!(__from.field::<#encoded>()?),
            true => quote!(__from.last()),
        };
        match is_serde {
            true => quote!(&& { let _ = #bytes; true }),
            false => quote!(&& <#encoded as ::braiddb::OwnedField>::is_newest(#bytes)?),
        }
    });
    quote!(#(#each)*)
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
            true => quote!(&__input.#member),
            false => quote!(<#encoded as ::braiddb::OwnedField>::input(&__input.#member)),
        };
        match at + 1 == count {
            false => quote!(__to.field::<#encoded>(#input)?;),
            true => quote!(__to.last::<#encoded>(#input)?;),
        }
    });
    quote!(#(#each)*)
}

fn decode(fields: &[Field]) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(at, Field { member, encoded, is_serde })| {
        let bytes = match at + 1 == count {
            false => quote!(__from.field::<#encoded>()?),
            true => quote!(__from.last()),
        };
        let read = match is_serde {
            true => quote!(<#encoded as ::braiddb::Value>::view),
            false => quote!(<#encoded as ::braiddb::OwnedField>::read),
        };
        quote!(#member: #read(#bytes)?)
    });
    // (The fields of an expression are evaluated as they are written.)
    match count {
        0 => quote!(__from.end().map(|()| Self {})),
        _ => quote!(::core::result::Result::Ok(Self { #(#each,)* })),
    }
}
