//! Text forms of keys and values, chosen by type name, for JSON and for CSV cells.
//!
//! Text and bytes correspond one to one: text is read back to the same bytes. Two kinds of bytes are written raw, as
//! hexadecimal digits: bytes that are no value of their type, and bytes of types that are not known here.

#[cfg(test)]
mod tests;

use super::types::{Content, Kind, Named, OPAQUE, OneOf, Shape, Shapes, Variant};
use braid_bench::text::printable_json;
use braiddb::{Key, TableInfo};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

/// The prefix of raw bytes in a cell.
const HEX: &str = "hex:";

/// A description of a fault in a text.
pub type Wrong = String;

/// The member of a struct's or enum's object that names its version. No field can have this name.
const VERSION: &str = "@version";

/// Says whether bytes are keys, whose byte order is the order of the keys, or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// The keys or the values of a table.
#[derive(Clone, Debug)]
pub struct Column {
    role: Role,
    type_name: String,
    kind: Option<Kind>,
}

/// Raw bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

impl Column {
    /// The keys of the type with this name.
    pub fn keys(type_name: &str) -> Column {
        let kind = Kind::of_key(type_name);
        Column { role: Role::Key, type_name: type_name.into(), kind }
    }

    /// The values of a table.
    pub fn values(info: &TableInfo) -> Column {
        let (type_name, shapes) = (info.value_type.clone(), Shapes::new(&info.definitions));
        let kind = Kind::of_value(&type_name, &shapes);
        Column { role: Role::Value, type_name, kind }
    }

    /// Returns whether all keys of the type have eight bytes. Returns `None` if this is not known here, because a
    /// program's own type may have the same name.
    pub fn is_fixed8(&self) -> Option<bool> {
        if OPAQUE.iter().any(|opaque| opaque.0 == self.type_name) {
            return None;
        }
        self.kind.as_ref().map(|kind| matches!(kind, Kind::Integer { bytes: 8, .. } | Kind::Array(8)))
    }

    /// Appends JSON for these bytes.
    pub fn write_json(&self, bytes: &[u8], out: &mut String) {
        self.write_natural(bytes, out);
    }

    /// Appends JSON for these bytes. Returns false if they were written raw.
    fn write_natural(&self, bytes: &[u8], out: &mut String) -> bool {
        let (start, mut rest) = (out.len(), bytes);
        let written = self.kind.as_ref().and_then(|kind| kind.write_json(self.role, true, &mut rest, out));
        let is_natural = written.is_some() && rest.is_empty();
        if !is_natural {
            out.truncate(start);
            out.push_str("{\"hex\":\"");
            push_hex(bytes, out);
            out.push_str("\"}");
        }
        let escaped = match printable_json(&out[start..]) {
            Cow::Owned(escaped) => Some(escaped),
            Cow::Borrowed(_) => None,
        };
        if let Some(escaped) = escaped {
            out.replace_range(start.., &escaped);
        }
        is_natural
    }

