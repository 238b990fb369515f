//! The columns that a projection splits rows into: values of one type, and what is known of the values of each block.

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};

/// The columns of a [`Projection`](crate::Projection): a tuple of up to twelve values, or an array, whose elements
/// are columns of one type. See [`Column`]. Values that the application always reads together can be one column: a
/// tuple or a struct within the tuple.
pub trait Columns: Send + Sync + 'static {
    /// The columns in a batch: for each column, its [`Slice`](Column::Slice).
    type Slices<'b>: Copy;
    /// For each column, its [`Zone`](Column::Zone).
    type Zones: Copy + Send + Sync;
    #[doc(hidden)]
    type Vectors: Send + Sync;

    #[doc(hidden)]
    fn vectors() -> Self::Vectors;
    #[doc(hidden)]
    fn push(row: Self, to: &mut Self::Vectors);
    #[doc(hidden)]
    fn clear(vectors: &mut Self::Vectors);
    /// Frees the unused room of the vectors. Returns the bytes that they take.
    #[doc(hidden)]
    fn shrink(vectors: &mut Self::Vectors) -> usize;
    /// Returns the bytes of a row's values beyond their own size.
    #[doc(hidden)]
    fn heap_bytes(row: &Self) -> usize;
    #[doc(hidden)]
    fn slices(vectors: &Self::Vectors, rows: Range<usize>) -> Self::Slices<'_>;
    #[doc(hidden)]
    fn zones(vectors: &Self::Vectors) -> Self::Zones;
}

/// A value that can be a column: any type that is [`Copy`] and has an order (numbers, `bool`, moments, arrays of
/// bytes, and enums and structs that derive both), or a [`Text`](crate::Text).
pub trait Column: Send + Sync + 'static {
    /// The column in a batch: `&[T]`, or [`Texts`](crate::Texts).
    type Slice<'b>: Copy;
    /// The bounds of the column's values in a block: a [`Zone`], or a [`TextZone`](crate::TextZone).
    type Zone: Copy + Send + Sync;
    #[doc(hidden)]
    type Vector: Default + Send + Sync;

    #[doc(hidden)]
    fn push(value: Self, to: &mut Self::Vector);
    #[doc(hidden)]
    fn clear(vector: &mut Self::Vector);
    #[doc(hidden)]
    fn shrink(vector: &mut Self::Vector) -> usize;
    #[doc(hidden)]
    fn heap_bytes(value: &Self) -> usize;
    #[doc(hidden)]
    fn slice(vector: &Self::Vector, rows: Range<usize>) -> Self::Slice<'_>;
    #[doc(hidden)]
    fn zone(vector: &Self::Vector) -> Self::Zone;
}

impl<T: Copy + PartialOrd + Send + Sync + 'static> Column for T {
    type Slice<'b> = &'b [T];
    type Zone = Zone<T>;
    type Vector = Vec<T>;

    fn push(value: T, to: &mut Vec<T>) {
        to.push(value);
    }
    fn clear(vector: &mut Vec<T>) {
        vector.clear();
    }
    fn shrink(vector: &mut Vec<T>) -> usize {
        vector.shrink_to_fit();
        vector.capacity() * size_of::<T>()
    }
    fn heap_bytes(_: &T) -> usize {
        0
    }
    fn slice(vector: &Vec<T>, rows: Range<usize>) -> &[T] {
        &vector[rows]
    }
    fn zone(vector: &Vec<T>) -> Zone<T> {
        Zone::of(vector)
    }
}

/// The least and the greatest value of a column in one block. Values that do not even compare with themselves, such
/// as NaN and values that contain it, are left out.
#[derive(Clone, Copy, PartialEq)]
pub struct Zone<T> {
    bounds: Option<(T, T)>,
    /// True if some values are left out.
    has_others: bool,
}

impl<T: Copy + PartialOrd> Zone<T> {
    fn of(column: &[T]) -> Self {
        let has_order = |value: &T| value.partial_cmp(value).is_some();
        let mut values = column.iter().copied().filter(has_order);
        let bounds = values.next().map(|first| {
            values.fold((first, first), |(min, max), value| {
                (if value < min { value } else { min }, if value > max { value } else { max })
            })
        });
        Zone { bounds, has_others: !column.iter().all(has_order) }
    }

    /// Returns the least value. `None` if there is none.
    pub fn min(&self) -> Option<T> {
        self.bounds.map(|(min, _)| min)
    }

    /// Returns the greatest value. `None` if there is none.
    pub fn max(&self) -> Option<T> {
        self.bounds.map(|(_, max)| max)
    }

