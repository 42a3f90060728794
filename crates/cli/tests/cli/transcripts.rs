//! The way from a table to a chart and on, word by word, on real data: from `TIDEGATE_DATA`, or from `shared/data`
//! beside the workspace. Released numbers differ from run to run, so the transcripts leave them out.
//! `TRYCMD=overwrite` writes them down anew.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A file of the real data; `None`, with a note, where the data are not.
fn data(file: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join(file);
    if !path.is_file() {
        println!("skipped: {file} is not here; TIDEGATE_DATA says where the data are");
        return None;
    }
    Some(path)
}

/// Runs a transcript in a folder that has these files besides; it draws a chart.
fn run(name: &str, files: &[(&str, String)], chart: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("transcripts").join(name);
    let _ = fs::remove_dir_all(&folder);
    let place = folder.join(format!("{name}.in"));
    fs::create_dir_all(&place).unwrap();
    for (file, text) in files {
        fs::write(place.join(file), text).unwrap();
    }
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.trycmd"));
    let copy = folder.join(format!("{name}.trycmd"));
    fs::copy(&kept, &copy).unwrap();
    let tests = trycmd::TestCases::new();
    tests.case(&copy);
    // Dropping the cases runs them.
    drop(tests);
    assert!(fs::read_to_string(place.join(chart)).unwrap().starts_with("<svg"), "{chart}");
    if std::env::var("TRYCMD").is_ok_and(|mode| mode == "overwrite") {
        fs::copy(&copy, &kept).unwrap();
    }
}

/// The unemployment of the United States by month, as downloaded: two runs, of which the second goes on.
#[test]
fn from_a_table_of_monthly_figures_to_a_chart() {
    let Some(path) = data("unemployment/unemployment.csv") else { return };
    let table = fs::read_to_string(path).unwrap();
    let (header, lines) = table.split_once('\n').unwrap();
    let (before, after) = lines.split_at(lines.find("2020-01-01").unwrap());
    let files = [("jobless.csv", format!("{header}\n{before}")), ("next.csv", format!("{header}\n{after}"))];
    run("numbers", &files, "jobless.svg");
}

/// What people do in a shop, by the hour, with dates in place of the seconds of the original.
#[test]
fn from_a_table_of_visits_to_a_chart() {
    let Some(path) = data("taobao_userbehavior/taobao_9days_815users.csv.gz") else { return };
    let mut table = String::new();
    tidegate_table::open(&path).unwrap().read_to_string(&mut table).unwrap();
    let mut files = ["date,uid,action,item\n".to_owned(), "date,uid,action,item\n".to_owned()];
    for line in table.lines().skip(1) {
        let [user, item, _, action, seconds] = line.split(',').collect::<Vec<_>>()[..] else { panic!("five fields") };
        // From 2017-11-25 to 2017-12-03, in UTC.
        let Some(since) = seconds.parse::<u64>().unwrap().checked_sub(1_511_568_000) else { continue };
        let (day, hour, minute) = (since / 86_400, since / 3_600 % 24, since / 60 % 60);
        let date = if day < 6 { format!("2017-11-{}", 25 + day) } else { format!("2017-12-{:02}", day - 5) };
        let text = format!("{date}T{hour:02}:{minute:02}:00Z,u{user},{action},{item}\n");
        files[usize::from(day >= 6)].push_str(&text);
    }
    let [first, next] = files;
    run("visits", &[("visits.csv", first), ("december.csv", next)], "visits.svg");
}
