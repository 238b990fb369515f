//! Columns of texts: stored one after another, with the end of each.

use super::columns::Column;
use super::ends::Ends;
use std::fmt;
use std::ops::{Bound, Range, RangeBounds};

/// A text as a value of a column. A projection's function makes it of a `&str` or a `String`.
///
/// ```
/// # use braiddb::{Database, Options, Selection, Table, Text};
/// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let people: Table<u64, (String, u32)> = db.table("people")?; // name, born in
/// let names = db.projection(people, "names", |_, (name, born)| Some((Text::from(name), born)))?;
/// db.transact(|tx| {
///     tx.put(people, 1, ("Ada", 1815))?;
///     tx.put(people, 2, ("Grace", 1906))?;
///     tx.put(people, 3, ("Alan", 1912))
/// })?;
/// names.refresh()?;
/// let tx = db.begin()?;
/// tx.declare_read_only();
/// let (mut scan, mut selection, mut found) = (names.scan_all(&tx)?, Selection::default(), vec![]);
/// while let Some(batch) = scan.next_where(|(name, _)| name.meets_prefix("A"))? {
///     let (name, born) = batch.columns();
///     selection.select_rows(batch.len(), |row| name.get(row).starts_with('A'));
///     found.extend(selection.iter().map(|&row| born[row as usize]));
/// }
/// assert_eq!(found, [1815, 1912]);
/// # Ok::<(), braiddb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(text.into())
    }
}

/// The texts of a column in a batch.
#[derive(Clone, Copy)]
pub struct Texts<'b> {
    /// The end of each text in `all`.
    ends: &'b [usize],
    /// The begin of the first text.
    begin: usize,
    all: &'b str,
}

impl<'b> Texts<'b> {
    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text of a row.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub fn get(&self, row: usize) -> &'b str {
        let begin = row.checked_sub(1).map_or(self.begin, |before| self.ends[before]);
        &self.all[begin..self.ends[row]]
    }

    /// Returns all texts, in the order of rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'b str> + use<'b> {
        let (mut begin, all) = (self.begin, self.all);
        self.ends.iter().map(move |&end| &all[std::mem::replace(&mut begin, end)..end])
    }
}

impl fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The least and the greatest text of a column in one block, by their first 24 bytes. A zone may report that a longer
/// text can be in the block although it is not there, but never the reverse.
#[derive(Clone, Copy, PartialEq)]
pub struct TextZone(Option<(Prefix, Prefix)>);

const PREFIX_BYTES: usize = 24;

/// The first bytes of a text.
#[derive(Clone, Copy, PartialEq)]
struct Prefix {
    bytes: [u8; PREFIX_BYTES],
    len: usize,
}

impl Prefix {
    fn of(text: &str) -> Prefix {
        let (mut bytes, from) = ([0; PREFIX_BYTES], cut(text));
        bytes[..from.len()].copy_from_slice(from);
        Prefix { bytes, len: from.len() }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn is_cut(&self) -> bool {
        self.len == PREFIX_BYTES
    }
}

fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(PREFIX_BYTES)]
}

impl TextZone {
    fn of<'t>(mut texts: impl Iterator<Item = &'t str>) -> TextZone {
        let Some(first) = texts.next() else { return TextZone(None) };
        let (min, max) = texts.fold((first, first), |(min, max), text| (min.min(text), max.max(text)));
        TextZone(Some((Prefix::of(min), Prefix::of(max))))
    }

    /// Returns true if a text in this range can be in the block.
    pub fn meets<'r>(&self, range: impl RangeBounds<&'r str>) -> bool {
        let Some((min, max)) = &self.0 else { return false };
        // Texts that are not less than `from` do not begin with less than `from` does.
        let begins = match range.start_bound() {
            Bound::Included(from) => max.get() >= cut(from),
            Bound::Excluded(from) => max.get() > cut(from) || max.is_cut() && max.get() == cut(from),
            Bound::Unbounded => true,
        };
        begins
            && match range.end_bound() {
                Bound::Included(to) => min.get() <= to.as_bytes(),
                Bound::Excluded(to) => min.get() < to.as_bytes(),
                Bound::Unbounded => true,
            }
    }

    /// Returns true if a text that begins with `prefix` can be in the block.
    pub fn meets_prefix(&self, prefix: &str) -> bool {
        let Some((min, max)) = &self.0 else { return false };
        let prefix = cut(prefix);
        let begin = &min.get()[..min.len.min(prefix.len())];
        max.get() >= prefix && begin <= prefix
    }
}

