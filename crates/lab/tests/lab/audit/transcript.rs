//! The transcript audit: no transcript is above its claim, and the claims are nearly reached.

use tidegate_lab::audit::transcript::{Search, examine};
use tidegate_lab::audit::{Settings, targets};

#[test]
fn probe() {
    for target in targets::all(&Settings::small("1".parse().unwrap())).unwrap() {
        let start = std::time::Instant::now();
        let worst = examine(target.as_ref(), &Search::QUICK).unwrap();
        println!(
            "{:28} {:80} {:.4} {:.6} {} {} {:.2}s",
            target.name(),
            target.guarantee(),
            target.claimed(),
            worst.loss,
            worst.pair,
            worst.transcripts,
            start.elapsed().as_secs_f64()
        );
    }
}
