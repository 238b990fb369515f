//! Writes and reads the fields of a struct or of a variant as values, one after another.

use crate::attributes;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Ident, Member, Result, Type};

/// A field.
pub struct Field<'i> {
    pub member: Member,
    pub ty: &'i Type,
    /// The type by which the field is encoded as a value.
    encoded: TokenStream,
    is_serde: bool,
}

pub fn of(fields: &syn::Fields) -> Result<Vec<Field<'_>>> {
    let each = fields.members().zip(fields).map(|(member, field)| {
        let (ty, is_serde) = (&field.ty, attributes::is_serde(field)?);
        let encoded = if is_serde { quote!(::braiddb::Serde<#ty>) } else { quote!(#ty) };
        Ok(Field { member, ty, encoded, is_serde })
    });
    each.collect()
}

/// The name of a member in a shape.
pub fn name(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// The name that the field in this place has when a variant is destructured.
pub fn binding(at: usize) -> Ident {
    format_ident!("__field_{at}")
}

/// A part of a format string, in braces, and its arguments: the names of the fields' types.
pub fn shape(fields: &[Field<'_>]) -> (String, Vec<TokenStream>) {
    let (mut parts, mut type_names) = (Vec::new(), Vec::new());
    for Field { member, encoded, is_serde, .. } in fields {
        let name = name(member);
        if *is_serde {
            parts.push(format!("{name}: serde"));
        } else {
            parts.push(format!("{name}: {{}}"));
            type_names.push(quote!(<#encoded as ::braiddb::Value>::type_name()));
        }
    }
    (format!("{{{{{}}}}}", parts.join(", ")), type_names)
}

/// Adds the definitions of the fields' types.
pub fn define(fields: &[Field<'_>]) -> TokenStream {
    let checked = fields.iter().filter(|field| !field.is_serde).map(|field| &field.encoded);
    quote!(#(<#checked as ::braiddb::Value>::define(__to);)*)
}

/// Writes the fields. `place` returns a reference to the field in this place.
pub fn encode(fields: &[Field<'_>], place: impl Fn(usize, &Member) -> TokenStream) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(at, Field { member, encoded, is_serde, .. })| {
        let place = place(at, member);
        let input = match is_serde {
            true => place,
            false => quote!(<#encoded as ::braiddb::OwnedField>::input(#place)),
        };
        match at + 1 == count {
            false => quote!(__to.field::<#encoded>(#input)?;),
            true => quote!(__to.last::<#encoded>(#input)?;),
        }
    });
    quote!(#(#each)*)
}

/// Reads the contents of `path`, a struct or a variant, as a result.
pub fn decode(path: &TokenStream, fields: &[Field<'_>]) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(at, Field { member, encoded, is_serde, .. })| {
        let bytes = bytes(encoded, at + 1 == count);
        let read = match is_serde {
            true => quote!(<#encoded as ::braiddb::Value>::view),
            false => quote!(<#encoded as ::braiddb::OwnedField>::read),
        };
        quote!(#member: #read(#bytes)?)
    });
    // The fields of an expression are evaluated in the order in which they are written.
    match count {
        0 => quote!(__from.end().map(|()| #path {})),
        _ => quote!(::core::result::Result::Ok(#path { #(#each,)* })),
    }
}

/// The conditions under which all fields have their newest versions.
pub fn is_newest(fields: &[Field<'_>]) -> Vec<TokenStream> {
    let count = fields.len();
    let of_field = |(at, Field { encoded, is_serde, .. }): (usize, &Field<'_>)| {
        let bytes = bytes(encoded, at + 1 == count);
        match is_serde {
            true => quote!({ let _ = #bytes; true }),
            false => quote!(<#encoded as ::braiddb::OwnedField>::is_newest(#bytes)?),
        }
    };
    fields.iter().enumerate().map(of_field).collect()
}

/// The bytes of the next field.
fn bytes(encoded: &TokenStream, is_last: bool) -> TokenStream {
    match is_last {
        false => quote!(__from.field::<#encoded>()?),
        true => quote!(__from.last()),
    }
}
