//! The known fields of a table's values: from the definitions in the catalog, for each version that rows may have, or
//! from the name of a type of tuples.

use super::definitions;
use super::description::Description;
use super::field_type::parts_of_tuple;
use super::variants::split;

/// The fields of a version of a type.
pub(crate) struct Shape<'d> {
    /// `None` if values have no version, because they are tuples.
    pub(crate) version: Option<u16>,
    /// The names of the fields and the names of their types, in order.
    pub(crate) fields: Vec<(String, &'d str)>,
    /// The definition as text: `user 2: {name: string}`.
    pub(crate) line: &'d str,
}

impl<'d> Shape<'d> {
    /// Returns the shapes of a table's values, one for each version that rows may have, newest last. Empty if the
    /// values have no fields by name.
    pub(crate) fn all_of(description: &'d Description) -> Vec<Shape<'d>> {
        let value_type = description.types.1.as_str();
        if let Some(parts) = parts_of_tuple(value_type) {
            let fields = parts.enumerate().map(|(at, part)| (at.to_string(), part)).collect();
            return vec![Shape { version: None, fields, line: value_type }];
        }
        let of_line = |line: &'d String| {
            let (name, version, shape) = definitions::split(line)?;
            let field = |part: &'d str| part.split_once(": ").map(|(name, of)| (name.to_owned(), of));
            // Each of an enum's variants has fields of its own.
            let fields = match shape.strip_prefix('{').and_then(|shape| shape.strip_suffix('}')) {
                Some(inside) => split(inside).map(field).collect::<Option<_>>()?,
                None => Vec::new(),
            };
            (name == value_type).then_some(Shape { version: Some(version), fields, line })
        };
        let mut shapes: Vec<_> = description.definitions.iter().filter_map(of_line).collect();
        shapes.sort_by_key(|shape| shape.version);
        shapes
    }
}

/// Returns true if these definitions have a struct of this name.
pub(crate) fn is_struct(lines: &[String], name: &str) -> bool {
    lines.iter().any(|line| definitions::split(line).is_some_and(|(of, ..)| of == name))
}