    /// Returns the bytes that this JSON stands for.
    pub fn read_json(&self, json: &str) -> Result<Vec<u8>, Wrong> {
        if json.starts_with('{') {
            match serde_json::from_str(json) {
                Ok(Hex { hex }) => return unhex(&hex),
                Err(_) if self.kind.as_ref().is_some_and(Kind::has_object) => {}
                Err(_) => {
                    return Err(format!(
                        "{json} is not of type {}, and does not have the form {{\"hex\": \"0f\"}}",
                        self.type_name
                    ));
                }
            }
        }
        let Some(kind) = &self.kind else {
            return Err(format!(
                "the type {} has no text form here: write the bytes as {{\"hex\": \"0f\"}}",
                self.type_name
            ));
        };
        let mut bytes = Vec::new();
        kind.read_json(self.role, true, json, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the bytes that keys with this prefix begin with. A prefix is: for a string its first characters, for
    /// bytes their first digits, for a tuple a list of its first parts, for an enum a variant with its first fields.
    pub fn read_prefix(&self, cell: &str) -> Result<Vec<u8>, Wrong> {
        if let Some(digits) = cell.strip_prefix(HEX).filter(|_| self.kind != Some(Kind::String)) {
            return unhex(digits);
        }
        match &self.kind {
            Some(Kind::String) => Ok(cell.into()),
            Some(Kind::Bytes | Kind::Array(_)) => unhex(cell),
            Some(Kind::Tuple(parts)) => {
                let found: Vec<&RawValue> = serde_json::from_str(cell).map_err(|_| {
                    format!("{cell} is not a list of the first parts of a {}", self.type_name)
                })?;
                if found.len() > parts.len() {
                    return Err(format!("{cell} has more parts than a {}", self.type_name));
                }
                let mut bytes = Vec::new();
                for (at, (part, json)) in parts.iter().zip(found).enumerate() {
                    part.read_json(self.role, at + 1 == parts.len(), json.get(), &mut bytes)?;
                }
                Ok(bytes)
            }
            Some(Kind::OneOf(of)) => {
                let mut bytes = Vec::new();
                Kind::read_variant_prefix(of, cell, &mut bytes)?;
                Ok(bytes)
            }
            _ => Err(format!(
                "keys of type {} have no prefixes: give bounds, or bytes as {HEX}0f",
                self.type_name
            )),
        }
    }

    /// Returns the cell for these bytes, or `None` if the cell could not be told from the cells of other bytes.
    pub fn cell(&self, bytes: &[u8]) -> Option<String> {
        match &self.kind {
            Some(Kind::String) => String::from_utf8(bytes.to_vec()).ok(),
            Some(Kind::Nothing) if bytes.is_empty() => Some(String::new()),
            Some(Kind::Bytes) => Some(hex(bytes)),
            Some(Kind::Array(count)) if *count == bytes.len() => Some(hex(bytes)),
            _ => {
                let mut json = String::new();
                let is_natural = self.write_natural(bytes, &mut json);
                Some(if is_natural { json } else { format!("{HEX}{}", hex(bytes)) })
            }
        }
    }

    /// Returns the bytes that this cell stands for.
    pub fn read_cell(&self, cell: &str) -> Result<Vec<u8>, Wrong> {
        match &self.kind {
            Some(Kind::String) => Ok(cell.into()),
            Some(Kind::Nothing) if cell.is_empty() => Ok(Vec::new()),
            Some(Kind::Bytes) => unhex(cell.strip_prefix(HEX).unwrap_or(cell)),
            Some(Kind::Array(count)) if !cell.starts_with(HEX) => array(cell, *count),
            _ => match (cell.strip_prefix(HEX), &self.kind) {
                (Some(digits), _) => unhex(digits),
                (None, Some(kind)) => {
                    let mut bytes = Vec::new();
                    kind.read_json(self.role, true, cell, &mut bytes)?;
                    Ok(bytes)
                }
                (None, None) => Err(format!(
                    "the type {} has no text form here: write the bytes as {HEX}0f",
                    self.type_name
                )),
            },
        }
    }
}

impl Kind {
    /// Returns true if the text of a value of this kind may be an object.
    fn has_object(&self) -> bool {
        match self {
            Kind::OneOf(_) | Kind::Named(_) => true,
            Kind::Option(of) => of.has_object(),
            _ => false,
        }
    }

    /// Returns true if `null` is the text of a value of this kind.
    fn has_null(&self) -> bool {
        matches!(self, Kind::Nothing | Kind::Option(_))
    }

    /// Like `write_json`, for a list of parts.
    fn write_list<'k>(
        parts: impl ExactSizeIterator<Item = &'k Kind>,
        role: Role,
        last: bool,
        bytes: &mut &[u8],
        out: &mut String,
    ) -> Option<()> {
        let count = parts.len();
        out.push('[');
        for (at, part) in parts.enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            let is_end = at + 1 == count;
            match role {
                Role::Value if !is_end => part.write_field(bytes, out)?,
                _ => part.write_json(role, last && is_end, bytes, out)?,
            }
        }
        out.push(']');
        Some(())
    }

