//! The stored numbers of an enum's variants: finds their type, and checks that each number is written out.

use syn::{Attribute, DataEnum, DeriveInput, Error, Expr, Ident, Result, Variant};

const INTEGERS: [&str; 8] = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"];

/// The type of the numbers.
pub fn type_of(input: &DeriveInput) -> Result<Ident> {
    let mut number = None;
    let has_name = |attribute: &&Attribute| attribute.path().is_ident("repr");
    for attribute in input.attrs.iter().filter(has_name) {
        attribute.parse_nested_meta(|meta| {
            if let Some(ident) = meta.path.get_ident().filter(|ident| INTEGERS.iter().any(|int| ident == int))
            {
                number = Some(ident.clone());
            }
            Ok(())
        })?;
    }
    let needs_repr =
        "say as what its variants are stored: #[repr(u8)], or another integer of at most 64 bits";
    number.ok_or_else(|| Error::new_spanned(&input.ident, needs_repr))
}

/// The variants, with the number of each.
pub fn of<'i>(input: &DeriveInput, of: &'i DataEnum) -> Result<Vec<(&'i Variant, &'i Expr)>> {
    if of.variants.is_empty() {
        return Err(Error::new_spanned(&input.ident, "an enum without variants has no values"));
    }
    let numbered = |variant: &'i Variant| match &variant.discriminant {
        Some((_, number)) => Ok((variant, number)),
        None => {
            let message = format!("say which number is stored, so that it stays: `{} = …`", variant.ident);
            Err(Error::new_spanned(variant, message))
        }
    };
    of.variants.iter().map(numbered).collect()
}
