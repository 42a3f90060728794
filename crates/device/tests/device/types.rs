//! Guarantees of the types, at compile time.

use std::process::Command;

/// The compiler whose messages the `.stderr` files hold, from the repository's `rust-toolchain.toml`.
fn pinned_compiler() -> &'static str {
    include_str!("../../../../rust-toolchain.toml").split('"').nth(1).unwrap()
}

/// Compiler messages differ between versions, so other compilers skip the test.
#[test]
fn what_must_not_compile_does_not() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = String::from_utf8(Command::new(rustc).arg("--version").output().unwrap().stdout).unwrap();
    if version.split(' ').nth(1) != Some(pinned_compiler()) {
        eprintln!("skipped: the messages are those of {}, this is {version}", pinned_compiler());
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
