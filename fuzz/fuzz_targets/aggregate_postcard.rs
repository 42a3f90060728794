#![no_main]

#[allow(dead_code)] // each target uses one of the bodies
#[path = "../../crates/kernel/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_bodies::aggregate_postcard(bytes));
