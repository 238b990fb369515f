//! `#[derive(Key)]` and `#[derive(Value)]` for the crate `braiddb`, which exports them with its feature `derive`.

#![forbid(unsafe_code)]

mod attributes;
mod fields;
mod key;
mod numbered;
mod numbers;
#[cfg(test)]
mod tests;
mod value;
mod variants;

use proc_macro::TokenStream;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Result, parse_macro_input};

/// Makes a type usable as a key.
///
/// A struct stands for the tuple of its fields, in their order. The fields must be keys that can be cloned, and there
/// are at most twelve. A table of such structs is a table of such tuples. A struct of one field stands for this field.
///
/// An enum without fields stands for its number. `#[repr(u8)]`, or another integer, gives the type of the number, and
/// each variant gives its own number. Variants can therefore be added, and listed in another order. A number must not
/// be reused.
///
/// An enum whose variants have fields also has such numbers. Its keys are ordered by the number of the variant and then
/// by the variant's fields, like the `Ord` that Rust derives. See [below](#variants-with-fields).
///
/// ```
/// use braiddb::{Database, Key, Options, Table};
///
/// #[derive(Key, Clone, Copy, Debug, PartialEq)]
/// #[repr(u8)]
/// enum Kind { Book = 1, Film = 2 }
///
/// #[derive(Key, Debug, PartialEq)]
/// struct Item { kind: Kind, title: String }
///
/// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let stock: Table<Item, u64> = db.table("stock")?;
/// db.transact(|tx| {
///     tx.put(stock, Item { kind: Kind::Film, title: "Metropolis".into() }, 3)?;
///     tx.put(stock, Item { kind: Kind::Book, title: "Emma".into() }, 2)?;
///     assert_eq!(tx.first(stock)?, Some((Item { kind: Kind::Book, title: "Emma".into() }, 2)));
///     Ok(())
/// })?;
/// assert_eq!(db.tables()[0].key_type, "(u8, string)");
/// # Ok::<(), braiddb::Error>(())
/// ```
///
/// # Variants with fields
///
/// ```
/// use braiddb::{Database, Key, Options, Table};
///
/// #[derive(Key, Debug, PartialEq)]
/// #[repr(u8)]
/// enum Owner { Nobody = 0, Person { name: String, born: u16 } = 1, Company(u64) = 2 }
///
/// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let shares: Table<(Owner, u32), u64> = db.table("shares")?;
/// db.transact(|tx| {
///     tx.put(shares, (Owner::Company(7), 1), 300)?;
///     tx.put(shares, (Owner::Person { name: "Ada".into(), born: 1815 }, 1), 20)?;
///     // All persons: from the first that there could be to the first of what comes behind them.
///     let mut rows = tx.scan(shares, (Owner::Person { name: String::new(), born: 0 }, 0)..(Owner::Company(0), 0));
///     let ada = Owner::Person { name: "Ada".into(), born: 1815 };
///     assert_eq!(rows.next()?, Some(((ada, 1), 20)));
///     assert_eq!(rows.next()?, None);
///     Ok(())
/// })?;
/// let owner = "one of u8 (Nobody = 0, Person {name: string, born: u16} = 1, Company {0: u64} = 2)";
/// assert_eq!(db.tables()[0].key_type, format!("({owner}, u32)"));
/// # Ok::<(), braiddb::Error>(())
/// ```
///
/// The name of the type records the variants in the database. A program with further variants opens the table. A
/// program with fewer variants opens it too, but cannot read keys of the variants that it lacks (`Error::Malformed`,
/// with the row). If a variant has another name or other fields under the same number, the error is
/// `Error::TableMismatch`, which shows both.
///
/// An enum without fields is a table of numbers. When the first variant with fields is added to it, call
/// `Database::retype` once.
#[proc_macro_derive(Key, attributes(braid))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input as DeriveInput), &KEY)
}

