//! One user's correlated symbols, released one by one under sequence information privacy.
//!
//! `cargo run -p tidegate --example sequence`

use std::error::Error;

use tidegate::kernel::SystemRandom;
use tidegate::release::Statistic;
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;

const SPEC: &str = r#"
    mechanism = "crr"
    epsilon = 0.5                        # of each symbol
    domain = ["still", "moving"]

    [model]                              # public, and not learned from this stream
    prior = [0.5, 0.5]
    transitions = [[0.9, 0.1], [0.2, 0.8]]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut stream = Stream::new(toml::from_str::<StreamSpec>(SPEC)?)?;
    let random = &mut SystemRandom::new()?;
    for t in 0..12 {
        let symbol = if (4..9).contains(&t) { "moving" } else { "still" };
        for release in stream.push(stream.value(t, "ann", symbol)?, random)?.releases {
            if let (Statistic::Symbol(symbol), Some(values)) = (&release.statistic, stream.values()) {
                println!("{t:2}: {}", values.name(symbol.symbol));
            }
        }
    }
    Ok(())
}
