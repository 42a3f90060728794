//! Frequencies of values that only the users' devices see. Here the devices run in this process, each with its own
//! ledger; `tidegate serve` asks devices over HTTP.
//!
//! `cargo run -p tidegate --example local`

use std::error::Error;

use tidegate::kernel::SystemRandom;
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;

const SPEC: &str = r#"
    mechanism = "lpa"
    epsilon = 2.0                        # of any 5 timestamps of a user
    window = 5
    domain = ["idle", "busy"]
    population = 5000
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut stream = Stream::new(toml::from_str::<StreamSpec>(SPEC)?)?;
    let random = &mut SystemRandom::new()?;
    for hour in 0..12 {
        let busy = if hour < 6 { 10 } else { 60 };
        for user in 0..5_000 {
            let value = if user % 100 < busy { "busy" } else { "idle" };
            let released = stream.push(stream.value(hour, &format!("user {user}"), value)?, random)?;
            for release in released.releases {
                let share = 100.0 * release.statistic.leaves().0[1];
                println!("hour {:2}: {share:5.1} % busy, {}", release.timestamp, release.freshness.name());
            }
        }
    }
    Ok(())
}
