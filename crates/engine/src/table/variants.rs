//! Types with several variants, by name: `one of u8 (Created {at: u64} = 1, Closed = 2)`. Each variant has a number.
//! One program may know more of such a type than another. They agree if every number or name that both have belongs
//! to the same variant in both.

/// The text before the type of the numbers.
const ONE_OF: &str = "one of ";

/// How many levels of nested types are read, because names also come from files.
const DEPTH_MAX: usize = 32;

/// Returns the name of a type, or its definition, with the variants of both, those of `existing` first. `None` if
/// they do not agree.
pub(crate) fn joined(existing: &str, requested: &str) -> Option<String> {
    joined_within(existing, requested, DEPTH_MAX)
}

fn joined_within(mut existing: &str, mut requested: &str, depth_max: usize) -> Option<String> {
    let mut joined = String::new();
    while existing != requested {
        let (held, wanted) = (OneOf::first_in(existing)?, OneOf::first_in(requested)?);
        if held.before != wanted.before || depth_max == 0 {
            return None;
        }
        joined.push_str(held.before);
        joined.push_str(&variants(&held, &wanted, depth_max - 1)?);
        joined.push(')');
        (existing, requested) = (held.after, wanted.after);
    }
    joined.push_str(existing);
    Some(joined)
}

/// Returns all variants of both.
fn variants(held: &OneOf<'_>, wanted: &OneOf<'_>, depth_max: usize) -> Option<String> {
    let mut all = Vec::new();
    for variant in &held.variants {
        match wanted.same(variant)? {
            None => all.push(variant.text.to_owned()),
            Some(same) => all.push(joined_within(variant.text, same.text, depth_max)?),
        }
    }
    for variant in &wanted.variants {
        if held.same(variant)?.is_none() {
            all.push(variant.text.to_owned());
        }
    }
    Some(all.join(", "))
}

/// A type with variants, in a text.
struct OneOf<'t> {
    /// The text up to the parenthesis before the variants.
    before: &'t str,
    variants: Vec<Variant<'t>>,
    /// The text after the closing parenthesis.
    after: &'t str,
}

#[derive(Clone, Copy)]
struct Variant<'t> {
    name: &'t str,
    number: &'t str,
    /// The variant's whole text.
    text: &'t str,
}

impl<'t> OneOf<'t> {
    /// Returns the first type with variants in a text.
    fn first_in(text: &'t str) -> Option<OneOf<'t>> {
        let start = text.find(ONE_OF)?;
        let open = start + text[start..].find('(')?;
        let (before, behind) = text.split_at_checked(open + 1)?;
        let end = closing(behind)?;
        let variants: Vec<_> = split(&behind[..end]).map(Variant::of).collect::<Option<_>>()?;
        (!variants.is_empty()).then_some(OneOf { before, variants, after: &behind[end + 1..] })
    }

    /// Returns the variant with this one's number and name. The outer `None`: another variant has one of these.
    fn same(&self, of: &Variant<'_>) -> Option<Option<&Variant<'t>>> {
        let found =
            self.variants.iter().find(|variant| variant.number == of.number || variant.name == of.name);
        match found {
            Some(variant) if variant.number != of.number || variant.name != of.name => None,
            found => Some(found),
        }
    }
}

impl<'t> Variant<'t> {
    /// Parses a text such as `Created {at: u64} = 1`.
    fn of(text: &'t str) -> Option<Variant<'t>> {
        let (head, number) = text.rsplit_once(" = ")?;
        let name = head.split_once(' ').map_or(head, |(name, _)| name);
        Some(Variant { name, number, text })
    }
}

/// Returns the position of the parenthesis that closes a parenthesis before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    text.bytes().position(|byte| {
        depth = deeper(depth, byte);
        depth == 0
    })
}

