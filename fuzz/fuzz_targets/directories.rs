//! Whole directories, opened as databases, under libFuzzer: `cargo +nightly fuzz run directories -- -malloc_limit_mb=64`.

#![no_main]

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../durable/mod.rs"]
mod durable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    durable::directory(bytes).read();
});
