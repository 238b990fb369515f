//! `#[derive(Key)]` and `#[derive(Value)]` for the crate `braiddb`, which exports them with its feature `derive`.

#![forbid(unsafe_code)]

mod attributes;
mod key;
mod numbered;
#[cfg(test)]
mod tests;
mod value;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, Result, parse_macro_input};

/// Makes a type one of keys.
///
/// A struct stands for the tuple of its fields, in their order, which are keys and can be cloned: its tables are tables of
/// such tuples. (A struct of one field stands for that.) At most twelve fields.
///
/// An enum without fields stands for its number: it says of which type that is, by `#[repr(u8)]` or another integer, and each
/// variant says its own. So variants can be added, and listed in another order; a number must not be given again.
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
#[proc_macro_derive(Key, attributes(braid))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input as DeriveInput), key::of_struct, numbered::key)
}

/// Makes a type one of values.
///
/// A struct has a name and a version, which the database keeps together with its shape: `#[braid(name = "user")]` is version 1.
/// Modules and types of the program can be renamed freely. A database whose rows are of another shape under the same name and
/// version refuses the table and tells both shapes. To change a struct, give it the next version, and say what it was before, and how
/// the one becomes the other, by [`From`]:
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
/// A row of an earlier version is upgraded when it is read, and written as the newest. Each row takes two bytes for its version.
/// Fields are numbers of a known size, `bool`, `char`, `String`, `[u8; N]`, times, `Option`s, tuples and `Vec`s of these, and other
/// types with `#[derive(Value)]`, which have versions of their own. `#[braid(serde)]` in front of a field lets it have any type
/// that serde knows (feature `serde`); of such a field the shape is not checked.
///
/// A write takes a reference (`&User`), a read returns a value of the type. To read structs of numbers where they lie, see `braiddb::Plain`.
///
/// An enum without fields is stored as its number, as a key is; it has no name and no version.
///
/// What is given as `previous` has the same name and a lower version; anything else does not compile:
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
    expand(&parse_macro_input!(input as DeriveInput), value::of_struct, numbered::value)
}

type Expansion = Result<proc_macro2::TokenStream>;

fn expand(
    input: &DeriveInput,
    of_struct: fn(&DeriveInput, &syn::Fields) -> Expansion,
    of_enum: fn(&DeriveInput, &syn::DataEnum) -> Expansion,
) -> TokenStream {
    let expansion = match &input.data {
        _ if !input.generics.params.is_empty() => {
            Err(Error::new_spanned(&input.generics, "types with parameters have no fixed shape to store"))
        }
        Data::Struct(of) => of_struct(input, &of.fields),
        Data::Enum(of) => of_enum(input, of),
        Data::Union(_) => Err(Error::new_spanned(&input.ident, "a union does not say what it holds")),
    };
    expansion.unwrap_or_else(|error| error.to_compile_error()).into()
}
