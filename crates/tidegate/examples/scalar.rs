//! A meter whose readings are released with a delay of ten timestamps, each reading protected.
//!
//! `cargo run -p tidegate --example scalar`

use std::error::Error;

use tidegate::kernel::SystemRandom;
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;

const SPEC: &str = r#"
    mechanism = "scalar.contin"
    epsilon = 1.0                        # of each timestamp
    delay = 10
    domain = { low = 0, high = 612 }
    protects = "reading"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut stream = Stream::new(toml::from_str::<StreamSpec>(SPEC)?)?;
    let random = &mut SystemRandom::new()?;
    let readings = (0..40).map(|t| (t, (200 + 3 * t).to_string()));
    let mut released = Vec::new();
    for (t, reading) in readings {
        released.extend(stream.push(stream.reading(t, &reading)?, random)?.releases);
    }
    released.extend(stream.finish(random)?.releases);
    for release in released {
        if let Some(number) = release.statistic.number() {
            println!("{:2}: {:6.1} ± {:.1}", release.timestamp, number.value, number.variance.sqrt());
        }
    }
    Ok(())
}
