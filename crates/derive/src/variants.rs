//! Enums whose variants have fields: the number of a variant, followed by its fields.

use crate::fields::{self, Field, binding};
use crate::numbers;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{DataEnum, DeriveInput, Error, Expr, Ident, Result};

/// An enum whose variants have fields.
pub struct Variants<'i> {
    /// The type of the numbers.
    pub number: Ident,
    variants: Vec<Variant<'i>>,
}

pub struct Variant<'i> {
    pub ident: &'i Ident,
    number: &'i Expr,
    /// The name of a constant for the variant's number.
    pub constant: Ident,
    pub fields: Vec<Field<'i>>,
}

impl<'i> Variants<'i> {
    pub fn of(input: &DeriveInput, of: &'i DataEnum) -> Result<Variants<'i>> {
        let number = numbers::type_of(input)?;
        let mut variants = Vec::new();
        for (at, (variant, number)) in numbers::of(input, of)?.into_iter().enumerate() {
            if let Some(said) = variant.attrs.iter().find(|attribute| attribute.path().is_ident("braid")) {
                let message = "`braid` says something of an enum or of a field, and nothing of a variant";
                return Err(Error::new_spanned(said, message));
            }
            let (ident, fields) = (&variant.ident, fields::of(&variant.fields)?);
            variants.push(Variant { ident, number, constant: format_ident!("__NUMBER_{at}"), fields });
        }
        Ok(Variants { number, variants })
    }

    /// Declares the constants for the numbers.
    pub fn numbers(&self) -> TokenStream {
        let number = &self.number;
        let each = self.each(|variant| {
            let (constant, said) = (&variant.constant, variant.number);
            quote!(const #constant: #number = #said;)
        });
        quote!(#(#each)*)
    }

    /// A format string and its arguments. `of` returns the same for a variant's fields, in braces.
    pub fn shape(&self, of: fn(&[Field<'_>]) -> (String, Vec<TokenStream>)) -> (String, Vec<TokenStream>) {
        let (mut parts, mut given) = (Vec::new(), Vec::new());
        for Variant { ident, constant, fields, .. } in &self.variants {
            let (shape, of_fields) = of(fields);
            let shape = if fields.is_empty() { String::new() } else { format!(" {shape}") };
            parts.push(format!("{}{shape} = {{}}", ident.unraw()));
            given.extend(of_fields);
            given.push(quote!(#constant));
        }
        (format!("one of {} ({})", self.number, parts.join(", ")), given)
    }

    /// Adds the definitions of the fields' types.
    pub fn define(&self) -> TokenStream {
        let each = self.each(|variant| fields::define(&variant.fields));
        quote!(#(#each)*)
    }

    /// Writes `__input`.
    pub fn encode(&self) -> TokenStream {
        let number = &self.number;
        let arms = self.each(|variant| {
            let (pattern, constant) = (variant.pattern(), &variant.constant);
            let encode = fields::encode(&variant.fields, |at, _| {
                let binding = binding(at);
                quote!(#binding)
            });
            quote!(#pattern => { __to.field::<#number>(#constant)?; #encode })
        });
        quote!(match __input { #(#arms)* })
    }

    /// Reads a value, as a result. `expected` is the description in the error for bytes with another number.
    pub fn decode(&self, expected: &str) -> TokenStream {
        let arms = self.each(|Variant { ident, constant, fields, .. }| {
            let decode = fields::decode(&quote!(Self::#ident), fields);
            quote!(__number if __number == #constant => #decode,)
        });
        let read = self.read();
        quote! {
            match #read {
                #(#arms)*
                _ => ::core::result::Result::Err(::braiddb::Error::malformed(#expected, __bytes.len())),
            }
        }
    }

    /// Returns whether all parts of a value have their newest versions. An unknown variant does not: reading it is an
    /// error.
    pub fn is_newest(&self) -> TokenStream {
        let arms = self.each(|Variant { constant, fields, .. }| {
            let of_fields = fields::is_newest(fields);
            quote!(__number if __number == #constant => true #(&& #of_fields)*,)
        });
        let read = self.read();
        quote!(match #read { #(#arms)* _ => false })
    }

    /// Reads the number, which comes first.
    fn read(&self) -> TokenStream {
        let number = &self.number;
        quote!(<#number as ::braiddb::Value>::view(__from.field::<#number>()?)?)
    }

    pub fn each(&self, of: impl Fn(&Variant<'i>) -> TokenStream) -> Vec<TokenStream> {
        self.variants.iter().map(of).collect()
    }
}

impl Variant<'_> {
    /// The pattern that destructures a value of this variant.
    pub fn pattern(&self) -> TokenStream {
        let (ident, members) = (self.ident, self.fields.iter().map(|field| &field.member));
        let bindings = (0..self.fields.len()).map(binding);
        quote!(Self::#ident { #(#members: #bindings,)* })
    }
}
