//! Guarantees of the types, at compile time and at run time.

use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;

use tidegate_kernel::{Epsilon, Ledger, Permit, Provenance, Randomness, Sealed, SeededRandom, SystemRandom, Window};
use zeroize::Zeroize;

use crate::support::sealed_at;

/// The compiler whose messages the `.stderr` files hold, from the repository's `rust-toolchain.toml`.
fn pinned_compiler() -> &'static str {
    include_str!("../../../../rust-toolchain.toml").split('"').nth(1).unwrap()
}

/// The crate's README is compiled and run, so the repository's example is tested too.
#[test]
fn both_readmes_show_the_same_example() {
    let example = |readme: &'static str| readme.split("```").find(|block| block.starts_with("rust\n")).unwrap();
    assert_eq!(example(include_str!("../../README.md")), example(include_str!("../../../../README.md")));
}

#[test]
fn the_pinned_compiler_is_the_minimum_rust_version() {
    let manifest = include_str!("../../../../Cargo.toml");
    let minimum = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert_eq!(pinned_compiler().strip_suffix(".0").unwrap_or(pinned_compiler()), minimum);
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

#[test]
fn debug_output_hides_a_sealed_value() {
    assert_eq!(format!("{:?}", sealed_at(0, 42_u64)), "Sealed(..)");
    assert_eq!(format!("{:#?}", sealed_at(0, vec![4_u64, 2])), "Sealed(..)");
    assert_eq!(format!("{:?}", Some(sealed_at(0, "42".to_owned()))), "Some(Sealed(..))");
}

/// Records its value before and after it was zeroised.
struct Witness {
    value: u64,
    wiped: Rc<RefCell<Vec<(u64, u64)>>>,
}

impl Zeroize for Witness {
    fn zeroize(&mut self) {
        let before = self.value;
        self.value.zeroize();
        self.wiped.borrow_mut().push((before, self.value));
    }
}

#[test]
fn a_sealed_value_is_zeroised_once_on_drop() {
    let wiped = Rc::new(RefCell::new(Vec::new()));
    let sealed = sealed_at(0, Witness { value: 42, wiped: Rc::clone(&wiped) });
    let moved = Box::new(sealed);
    assert!(wiped.borrow().is_empty());
    drop(moved);
    assert_eq!(*wiped.borrow(), [(42, 0)]);
}

#[test]
fn a_sealed_value_is_zeroised_by_unwinding() {
    let wiped = Rc::new(RefCell::new(Vec::new()));
    let sealed = sealed_at(0, Witness { value: 7, wiped: Rc::clone(&wiped) });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _kept = sealed;
        std::panic::resume_unwind(Box::new("as planned"));
    }));
    assert!(result.is_err());
    assert_eq!(*wiped.borrow(), [(7, 0)]);
}

fn words(random: &mut impl Randomness) -> [u64; 8] {
    let mut words = [0; 8];
    random.fill_words(&mut words);
    words
}

#[test]
fn two_system_generators_differ_and_are_private() {
    let (mut first, mut second) = (SystemRandom::new().unwrap(), SystemRandom::new().unwrap());
    // 512 random bits agree with probability 2^-512.
    assert_ne!(words(&mut first), words(&mut second));
    assert_ne!(words(&mut first), words(&mut first));
    assert_eq!(first.provenance(), Provenance::System);
    assert!(first.provenance().is_private());
}

#[test]
fn a_seeded_generator_repeats_and_is_not_private() {
    let mut random = SeededRandom::new(3);
    assert_eq!(words(&mut random), words(&mut SeededRandom::new(3)));
    assert_ne!(words(&mut SeededRandom::new(3)), words(&mut SeededRandom::new(4)));
    assert_eq!(random.provenance(), Provenance::Seeded);
    assert!(!random.provenance().is_private());
}

#[test]
fn streams_of_one_seed_differ_and_repeat() {
    let stream = |number| words(&mut SeededRandom::with_stream(3, number));
    assert_eq!(stream(0), words(&mut SeededRandom::new(3)));
    assert_eq!(stream(5), stream(5));
    let mut all: Vec<[u64; 8]> = (0..100).chain([u64::MAX]).map(stream).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 101);
}

#[test]
fn filling_words_draws_the_same_as_one_by_one() {
    let mut random = SeededRandom::new(8);
    let one_by_one: Vec<u64> = (0..8).map(|_| random.next_word()).collect();
    assert_eq!(words(&mut SeededRandom::new(8)).as_slice(), one_by_one);
}

#[test]
fn generators_do_not_print_their_state() {
    let state = format!("{:?}", SeededRandom::new(0x1234_5678));
    assert!(!state.contains("12345678") && !state.contains("305419896"), "{state}");
}

#[test]
fn what_crosses_threads_may() {
    fn assert_send<T: Send + 'static>() {}
    assert_send::<Ledger>();
    assert_send::<Permit>();
    assert_send::<Sealed<Vec<u64>>>();
    assert_send::<SystemRandom>();
    assert_send::<SeededRandom>();
}

#[test]
fn a_permit_that_is_dropped_stays_spent() {
    let mut ledger = Ledger::new(Epsilon::MIN, Window::EVENT);
    drop(ledger.spend(0, Epsilon::MIN).unwrap());
    assert_eq!(ledger.remaining(0), None);
}
