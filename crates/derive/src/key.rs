//! Structs as keys are tuples of their fields. Enums whose variants have fields are the number of a variant, followed
//! by the variant's fields.

use crate::fields::{self, Field, binding};
use crate::variants::{Variant, Variants};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Ident, Member, Result};

/// The maximum number of parts of a tuple of keys.
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

/// An enum whose variants have fields.
pub fn of_enum(input: &DeriveInput, of: &DataEnum) -> Result<TokenStream> {
    let (name, variants) = (&input.ident, Variants::of(input, of)?);
    let (text, numbers, (shape, given)) = (name.to_string(), variants.numbers(), variants.shape(shape));
    let (encode, decode) =
        (variants.each(|variant| encode(variant, &variants.number)), variants.each(decode));
    let encode_prefix = variants.each(encode_prefix);
    let number = &variants.number;
    Ok(quote! {
        const _: () = {
            #numbers
            #[automatically_derived]
            #[allow(deprecated, reason = "the type may be")]
            impl ::braiddb::Key for #name {
                const NAME: &'static str = #text;
                fn type_name() -> ::std::string::String {
                    ::std::format!(#shape #(, #given)*)
                }
                fn encode(&self, __last: bool, __to: &mut ::std::vec::Vec<u8>) {
                    match self {
                        #(#encode)*
                    }
                }
                fn decode(__last: bool, __from: &mut &[u8]) -> ::core::option::Option<Self> {
                    match <#number as ::braiddb::Key>::decode(false, __from)? {
                        #(#decode)*
                        _ => ::core::option::Option::None,
                    }
                }
                fn encode_prefix(
                    mut __prefix: &[u8],
                    __to: &mut ::std::vec::Vec<u8>,
                ) -> ::braiddb::PrefixMatch {
                    match <#number as ::braiddb::Key>::encode_prefix_part(&mut __prefix, __to) {
                        #(#encode_prefix)*
                        ::core::option::Option::Some(_) => ::braiddb::PrefixMatch::None,
                        ::core::option::Option::None => ::braiddb::PrefixMatch::All,
                    }
                }
            }
            #[automatically_derived]
            #[allow(deprecated, reason = "the type may be")]
            impl ::braiddb::AsKey<#name> for #name {
                fn encode_as(&self, __last: bool, __to: &mut ::std::vec::Vec<u8>) {
                    ::braiddb::Key::encode(self, __last, __to);
                }
            }
        };
    })
}

/// The names and the types of a variant's fields, in keys.
fn shape(fields: &[Field<'_>]) -> (String, Vec<TokenStream>) {
    let part = |field: &Field<'_>| format!("{}: {{}}", fields::name(&field.member));
    let type_name = |Field { ty, .. }: &Field<'_>| quote!(<#ty as ::braiddb::Key>::type_name());
    let parts: Vec<_> = fields.iter().map(part).collect();
    (format!("{{{{{}}}}}", parts.join(", ")), fields.iter().map(type_name).collect())
}

/// An expression that is true if nothing follows the part in this place.
fn last(at: usize, count: usize) -> TokenStream {
    if at + 1 == count { quote!(__last) } else { quote!(false) }
}

/// Writes a variant: its number, encoded in the order of numbers, and its fields.
fn encode(variant: &Variant<'_>, number: &Ident) -> TokenStream {
    let (pattern, constant, count) = (variant.pattern(), &variant.constant, variant.fields.len());
    let each = variant.fields.iter().enumerate().map(|(at, Field { ty, .. })| {
        let (binding, last) = (binding(at), last(at, count));
        quote!(<#ty as ::braiddb::Key>::encode(#binding, #last, __to);)
    });
    quote!(#pattern => {
        <#number as ::braiddb::Key>::encode(&#constant, false, __to);
        #(#each)*
    })
}

/// Reads the fields of a variant.
fn decode(Variant { ident, constant, fields, .. }: &Variant<'_>) -> TokenStream {
    let each = fields.iter().enumerate().map(|(at, Field { member, ty, .. })| {
        let last = last(at, fields.len());
        quote!(#member: <#ty as ::braiddb::Key>::decode(#last, __from)?)
    });
    quote!(__number if __number == #constant => ::core::option::Option::Some(Self::#ident { #(#each,)* }),)
}

/// Turns a prefix of a variant's encoding with nothing after it into the prefix of the encodings with something after
/// them.
fn encode_prefix(Variant { constant, fields, .. }: &Variant<'_>) -> TokenStream {
    let parts = fields[..fields.len().saturating_sub(1)].iter().map(|Field { ty, .. }| {
        quote! {
            if <#ty as ::braiddb::Key>::encode_prefix_part(&mut __prefix, __to).is_none() {
                return ::braiddb::PrefixMatch::All;
            }
        }
    });
    let last = match fields.last() {
        Some(Field { ty, .. }) => quote!(<#ty as ::braiddb::Key>::encode_prefix(__prefix, __to)),
        None => quote!(<[u8; 0] as ::braiddb::Key>::encode_prefix(__prefix, __to)),
    };
    quote! {
        ::core::option::Option::Some(__number) if __number == #constant => {
            #(#parts)*
            #last
        }
    }
}