    /// Like `read_json`, for a list of parts.
    fn read_list<'k>(
        parts: impl ExactSizeIterator<Item = &'k Kind>,
        role: Role,
        last: bool,
        json: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let count = parts.len();
        let found: Option<Vec<&RawValue>> = serde_json::from_str(json).ok();
        let found = found.filter(|found| found.len() == count && json.starts_with('['));
        let Some(found) = found else {
            return Err(format!("{json} is not a list of length {count}"));
        };
        for (at, (part, json)) in parts.zip(found).enumerate() {
            let is_end = at + 1 == count;
            if role == Role::Key || is_end {
                part.read_json(role, last && is_end, json.get(), out)?;
                continue;
            }
            part.read_field(json.get(), out)?;
        }
        Ok(())
    }

    /// Like `write_json`, for a part of a value that is followed by others.
    fn write_field(&self, bytes: &mut &[u8], out: &mut String) -> Option<()> {
        let length = match self.field_bytes() {
            Some(known) => known,
            None => u32::from_le_bytes(bytes.split_off(..4)?.try_into().ok()?) as usize,
        };
        let mut field = bytes.split_off(..length)?;
        self.write_json(Role::Value, true, &mut field, out)?;
        field.is_empty().then_some(())
    }

    /// Like `read_json`, for a part of a value that is followed by others.
    fn read_field(&self, json: &str, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let mut field = Vec::new();
        self.read_json(Role::Value, true, json, &mut field)?;
        if self.field_bytes().is_none() {
            let length = u32::try_from(field.len()).map_err(|_| format!("{json} is too long"))?;
            out.extend_from_slice(&length.to_le_bytes());
        }
        out.append(&mut field);
        Ok(())
    }

    /// Like `write_json`, for a named type, which takes all bytes.
    fn write_named(of: &Named, bytes: &mut &[u8], out: &mut String) -> Option<()> {
        let (content, version) = bytes.split_last_chunk()?;
        *bytes = content;
        let Shape { version, content } = of.version(u16::from_le_bytes(*version))?;
        out.push('{');
        if *version != of.newest().version {
            let is_empty = matches!(content, Content::Fields(fields) if fields.is_empty());
            write!(out, "\"{VERSION}\":{version}{}", if is_empty { "" } else { "," }).ok()?;
        }
        match content {
            Content::Fields(fields) => Kind::write_members(fields, Role::Value, true, bytes, out)?,
            Content::OneOf(of) => Kind::write_variant(of, Role::Value, true, bytes, out)?,
        }
        out.push('}');
        Some(())
    }

    /// Like `write_json`, for fields, without the braces around them.
    fn write_members(
        fields: &[(String, Kind)],
        role: Role,
        last: bool,
        bytes: &mut &[u8],
        out: &mut String,
    ) -> Option<()> {
        for (at, (name, kind)) in fields.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}\"{name}\":").ok()?;
            let is_end = at + 1 == fields.len();
            match role {
                Role::Value if !is_end => kind.write_field(bytes, out)?,
                _ => kind.write_json(role, last && is_end, bytes, out)?,
            }
        }
        Some(())
    }

    /// Like `write_json`, for a variant, without the braces around it.
    fn write_variant(of: &OneOf, role: Role, last: bool, bytes: &mut &[u8], out: &mut String) -> Option<()> {
        let mut number = String::new();
        of.number.write_json(role, false, bytes, &mut number)?;
        let Variant { name, fields, .. } = of.variants.iter().find(|variant| variant.number == number)?;
        write!(out, "\"{name}\":{{").ok()?;
        Kind::write_members(fields, role, last, bytes, out)?;
        out.push('}');
        Some(())
    }

    /// Like `read_json`, for a named type.
    fn read_named(of: &Named, json: &str, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let mut found = members(json)?;
        let shape = match found.remove(VERSION) {
            None => of.newest(),
            Some(version) => {
                let known = version.get().parse().ok().and_then(|version| of.version(version));
                known.ok_or_else(|| format!("there is no version {} of the type", version.get()))?
            }
        };
        match &shape.content {
            Content::Fields(fields) => Kind::read_members(fields, Role::Value, true, json, found, out)?,
            Content::OneOf(of) => Kind::read_variant(of, Role::Value, true, json, found, out)?,
        }
        out.extend_from_slice(&shape.version.to_le_bytes());
        Ok(())
    }

    /// Like `read_json`, for fields whose members are `found`.
    fn read_members(
        fields: &[(String, Kind)],
        role: Role,
        last: bool,
        json: &str,
        mut found: Members<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        for (at, (name, kind)) in fields.iter().enumerate() {
            let json =
                found.remove(name.as_str()).ok_or_else(|| format!("{json} has no field {name:?}"))?.get();
            let is_end = at + 1 == fields.len();
            let read = match role {
                Role::Value if !is_end => kind.read_field(json, out),
                _ => kind.read_json(role, last && is_end, json, out),
            };
            read.map_err(|why| format!("{name}: {why}"))?;
        }
        match found.into_keys().min() {
            Some(name) => Err(format!("the type has no field {name:?}")),
            None => Ok(()),
        }
    }

    /// Like `read_json`, for a variant whose members are `found`.
    fn read_variant(
        of: &OneOf,
        role: Role,
        last: bool,
        json: &str,
        found: Members<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let (Variant { name, number, fields }, content) = variant(of, json, found)?;
        of.number.read_json(role, false, number, out)?;
        let read =
            members(content).and_then(|found| Kind::read_members(fields, role, last, content, found, out));
        read.map_err(|why| format!("{name}: {why}"))
    }

    /// Appends the bytes that keys of a variant begin with, given the variant's first fields.
    fn read_variant_prefix(of: &OneOf, json: &str, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let (Variant { name, number, fields }, content) = variant(of, json, members(json)?)?;
        of.number.read_json(Role::Key, false, number, out)?;
        let found = members(content)?;
        let (given, rest) = fields.split_at(found.len().min(fields.len()));
        if rest.is_empty() {
            return Kind::read_members(given, Role::Key, true, content, found, out);
        }
        Kind::read_members(given, Role::Key, false, content, found, out)
            .map_err(|why| format!("{name}: {why}; a prefix must have the first fields"))
    }

    /// Like `write_json`, for a sequence, which takes all bytes.
    fn write_sequence(of: &Kind, bytes: &mut &[u8], out: &mut String) -> Option<()> {
        out.push('[');
        let mut comma = "";
        while !bytes.is_empty() {
            out.push_str(comma);
            of.write_field(bytes, out)?;
            comma = ",";
        }
        out.push(']');
        Some(())
    }

    /// Takes the bytes of a value of this kind from the front, and appends JSON for them. `last` is true if nothing
    /// follows in the same key.
    fn write_json(&self, role: Role, last: bool, bytes: &mut &[u8], out: &mut String) -> Option<()> {
        match self {
            Kind::Integer { bytes: count, is_signed } => {
                let (head, rest) = bytes.split_at_checked(*count)?;
                *bytes = rest;
                write_integer(bits_of(role, head, *is_signed), *count, *is_signed, out);
            }
            Kind::F32 => {
                let number = f32::from_le_bytes(std::mem::take(bytes).try_into().ok()?);
                write!(out, "{:?}", Some(number).filter(|number| number.is_finite())?).ok()?;
            }
            Kind::F64 => {
                let number = f64::from_le_bytes(std::mem::take(bytes).try_into().ok()?);
                write!(out, "{:?}", Some(number).filter(|number| number.is_finite())?).ok()?;
            }
            Kind::Bytes => {
                let part = <Vec<u8> as Key>::decode(last, bytes)?;
                out.push('"');
                push_hex(&part, out);
                out.push('"');
            }
            Kind::Array(count) => {
                let (head, rest) = bytes.split_at_checked(*count)?;
                *bytes = rest;
                out.push('"');
                push_hex(head, out);
                out.push('"');
            }
            Kind::String => out.push_str(&serde_json::to_string(&String::decode(last, bytes)?).ok()?),
            Kind::Nothing => out.push_str("null"),
            Kind::Bool => out.push_str(if bool::decode(last, bytes)? { "true" } else { "false" }),
            Kind::Char => out.push_str(&serde_json::to_string(&char::decode(last, bytes)?).ok()?),
            Kind::Option(of) => match (bytes.split_off_first()?, of.has_null()) {
                (0, _) => out.push_str("null"),
                (1, false) => of.write_json(role, last, bytes, out)?,
                (1, true) => Kind::write_list([&**of].into_iter(), role, last, bytes, out)?,
                _ => return None,
            },
            Kind::List(of, count) => {
                Kind::write_list(std::iter::repeat_n(&**of, *count), role, last, bytes, out)?
            }
            Kind::Tuple(parts) => Kind::write_list(parts.iter(), role, last, bytes, out)?,
            Kind::Sequence(of) => Kind::write_sequence(of, bytes, out)?,
            Kind::OneOf(of) => {
                out.push('{');
                Kind::write_variant(of, role, last, bytes, out)?;
                out.push('}');
            }
            Kind::Named(of) => Kind::write_named(of, bytes, out)?,
        }
        Some(())
    }

    /// Appends the bytes that this JSON stands for.
    fn read_json(&self, role: Role, last: bool, json: &str, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let not = |what: &str| format!("{json} is not {what}");
        match self {
            Kind::Integer { bytes, is_signed } => {
                let sign = if *is_signed { 'i' } else { 'u' };
                let bits = read_integer(json, *bytes, *is_signed);
                let bits = bits.ok_or_else(|| not(&format!("a number of type {sign}{}", bytes * 8)))?;
                push_bits(role, bits, *bytes, *is_signed, out);
            }
            Kind::F32 => {
                let number = read_float::<f32>(json).filter(|number| number.is_finite());
                out.extend_from_slice(&number.ok_or_else(|| not("a number of type f32"))?.to_le_bytes());
            }
            Kind::F64 => {
                let number = read_float::<f64>(json).filter(|number| number.is_finite());
                out.extend_from_slice(&number.ok_or_else(|| not("a number of type f64"))?.to_le_bytes());
            }
            Kind::Bytes => {
                let digits: String =
                    serde_json::from_str(json).map_err(|_| not("hexadecimal digits in quotes"))?;
                unhex(&digits)?.encode(last, out);
            }
            Kind::Array(count) => {
                let digits: String =
                    serde_json::from_str(json).map_err(|_| not("hexadecimal digits in quotes"))?;
                out.extend_from_slice(&array(&digits, *count)?);
            }
            Kind::String => {
                let text: String = serde_json::from_str(json).map_err(|_| not("a string"))?;
                text.encode(last, out);
            }
            Kind::Nothing if json == "null" => {}
            Kind::Nothing => return Err(not("null")),
            Kind::Bool => {
                let truth: bool = serde_json::from_str(json).map_err(|_| not("true or false"))?;
                truth.encode(last, out);
            }
            Kind::Char => {
                let char: char = serde_json::from_str(json).map_err(|_| not("a character in quotes"))?;
                char.encode(last, out);
            }
            Kind::Option(_) if json == "null" => out.push(0),
            Kind::Option(of) => {
                out.push(1);
                match of.has_null() {
                    false => of.read_json(role, last, json, out)?,
                    true => Kind::read_list([&**of].into_iter(), role, last, json, out)?,
                }
            }
            Kind::List(of, count) => {
                Kind::read_list(std::iter::repeat_n(&**of, *count), role, last, json, out)?;
            }
            Kind::Tuple(parts) => Kind::read_list(parts.iter(), role, last, json, out)?,
            Kind::Sequence(of) => {
                let found: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| not("a list"))?;
                found.iter().try_for_each(|json| of.read_field(json.get(), out))?;
            }
            Kind::OneOf(of) => Kind::read_variant(of, role, last, json, members(json)?, out)?,
            Kind::Named(of) => Kind::read_named(of, json, out)?,
        }
        Ok(())
    }
}

