#![no_main]

#[allow(dead_code)] // each target uses one of the bodies
#[path = "../../crates/device/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_bodies::token_proof(bytes));
