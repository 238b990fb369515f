//! Tests that invalid types are refused, with messages that say what would be right.

use crate::{KEY, VALUE, expansion};
use syn::{DeriveInput, parse_quote};

fn refused(derive: &str, input: DeriveInput) -> String {
    let derive = if derive == "Key" { &KEY } else { &VALUE };
    expansion(&input, derive).expect_err("it is refused").to_string()
}

#[test]
fn keys() {
    assert!(refused("Key", parse_quote! { struct Nothing; }).contains("1 to 12 fields"));
    let many = parse_quote! { struct Many(u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8); };
    assert!(refused("Key", many).contains("1 to 12 fields"));
}

#[test]
fn enums() {
    for derive in ["Key", "Value"] {
        let refused = |input| refused(derive, input);
        assert!(refused(parse_quote! { enum Color { Red = 1 } }).contains("#[repr(u8)]"));
        assert!(refused(parse_quote! { #[repr(u128)] enum Color { Red = 1 } }).contains("at most 64 bits"));
        let unnumbered = parse_quote! { #[repr(u8)] enum Color { Red = 1, Green } };
        assert!(refused(unnumbered).contains("`Green = …`"));
        assert!(refused(parse_quote! { #[repr(u8)] enum Never {} }).contains("no values"));
        assert!(refused(parse_quote! { #[repr(u8)] enum Of<T> { One(T) = 1 } }).contains("parameters"));
        assert!(refused(parse_quote! { union Either { a: u8, b: i8 } }).contains("a union"));
    }
}

#[test]
fn enums_whose_variants_have_fields() {
    for derive in ["Key", "Value"] {
        let refused = |input| refused(derive, input);
        let unnumbered =
            parse_quote! { #[repr(u8)] #[braid(name = "e")] enum E { One(u8) = 1, Two { x: u8 } } };
        assert!(refused(unnumbered).contains("`Two = …`"));
        let without = parse_quote! { #[braid(name = "e")] enum E { One(u8) = 1 } };
        assert!(refused(without).contains("#[repr(u8)]"));
        let said = parse_quote! { #[repr(u8)] #[braid(name = "e")] enum E { #[braid(serde)] One(u8) = 1 } };
        assert!(refused(said).contains("nothing of a variant"));
        let field =
            parse_quote! { #[repr(u8)] #[braid(name = "e")] enum E { One { #[braid(json)] x: u8 } = 1 } };
        assert!(refused(field).contains("`serde` alone"));
    }
    let value = |input| refused("Value", input);
    let nameless = value(parse_quote! { #[repr(u8)] enum E { One(u8) = 1 } });
    assert!(nameless.contains("an enum") && nameless.contains("needs a name"), "{nameless}");
    let taken = parse_quote! { #[repr(u8)] #[braid(name = "u8")] enum E { One = 1 } };
    assert!(value(taken).contains("has this name"));
    let first = parse_quote! { #[repr(u8)] #[braid(name = "e", previous = Old)] enum E { One = 1 } };
    assert!(value(first).contains("none before"));
}

#[test]
fn structs() {
    let value = |input| refused("Value", input);
    assert!(value(parse_quote! { struct User { age: u32 } }).contains("needs a name"));
    for name in ["", "1st", "a b", "ü", "a:b", &"x".repeat(256)] {
        let why = value(parse_quote! { #[braid(name = #name)] struct User { age: u32 } });
        assert!(why.contains("begins with a letter"), "{name}: {why}");
    }
    assert!(value(parse_quote! { #[braid(name = "u64")] struct User(u32); }).contains("has this name"));
    for version in ["0", "65536"] {
        let version: syn::LitInt = syn::parse_str(version).expect("a number");
        let why = value(parse_quote! { #[braid(name = "user", version = #version)] struct User(u32); });
        assert!(why.contains("1 to 65535"), "{why}");
    }
    assert!(value(parse_quote! { #[braid(name = "a", name = "b")] struct User(u32); }).contains("twice"));
    let first = value(parse_quote! { #[braid(name = "user", previous = Old)] struct User(u32); });
    assert!(first.contains("none before"), "{first}");
    assert!(value(parse_quote! { #[braid(nmae = "user")] struct User(u32); }).contains("known are"));
    let field = value(parse_quote! { #[braid(name = "user")] struct User(#[braid(json)] u32); });
    assert!(field.contains("`serde` alone"), "{field}");
}