/// Makes a type usable as a value.
///
/// A struct has a name and a version, which the database keeps together with its shape. `#[braid(name = "user")]` is
/// version 1. Modules and types of the program can be renamed freely. If the rows in a database have another shape
/// under the same name and version, the database refuses the table and shows both shapes. To change a struct, give it
/// the next version, name the previous type, and implement the conversion with [`From`]:
///
/// ```
/// use braiddb::{Database, Options, Table, Value};
///
/// #[derive(Value)]
/// #[braid(name = "user")]
/// struct UserV1 { name: String }
///
/// #[derive(Value, Debug, PartialEq)]
/// #[braid(name = "user", version = 2, previous = UserV1)]
/// struct User { name: String, logins: u64 }
///
/// impl From<UserV1> for User {
///     fn from(user: UserV1) -> User {
///         User { name: user.name, logins: 0 }
///     }
/// }
///
/// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let before: Table<u64, UserV1> = db.table("users")?;
/// db.transact(|tx| tx.put(before, 1, &UserV1 { name: "Ada".into() }))?;
///
/// let users: Table<u64, User> = db.table("users")?;
/// let user = db.transact(|tx| tx.get(users, 1))?;
/// assert_eq!(user, Some(User { name: "Ada".into(), logins: 0 }));
/// assert_eq!(db.migrate(users)?, 1); // not needed, but then the program can do without `UserV1`
/// # Ok::<(), braiddb::Error>(())
/// ```
///
/// A row of an earlier version is upgraded when it is read, and written as the newest version. Each row takes two bytes
/// for its version. Fields are numbers of a known size, `bool`, `char`, `String`, `[u8; N]`, times, `Option`s, tuples
/// and `Vec`s of these, and other types with `#[derive(Value)]`, which have versions of their own. With
/// `#[braid(serde)]` before it, a field may have any type that serde knows (feature `serde`). The shape of such a field
/// is not checked.
///
/// A write takes a reference (`&User`), and a read returns a value of the type. To read structs of numbers in place,
/// see `braiddb::Plain`.
///
/// An enum without fields is stored as its number, like a key, and has no name and no version. If it has a name, it is
/// stored like an enum whose variants have fields, and variants with fields can be added to it.
///
/// An enum whose variants have fields is stored as the number that each variant gives, followed by the fields of the
/// variant. Like a struct, it has a name and a version, and it can be the previous or the next version of a struct:
///
/// ```
/// use braiddb::{Database, Options, Table, Value};
///
/// #[derive(Value)]
/// #[braid(name = "payment")]
/// struct Cash { cents: u64 }
///
/// #[derive(Value, Debug, PartialEq)]
/// #[braid(name = "payment", version = 2, previous = Cash)]
/// #[repr(u8)]
/// enum Payment { Cash(u64) = 1, Card { number: String, cents: u64 } = 2, Free = 3 }
///
/// impl From<Cash> for Payment {
///     fn from(cash: Cash) -> Payment {
///         Payment::Cash(cash.cents)
///     }
/// }
///
/// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let before: Table<u64, Cash> = db.table("payments")?;
/// db.transact(|tx| tx.put(before, 1, &Cash { cents: 250 }))?;
///
/// let payments: Table<u64, Payment> = db.table("payments")?;
/// db.transact(|tx| tx.put(payments, 2, &Payment::Card { number: "4711".into(), cents: 999 }))?;
/// assert_eq!(db.transact(|tx| tx.get(payments, 1))?, Some(Payment::Cash(250)));
/// assert_eq!(
///     db.tables()[0].definitions[1],
///     "payment 2: one of u8 (Cash {0: u64} = 1, Card {number: string, cents: u64} = 2, Free = 3)"
/// );
/// # Ok::<(), braiddb::Error>(())
/// ```
///
/// Variants can be added under the same version, and listed in another order. Programs with fewer variants can still
/// open the table. If such a program reads a row of a variant that it lacks, it gets `Error::Malformed`, with table and
/// key. If a variant has another name or other fields under the same number, the table is refused with both shapes,
/// like a changed struct. Such a change takes the next version.
///
/// The type given as `previous` has the same name and a lower version. Anything else does not compile:
///
/// ```compile_fail
/// #[derive(braiddb::Value)]
/// #[braid(name = "user", version = 2)]
/// struct UserV2 { name: String }
///
/// #[derive(braiddb::Value)]
/// #[braid(name = "user", version = 2, previous = UserV2)]
/// struct User { name: String }
///
/// impl From<UserV2> for User {
///     fn from(user: UserV2) -> User {
///         User { name: user.name }
///     }
/// }
/// ```
#[proc_macro_derive(Value, attributes(braid))]
pub fn derive_value(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input as DeriveInput), &VALUE)
}

type Expansion = Result<proc_macro2::TokenStream>;

/// The functions that derive a trait, by the form of the type.
struct Derive {
    of_struct: fn(&DeriveInput, &Fields) -> Expansion,
    /// For an enum that is stored as a number.
    of_number: fn(&DeriveInput, &DataEnum) -> Expansion,
    of_enum: fn(&DeriveInput, &DataEnum) -> Expansion,
    /// Returns true if an enum without fields is stored as a number.
    is_number: fn(&DeriveInput) -> bool,
}

const KEY: Derive = Derive {
    of_struct: key::of_struct,
    of_number: numbered::key,
    of_enum: key::of_enum,
    is_number: |_| true,
};

/// An enum with a name is not stored as a number, so that variants with fields can be added to it.
const VALUE: Derive = Derive {
    of_struct: value::of_struct,
    of_number: numbered::value,
    of_enum: value::of_enum,
    is_number: |input| !input.attrs.iter().any(|attribute| attribute.path().is_ident("braid")),
};

fn expand(input: &DeriveInput, derive: &Derive) -> TokenStream {
    expansion(input, derive).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expansion(input: &DeriveInput, derive: &Derive) -> Expansion {
    match &input.data {
        _ if !input.generics.params.is_empty() => {
            Err(Error::new_spanned(&input.generics, "types with parameters have no fixed shape to store"))
        }
        Data::Struct(of) => (derive.of_struct)(input, &of.fields),
        Data::Enum(of) => {
            let has_fields = of.variants.iter().any(|variant| !matches!(variant.fields, Fields::Unit));
            match has_fields || !(derive.is_number)(input) {
                true => (derive.of_enum)(input, of),
                false => (derive.of_number)(input, of),
            }
        }
        Data::Union(_) => Err(Error::new_spanned(&input.ident, "a union does not say what it holds")),
    }
}
