//! Counts of users by place, under w-event privacy, for a curator who sees the values.
//!
//! `cargo run -p tidegate --example central`

use std::error::Error;

use tidegate::kernel::SystemRandom;
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;

const SPEC: &str = r#"
    mechanism = "central.track"
    epsilon = 1.0                        # of any 7 timestamps of a user
    window = 7
    domain = ["home", "shop", "work"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut stream = Stream::new(toml::from_str::<StreamSpec>(SPEC)?)?;
    let random = &mut SystemRandom::new()?;
    for day in 0..14 {
        for user in 0..500 {
            let place = if user % 5 == day % 5 { "shop" } else { "work" };
            let released = stream.push(stream.value(day, &format!("user {user}"), place)?, random)?;
            for release in released.releases {
                let (counts, variances) = release.statistic.leaves();
                println!("day {}: {counts:.0?} ± {:.0}", release.timestamp, variances[0].sqrt());
            }
        }
    }
    for release in stream.finish(random)?.releases {
        println!("day {}: {:.0?}", release.timestamp, release.statistic.leaves().0);
    }
    for budget in stream.budgets(14) {
        println!("left for day 14: {:.0} % of epsilon {}", 100.0 * budget.left, budget.epsilon);
    }
    Ok(())
}