impl fmt::Debug for TextZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |prefix: &Prefix| {
            let text = String::from_utf8_lossy(prefix.get()).into_owned();
            if prefix.is_cut() { text + "\u{2026}" } else { text }
        };
        match &self.0 {
            Some((min, max)) => write!(f, "{:?}..={:?}", text(min), text(max)),
            None => f.write_str("nothing"),
        }
    }
}

/// The texts of a column in a block.
#[derive(Debug, Default)]
pub struct TextVector {
    ends: Ends,
    all: String,
}

impl TextVector {
    fn texts(&self, rows: Range<usize>) -> Texts<'_> {
        let (ends, begin) = self.ends.of(rows);
        Texts { ends, begin, all: &self.all }
    }
}

impl Column for Text {
    type Slice<'b> = Texts<'b>;
    type Zone = TextZone;
    type Vector = TextVector;

    fn push(text: Text, to: &mut TextVector) {
        to.all.push_str(&text.0);
        to.ends.push(text.0.len());
    }
    fn clear(vector: &mut TextVector) {
        vector.ends.clear();
        vector.all.clear();
    }
    fn shrink(vector: &mut TextVector) -> usize {
        vector.all.shrink_to_fit();
        vector.ends.shrink() + vector.all.capacity()
    }
    fn heap_bytes(text: &Text) -> usize {
        text.0.len()
    }
    fn slice(vector: &TextVector, rows: Range<usize>) -> Texts<'_> {
        vector.texts(rows)
    }
    fn zone(vector: &TextVector) -> TextZone {
        TextZone::of(vector.texts(0..vector.ends.len()).iter())
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;

    /// Proves that a zone never misses a range that has one of its texts, and meets no other range as long as texts
    /// are short.
    #[test]
    fn zones_of_texts() {
        let long = |last: char| "0123456789".repeat(3) + &last.to_string();
        let (one, other) = (long('a'), long('b'));
        let texts: [&str; 7] = ["", "b", "bcd", "\u{e9}", "0123456789", &one, &other];
        for (n, &one) in texts.iter().enumerate() {
            for &other in &texts[n..] {
                let (min, max) = (one.min(other), one.max(other));
                let zone = TextZone::of([min, max].into_iter());
                for text in texts {
                    let (below, above) = (text < min, text > max);
                    let is_short = [text, min, max].iter().all(|text| text.len() < PREFIX_BYTES);
                    assert!(zone.meets(text..) || above, "{zone:?} {text:?}");
                    assert!(zone.meets(..=text) || below, "{zone:?} {text:?}");
                    assert!(zone.meets(text..=text) || below || above, "{zone:?} {text:?}");
                    assert!(zone.meets(..text) || below || text == min, "{zone:?} {text:?}");
                    let behind = (Bound::Excluded(text), Bound::Unbounded);
                    assert!(zone.meets(behind) || above || text == max, "{zone:?} {text:?}");
                    if is_short {
                        assert!(zone.meets(text..) != above && zone.meets(..=text) != below);
                        assert!(zone.meets(..text) == (min < text) && zone.meets(behind) == (max > text));
                    }
                    let begins = min.starts_with(text) || max.starts_with(text);
                    assert!(zone.meets_prefix(text) || !begins, "{zone:?} {text:?}");
                }
            }
        }
        let none = TextZone::of(std::iter::empty());
        assert!(!none.meets(..) && !none.meets_prefix(""));
        let some = TextZone::of(["ba", "bc"].into_iter());
        assert!(some.meets_prefix("b") && some.meets_prefix("bb") && some.meets_prefix(""));
        assert!(!some.meets_prefix("a") && !some.meets_prefix("bd") && !some.meets_prefix("c"));
    }

    /// Proves that texts stay unchanged, and are returned by number and in parts.
    #[test]
    fn parts() {
        let mut column = TextVector::default();
        let texts = ["first", "", "\u{e9}t\u{e9}", "xyz"];
        texts.into_iter().for_each(|text| Text::push(Text::from(text), &mut column));
        let part = Text::slice(&column, 1..4);
        assert_eq!(part.iter().collect::<Vec<_>>(), texts[1..]);
        assert_eq!((part.len(), part.get(0), part.get(2)), (3, "", "xyz"));
        assert!(Text::slice(&column, 4..4).is_empty());
    }
}