/// The members of an object.
type Members<'j> = HashMap<Cow<'j, str>, &'j RawValue>;

fn members(json: &str) -> Result<Members<'_>, Wrong> {
    serde_json::from_str(json).map_err(|_| format!("{json} is not an object with fields"))
}

/// The variant that an object names, and the content that the object gives it.
fn variant<'k, 'j>(of: &'k OneOf, json: &str, found: Members<'j>) -> Result<(&'k Variant, &'j str), Wrong> {
    let mut found = found.into_iter();
    let (Some((name, content)), None) = (found.next(), found.next()) else {
        return Err(format!("{json} is not an object with one member named after a variant"));
    };
    let known = of.variants.iter().find(|variant| variant.name == name);
    let variant = known.ok_or_else(|| format!("the type has no variant {name:?}"))?;
    Ok((variant, content.get()))
}

/// The bit to flip in an integer of a key so that the byte order is the order of the numbers.
fn flip(role: Role, bytes: usize, is_signed: bool) -> u128 {
    u128::from(role == Role::Key && is_signed) << (bytes * 8 - 1)
}

/// An integer's bits: big-endian in keys, little-endian in values.
fn bits_of(role: Role, bytes: &[u8], is_signed: bool) -> u128 {
    let fold = |bits, byte: &u8| bits << 8 | u128::from(*byte);
    let bits = match role {
        Role::Key => bytes.iter().fold(0, fold),
        Role::Value => bytes.iter().rev().fold(0, fold),
    };
    bits ^ flip(role, bytes.len(), is_signed)
}

