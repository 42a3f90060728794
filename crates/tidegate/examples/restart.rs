//! A stream whose state outlives the process: the budget of a window is kept across restarts.
//!
//! `cargo run -p tidegate --example restart` releases one more day each time it runs.

use std::error::Error;
use std::fs;

use tidegate::kernel::SystemRandom;
use tidegate::spec::StreamSpec;
use tidegate::stream::{Entry, Stream};

const SPEC: &str = r#"
    mechanism = "uniform"
    epsilon = 1.0
    window = 7
    domain = ["home", "away"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let spec: StreamSpec = toml::from_str(SPEC)?;
    let file = std::env::temp_dir().join("tidegate-restart.state");
    let mut stream = match fs::read(&file) {
        Ok(saved) => Stream::load(spec, &saved, None)?,
        Err(_) => Stream::new(spec)?,
    };
    let day = stream.last().map_or(0, |last| last + 1);
    let counts = Entry::Counts { timestamp: day, counts: vec![300, 120] };
    let releases = stream.push(counts, &mut SystemRandom::new()?)?.releases;
    // The state is on the disk before anybody sees the release: a crash in between loses a release, never a spend.
    fs::write(&file, stream.save(None)?)?;
    for release in releases {
        println!("day {day}: {:.0?}, spent {}", release.statistic.leaves().0, release.spent);
    }
    for budget in stream.budgets(day + 1) {
        println!("left of this week's epsilon {}: {:.0} %", budget.epsilon, 100.0 * budget.left);
    }
    Ok(())
}
