//! Definitions of named types. The catalog keeps those of a table's values, to detect a type whose shape has changed.

use super::variants;
use crate::error::Error;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The named types that a table's values contain, each with its versions. [`Value::define`](crate::Value::define)
/// fills it.
///
/// A definition is a line of text: the type's name, version and shape, such as `user 2: {name: string, age: u32}`.
/// The definition of an enum has each variant with its number, such as `event 1: one of u8 (Created {at: u64} = 1,
/// Closed = 2)`, and more variants can be added.
#[derive(Debug, Default)]
pub struct Definitions {
    known: BTreeMap<(String, u16), Definition>,
    /// The types being added are of an earlier version, which is read and no longer written.
    is_earlier: bool,
    /// The types being added. Each contains the next.
    open: Vec<(String, u16)>,
    /// Two shapes under one name and version, or a type within itself.
    conflict: Option<Disagreement>,
}

#[derive(Debug)]
struct Definition {
    shape: String,
    is_written: bool,
}

/// Definitions that cannot belong to one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disagreement {
    Shapes {
        /// An existing definition.
        existing: String,
        /// The program's definition under the same name and version, if it has one.
        requested: Option<String>,
    },
    /// A type that contains itself. Its values could be nested without end.
    Recursive { name: String },
}

impl Disagreement {
    pub(crate) fn of_table(self, table: &str) -> Error {
        let table = table.into();
        match self {
            Disagreement::Shapes { existing, requested } => {
                Error::ShapeMismatch { table, existing, requested }
            }
            Disagreement::Recursive { name } => Error::RecursiveType { table, name },
        }
    }
}

impl Definitions {
    /// Adds a version of a type. Returns true if it was not known, or known only as an earlier version. The caller
    /// then adds the types of its fields and its earlier versions, and calls [`end`](Self::end).
    pub fn add(&mut self, name: &str, version: u16, shape: String) -> bool {
        let is_written = !self.is_earlier;
        let is_news = self.note(name, version, shape, is_written);
        if is_news {
            self.open.push((name.into(), version));
        } else if self.open.iter().any(|(open, of)| (open.as_str(), *of) == (name, version)) {
            self.conflict.get_or_insert_with(|| Disagreement::Recursive { name: name.into() });
        }
        is_news
    }

    /// Ends the type that was begun last and has not ended. All of it has been added.
    pub fn end(&mut self) {
        self.open.pop();
    }

    fn note(&mut self, name: &str, version: u16, shape: String, is_written: bool) -> bool {
        match self.known.entry((name.into(), version)) {
            Entry::Vacant(place) => {
                place.insert(Definition { shape, is_written });
                true
            }
            Entry::Occupied(known) if known.get().shape != shape => {
                self.conflict.get_or_insert_with(|| Disagreement::Shapes {
                    existing: line(known.key(), &known.get().shape),
                    requested: Some(line(known.key(), &shape)),
                });
                false
            }
            Entry::Occupied(mut known) => {
                let is_news = is_written && !known.get().is_written;
                known.get_mut().is_written |= is_written;
                is_news
            }
        }
    }

    /// Adds what `define` adds as earlier versions, which are read and no longer written.
    pub fn earlier(&mut self, define: impl FnOnce(&mut Definitions)) {
        let was_earlier = std::mem::replace(&mut self.is_earlier, true);
        define(self);
        self.is_earlier = was_earlier;
    }

    /// Parses `lines` as definitions that are written. Returns a line that is not a definition as the error.
    pub(crate) fn of_lines(lines: &[String]) -> Result<Definitions, String> {
        let mut definitions = Definitions::default();
        for text in lines {
            let (name, version, shape) = split(text).ok_or_else(|| text.clone())?;
            definitions.note(name, version, shape.into(), true);
        }
        Ok(definitions)
    }

    /// Returns the definitions that are written, as lines.
    pub(crate) fn written(&self) -> Vec<String> {
        let written = self.known.iter().filter(|(_, definition)| definition.is_written);
        written.map(|(key, definition)| line(key, &definition.shape)).collect()
    }

