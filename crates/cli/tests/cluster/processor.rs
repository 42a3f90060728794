//! Processor time of processes, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

/// Parent, and processor time in clock ticks: its own, and that of children that have ended.
#[derive(Clone, Copy, Debug)]
struct Stat {
    parent: u32,
    own: u64,
    ended: u64,
}

fn stat(process: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let parent = u32::try_from(number(1)?).ok()?;
    Some(Stat { parent, own: number(11)? + number(12)?, ended: number(13)? + number(14)? })
}

/// Returns the seconds that a process and its children have used, those that have ended included.
pub(crate) fn seconds(process: u32) -> f64 {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: BTreeMap<u32, Stat> = numbers.filter_map(|number| Some((number, stat(number)?))).collect();
    let mut sum = 0;
    let mut family = vec![process];
    while let Some(number) = family.pop() {
        let Some(stat) = all.get(&number) else { continue };
        sum += stat.own + stat.ended;
        family.extend(all.iter().filter(|(_, stat)| stat.parent == number).map(|(number, _)| *number));
    }
    // Linux counts in hundredths.
    sum as f64 / 100.0
}