/// Splits a text at the commas that are within no parentheses or braces.
pub(super) fn split(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (mut depth, whole) = (0, text);
        if whole.is_empty() {
            return None;
        }
        for (at, byte) in whole.bytes().enumerate() {
            depth = deeper(depth, byte);
            if byte == b',' && depth == 0 {
                text = &whole[at + 1..];
                return Some(whole[..at].trim());
            }
        }
        text = "";
        Some(whole.trim())
    })
}

fn deeper(depth: usize, byte: u8) -> usize {
    match byte {
        b'(' | b'{' => depth + 1,
        b')' | b'}' => depth.saturating_sub(1),
        _ => depth,
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::joined;

    /// Checks that two programs agree on `all`, whichever comes first.
    fn agree(existing: &str, requested: &str, all: &str) {
        assert_eq!(joined(existing, requested).as_deref(), Some(all));
        assert_eq!(joined(all, requested).as_deref(), Some(all));
        assert_eq!(joined(all, existing).as_deref(), Some(all));
        assert!(joined(requested, existing).is_some());
    }

    /// Proves that variants add up, wherever the type is, and that variants that both have may be in any order.
    #[test]
    fn variants_add_up() {
        agree("u8", "u8", "u8");
        agree("one of u8 (A = 1)", "one of u8 (A = 1, B {x: u8} = 2)", "one of u8 (A = 1, B {x: u8} = 2)");
        agree("one of u8 (A = 1, C = 3)", "one of u8 (B = 2, A = 1)", "one of u8 (A = 1, C = 3, B = 2)");
        agree(
            "(one of i16 (A {0: (u8, u8), 1: u8} = -1), [one of u8 (X = 1); 3], u8)",
            "(one of i16 (A {0: (u8, u8), 1: u8} = -1, B = 0), [one of u8 (X = 1, Y = 2); 3], u8)",
            "(one of i16 (A {0: (u8, u8), 1: u8} = -1, B = 0), [one of u8 (X = 1, Y = 2); 3], u8)",
        );
        agree(
            "one of u8 (A {0: option of one of u8 (X = 1)} = 1)",
            "one of u8 (A {0: option of one of u8 (X = 1, Y = 2)} = 1, B = 2)",
            "one of u8 (A {0: option of one of u8 (X = 1, Y = 2)} = 1, B = 2)",
        );
        agree(
            "event 1: one of u8 (A {x: u8} = 1)",
            "event 1: one of u8 (A {x: u8} = 1, B = 2)",
            "event 1: one of u8 (A {x: u8} = 1, B = 2)",
        );
    }

    /// Proves that a changed variant is told from an added one, and that texts of other types are refused.
    #[test]
    fn a_changed_variant_is_another_type() {
        let existing = "one of u8 (A {x: u8} = 1, B = 2)";
        for other in [
            "one of u8 (A {x: u16} = 1, B = 2)",
            "one of u8 (A {y: u8} = 1, B = 2)",
            "one of u8 (A {x: u8, y: u8} = 1, B = 2)",
            "one of u8 (A = 1, B = 2)",
            "one of u8 (B = 1, A {x: u8} = 2)",
            "one of u8 (A {x: u8} = 1, C = 2)",
            "one of u8 (A {x: u8} = 1, B = 3)",
            "one of u16 (A {x: u8} = 1, B = 2)",
            "(one of u8 (A {x: u8} = 1, B = 2), u8)",
            "one of u8 (A {x: u8} = 1, B = 2), u8",
            "one of u8 (A {x: u8} = 1, B = 2",
            "one of u8 A {x: u8} = 1, B = 2)",
            "one of u8 ()",
            "one of u8 (A)",
            "one of ",
            "u8",
            "",
        ] {
            assert_eq!(joined(existing, other), None, "{other}");
            assert_eq!(joined(other, existing), None, "{other}");
        }
        let nested = |depth, end: &str| "one of u8 (A {0: ".repeat(depth) + end + &"} = 1)".repeat(depth);
        assert!(joined(&nested(10, "one of u8 (A = 1)"), &nested(10, "one of u8 (B = 2)")).is_some());
        assert!(joined(&nested(100_000, "u8"), &nested(100_000, "u16")).is_none());
    }
}