    /// Returns what remains of a catalog with the lines `existing` when no row is of an earlier version. Definitions
    /// that are not known here were added by other programs, and stay.
    pub(crate) fn migrated(&self, existing: &[String]) -> Vec<String> {
        let kept = existing.iter().filter_map(|text| match self.known_as(text) {
            None => Some(text.clone()),
            Some((_, definition)) if !definition.is_written => None,
            Some((key, definition)) => {
                let own = line(key, &definition.shape);
                Some(variants::joined(text, &own).unwrap_or(own))
            }
        });
        self.with_written(kept.collect())
    }

    /// Returns what a catalog with the lines `existing` must have when the table is used with these types. Fails if
    /// there may be rows that these types misread. With `is_partial`, missing types do not matter.
    pub(crate) fn joined(&self, existing: &[String], is_partial: bool) -> Result<Vec<String>, Disagreement> {
        if let Some(conflict) = &self.conflict {
            return Err(conflict.clone());
        }
        let mut joined = Vec::new();
        for text in existing {
            let own = self.known_as(text).map(|(key, definition)| line(key, &definition.shape));
            let both = own.as_ref().and_then(|own| variants::joined(text, own));
            match both {
                Some(both) => joined.push(both),
                None if own.is_none() && (is_partial || self.is_beyond(text)) => joined.push(text.clone()),
                None => {
                    return Err(Disagreement::Shapes { existing: text.clone(), requested: own });
                }
            }
        }
        Ok(self.with_written(joined))
    }

    /// Returns true if a line is of a type of which no version is known here. If everything else agrees, its values
    /// are only in variants that are also unknown. The contents of a struct or a known variant are known, because its
    /// shape includes them.
    fn is_beyond(&self, text: &str) -> bool {
        split(text).is_some_and(|(name, ..)| !self.known.keys().any(|(known, _)| known == name))
    }

    /// Returns the definition here of a line's type and version.
    fn known_as(&self, text: &str) -> Option<(&(String, u16), &Definition)> {
        let (name, version, _) = split(text)?;
        self.known.get_key_value(&(name.into(), version))
    }

    /// Adds to these lines the written definitions that none of them is of.
    fn with_written(&self, mut lines: Vec<String>) -> Vec<String> {
        let head = |text: &str| split(text).map(|(name, version, _)| (name.to_owned(), version));
        let is_new = |own: &String| !lines.iter().any(|text| head(text) == head(own));
        let mut new: Vec<_> = self.written().into_iter().filter(is_new).collect();
        lines.append(&mut new);
        lines.sort();
        lines
    }
}

fn line((name, version): &(String, u16), shape: &str) -> String {
    format!("{name} {version}: {shape}")
}

