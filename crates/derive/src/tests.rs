//! What is refused, and that it is said what would be right.

use crate::{key, numbered, value};
use syn::{Data, DeriveInput, parse_quote};

fn refused(derive: &str, input: DeriveInput) -> String {
    let expansion = match (&input.data, derive) {
        (Data::Struct(of), "Key") => key::of_struct(&input, &of.fields),
        (Data::Struct(of), _) => value::of_struct(&input, &of.fields),
        (Data::Enum(of), "Key") => numbered::key(&input, of),
        (Data::Enum(of), _) => numbered::value(&input, of),
        (Data::Union(_), _) => unreachable!("not asked for"),
    };
    expansion.expect_err("it is refused").to_string()
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
        assert!(refused(derive, parse_quote! { enum Color { Red = 1 } }).contains("#[repr(u8)]"));
        assert!(
            refused(derive, parse_quote! { #[repr(u128)] enum Color { Red = 1 } })
                .contains("at most 64 bits")
        );
        assert!(
            refused(derive, parse_quote! { #[repr(u8)] enum Color { Red = 1, Green } })
                .contains("`Green = …`")
        );
        assert!(
            refused(derive, parse_quote! { #[repr(u8)] enum Color { Red(u8) = 1 } }).contains("with fields")
        );
        let named = parse_quote! { #[repr(u8)] #[braid(name = "color")] enum Color { Red = 1 } };
        assert!(refused(derive, named).contains("no name"));
        assert!(refused(derive, parse_quote! { #[repr(u8)] enum Never {} }).contains("no values"));
    }
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
