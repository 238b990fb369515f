//! Types of keys and values by the names that the catalog has.

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
    /// An array of this many bytes.
    Array(usize),
    String,
    Nothing,
    Option(Box<Kind>),
    /// An array with this many elements of a kind. Only in keys.
    List(Box<Kind>, usize),
    Tuple(Vec<Kind>),
    /// Any number of elements of a kind. Only in values.
    Sequence(Box<Kind>),
    /// An enum. Only in keys. Its text is an object with one member, named after the variant. The member's value is an
    /// object with the variant's fields.
    OneOf(OneOf),
    /// A named type. Only in values. Its text is an object with its fields, or as for `OneOf`. If the version is not
    /// the newest, the object begins with the version as `"@version"`.
    Named(Named),
}

/// Types that are written as byte arrays, with their sizes in bytes.
pub const OPAQUE: [(&str, usize); 6] =
    [("uuid", 16), ("timestamp", 12), ("date", 6), ("time", 7), ("datetime", 13), ("duration", 12)];

/// Longer type names and longer definitions are not parsed, because they come from files.
const NAME_BYTES_MAX: usize = 4096;
const DEFINITION_BYTES_MAX: usize = 1 << 16;

/// Names and kinds of fields, in order.
pub type Fields = Vec<(String, Kind)>;

impl Kind {
    /// The kind of keys whose type has this name.
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

    /// The kind of values whose type has this name, under these definitions.
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

    /// The kind of keys or values; `of` gives the kinds of their parts. `tuple` is the beginning of a tuple's name.
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

    /// The size of a field of this kind in a value. `None` if the size varies and is written before the field.
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
    /// The kind of the numbers, an integer.
    pub number: Box<Kind>,
    pub variants: Vec<Variant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    /// The number as text.
    pub number: String,
    pub fields: Fields,
}

/// The beginning of the names of types with variants.
const ONE_OF: &str = "one of ";

impl OneOf {
    /// The type with this name; `of` gives the kinds of its fields.
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
    /// Parses a variant such as `Created {at: u64} = 1`.
    fn of(text: &str, of: &dyn Fn(&str) -> Option<Kind>) -> Option<Variant> {
        let (head, number) = text.rsplit_once(" = ")?;
        let (name, fields) = match head.split_once(" {") {
            None => (head, Vec::new()),
            Some((name, text)) => (name, fields(text.strip_suffix('}')?, of)?),
        };
        Some(Variant { name: name.into(), number: number.into(), fields })
    }
}

/// Parses fields such as `at: u64, by: string`.
fn fields(text: &str, of: &dyn Fn(&str) -> Option<Kind>) -> Option<Fields> {
    let parts = split(text)?.into_iter().filter(|part| !part.is_empty());
    let field = |part: &str| {
        let (name, type_name) = part.split_once(": ")?;
        Some((name.to_owned(), of(type_name)?))
    };
    parts.map(field).collect()
}

/// A type with known definitions.
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
    /// The version that a program writes if it has all of these versions.
    pub fn newest(&self) -> &Shape {
        self.versions.last().expect("there is one")
    }

    pub fn version(&self, version: u16) -> Option<&Shape> {
        self.versions.iter().find(|shape| shape.version == version)
    }
}

/// The limit on named types that are looked up while a type is read. Definitions come from files, and may refer to each
/// other endlessly.
const LOOK_UPS_MAX: usize = 256;

/// Definitions of types: lines such as `user 2: {name: string, age: u32}` and
/// `event 1: one of u8 (Created {at: u64} = 1, Closed = 2)`.
pub struct Shapes<'d> {
    lines: &'d [String],
    look_ups_left: Cell<usize>,
}

impl<'d> Shapes<'d> {
    pub fn new(lines: &'d [String]) -> Shapes<'d> {
        Shapes { lines, look_ups_left: Cell::new(LOOK_UPS_MAX) }
    }

    /// The type with this name, if all parts of all its versions are known.
    pub fn find(&self, name: &str) -> Option<Named> {
        let mut versions = Vec::new();
        for line in self.lines {
            if let Some((version, shape)) = of_line(line, name) {
                // All versions are needed to know which one is the newest.
                (line.len() <= DEFINITION_BYTES_MAX).then_some(())?;
                self.look_ups_left.set(self.look_ups_left.get().checked_sub(1)?);
                versions.push(Shape { version, content: self.content(shape)? });
            }
        }
        versions.sort_by_key(|shape| shape.version);
        (!versions.is_empty()).then_some(Named { versions })
    }

    fn content(&self, shape: &str) -> Option<Content> {
        // The encoding of serde is not known here.
        let of = |type_name: &str| match type_name {
            "serde" => Some(Kind::Bytes),
            type_name => Kind::of_value(type_name, self),
        };
        let Some(text) = shape.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
            return OneOf::named(shape, &of).map(Content::OneOf);
        };
        let fields = fields(text, &of)?;
        // The text of such a struct would look like raw bytes.
        (!matches!(&*fields, [(name, _)] if name == "hex")).then_some(Content::Fields(fields))
    }
}

/// The version and the shape in a line that defines the type with this name.
fn of_line<'l>(line: &'l str, name: &str) -> Option<(u16, &'l str)> {
    let (version, shape) = line.strip_prefix(name)?.strip_prefix(' ')?.split_once(": ")?;
    Some((version.parse().ok()?, shape))
}

/// Parses a count, which has one spelling.
fn number(count: &str) -> Option<usize> {
    count.parse::<usize>().ok().filter(|parsed| parsed.to_string() == count)
}

/// Splits at the commas that are not in parentheses or braces.
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