/// Splits a definition into name, version and shape.
pub(super) fn split(line: &str) -> Option<(&str, u16, &str)> {
    let (head, shape) = line.split_once(": ")?;
    let (name, digits) = head.rsplit_once(' ')?;
    let version: u16 = digits.parse().ok()?;
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_inner);
    let is_shape = shape.starts_with('{') && shape.ends_with('}')
        || shape.starts_with("one of ") && shape.ends_with(')');
    (is_name && is_shape && version > 0 && version.to_string() == digits).then_some((name, version, shape))
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    fn user(version: u16, shape: &str) -> Definitions {
        let mut definitions = Definitions::default();
        assert!(definitions.add("user", version, shape.into()));
        definitions.end();
        definitions
    }

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    /// Proves that a shape may not change under its version, in the catalog or within a program.
    #[test]
    fn one_shape_for_each_version() {
        let existing = lines(&["user 1: {name: string}"]);
        assert_eq!(user(1, "{name: string}").joined(&existing, false), Ok(existing.clone()));
        let changed = user(1, "{name: string, age: u32}").joined(&existing, false).unwrap_err();
        let requested = Some("user 1: {name: string, age: u32}".to_owned());
        assert_eq!(changed, Disagreement::Shapes { existing: existing[0].clone(), requested });
        let mut twice = user(1, "{name: string}");
        assert!(!twice.add("user", 1, "{name: string}".into()), "no news");
        assert!(twice.joined(&[], false).is_ok());
        twice.add("user", 1, "{}".into());
        assert!(twice.joined(&[], false).is_err());
    }

    /// Proves that a version is added beside those that rows may still have, and that the program must know all of
    /// them.
    #[test]
    fn versions_add_up() {
        let existing = lines(&["user 1: {name: string}"]);
        let unknown = user(2, "{age: u32}").joined(&existing, false).unwrap_err();
        assert_eq!(unknown, Disagreement::Shapes { existing: existing[0].clone(), requested: None });
        assert!(user(2, "{age: u32}").joined(&existing, true).is_ok(), "a tool need not know it");
        let mut both = user(2, "{age: u32}");
        both.earlier(|to| {
            assert!(to.add("user", 1, "{name: string}".into()));
            to.end();
        });
        let joined = both.joined(&existing, false).unwrap();
        assert_eq!(joined, lines(&["user 1: {name: string}", "user 2: {age: u32}"]));
        assert_eq!(both.joined(&[], false).unwrap(), lines(&["user 2: {age: u32}"]), "never written");
        let more = lines(&["user 1: {name: string}", "user 2: {age: u32}", "user 3: {}"]);
        assert_eq!(both.migrated(&more), more[1..], "another program's version stays");
        assert!(both.add("user", 1, "{name: string}".into()), "written after all");
    }

    /// Proves that a type that contains itself, directly or through others, is detected, and a type that occurs twice
    /// is not.
    #[test]
    fn types_within_themselves() {
        let mut definitions = Definitions::default();
        let add = |to: &mut Definitions, name: &str| to.add(name, 1, "{}".into());
        assert!(add(&mut definitions, "tree") && add(&mut definitions, "leaf"));
        definitions.end();
        assert!(!add(&mut definitions, "leaf"));
        assert!(definitions.joined(&[], false).is_ok());
        assert!(!add(&mut definitions, "tree"));
        let told = Disagreement::Recursive { name: "tree".into() };
        assert_eq!(definitions.joined(&[], false).unwrap_err(), told);
    }

    /// Proves that variants are added under the same version, by whichever program, and that a known variant may not
    /// change.
    #[test]
    fn variants_add_up() {
        let event = |shape: &str| {
            let mut definitions = Definitions::default();
            assert!(definitions.add("event", 1, shape.into()));
            definitions.end();
            definitions
        };
        let existing = lines(&["event 1: one of u8 (A = 1)", "user 1: {}"]);
        let more = event("one of u8 (A = 1, B {x: u8} = 2)").joined(&existing, true).unwrap();
        assert_eq!(more, lines(&["event 1: one of u8 (A = 1, B {x: u8} = 2)", "user 1: {}"]));
        let fewer = event("one of u8 (A = 1)");
        assert_eq!(fewer.joined(&more, true).unwrap(), more);
        assert_eq!(fewer.migrated(&more), more);
        assert_eq!(
            fewer.joined(&more, false).unwrap(),
            more,
            "values of an unknown type are in unknown variants alone"
        );
        let changed = event("one of u8 (A = 1, B {x: u16} = 2)");
        let requested = Some("event 1: one of u8 (A = 1, B {x: u16} = 2)".to_owned());
        let told = Disagreement::Shapes { existing: more[0].clone(), requested };
        assert_eq!(changed.joined(&more, true).unwrap_err(), told);
    }

    /// Proves that lines from a file are read back if they are definitions, and refused otherwise.
    #[test]
    fn lines_are_read_back() {
        let texts =
            lines(&["a.b 65535: {x: option of u8}", "event 1: one of u8 (A = 1)", "user 1: {name: string}"]);
        assert_eq!(Definitions::of_lines(&texts).unwrap().written(), texts);
        for wrong in [
            "",
            "user",
            "user 1",
            "user 1:",
            "user: {}",
            "user 65536: {}",
            "user -1: {}",
            "user 0: {}",
            "user +1: {}",
            "user 01: {}",
            "user 1: ",
            "user 1: {",
            "user 1: one of u8 (A = 1",
            "user 1: u8",
            "1 1: {}",
            "a b 1: {}",
            "\n 1: {}",
            " 1: {}",
        ] {
            assert_eq!(Definitions::of_lines(&lines(&[wrong])).unwrap_err(), wrong);
        }
    }
}