fn push_bits(role: Role, bits: u128, bytes: usize, is_signed: bool, out: &mut Vec<u8>) {
    let bits = bits ^ flip(role, bytes, is_signed);
    match role {
        Role::Key => out.extend_from_slice(&bits.to_be_bytes()[16 - bytes..]),
        Role::Value => out.extend_from_slice(&bits.to_le_bytes()[..bytes]),
    }
}

fn write_integer(bits: u128, bytes: usize, is_signed: bool, out: &mut String) {
    let unused = 128 - bytes * 8;
    let written = match is_signed {
        true => write!(out, "{}", (bits << unused) as i128 >> unused),
        false => write!(out, "{bits}"),
    };
    written.expect("a string takes everything");
}

fn read_integer(json: &str, bytes: usize, is_signed: bool) -> Option<u128> {
    let unused = 128 - bytes * 8;
    let is_number = json.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if !is_number {
        return None;
    }
    if is_signed {
        let number: i128 = json.parse().ok()?;
        let bits = (number as u128) << unused >> unused;
        return ((bits << unused) as i128 >> unused == number).then_some(bits);
    }
    let bits: u128 = json.parse().ok()?;
    (bits << unused >> unused == bits).then_some(bits)
}

/// Parses the nearest number with the standard library, which rounds correctly. serde_json might not.
fn read_float<F: std::str::FromStr>(json: &str) -> Option<F> {
    let is_number = json.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if is_number { json.parse().ok() } else { None }
}

fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut out);
    out
}

fn unhex(digits: &str) -> Result<Vec<u8>, Wrong> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(|[a, b]| Some(digit(*a)? << 4 | digit(*b)?)).collect();
    bytes
        .filter(|_| rest.is_empty())
        .ok_or_else(|| format!("{digits:?} does not consist of pairs of hexadecimal digits"))
}

/// Parses exactly this many bytes.
fn array(digits: &str, count: usize) -> Result<Vec<u8>, Wrong> {
    let bytes = unhex(digits)?;
    let is_long = bytes.len() == count;
    is_long
        .then_some(bytes)
        .ok_or_else(|| format!("{digits:?} does not consist of the hexadecimal digits of {count} bytes"))
}
