//! The contents of `#[braid(…)]`.

use syn::{DeriveInput, Error, Field, LitInt, LitStr, Path, Result, Token};

/// The attributes of a type.
pub struct OfType {
    pub name: LitStr,
    pub version: u16,
    /// The type of the previous version.
    pub previous: Option<Path>,
}

/// Names of types that are not derived.
const TAKEN: [&str; 25] = [
    "u8",
    "i8",
    "u16",
    "i16",
    "u32",
    "i32",
    "u64",
    "i64",
    "u128",
    "i128",
    "f32",
    "f64",
    "bool",
    "char",
    "string",
    "bytes",
    "nothing",
    "uuid",
    "timestamp",
    "date",
    "time",
    "datetime",
    "duration",
    "serde",
    "fields",
];

/// Parses the attributes of a type. `needs_name` is the error message for a missing name.
pub fn of_type(input: &DeriveInput, needs_name: &str) -> Result<OfType> {
    let (mut name, mut version, mut previous) = (None, None, None);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("braid")) {
        attribute.parse_nested_meta(|meta| {
            let is_twice = (meta.path.is_ident("name") && name.is_some())
                || (meta.path.is_ident("version") && version.is_some())
                || (meta.path.is_ident("previous") && previous.is_some());
            if is_twice {
                return Err(meta.error("it is said twice"));
            }
            if meta.path.is_ident("name") {
                name = Some(meta.value()?.parse::<LitStr>()?);
            } else if meta.path.is_ident("version") {
                version = Some(meta.value()?.parse::<LitInt>()?);
            } else if meta.path.is_ident("previous") {
                previous = Some(meta.value()?.parse::<Path>()?);
            } else {
                return Err(meta.error("known are `name`, `version` and `previous`"));
            }
            Ok(())
        })?;
    }
    let name = name.ok_or_else(|| Error::new_spanned(&input.ident, needs_name))?;
    check_name(&name)?;
    let number = match &version {
        None => 1,
        Some(literal) => match literal.base10_parse() {
            Ok(number) if number > 0 => number,
            _ => return Err(Error::new_spanned(literal, "versions are numbers from 1 to 65535")),
        },
    };
    match &previous {
        Some(path) if number == 1 => Err(Error::new_spanned(path, "version 1 has none before it")),
        _ => Ok(OfType { name, version: number, previous }),
    }
}

/// Checks a name, which people read and which is part of the text by which the database keeps shapes.
fn check_name(name: &LitStr) -> Result<()> {
    let text = name.value();
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_good = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_inner);
    if !is_good || text.len() > 255 {
        let needs =
            "a name begins with a letter, and has letters, digits, `_`, `-` and `.` alone, at most 255";
        return Err(Error::new_spanned(name, needs));
    }
    match TAKEN.contains(&text.as_str()) {
        true => Err(Error::new_spanned(name, "another type has this name already")),
        false => Ok(()),
    }
}

/// Returns true if serde encodes the field.
pub fn is_serde(field: &Field) -> Result<bool> {
    let mut is_serde = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("braid")) {
        let known = |meta: syn::meta::ParseNestedMeta<'_>| match meta.path.is_ident("serde") {
            true if meta.input.is_empty() || meta.input.peek(Token![,]) => {
                is_serde = true;
                Ok(())
            }
            _ => Err(meta.error("a field can have `serde` alone")),
        };
        attribute.parse_nested_meta(known)?;
    }
    Ok(is_serde)
}
