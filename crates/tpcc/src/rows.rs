//! The rows of the tables. They have all columns of the specification (revision 5.11, clause 1.3) except the columns
//! that are already in the key. Money is in cents, a rate in 1/10,000, and a date in microseconds of its source's
//! clock. 0 means no date and no carrier. Texts are padded with zeros, so rows with equal columns have equal bytes.

use crate::columns::{Column, Columns, FieldType, Kind};
use std::mem::offset_of;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// A text of at most N bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Text<const N: usize> {
    /// Little-endian bytes, because a number would need an alignment.
    length: [u8; 2],
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    pub(crate) fn new(text: &[u8]) -> Self {
        assert!(text.len() <= N, "a text of {} bytes in {N}", text.len());
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text);
        Text { length: (text.len() as u16).to_le_bytes(), bytes }
    }

    #[inline(always)]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(u16::from_le_bytes(self.length)).min(N)
    }

    /// The text and the zeros after it.
    pub(crate) fn padded(&self) -> &[u8; N] {
        &self.bytes
    }

    /// Puts a text before this one. What no longer fits is cut off.
    pub(crate) fn prepend(&mut self, text: &[u8]) {
        let added = text.len().min(N);
        self.bytes.copy_within(..N - added, added);
        self.bytes[..added].copy_from_slice(&text[..added]);
        self.length = ((self.len() + added).min(N) as u16).to_le_bytes();
    }

    /// Overwrites a part of the text.
    pub(crate) fn overwrite(&mut self, at: usize, text: &[u8]) {
        let length = self.len();
        self.bytes[..length][at..at + text.len()].copy_from_slice(text);
    }
}

/// Street, town, state and postal code.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Address {
    pub(crate) street_1: Text<20>,
    pub(crate) street_2: Text<20>,
    pub(crate) city: Text<20>,
    pub(crate) state: [u8; 2],
    pub(crate) zip: [u8; 9],
}

impl<const N: usize> FieldType for Text<N> {
    fn add_columns(name: &str, offset: usize, columns: &mut Vec<(String, Column)>) {
        columns.push((name.to_owned(), Column { offset, bytes: size_of::<Self>(), kind: Kind::Text }));
    }
}

impl FieldType for Address {
    fn add_columns(_: &str, offset: usize, columns: &mut Vec<(String, Column)>) {
        Text::<20>::add_columns("street_1", offset + offset_of!(Address, street_1), columns);
        Text::<20>::add_columns("street_2", offset + offset_of!(Address, street_2), columns);
        Text::<20>::add_columns("city", offset + offset_of!(Address, city), columns);
        <[u8; 2]>::add_columns("state", offset + offset_of!(Address, state), columns);
        <[u8; 9]>::add_columns("zip", offset + offset_of!(Address, zip), columns);
    }
}

/// Makes a row of zeros, to be filled.
pub(crate) fn zeroed<T: FromZeros>() -> T {
    T::new_zeroed()
}

macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(; padding $bytes:literal)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
            $(pub(crate) padding: [u8; $bytes],)?
        }

        impl Columns for $name {
            fn columns() -> Vec<(String, Column)> {
                let mut columns = Vec::new();
                $(<$type>::add_columns(stringify!($field), offset_of!($name, $field), &mut columns);)*
                columns
            }
        }
    };
}

row! {
    /// W_YTD, W_TAX, W_NAME and the address.
    Warehouse { ytd: i64, tax: u32, name: Text<10>, address: Address; padding 3 }
}
row! {
    /// D_YTD, D_TAX, D_NEXT_O_ID, D_NAME and the address.
    DistrictRow { ytd: i64, tax: u32, next_order: u32, name: Text<10>, address: Address; padding 7 }
}
row! {
    /// All of CUSTOMER.
    Customer {
        balance: i64, ytd_payment: i64, credit_limit: i64, since: u64, discount: u32, payments: u32,
        deliveries: u32, first: Text<16>, middle: [u8; 2], last: Text<16>, address: Address,
        phone: [u8; 16], credit: [u8; 2], data: Text<500>; padding 1
    }
}
row! {
    /// HISTORY: a payment of a customer to a district.
    History {
        date: u64, amount: i64, customer_warehouse: u16, warehouse: u16, customer: u16,
        customer_district: u8, district: u8, data: Text<24>; padding 6
    }
}
row! {
    /// ORDER.
    Order {
        entered: u64, customer: u16, carrier: u8, lines: u8, all_local: u8; padding 3
    }
}
row! {
    /// ORDER-LINE.
    OrderLine {
        delivered: u64, amount: i64, item: u32, supply_warehouse: u16, quantity: u8, reserved: u8,
        district_info: [u8; 24]
    }
}
row! {
    /// ITEM.
    Item { price: i64, image: u32, name: Text<24>, data: Text<50>; padding 6 }
}
row! {
    /// STOCK.
    Stock {
        ytd: u64, quantity: i32, orders: u32, remote_orders: u32, district_infos: [[u8; 24]; 10],
        data: Text<50>
    }
}
row! {
    /// SUPPLIER of TPC-CH.
    Supplier {
        balance: i64, nation: u32, name: Text<25>, address: Text<40>, phone: [u8; 15], comment: Text<101>;
        padding 1
    }
}
row! {
    /// NATION of TPC-CH.
    Nation { region: u32, name: Text<25>, comment: Text<152>; padding 3 }
}
row! {
    /// REGION of TPC-CH.
    Region { name: Text<25>, comment: Text<152> }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_front_pushes_the_rest_out() {
        // Proves that `prepend` keeps the order of the bytes and cuts at the limit.
        let mut text = Text::<8>::new(b"abcd");
        text.prepend(b"12");
        assert_eq!(text.as_bytes(), b"12abcd");
        text.prepend(b"3456");
        assert_eq!(text.as_bytes(), b"345612ab");
        text.prepend(b"0123456789");
        assert_eq!(text.as_bytes(), b"01234567");
    }

    #[test]
    fn texts_are_padded() {
        // Proves that equal texts have equal bytes, whatever was there before, and that their order is that of the
        // texts.
        let (a, b) = (Text::<4>::new(b"ab"), Text::<4>::new(b"abc"));
        assert!(a.padded() < b.padded());
        assert_eq!(a.padded(), b"ab\0\0");
        assert_eq!(a, Text::new(b"ab"));
    }
}
