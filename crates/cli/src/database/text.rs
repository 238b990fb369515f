//! Keys and values as text, by the names of their types: for JSON, and for cells of CSV.
//!
//! Text and bytes are one to one: what is written is read back to the same bytes. Bytes that are no value of their
//! type, and those of types that are not known here, are written as they are, in hexadecimal digits.

use braiddb::Key;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt::Write;

/// In a cell, before bytes that are written as they are.
const HEX: &str = "hex:";

/// What is wrong with a text.
pub type Wrong = String;

/// A type that is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    F32,
    F64,
    Bytes,
    /// This many bytes.
    Array(usize),
    String,
    Nothing,
    Tuple(Vec<Kind>),
}

/// Whether bytes are those of keys, whose order is the keys', or of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// Keys of a table, or its values.
#[derive(Clone, Debug)]
pub struct Column {
    role: Role,
    type_name: String,
    kind: Option<Kind>,
}

/// Bytes as they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

impl Column {
    /// Keys of the type that has this name.
    pub fn keys(type_name: &str) -> Column {
        let kind = Kind::of_key(type_name);
        Column { role: Role::Key, type_name: type_name.into(), kind }
    }

    /// Values of the type that has this name.
    pub fn values(type_name: &str) -> Column {
        let is_key_only = |kind: &Kind| matches!(kind, Kind::Tuple(_));
        let kind = Kind::of_value(type_name).filter(|kind| !is_key_only(kind));
        Column { role: Role::Value, type_name: type_name.into(), kind }
    }

    /// Whether keys of the type have eight bytes each; none: that is not known here.
    pub fn is_fixed8(&self) -> Option<bool> {
        self.kind.as_ref().map(|kind| matches!(kind, Kind::Integer { bytes: 8, .. } | Kind::Array(8)))
    }

    /// Appends JSON for these bytes.
    pub fn write_json(&self, bytes: &[u8], out: &mut String) {
        let (start, mut rest) = (out.len(), bytes);
        let written = self.kind.as_ref().and_then(|kind| kind.write_json(self.role, true, &mut rest, out));
        if written.is_none() || !rest.is_empty() {
            out.truncate(start);
            out.push_str("{\"hex\":\"");
            push_hex(bytes, out);
            out.push_str("\"}");
        }
    }

    /// The bytes for which there is this JSON.
    pub fn read_json(&self, json: &str) -> Result<Vec<u8>, Wrong> {
        if json.starts_with('{') {
            let wrong =
                |_| format!("{json} is no {}, and not of the form {{\"hex\": \"0f\"}}", self.type_name);
            let Hex { hex } = serde_json::from_str(json).map_err(wrong)?;
            return unhex(&hex);
        }
        let Some(kind) = &self.kind else {
            return Err(format!(
                "values of {} are not known as text, but as {{\"hex\": \"0f\"}}",
                self.type_name
            ));
        };
        let mut bytes = Vec::new();
        kind.read_json(self.role, true, json, &mut bytes)?;
        Ok(bytes)
    }

    /// The cell for these bytes; none if they cannot be told from others in a cell.
    pub fn cell(&self, bytes: &[u8]) -> Option<String> {
        match &self.kind {
            Some(Kind::String) => String::from_utf8(bytes.to_vec()).ok(),
            Some(Kind::Nothing) if bytes.is_empty() => Some(String::new()),
            Some(Kind::Bytes) => Some(hex(bytes)),
            Some(Kind::Array(count)) if *count == bytes.len() => Some(hex(bytes)),
            _ => {
                let mut json = String::new();
                self.write_json(bytes, &mut json);
                let is_natural = !json.starts_with('{');
                Some(if is_natural { json } else { format!("{HEX}{}", hex(bytes)) })
            }
        }
    }

