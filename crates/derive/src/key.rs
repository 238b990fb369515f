//! Structs as keys: tuples of their fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Fields, Member, Result};

/// As many parts as a tuple of keys can have.
const PARTS_MAX: usize = 12;

pub fn of_struct(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let name = &input.ident;
    if fields.is_empty() || fields.len() > PARTS_MAX {
        let message =
            format!("a key has 1 to {PARTS_MAX} fields; a field can be a tuple or a key of its own");
        return Err(Error::new_spanned(name, message));
    }
    let (members, types): (Vec<Member>, Vec<_>) =
        fields.members().zip(fields.iter().map(|field| &field.ty)).unzip();
    let (first_type, first) = (&types[0], &members[0]);
    let parts: Vec<_> = (0..types.len()).map(syn::Index::from).collect();
    let (as_type, to_key, from_key) = match types.len() {
        1 => (
            quote!(#first_type),
            quote!(::core::clone::Clone::clone(&self.#first)),
            quote!(Self { #first: __key }),
        ),
        _ => (
            quote!((#(#types,)*)),
            quote!((#(::core::clone::Clone::clone(&self.#members),)*)),
            quote!(Self { #(#members: __key.#parts,)* }),
        ),
    };
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated, reason = "the type may be")]
        impl ::braiddb::KeyAs for #name {
            type As = #as_type;
            fn to_key(&self) -> Self::As {
                #to_key
            }
            fn from_key(__key: Self::As) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(#from_key)
            }
        }
    })
}
