//! `tidegate stream`: the streams of a running service, and the same by curl.

use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::service::{Home, Serving, stream};
use crate::{assert_refused, command, run, stderr, stdout};

const ROOMS: &str =
    "family = \"central\"\nmechanism = \"uniform\"\nepsilon = 20\nwindow = 2\ndomain = [\"in\", \"out\"]\n";

fn ask(home: &Home, serving: &Serving, role: &str, arguments: &str) -> Output {
    let mut command = command(&format!("stream {arguments}"));
    command.env("TIDEGATE_SERVER", &serving.url).env("TIDEGATE_TOKEN", home.token(role)).output().unwrap()
}

/// Sends until a tick is open: a stream begins with the first whole tick.
fn send_when_open(home: &Home, serving: &Serving, arguments: &str) -> Output {
    let start = Instant::now();
    loop {
        let output = ask(home, serving, "ingest", arguments);
        if output.status.success() || start.elapsed() > Duration::from_secs(10) {
            return output;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn streams_are_managed_from_the_shell() {
    let home = Home::new();
    let serving = home.serve();
    let place = |name: &str| home.folder.file(name).display().to_string();
    fs::write(place("rooms.toml"), ROOMS).unwrap();
    let create = format!("create rooms --tick 1 --spec {}", place("rooms.toml"));
    let created = ask(&home, &serving, "operator", &create);
    assert!(created.status.success(), "{}", stderr(&created));
    let words: Vec<Vec<&str>> = stdout(&created).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1][..7], ["rooms", "central", "uniform", "20", "2", "1", "running"], "{words:?}");
    // Twice is once, and another guarantee another stream.
    assert!(ask(&home, &serving, "operator", &create).status.success());
    fs::write(place("other.toml"), ROOMS.replace("epsilon = 20", "epsilon = 30")).unwrap();
    let changed = ask(&home, &serving, "operator", &format!("create rooms --tick 1 --spec {}", place("other.toml")));
    assert_eq!(changed.status.code(), Some(1));
    assert!(stderr(&changed).contains("declare a new stream"), "{}", stderr(&changed));
    let listed = ask(&home, &serving, "analyst", "list --json");
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["name"], "rooms");
    let shown = ask(&home, &serving, "analyst", "show rooms");
    assert!(stdout(&shown).contains("running"), "{}", stderr(&shown));
    // Events, as a table and one by one.
    fs::write(place("events.csv"), "user,value\nann,in\nbob,out\n").unwrap();
    let sent = send_when_open(&home, &serving, &format!("send rooms --input {}", place("events.csv")));
    assert_eq!(stdout(&sent), "2 events were taken\n", "{}", stderr(&sent));
    let one = send_when_open(&home, &serving, "send rooms --user cem --value in --json");
    assert_eq!(stdout(&one), "{\"taken\":1}\n", "{}", stderr(&one));
    for (action, status) in [("pause", "paused"), ("resume", "running"), ("retire", "retired")] {
        let set = ask(&home, &serving, "operator", &format!("{action} rooms"));
        assert!(set.status.success() && stdout(&set).contains(status), "{action}: {}", stderr(&set));
    }
    let again = ask(&home, &serving, "operator", "resume rooms");
    assert!(again.status.code() == Some(1) && stderr(&again).contains("retired"), "{}", stderr(&again));
    // An analyst creates nothing.
    assert_eq!(ask(&home, &serving, "analyst", &create).status.code(), Some(1));
}

