//! Keys and scans under libFuzzer: `cargo +nightly fuzz run keys_and_scans`.

#![no_main]

#[path = "../keys_and_scans.rs"]
mod keys_and_scans;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| keys_and_scans::run(bytes));
