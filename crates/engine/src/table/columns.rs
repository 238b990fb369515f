//! Builds the keys of a secondary index by columns from rows' bytes: a small interpreter of the definitions in the
//! catalog.
//!
//! Invariants:
//! - All versions that rows may have according to the catalog are known here before a row of them is written.
//! - The columns have the same types in every version.

use super::description::{Description, IndexInfo};
use super::field_type::{FieldType, tuple_of};
use super::fields::take_field;
use super::shape::{Shape, is_struct};
use crate::error::{Error, Result};
use std::sync::OnceLock;

/// The most columns: as many parts as a tuple of keys can have.
const COLUMNS_MAX: usize = 12;

/// Builds the keys of an index by columns.
pub(crate) struct Columns {
    pub(crate) info: IndexInfo,
    /// The types of the columns.
    types: Vec<FieldType>,
    layouts: Layouts,
}

/// Where the columns are in values of one version.
struct Layout {
    version: Option<u16>,
    /// The fields up to the last one that is a column.
    fields: Vec<FieldAt>,
}

struct FieldAt {
    /// The field's fixed length in bytes. `None` if the length varies and is written before the field.
    bytes: Option<usize>,
    /// The field is the value's last, and has all remaining bytes.
    is_last: bool,
    /// The part of the key that the field is, if it is one.
    part: Option<usize>,
}

/// A list that only grows, so that writers read it without a latch. Types have few versions.
#[derive(Default)]
struct Layouts(OnceLock<Box<(Layout, Layouts)>>);

impl Layouts {
    fn of(&self, version: Option<u16>) -> Option<&Layout> {
        let mut at = self;
        while let Some((layout, next)) = at.0.get().map(Box::as_ref) {
            if layout.version == version {
                return Some(layout);
            }
            at = next;
        }
        None
    }

    fn add(&self, layout: Layout) {
        let (mut at, mut left) = (self, Box::new((layout, Layouts::default())));
        while let Err(back) = at.0.set(left) {
            left = back;
            at = &at.0.get().expect("it was not set, as it is").1;
        }
    }
}

impl Columns {
    /// Returns the requested index, with its columns' types in the newest version of the table's values. Otherwise
    /// returns why the index cannot exist.
    pub(crate) fn resolve(asked: &IndexInfo, description: &Description) -> Result<IndexInfo, String> {
        let mut info = asked.clone();
        let shapes = Shape::all_of(description);
        let newest = shapes.last().ok_or_else(|| {
            format!(
                "values of the type {} have no columns that the database knows: derive Value for them, or use tuples",
                description.types.1
            )
        })?;
        if !(1..=COLUMNS_MAX).contains(&info.columns.len()) {
            return Err(format!("an index is by 1 to {COLUMNS_MAX} columns"));
        }
        for at in 0..info.columns.len() {
            let name = &info.columns[at].name;
            if info.columns[..at].iter().any(|before| before.name == *name) {
                return Err(format!("column {name:?} is there twice"));
            }
            let found = newest.fields.iter().find(|field| field.0 == *name);
            let (_, type_name) = found.ok_or_else(|| no_column(newest, name))?;
            let is_struct = |name: &str| is_struct(&description.definitions, name);
            if FieldType::named(type_name, &is_struct).and_then(|of| of.key_type()).is_none() {
                return Err(format!("column {name:?} is of the type {type_name}, which is no type of keys"));
            }
            info.columns[at].type_name = (*type_name).to_owned();
        }
        Ok(info)
    }

    /// Makes the builder of this index's keys, with no version known yet.
    pub(crate) fn new(info: &IndexInfo) -> Result<Columns, String> {
        let of = |name: &str| FieldType::named(name, &|_| false).filter(|of| of.key_type().is_some());
        let types = info.columns.iter().map(|column| {
            let unknown = || format!("{} is no type of keys that is known", column.type_name);
            of(&column.type_name).ok_or_else(unknown)
        });
        let types = types.collect::<Result<Vec<_>, String>>()?;
        if !(1..=COLUMNS_MAX).contains(&types.len()) {
            return Err(format!("an index is by 1 to {COLUMNS_MAX} columns"));
        }
        Ok(Columns { info: info.clone(), types, layouts: Layouts::default() })
    }

