//! Identities, manifests and files of rows under libFuzzer: `cargo +nightly fuzz run checkpoints -- -malloc_limit_mb=64`.

#![no_main]

#[allow(dead_code, reason = "the other targets use the rest")]
#[path = "../durable/mod.rs"]
mod durable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    durable::checkpoints(bytes).read();
});
