//! Tokens that one thread checks in a second, and draws that it answers and finishes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};

use tidegate_device::credential::{BLOCK, Draw, Issuer};
use tidegate_device::wire::StreamTag;
use tidegate_kernel::SeededRandom;

/// How long each is measured.
const TIME: Duration = Duration::from_secs(3);

/// Prints how often something is done in a second.
fn measure(what: &str, mut once: impl FnMut(u64)) {
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < TIME {
        once(count);
        count += 1;
    }
    println!("{what:<28} {:>9.0} a second", count as f64 / began.elapsed().as_secs_f64());
}

fn main() {
    // Test runners start benchmarks to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let (issuer, tag) = (Issuer::new(&[7; 32], "visits").unwrap(), StreamTag::of("visits"));
    let checker = issuer.checker(7).unwrap();
    let token = checker.token([1; 16]);
    let (id, proof) = (token.report_id(0), token.prove(0, b"report"));
    measure("tokens checked", |_| assert!(checker.accepts(0, id, proof, b"report")));
    measure("checks prepared", |timestamp| assert!(issuer.checker(timestamp).is_some()));
    let credential = issuer.credential("phone-1").unwrap();
    let draw = Draw::new(0, &mut SeededRandom::new(1));
    let request = draw.request(&credential);
    let elements = issuer.check(&request).unwrap();
    let answer = issuer.answer(0, &elements).unwrap();
    println!("a draw is for {BLOCK} tokens");
    measure("draws requested by a device", |_| assert_eq!(draw.request(&credential).block, 0));
    measure("draws answered", |_| assert!(issuer.answer(0, &issuer.check(&request).unwrap()).is_ok()));
    measure("answers checked by a device", |_| draw.clone().finish(tag, &issuer.public(), &answer).unwrap());
}
