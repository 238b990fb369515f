//! Structs as values: their fields and a version.

use crate::attributes::{self, OfStruct};
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{DeriveInput, Fields, Ident, Member, Path, Result};

/// A field of the struct.
struct Field {
    member: Member,
    /// The type by which it is encoded.
    encoded: TokenStream,
    is_serde: bool,
}

pub fn of_struct(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let of = attributes::of_struct(input)?;
    let (ident, fields) = (&input.ident, of_fields(fields)?);
    let check = of.previous.as_ref().map(|previous| check_previous(&of, previous));
    let (value, field) = (value(ident, &of, &fields), owned_field(ident, &of, &fields));
    Ok(quote!(#check #value #field))
}

/// That the previous version of a struct is one.
fn check_previous(OfStruct { name, version, .. }: &OfStruct, previous: &Path) -> TokenStream {
    quote! {
        const _: () = {
            ::core::assert!(
                ::braiddb::derived::is_same(<#previous as ::braiddb::Value>::NAME, #name),
                "the previous version of a struct has the same name",
            );
            let version = <#previous as ::braiddb::Value>::VERSION;
            ::core::assert!(version > 0 && version < #version, "the previous version of a struct is a lower one");
        };
    }
}

fn value(ident: &Ident, of: &OfStruct, fields: &[Field]) -> TokenStream {
    let OfStruct { name, version, previous } = of;
    let (define, encode, decode) = (define(of, fields), encode(fields), decode(fields));
    let (mut_to, mut_from) = (mutable(!fields.is_empty()), mutable(fields.len() > 1));
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

fn owned_field(ident: &Ident, OfStruct { name, version, .. }: &OfStruct, fields: &[Field]) -> TokenStream {
    let (is_newest, mut_from) = (is_newest(fields), mutable(fields.len() > 1));
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
                ::core::result::Result::Ok(__from.version() == #version #is_newest)
            }
        }
    }
}

/// Adds the struct's definition, and those of its fields and of the versions before it.
fn define(OfStruct { name, version, previous }: &OfStruct, fields: &[Field]) -> TokenStream {
    let (shape_format, type_names) = shape(fields);
    let checked = fields.iter().filter(|field| !field.is_serde).map(|field| &field.encoded);
    let of_fields = checked.map(|encoded| quote!(<#encoded as ::braiddb::Value>::define(__to);));
    let of_previous = previous
        .as_ref()
        .map(|previous| quote!(__to.earlier(|__to| <#previous as ::braiddb::Value>::define(__to));));
    quote! {
        if __to.add(#name, #version, ::std::format!(#shape_format #(, #type_names)*)) {
            #(#of_fields)*
            #of_previous
            __to.end();
        }
    }
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