    /// Returns the name of the type of its keys.
    pub(crate) fn key_type(&self) -> String {
        let of = match &self.types[..] {
            [of] => of.key_type(),
            parts => tuple_of(parts),
        };
        of.expect("types of keys")
    }

    /// Learns all versions that rows may have by this description. If the index cannot have rows of one of them,
    /// returns the reason and learns nothing. One call at a time.
    pub(crate) fn learn(&self, description: &Description) -> Result<(), String> {
        let news = self.news(description)?;
        news.into_iter().for_each(|layout| self.layouts.add(layout));
        Ok(())
    }

    /// Checks that the versions not yet known could be learned.
    pub(crate) fn check(&self, description: &Description) -> Result<(), String> {
        self.news(description).map(drop)
    }

    fn news(&self, description: &Description) -> Result<Vec<Layout>, String> {
        let shapes = Shape::all_of(description);
        if shapes.is_empty() {
            return Err(format!("values of the type {} have no columns", description.types.1));
        }
        let news = shapes.iter().filter(|shape| self.layouts.of(shape.version).is_none());
        news.map(|shape| self.layout(shape, &description.definitions)).collect()
    }

    fn layout(&self, shape: &Shape<'_>, definitions: &[String]) -> Result<Layout, String> {
        let mut ends = 0;
        for column in &self.info.columns {
            let at = shape.fields.iter().position(|field| field.0 == column.name);
            let at = at.ok_or_else(|| no_column(shape, &column.name))?;
            if shape.fields[at].1 != column.type_name {
                let (line, name) = (shape.line, &column.name);
                return Err(format!(
                    "column {name:?} is {} here, and {} in {line}",
                    column.type_name, shape.fields[at].1
                ));
            }
            ends = ends.max(at + 1);
        }
        let is_struct = |name: &str| is_struct(definitions, name);
        let field = |(at, (name, type_name)): (usize, &(String, &str))| {
            let unknown = || format!("of field {name:?} in {} it is not known how long it is", shape.line);
            let of = FieldType::named(type_name, &is_struct).ok_or_else(unknown)?;
            let part = self.info.columns.iter().position(|column| column.name == *name);
            Ok(FieldAt { bytes: of.bytes(), is_last: at + 1 == shape.fields.len(), part })
        };
        let fields = shape.fields[..ends].iter().enumerate().map(field).collect::<Result<_, String>>()?;
        Ok(Layout { version: shape.version, fields })
    }

    /// Appends the key of a row with this value.
    pub(crate) fn extract(&self, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (layout, mut rest) = self.layout_of(value)?;
        let mut parts = [&[][..]; COLUMNS_MAX];
        for field in &layout.fields {
            let bytes = match field.is_last {
                true => std::mem::take(&mut rest),
                false => take_field(field.bytes, "indexed column", &mut rest)?,
            };
            if let Some(part) = field.part {
                parts[part] = bytes;
            }
        }
        debug_assert!(self.types.len() <= COLUMNS_MAX);
        let end = self.types.len() - 1;
        for (at, (of, bytes)) in self.types.iter().zip(parts).enumerate() {
            of.encode(bytes, at == end && self.info.is_unique, out)?;
        }
        Ok(())
    }

    /// Returns the layout for this value's version, and the value's fields.
    fn layout_of<'v>(&self, value: &'v [u8]) -> Result<(&Layout, &'v [u8])> {
        if let Some(layout) = self.layouts.of(None) {
            return Ok((layout, value));
        }
        let found = value.split_last_chunk().and_then(|(fields, version)| {
            Some((self.layouts.of(Some(u16::from_le_bytes(*version)))?, fields))
        });
        found.ok_or_else(|| Error::malformed("value of a version that the table has", value.len()))
    }
}

fn no_column(shape: &Shape<'_>, name: &str) -> String {
    format!("there is no column {name:?} in {}", shape.line)
}
