//! `tidegate demo`.

use crate::folder::TestFolder;
use crate::{command, stderr, stdout};

#[test]
fn the_demonstration_starts_a_service_and_shows_what_it_releases_as_it_comes() {
    let folder = TestFolder::new();
    let mut demo = command("demo --users 1000 --days 1 --hours 4 --epsilon 4 --window 6 --ascii --out");
    // Its service and what is in it are gone afterwards.
    let output = demo.arg(folder.file("out")).env("TMPDIR", folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "live       http://127.0.0.1:",
        "/#token=tg_a_",
        "\nday 1, 03:00  old town ",
        "Where 1000 users of a city are, over a day",
        "\nguarantee  for each user, epsilon 4 in any 6 hours",
        "\nmechanism  local.track\n",
        "by its own ledger: epsilon ",
        "\npicture    ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(folder.file("out/city.svg").exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn without_a_service_the_demonstration_shows_a_chart_an_error_a_spend_an_alarm_and_a_picture() {
    let folder = std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id()));
    let demo = |arguments: &str| {
        let mut command =
            command(&format!("demo --offline --users 4000 --days 2 --epsilon 4 --window 6 {arguments} --out"));
        command.arg(&folder).env("LC_ALL", "C.UTF-8").output().unwrap()
    };
    let output = demo("");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1);
    assert!(stderr(&output).starts_with("warning: this run is seeded with 1"), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "Where 4000 users of a city are, over 2 days",
        "\nstadium\n",
        "░",
        "\nguarantee  for each user, epsilon 4 in any 6 hours",
        "\nmechanism  local.track",
        "\nerror      mean square ",
        "by its own ledger: epsilon 4 of 4\n",
        "\nmonitor    a rush at the stadium, above 30 %: day 2, ",
        "\npicture    ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b'), "no colours where there is no terminal");
    let chart = text.lines().take_while(|line| !line.starts_with("guarantee"));
    assert!(chart.into_iter().all(|line| line.chars().count() <= 80), "{text}");
    let picture = std::fs::read_to_string(folder.join("city.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("stadium") && picture.contains("released"));
    // The same again, but for how long it took.
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("reports")).map(str::to_owned).collect()
    };
    assert_eq!(lines(stdout(&demo(""))), lines(text));
    let ascii = demo("--ascii");
    assert!(ascii.status.success() && stdout(&ascii).is_ascii(), "{}", stdout(&ascii));
    std::fs::remove_dir_all(folder).unwrap();
}