    /// Returns true if a value in this range can be in the block. Always true if a value is left out.
    pub fn meets(&self, range: impl RangeBounds<T>) -> bool {
        let Some((min, max)) = self.bounds.filter(|_| !self.has_others) else { return self.has_others };
        let begins = match range.start_bound() {
            Bound::Included(from) => max >= *from,
            Bound::Excluded(from) => max > *from,
            Bound::Unbounded => true,
        };
        begins
            && match range.end_bound() {
                Bound::Included(to) => min <= *to,
                Bound::Excluded(to) => min < *to,
                Bound::Unbounded => true,
            }
    }
}

impl<T: fmt::Debug> fmt::Debug for Zone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bounds {
            Some((min, max)) => write!(f, "{min:?}..={max:?}"),
            None => f.write_str("nothing"),
        }
    }
}

macro_rules! tuple {
    ($($T:ident $n:tt),+) => {
        impl<$($T: Column),+> Columns for ($($T,)+) {
            type Slices<'b> = ($($T::Slice<'b>,)+);
            type Zones = ($($T::Zone,)+);
            type Vectors = ($($T::Vector,)+);

            fn vectors() -> Self::Vectors {
                Default::default()
            }
            fn push(row: Self, to: &mut Self::Vectors) {
                $($T::push(row.$n, &mut to.$n);)+
            }
            fn clear(vectors: &mut Self::Vectors) {
                $($T::clear(&mut vectors.$n);)+
            }
            fn shrink(vectors: &mut Self::Vectors) -> usize {
                0 $(+ $T::shrink(&mut vectors.$n))+
            }
            fn heap_bytes(row: &Self) -> usize {
                0 $(+ $T::heap_bytes(&row.$n))+
            }
            fn slices(vectors: &Self::Vectors, rows: Range<usize>) -> Self::Slices<'_> {
                ($($T::slice(&vectors.$n, rows.clone()),)+)
            }
            fn zones(vectors: &Self::Vectors) -> Self::Zones {
                ($($T::zone(&vectors.$n),)+)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

impl<T: Column, const N: usize> Columns for [T; N] {
    type Slices<'b> = [T::Slice<'b>; N];
    type Zones = [T::Zone; N];
    type Vectors = [T::Vector; N];

    fn vectors() -> Self::Vectors {
        std::array::from_fn(|_| T::Vector::default())
    }
    fn push(row: Self, to: &mut Self::Vectors) {
        for (value, column) in row.into_iter().zip(to) {
            T::push(value, column);
        }
    }
    fn clear(vectors: &mut Self::Vectors) {
        vectors.iter_mut().for_each(T::clear);
    }
    fn shrink(vectors: &mut Self::Vectors) -> usize {
        vectors.iter_mut().map(T::shrink).sum()
    }
    fn heap_bytes(row: &Self) -> usize {
        row.iter().map(T::heap_bytes).sum()
    }
    fn slices(vectors: &Self::Vectors, rows: Range<usize>) -> Self::Slices<'_> {
        std::array::from_fn(|n| T::slice(&vectors[n], rows.clone()))
    }
    fn zones(vectors: &Self::Vectors) -> Self::Zones {
        std::array::from_fn(|n| T::zone(&vectors[n]))
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;

    /// Proves that a zone meets exactly the ranges in which one of its values can be.
    #[test]
    fn zones() {
        let zone = Zone::of(&[3, 7, 5]);
        assert_eq!((zone.min(), zone.max()), (Some(3), Some(7)));
        assert!(zone.meets(7..) && zone.meets(..=3) && zone.meets(4..5) && zone.meets(..));
        assert!(!zone.meets(8..) && !zone.meets(..3));
        assert!(!zone.meets((Bound::Excluded(7), Bound::Unbounded)));
        let zone = Zone::of(&[f64::NAN, 1.0, f64::NAN, -1.0]);
        assert_eq!((zone.min(), zone.max()), (Some(-1.0), Some(1.0)));
        assert!(zone.meets(5.0..), "what is left out could be in any range");
        let none = Zone::of(&[f64::NAN]);
        assert!(none.min().is_none() && none.max().is_none() && none.meets(..));
        assert!(!Zone::<u8>::of(&[]).meets(..));
        let pairs = Zone::of(&[(1.0, f64::NAN), (0.0, 0.0)]);
        assert!(pairs.meets((0.5, 0.0)..(2.0, 0.0)), "it has (1.0, NaN)");
    }
}