#[test]
fn users_join_and_leave_from_the_shell() {
    let home = Home::new();
    let serving = home.serve();
    let place = |name: &str| home.folder.file(name).display().to_string();
    let classes = "[[classes]]\nname = \"high\"\nepsilon = 1\nwindow = 2\n\n\
                   [[classes]]\nname = \"low\"\nepsilon = 2\nwindow = 9\n";
    let spec = format!("family = \"central\"\nmechanism = \"pba\"\ndomain = [\"in\", \"out\"]\n\n{classes}");
    fs::write(place("rooms.toml"), spec).unwrap();
    let created = ask(&home, &serving, "operator", &format!("create rooms --tick 1 --spec {}", place("rooms.toml")));
    assert!(created.status.success(), "{}", stderr(&created));
    fs::write(place("users.csv"), "user,class\nann,high\nbob,low\ncem,\n").unwrap();
    let taken = ask(&home, &serving, "ingest", &format!("users rooms --input {}", place("users.csv")));
    assert_eq!(stdout(&taken), "3 users were taken\n", "{}", stderr(&taken));
    let moved = ask(&home, &serving, "ingest", "users rooms --user ann --class low --json");
    assert_eq!(stdout(&moved), "{\"taken\":1}\n", "{}", stderr(&moved));
    let shown = ask(&home, &serving, "ingest", "users rooms --user ann");
    assert!(stdout(&shown).starts_with("ann is in class low, and counts from timestamp "), "{}", stdout(&shown));
    assert!(ask(&home, &serving, "ingest", "users rooms --user bob --leave").status.success());
    assert_eq!(stdout(&ask(&home, &serving, "ingest", "users rooms --user bob")), "bob has left\n");
    // Nobody has registered cem, and there is no such class.
    for (arguments, code, why) in [
        ("users rooms --user cem", 1, "there is no user of that name"),
        ("users rooms --user cem --class medium", 2, "class: expected high, low, or null to leave"),
    ] {
        let refused = ask(&home, &serving, "ingest", arguments);
        assert!(refused.status.code() == Some(code) && stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

#[test]
fn history_is_sent_from_the_shell() {
    let home = Home::new();
    let serving = home.serve();
    let place = |name: &str| home.folder.file(name).display().to_string();
    fs::write(place("rooms.toml"), ROOMS).unwrap();
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 1_000;
    let create = format!("create rooms --tick 1 --epoch {epoch} --backfill --spec {}", place("rooms.toml"));
    assert!(ask(&home, &serving, "operator", &create).status.success());
    let send = |text: &str, more: &str| {
        fs::write(place("years.csv"), text).unwrap();
        let arguments = format!("send rooms --history {}{more}", place("years.csv"));
        let start = Instant::now();
        loop {
            // The service may not drive the stream yet.
            let output = ask(&home, &serving, "ingest", &arguments);
            if !stderr(&output).contains("not available") || start.elapsed() > Duration::from_secs(10) {
                return output;
            }
        }
    };
    // Timestamp 2 has no line, which must not show.
    let sent = send("t,user,value\n1,ann,in\n1,bob,out\n3,ann,in\n", "");
    assert_eq!(stdout(&sent), "3 timestamps were released\n", "{}", stderr(&sent));
    let again = send("t,user,value\n3,ann,in\n4,ann,in\n", "");
    assert!(again.status.code() == Some(1) && stderr(&again).contains("expected 4 or a later"), "{}", stderr(&again));
    let rest = send("t,user,value\n3,ann,in\n4,ann,in\n", " --from 4 --json");
    assert_eq!(stdout(&rest), "{\"released\":1}\n", "{}", stderr(&rest));
    for wrong in ["t,user,value\n6,ann,in\n5,ann,in\n", "t,user,value\nx,ann,in\n"] {
        let refused = send(wrong, "");
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("line "), "{}", stderr(&refused));
    }
    assert!(ask(&home, &serving, "operator", "resume rooms").status.success());
    let late = send("t,user,value\n7,ann,in\n", "");
    assert!(stderr(&late).contains("this stream is live"), "{}", stderr(&late));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_sent() {
    let home = Home::new();
    assert_refused(&run("stream list"), "which service? --server URL names it, or the variable TIDEGATE_SERVER");
    assert_refused(&run("stream show A --server http://127.0.0.1:1"), "a stream has a name of 1 to 64 lower-case");
    let spec = home.folder.file("spec.toml");
    let create = |text: &str| {
        fs::write(&spec, text).unwrap();
        run(&format!("stream create rooms --tick 1 --spec {} --server http://127.0.0.1:1", spec.display()))
    };
    for (text, why) in [
        (
            ROOMS.replace("window = 2", "window = \"2\""),
            "line 4, key \"window\": expected a whole number, 1 or more, not text",
        ),
        (ROOMS.replace("window", "windw"), "line 4: there is no key \"windw\" (did you mean window?)"),
        (ROOMS.replace("window = 2\n", ""), "spec.toml: uniform needs the key window"),
        (ROOMS.replace("[\"in\", \"out\"]", "true"), "expected a list of names, how many values there are, or low"),
        (format!("{ROOMS}neighbours = \"add\"\n"), "there is no \"add\" (did you mean add_remove?)"),
        (format!("{ROOMS}window = 3\n"), "line 6: this key is given twice"),
        (ROOMS.replace("\"uniform\"", "uniform"), "line 2: text must stand in quotes"),
    ] {
        assert_refused(&create(&text), why);
    }
    assert_refused(&run("stream send rooms --server http://127.0.0.1:1"), "--input <FILE|->");
}

#[test]
fn a_device_holds_a_value_by_its_name() {
    let home = Home::new();
    home.configure("", &stream("visits", 1, 3));
    let serving = home.serve();
    let device = |value: &str| {
        let key = home.folder.file("home/operator.pub");
        let (key, state) = (key.display(), home.folder.file("device"));
        let arguments = format!(
            "device run --stream visits --operator-key {key} --state {} --source place --ticks 1 --json \
             --value {value}",
            state.display()
        );
        let mut command = command(&arguments);
        command.env("TIDEGATE_SERVER", &serving.url).env("TIDEGATE_TOKEN", home.token("ingest")).output().unwrap()
    };
    let named = device("work");
    assert!(named.status.success(), "{}", stderr(&named));
    assert!(device("1").status.success());
    let unknown = device("wrok");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("--value: the stream has the values home, work, away"), "{}", stderr(&unknown));
    assert_eq!(device("3").status.code(), Some(2));
}

#[test]
fn devices_report_with_credentials_from_the_shell() {
    let home = Home::new();
    home.configure("", &stream("visits", 3, 1).replace("tick = 3", "tick = 3\ncredentials = true"));
    home.configure("", &stream("open", 3, 1));
    let serving = home.serve();
    let place = |name: &str| home.folder.file(name).display().to_string();
    let key = place("home/operator.pub");
    let as_device = |arguments: &str| {
        let mut command = command(&format!("device {arguments} --stream visits --operator-key {key} --json"));
        command.env("TIDEGATE_SERVER", &serving.url).env("TIDEGATE_TOKEN", home.token("ingest")).output().unwrap()
    };
    let lines = |output: &Output| -> Vec<Value> {
        assert!(output.status.success(), "{}", stderr(output));
        stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // An ingest token gets no credential, and a stream without credentials has none.
    let of = "credential visits --device phone-1";
    assert!(stderr(&ask(&home, &serving, "ingest", of)).contains("role operator"));
    let none = ask(&home, &serving, "operator", "credential open --device phone-1");
    assert!(stderr(&none).contains("declared without them"), "{}", stderr(&none));
    let credential = ask(&home, &serving, "operator", of);
    assert_eq!(lines(&credential)[0]["device"], "phone-1");
    fs::write(place("phone-1"), &credential.stdout).unwrap();
    let run = format!("run --state {} --source place --value work", place("device"));
    let without = as_device(&run);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("--credential-file FILE has the device's credential"), "{}", stderr(&without));
    for (name, text, said) in [
        ("broken", "{}".to_owned(), "expected what tidegate stream credential prints"),
        ("other", stdout(&credential).replace("visits", "open"), "is a credential for stream open, not for visits"),
    ] {
        fs::write(place(name), text).unwrap();
        let refused = as_device(&format!("{run} --credential-file {}", place(name)));
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains(said), "{}", stderr(&refused));
    }
    let reported = as_device(&format!("{run} --credential-file {} --ticks 4", place("phone-1")));
    let accepted = lines(&reported).iter().filter(|line| line["outcome"] == "accepted").count();
    assert!(accepted >= 2, "{} {}", stdout(&reported), stderr(&reported));
    // A fleet needs an operator's token for the credentials of its devices.
    fs::write(place("counts.csv"), "t,home,work,away\n0,6,4,2\n").unwrap();
    let fleet = format!("fleet --devices 12 --dataset {} --ticks 2", place("counts.csv"));
    let refused = as_device(&fleet);
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("--operator-token-file FILE"));
    fs::write(place("operator.token"), home.token("operator")).unwrap();
    let rows = lines(&as_device(&format!("{fleet} --operator-token-file {}", place("operator.token"))));
    assert!(rows.iter().any(|row| row["accepted"] == 12), "{rows:?}");
    assert!(rows.iter().all(|row| row["wrong_token"] == 0 && row["conflicting"] == 0), "{rows:?}");
}

#[test]
fn without_a_token_the_command_says_how_to_give_one() {
    let home = Home::new();
    let serving = home.serve();
    let refused = command("stream list").env("TIDEGATE_SERVER", &serving.url).env_remove("TIDEGATE_TOKEN").output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let way = "--token-file FILE, or the variable TIDEGATE_TOKEN, tells the token";
    assert!(stderr(&refused).contains(way), "{}", stderr(&refused));
}

/// The commands of docs/service.md, as they stand there.
#[test]
fn the_recipes_of_the_documentation_work() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no curl");
        return;
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/service.md")).unwrap();
    let recipes = page.split("## Recipes for curl").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks: Vec<&str> = recipes.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 2, "{recipes}");
    let home = Home::new();
    let serving = home.serve();
    let script = format!("set -eu\n{}", blocks.concat().replace("http://127.0.0.1:8420", &serving.url));
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("OPERATOR", home.token("operator"))
        .env("INGEST", home.token("ingest"))
        .env("ANALYST", home.token("analyst"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("\"taken\":2"), "{}", stdout(&output));
    assert!(stdout(&output).contains("\"status\":\"retired\""), "{}", stdout(&output));
}
