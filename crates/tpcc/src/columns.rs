//! The names, places and types of a row's columns. The compiler knows them for the rows' own types. Here they are
//! known at run time.

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Datum {
    Number(i64),
    Text(Vec<u8>),
}

/// How a column's bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An unsigned number, little-endian.
    Unsigned,
    /// A signed number, little-endian.
    Signed,
    /// All bytes are the text.
    Chars,
    /// The length of the text in two bytes, and room for the text.
    Text,
}

/// The place of a column in its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
}

/// A row whose columns have names.
pub(crate) trait Columns {
    /// Returns all columns.
    fn columns() -> Vec<(String, Column)>;
}

/// The type of a field of a row.
pub(crate) trait FieldType: Sized {
    /// Adds the column or columns of a field that has this name and begins at this offset.
    fn add_columns(name: &str, offset: usize, columns: &mut Vec<(String, Column)>);
}

impl Columns for () {
    fn columns() -> Vec<(String, Column)> {
        Vec::new()
    }
}

macro_rules! numbers {
    ($kind:ident: $($type:ty),*) => {$(
        impl FieldType for $type {
            fn add_columns(name: &str, offset: usize, columns: &mut Vec<(String, Column)>) {
                columns.push((name.to_owned(), Column { offset, bytes: size_of::<$type>(), kind: Kind::$kind }));
            }
        }
    )*};
}

numbers!(Unsigned: u8, u16, u32, u64);
numbers!(Signed: i32, i64);

impl<const N: usize> FieldType for [u8; N] {
    fn add_columns(name: &str, offset: usize, columns: &mut Vec<(String, Column)>) {
        columns.push((name.to_owned(), Column { offset, bytes: N, kind: Kind::Chars }));
    }
}

/// Each element is a column. Its name ends with its number, from 1.
impl<const N: usize, const M: usize> FieldType for [[u8; N]; M] {
    fn add_columns(name: &str, offset: usize, columns: &mut Vec<(String, Column)>) {
        for i in 0..M {
            <[u8; N]>::add_columns(&format!("{name}_{}", i + 1), offset + i * N, columns);
        }
    }
}

impl Column {
    /// Reads the value from a row.
    pub(crate) fn read(self, row: &[u8]) -> Datum {
        let bytes = &row[self.offset..][..self.bytes];
        match self.kind {
            Kind::Chars => Datum::Text(bytes.to_vec()),
            Kind::Text => {
                let length = u16::from_le_bytes([bytes[0], bytes[1]]);
                Datum::Text(bytes[2..][..usize::from(length).min(bytes.len() - 2)].to_vec())
            }
            Kind::Unsigned | Kind::Signed => {
                let is_negative = self.kind == Kind::Signed && bytes[bytes.len() - 1] >= 0x80;
                let mut word = [if is_negative { u8::MAX } else { 0 }; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                Datum::Number(i64::from_le_bytes(word))
            }
        }
    }

    /// Sets the value in a row. Returns false if the value does not fit.
    pub(crate) fn write(self, row: &mut [u8], value: &Datum) -> bool {
        let bytes = &mut row[self.offset..][..self.bytes];
        match (self.kind, value) {
            (Kind::Chars, Datum::Text(text)) if text.len() == bytes.len() => bytes.copy_from_slice(text),
            (Kind::Text, Datum::Text(text)) if text.len() + 2 <= bytes.len() => {
                bytes.fill(0);
                bytes[..2].copy_from_slice(&(text.len() as u16).to_le_bytes());
                bytes[2..][..text.len()].copy_from_slice(text);
            }
            (Kind::Unsigned | Kind::Signed, Datum::Number(number)) => {
                bytes.copy_from_slice(&number.to_le_bytes()[..bytes.len()]);
                return self.read(row) == *value;
            }
            _ => return false,
        }
        true
    }
}

impl From<i64> for Datum {
    fn from(number: i64) -> Datum {
        Datum::Number(number)
    }
}

impl From<Vec<u8>> for Datum {
    fn from(text: Vec<u8>) -> Datum {
        Datum::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_what_fits() {
        // Proves that texts, and numbers at the limits of each width, are read back, and that a value that does not
        // fit is refused.
        let column = |bytes, kind| Column { offset: 3, bytes, kind };
        let mut row = [0xaa; 16];
        let fits = [
            (column(1, Kind::Unsigned), Datum::Number(255)),
            (column(2, Kind::Signed), Datum::Number(-32_768)),
            (column(4, Kind::Unsigned), Datum::Number(u32::MAX.into())),
            (column(8, Kind::Signed), Datum::Number(i64::MIN)),
            (column(3, Kind::Chars), Datum::Text(b"abc".to_vec())),
            (column(6, Kind::Text), Datum::Text(b"abcd".to_vec())),
            (column(6, Kind::Text), Datum::Text(Vec::new())),
        ];
        for (column, value) in fits {
            assert!(column.write(&mut row, &value), "{column:?} {value:?}");
            assert_eq!(column.read(&row), value);
            assert_eq!((row[2], row[3 + column.bytes]), (0xaa, 0xaa), "nothing beside it is written");
            row = [0xaa; 16];
        }
        let does_not = [
            (column(1, Kind::Unsigned), Datum::Number(256)),
            (column(1, Kind::Unsigned), Datum::Number(-1)),
            (column(2, Kind::Signed), Datum::Number(32_768)),
            (column(3, Kind::Chars), Datum::Text(b"ab".to_vec())),
            (column(6, Kind::Text), Datum::Text(b"abcde".to_vec())),
            (column(6, Kind::Text), Datum::Number(1)),
        ];
        for (column, value) in does_not {
            assert!(!column.write(&mut row, &value), "{column:?} {value:?}");
        }
    }
}