    /// The bytes for which there is this cell.
    pub fn read_cell(&self, cell: &str) -> Result<Vec<u8>, Wrong> {
        match &self.kind {
            Some(Kind::String) => Ok(cell.into()),
            Some(Kind::Nothing) if cell.is_empty() => Ok(Vec::new()),
            Some(Kind::Bytes) => unhex(cell),
            Some(Kind::Array(count)) if !cell.starts_with(HEX) => array(cell, *count),
            _ => match (cell.strip_prefix(HEX), &self.kind) {
                (Some(digits), _) => unhex(digits),
                (None, Some(kind)) => {
                    let mut bytes = Vec::new();
                    kind.read_json(self.role, true, cell, &mut bytes)?;
                    Ok(bytes)
                }
                (None, None) => {
                    Err(format!("values of {} are not known as text, but as {HEX}0f", self.type_name))
                }
            },
        }
    }
}

impl Kind {
    fn of_key(name: &str) -> Option<Kind> {
        if let Some(count) = name.strip_suffix(" bytes") {
            // Numbers have one spelling.
            let count = count.parse::<usize>().ok().filter(|parsed| parsed.to_string() == count)?;
            return Some(Kind::Array(count));
        }
        let Some(inside) = name.strip_prefix('(') else {
            let is_key = |kind: &Kind| match kind {
                Kind::Integer { bytes, .. } => *bytes <= 8,
                kind => matches!(kind, Kind::Bytes | Kind::String),
            };
            return Kind::of_value(name).filter(is_key);
        };
        let parts = split(inside.strip_suffix(')')?)?;
        Some(Kind::Tuple(parts.into_iter().map(Kind::of_key).collect::<Option<_>>()?))
    }

    fn of_value(name: &str) -> Option<Kind> {
        let integer = |bytes, is_signed| Some(Kind::Integer { bytes, is_signed });
        match name {
            "u8" => integer(1, false),
            "i8" => integer(1, true),
            "u16" => integer(2, false),
            "i16" => integer(2, true),
            "u32" => integer(4, false),
            "i32" => integer(4, true),
            "u64" => integer(8, false),
            "i64" => integer(8, true),
            "u128" => integer(16, false),
            "i128" => integer(16, true),
            "f32" => Some(Kind::F32),
            "f64" => Some(Kind::F64),
            "bytes" => Some(Kind::Bytes),
            "string" => Some(Kind::String),
            "nothing" => Some(Kind::Nothing),
            _ => None,
        }
    }

    /// Takes bytes of this kind from the front and appends JSON for them; `last`: nothing follows in the same key.
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
            Kind::Tuple(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    part.write_json(role, last && at + 1 == parts.len(), bytes, out)?;
                }
                out.push(']');
            }
        }
        Some(())
    }

    /// Appends the bytes for which there is this JSON.
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
            Kind::Tuple(parts) => {
                let found: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
                if found.len() != parts.len() {
                    return Err(not(&format!("a list of {}", parts.len())));
                }
                for (at, (part, json)) in parts.iter().zip(found).enumerate() {
                    part.read_json(role, last && at + 1 == parts.len(), json.get(), out)?;
                }
            }
        }
        Ok(())
    }
}

