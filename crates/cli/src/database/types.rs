//! Types of keys and values by their names, as the catalog has them.

use braiddb::KEY_BYTES_MAX;
use std::cell::Cell;
use std::collections::BTreeSet;

/// A type that is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    F32,
    F64,
    Bool,
    Char,
    Bytes,
    /// This many bytes.
    Array(usize),
    String,
    Nothing,
    Option(Box<Kind>),
    /// This many of a kind, in keys alone.
    List(Box<Kind>, usize),
    Tuple(Vec<Kind>),
    /// Any number of a kind, in values alone.
    Sequence(Box<Kind>),
    /// In keys alone: an object with one member, which has the variant's name and is an object with its fields.
    OneOf(OneOf),
    /// In values alone: an object with its fields, or as `OneOf`. Of another version than the newest one, with that in front, as
    /// `"@version"`.
    Named(Named),
}

/// Types of this many bytes that are written as these.
pub const OPAQUE: [(&str, usize); 6] =
    [("uuid", 16), ("timestamp", 12), ("date", 6), ("time", 7), ("datetime", 13), ("duration", 12)];

/// Longer names of types are not looked into, and no longer definitions: they come from files.
const NAME_BYTES_MAX: usize = 4096;
const DEFINITION_BYTES_MAX: usize = 1 << 16;

/// Names and kinds, in order.
pub type Fields = Vec<(String, Kind)>;

impl Kind {
    /// Keys of the type that has this name.
    pub fn of_key(name: &str) -> Option<Kind> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if let Some(inside) = name.strip_prefix('[') {
            let (of, count) = inside.strip_suffix(']')?.rsplit_once("; ")?;
            let count = number(count).filter(|count| *count <= KEY_BYTES_MAX)?;
            return Some(Kind::List(Box::new(Kind::of_key(of)?), count));
        }
        if name.starts_with(ONE_OF) {
            return OneOf::named(name, &Kind::of_key).map(Kind::OneOf);
        }
        let is_none = |kind: &Kind| matches!(kind, Kind::F32 | Kind::F64 | Kind::Nothing);
        Kind::composed(name, "(", &Kind::of_key).filter(|kind| !is_none(kind))
    }

    /// Values of the type that has this name, where there are these definitions.
    pub fn of_value(name: &str, shapes: &Shapes<'_>) -> Option<Kind> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if let Some(of_what) = name.strip_prefix("list of ") {
            let of = Kind::of_value(of_what, shapes)?;
            return (of.field_bytes() != Some(0)).then(|| Kind::Sequence(Box::new(of)));
        }
        let of_part = |part: &str| Kind::of_value(part, shapes);
        Kind::composed(name, "fields (", &of_part).or_else(|| shapes.find(name).map(Kind::Named))
    }

    /// Of keys or of values, as `of` knows their parts. `tuple`: how the name of one begins.
    fn composed(name: &str, tuple: &str, of: &dyn Fn(&str) -> Option<Kind>) -> Option<Kind> {
        if let Some(of_what) = name.strip_prefix("option of ") {
            return Some(Kind::Option(Box::new(of(of_what)?)));
        }
        if let Some(inside) = name.strip_prefix(tuple) {
            let parts = split(inside.strip_suffix(')')?)?;
            let is_tuple = parts.len() > 1;
            return Some(Kind::Tuple(parts.into_iter().map(of).collect::<Option<_>>()?)).filter(|_| is_tuple);
        }
        match name.strip_suffix(" bytes") {
            Some(count) => number(count).map(Kind::Array),
            None => Kind::simple(name),
        }
    }

    fn simple(name: &str) -> Option<Kind> {
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
            "bool" => Some(Kind::Bool),
            "char" => Some(Kind::Char),
            name => OPAQUE.iter().find(|opaque| opaque.0 == name).map(|opaque| Kind::Array(opaque.1)),
        }
    }

    /// How many bytes each has as a field of a value; none: that depends, and is written in front of it.
    pub fn field_bytes(&self) -> Option<usize> {
        match self {
            Kind::Integer { bytes, .. } | Kind::Array(bytes) => Some(*bytes),
            Kind::Bool => Some(1),
            Kind::F32 | Kind::Char => Some(4),
            Kind::F64 => Some(8),
            Kind::Nothing => Some(0),
            Kind::Tuple(parts) => {
                parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.field_bytes()?))
            }
            Kind::Bytes | Kind::String | Kind::Option(_) | Kind::List(..) => None,
            Kind::Sequence(_) | Kind::OneOf(_) | Kind::Named(_) => None,
        }
    }
}

/// A type with variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOf {
    /// An integer.
    pub number: Box<Kind>,
    pub variants: Vec<Variant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    /// As text.
    pub number: String,
    pub fields: Fields,
}

/// What the name of a type with variants begins with.
const ONE_OF: &str = "one of ";

