//! The encoding of values with `#[derive(Value)]`: the fields of a struct as in a tuple, or a variant's number and
//! its fields, then the version in two bytes, little-endian. The version is last, so that a reader finds it without
//! knowing the fields.

use super::fields::{Field, push, take};
use crate::error::{Error, Result};

const VERSION_BYTES: usize = size_of::<u16>();

/// Compares two names at compile time.
pub const fn is_same(one: &str, other: &str) -> bool {
    let (one, other, mut at) = (one.as_bytes(), other.as_bytes(), 0);
    if one.len() != other.len() {
        return false;
    }
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The bytes of a value that is being written.
#[derive(Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// Adds a field that is followed by others.
    pub fn field<V: Field>(&mut self, input: V::Input<'_>) -> Result<()> {
        push::<V>(input, &mut self.0)
    }

    /// Adds the last field.
    pub fn last<V: Field>(&mut self, input: V::Input<'_>) -> Result<()> {
        self.0.extend_from_slice(V::encode(input)?.as_ref());
        Ok(())
    }

    /// Returns the bytes of a value of this version.
    pub fn finish(mut self, version: u16) -> Vec<u8> {
        self.0.extend_from_slice(&version.to_le_bytes());
        self.0
    }
}

/// The bytes of a value that is being read.
#[derive(Debug)]
pub struct Decoder<'b> {
    rest: &'b [u8],
    version: u16,
    name: &'static str,
}

impl<'b> Decoder<'b> {
    /// Begins to read these bytes, which must be of the type with this name.
    pub fn new(name: &'static str, bytes: &'b [u8]) -> Result<Self> {
        let malformed = || Error::malformed(name, bytes.len());
        let (rest, version) = bytes.split_last_chunk::<VERSION_BYTES>().ok_or_else(malformed)?;
        Ok(Decoder { rest, version: u16::from_le_bytes(*version), name })
    }

    /// Returns the version of the type when the bytes were written.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns the bytes of the next field, which is followed by others.
    pub fn field<V: Field>(&mut self) -> Result<&'b [u8]> {
        take::<V>(&mut self.rest)
    }

    /// Returns the bytes of the last field.
    pub fn last(self) -> &'b [u8] {
        self.rest
    }

    /// Checks that there is no field.
    pub fn end(self) -> Result<()> {
        match self.rest {
            [] => Ok(()),
            rest => Err(Error::malformed(self.name, rest.len() + VERSION_BYTES)),
        }
    }
}