/// The parts between the commas that are not in parentheses.
fn split(names: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in names.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(names[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(names[start..].trim());
    (depth == 0 && parts.len() > 1).then_some(parts)
}

/// Of an integer in keys, what turns the order of bytes into that of numbers.
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

/// The nearest number. (By the standard library, which rounds correctly; serde_json need not.)
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
    bytes.filter(|_| rest.is_empty()).ok_or_else(|| format!("{digits:?} is not pairs of hexadecimal digits"))
}

/// This many bytes.
fn array(digits: &str, count: usize) -> Result<Vec<u8>, Wrong> {
    let bytes = unhex(digits)?;
    let is_long = bytes.len() == count;
    is_long
        .then_some(bytes)
        .ok_or_else(|| format!("{digits:?} is not the hexadecimal digits of {count} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are written as `text`, and that is read to the same bytes, as JSON and as a cell.
    fn check(column: &Column, bytes: &[u8], text: &str) {
        let mut json = String::new();
        column.write_json(bytes, &mut json);
        assert_eq!(json, text);
        assert_eq!(column.read_json(&json).as_deref(), Ok(bytes), "{json}");
        if let Some(cell) = column.cell(bytes) {
            assert_eq!(column.read_cell(&cell).as_deref(), Ok(bytes), "{cell}");
        }
    }

    fn key<K: Key>(key: K, text: &str) {
        let mut bytes = Vec::new();
        key.encode(true, &mut bytes);
        check(&Column::keys(&K::type_name()), &bytes, text);
    }

    #[test]
    fn keys_have_their_natural_form() {
        // Proves that every type of keys is written and read, nested tuples and the ends of ranges included.
        key(0u8, "0");
        key(u16::MAX, "65535");
        key(7u32, "7");
        key(u64::MAX, "18446744073709551615");
        key(i8::MIN, "-128");
        key(-1i16, "-1");
        key(i32::MAX, "2147483647");
        key(i64::MIN, "-9223372036854775808");
        key(vec![0u8, 255], r#""00ff""#);
        key("a\"b\n\0é".to_string(), r#""a\"b\n\u0000é""#);
        key([1u8, 0, 255], r#""0100ff""#);
        key([7u8; 8], r#""0707070707070707""#);
        key(([0u8; 2], 5u8, [1u8]), r#"["0000",5,"01"]"#);
        key((1u32, "a\0".to_string()), r#"[1,"a\u0000"]"#);
        key(((vec![0u8], -1i8), "".to_string(), 5u64), r#"[["00",-1],"",5]"#);
    }

    #[test]
    fn values_have_their_natural_form() {
        // Proves that every type of values is written and read; numbers that JSON has not, as their bytes.
        let value = |name: &str, bytes: &[u8], text: &str| check(&Column::values(name), bytes, text);
        value("u8", &[200], "200");
        value("i16", &(-2i16).to_le_bytes(), "-2");
        value("u64", &u64::MAX.to_le_bytes(), "18446744073709551615");
        value("u128", &u128::MAX.to_le_bytes(), "340282366920938463463374607431768211455");
        value("i128", &i128::MIN.to_le_bytes(), "-170141183460469231731687303715884105728");
        value("f32", &0.1f32.to_le_bytes(), "0.1");
        value("f64", &f64::MIN_POSITIVE.to_le_bytes(), "2.2250738585072014e-308");
        value("f64", &(-0.0f64).to_le_bytes(), "-0.0");
        value("f64", &f64::INFINITY.to_le_bytes(), r#"{"hex":"000000000000f07f"}"#);
        value("bytes", &[], r#""""#);
        value("string", "hex:".as_bytes(), r#""hex:""#);
        value("nothing", &[], "null");
        value("my::Struct", &[1, 2], r#"{"hex":"0102"}"#);
        value("u64", &[1], r#"{"hex":"01"}"#);
        value("string", &[0xff], r#"{"hex":"ff"}"#);
    }

    #[test]
    fn what_is_no_text_of_the_type_is_refused() {
        // Proves that nothing is rounded, cut or guessed.
        for (name, json) in [
            ("u8", "256"),
            ("u8", "-1"),
            ("i8", "128"),
            ("u8", "1.0"),
            ("u8", r#""1""#),
            ("u8", "+1"),
            ("f64", "1e999"),
            ("f64", "inf"),
            ("bytes", r#""0""#),
            ("bytes", r#""0g""#),
            ("string", "1"),
            ("nothing", "0"),
            ("u8", r#"{"hex":"0"}"#),
            ("u8", r#"{"hex":"00","more":1}"#),
            ("my::Struct", "1"),
        ] {
            assert!(Column::values(name).read_json(json).is_err(), "{name} {json}");
        }
        for json in ["1", "[1]", r#"[1,"a",2]"#, r#"["a",1]"#] {
            assert!(Column::keys("(u32, string)").read_json(json).is_err(), "{json}");
        }
        for json in [r#""01""#, r#""010203""#, r#""01g2""#, "1"] {
            assert!(Column::keys("2 bytes").read_json(json).is_err(), "{json}");
        }
        assert_eq!(Column::keys("8 bytes").is_fixed8(), Some(true));
        assert_eq!(Column::keys("08 bytes").is_fixed8(), None);
        assert!(Column::values("my::Struct").read_cell("01").is_err());
        assert_eq!(Column::values("string").cell(&[0xff]), None, "a string's cell has no other form");
    }
}