impl OneOf {
    /// The type that has this name, where `of` knows those of fields.
    fn named(name: &str, of: &dyn Fn(&str) -> Option<Kind>) -> Option<OneOf> {
        let (number, variants) = name.strip_prefix(ONE_OF)?.strip_suffix(')')?.split_once(" (")?;
        let number = Kind::simple(number).filter(|kind| matches!(kind, Kind::Integer { .. }))?;
        let variants = split(variants)?.into_iter().map(|variant| Variant::of(variant, of));
        let variants: Vec<_> = variants.collect::<Option<_>>()?;
        let count = |of: fn(&Variant) -> &str| variants.iter().map(of).collect::<BTreeSet<_>>().len();
        let are_unique =
            [count(|variant| &variant.name), count(|variant| &variant.number)] == [variants.len(); 2];
        are_unique.then_some(OneOf { number: Box::new(number), variants })
    }
}

impl Variant {
    /// The variant of a text as `Created {at: u64} = 1`.
    fn of(text: &str, of: &dyn Fn(&str) -> Option<Kind>) -> Option<Variant> {
        let (head, number) = text.rsplit_once(" = ")?;
        let (name, fields) = match head.split_once(" {") {
            None => (head, Vec::new()),
            Some((name, text)) => (name, fields(text.strip_suffix('}')?, of)?),
        };
        Some(Variant { name: name.into(), number: number.into(), fields })
    }
}

/// The fields of a text as `at: u64, by: string`.
fn fields(text: &str, of: &dyn Fn(&str) -> Option<Kind>) -> Option<Fields> {
    let parts = split(text)?.into_iter().filter(|part| !part.is_empty());
    let field = |part: &str| {
        let (name, type_name) = part.split_once(": ")?;
        Some((name.to_owned(), of(type_name)?))
    };
    parts.map(field).collect()
}

/// A type of which definitions are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// In ascending order; never empty.
    versions: Vec<Shape>,
}

/// A version of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub version: u16,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Fields(Fields),
    OneOf(OneOf),
}

impl Named {
    /// What a program writes that has all of these.
    pub fn newest(&self) -> &Shape {
        self.versions.last().expect("there is one")
    }

    pub fn version(&self, version: u16) -> Option<&Shape> {
        self.versions.iter().find(|shape| shape.version == version)
    }
}

/// Named types that are looked up while a type is read: definitions come from files, and may refer to each other without an end.
const LOOK_UPS_MAX: usize = 256;

/// Definitions of types: lines as `user 2: {name: string, age: u32}`, and `event 1: one of u8 (Created {at: u64} = 1, Closed = 2)`.
pub struct Shapes<'d> {
    lines: &'d [String],
    look_ups_left: Cell<usize>,
}

impl<'d> Shapes<'d> {
    pub fn new(lines: &'d [String]) -> Shapes<'d> {
        Shapes { lines, look_ups_left: Cell::new(LOOK_UPS_MAX) }
    }

    /// The type of this name, if all is known of all its versions.
    pub fn find(&self, name: &str) -> Option<Named> {
        let mut versions = Vec::new();
        for line in self.lines {
            if let Some((version, shape)) = of_line(line, name) {
                // (Without all versions, it would not be known which is the newest.)
                (line.len() <= DEFINITION_BYTES_MAX).then_some(())?;
                self.look_ups_left.set(self.look_ups_left.get().checked_sub(1)?);
                versions.push(Shape { version, content: self.content(shape)? });
            }
        }
        versions.sort_by_key(|shape| shape.version);
        (!versions.is_empty()).then_some(Named { versions })
    }

    fn content(&self, shape: &str) -> Option<Content> {
        // (What serde has encoded is not known here.)
        let of = |type_name: &str| match type_name {
            "serde" => Some(Kind::Bytes),
            type_name => Kind::of_value(type_name, self),
        };
        let Some(text) = shape.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
            return OneOf::named(shape, &of).map(Content::OneOf);
        };
        let fields = fields(text, &of)?;
        // Such a struct could not be told from bytes as they are.
        (!matches!(&*fields, [(name, _)] if name == "hex")).then_some(Content::Fields(fields))
    }
}

/// Version and shape of a line that defines the type of this name.
fn of_line<'l>(line: &'l str, name: &str) -> Option<(u16, &'l str)> {
    let (version, shape) = line.strip_prefix(name)?.strip_prefix(' ')?.split_once(": ")?;
    Some((version.parse().ok()?, shape))
}

/// A count, which has one spelling.
fn number(count: &str) -> Option<usize> {
    count.parse::<usize>().ok().filter(|parsed| parsed.to_string() == count)
}

/// The parts between the commas that are not in parentheses or braces.
fn split(names: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in names.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(names[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(names[start..].trim());
    (depth == 0).then_some(parts)
}
