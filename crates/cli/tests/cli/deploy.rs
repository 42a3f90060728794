//! The files in `deploy` fit the program: metrics of alerts and dashboards, and manifests of Kubernetes.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tidegate_server::http::{Telemetry, WebhookSettings};

use crate::operations::{ask, await_ready};
use crate::service::{Home, Serving, stream};
use crate::{command, stderr, stdout};

fn read(name: &str) -> String {
    fs::read_to_string(format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns the metrics that a service shows, by the names that a query has, and their labels.
fn exposed(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut names = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        names.extend(endings.iter().map(|ending| format!("{name}{ending}")));
    }
    let labels = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('{'));
    let labels = labels.flat_map(|(_, rest)| rest.split("=\"").map(str::to_owned).collect::<Vec<_>>());
    let labels = labels.filter_map(|part| part.rsplit([',', '{', '"']).next().map(str::to_owned));
    (names, labels.collect())
}

/// Returns the words of an expression that begin like that.
fn words<'a>(expression: &'a str, beginning: &str) -> Vec<&'a str> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    expression.split(|character| !is_word(character)).filter(|word| word.starts_with(beginning)).collect()
}

/// Returns the labels that an expression selects and groups by.
fn labels_of(expression: &str) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for selector in expression.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
        let each = selector.0.split('"').step_by(2).map(|part| part.trim_matches([',', ' ', '=', '~', '!']));
        labels.extend(each.filter(|label| !label.is_empty()).map(str::to_owned));
    }
    for group in ["by (", "on ("] {
        for rest in expression.split(group).skip(1) {
            let inside = rest.split(')').next().unwrap();
            labels.extend(inside.split(',').map(|label| label.trim().to_owned()));
        }
    }
    labels
}

fn metrics_of_a_service() -> (BTreeSet<String>, BTreeSet<String>) {
    let home = Home::new();
    home.configure("public_metrics = true\n", &stream("visits", 1, 3));
    let serving = home.serve();
    await_ready(&serving);
    let text = ask(&serving.url, "/metrics", "");
    assert!(text.contains("tidegate_memory_bytes{} ") && text.contains("tidegate_open_files{} "), "{text}");
    assert!(text.contains("tidegate_store_bytes{} ") && text.contains("tidegate_most_open_files{} "), "{text}");
    assert!(text.contains("tidegate_stream_status{stream=\"visits\",status=\"running\"} 1"), "{text}");
    assert_eq!(serving.terminate().0, Some(0));
    let (shown, labels) = exposed(&text);
    // Metrics without a sample are not shown.
    let names = Telemetry::new(WebhookSettings::default()).unwrap().names().iter().cloned().collect();
    assert!(shown.len() > 20 && shown.is_subset(&names), "{:?}", shown.difference(&names));
    (names, labels)
}

/// Checks expressions against the metrics of a service. Prometheus adds `instance` and `job`, histograms have `le`.
fn check(expressions: &[String]) {
    let (names, mut labels) = metrics_of_a_service();
    // Families without a sample show no labels.
    let others = ["instance", "job", "le", "reason", "kind", "outcome", "route", "transaction", "connector"];
    labels.extend(others.map(str::to_owned));
    let mut used = BTreeSet::new();
    for expression in expressions {
        for name in words(expression, "tidegate_") {
            assert!(names.contains(name), "{name} is in {expression:?}, but no metric: {names:?}");
            used.insert(name.to_owned());
        }
        for label in labels_of(expression) {
            assert!(labels.contains(&label), "{label} is in {expression:?}, but no label: {labels:?}");
        }
        let opened = |bracket: char| expression.matches(bracket).count();
        assert!(opened('(') == opened(')') && opened('{') == opened('}'), "{expression:?}");
    }
    assert!(used.len() > 10, "{used:?}");
}

#[test]
fn the_alerts_use_metrics_that_exist() {
    let rules: Value = serde_yaml_ng::from_str(&read("alerts.yml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let mut names = BTreeSet::new();
    let mut expressions = Vec::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} twice");
        assert!(["page", "ticket"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        assert!(rule["annotations"]["summary"].as_str().unwrap().len() > 10, "{name}");
        expressions.push(rule["expr"].as_str().unwrap().to_owned());
    }
    check(&expressions);
    // The operators' page names each of them.
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md")).unwrap();
    let missing: Vec<_> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/operations.md does not name {missing:?}");
}

#[test]
fn the_dashboard_uses_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let mut expressions = Vec::new();
    let mut numbers = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(numbers.insert(panel["id"].as_u64().unwrap()));
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{place}");
        for target in panel["targets"].as_array().unwrap() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            expressions.push(query.to_owned());
        }
    }
    check(&expressions);
}

fn manifests() -> Vec<Value> {
    let text = read("kubernetes.yml");
    text.split("\n---\n").map(|document| serde_yaml_ng::from_str(document).unwrap()).collect()
}

/// Finds the only value of a list with that name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut found = list.as_array().unwrap().iter().filter(|entry| entry["name"] == name);
    let one = found.next().unwrap_or_else(|| panic!("there is no {name} in {list}"));
    assert!(found.next().is_none(), "{name} twice");
    one
}

#[test]
fn the_manifests_fit_together_and_the_program() {
    let all = manifests();
    let kinds: Vec<_> = all.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ConfigMap", "Service", "StatefulSet", "NetworkPolicy"]);
    let [config, service, set, policy] = &all[..] else { panic!("{kinds:?}") };
    let (spec, pod) = (&set["spec"], &set["spec"]["template"]["spec"]);
    let labels = &spec["template"]["metadata"]["labels"];
    assert_eq!((&spec["selector"]["matchLabels"], &service["spec"]["selector"]), (labels, labels));
    assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);
    // One service has a state folder, and it is told to stop in time.
    assert_eq!((spec["replicas"].as_u64(), &spec["serviceName"]), (Some(1), &service["metadata"]["name"]));
    let limits = tidegate_server::http::Limits::default();
    let grace = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    assert!(limits.grace + limits.stop + Duration::from_secs(3) < grace);
    // Ports of the configuration, the container, the service, the probes and the policy are the same.
    let text = config["data"]["service.toml"].as_str().unwrap();
    let settings: toml::Table = text.parse().unwrap();
    let port = |key: &str| -> u64 { settings[key].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap() };
    let main = named(&pod["containers"], "tidegate");
    let ports = &main["ports"];
    assert_eq!(named(ports, "http")["containerPort"], port("listen"));
    assert_eq!(named(ports, "monitoring")["containerPort"], port("monitoring"));
    for (place, port) in [("http", "http"), ("monitoring", "monitoring")] {
        assert_eq!(named(&service["spec"]["ports"], place)["targetPort"], port);
    }
    let allowed: Vec<_> = policy["spec"]["ingress"].as_array().unwrap().iter().map(|rule| &rule["ports"][0]).collect();
    assert_eq!([&allowed[0]["port"], &allowed[1]["port"]], [port("listen"), port("monitoring")]);
    let notes = &spec["template"]["metadata"]["annotations"];
    assert_eq!(notes["prometheus.io/port"].as_str().unwrap(), port("monitoring").to_string());
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let asked = &main[probe]["httpGet"];
        assert_eq!((asked["path"].as_str(), asked["port"].as_str()), (Some(path), Some("monitoring")));
    }
    assert_eq!(notes["prometheus.io/path"], "/metrics");
    // Every mount has a volume, and no volume is there for nothing.
    let claims = spec["volumeClaimTemplates"].as_array().unwrap().iter().map(|claim| &claim["metadata"]["name"]);
    let volumes: BTreeSet<_> = pod["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| &volume["name"])
        .chain(claims)
        .map(Value::as_str)
        .collect();
    let containers = [main, named(&pod["initContainers"], "keys")];
    let mounted = containers.iter().flat_map(|container| container["volumeMounts"].as_array().unwrap());
    assert_eq!(mounted.map(|mount| mount["name"].as_str()).collect::<BTreeSet<_>>(), volumes);
    assert_eq!(named(&pod["volumes"], "config")["configMap"]["name"], config["metadata"]["name"]);
    let config_at = named(&main["volumeMounts"], "config")["mountPath"].as_str().unwrap();
    assert_eq!(main["args"], serde_json::json!(["serve", "--config", format!("{config_at}/service.toml")]));
    let data_at = named(&main["volumeMounts"], "data")["mountPath"].as_str().unwrap();
    assert!(settings["state"].as_str().unwrap().starts_with(&format!("{data_at}/")));
    // The user of the image, without rights.
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    assert!(read("Dockerfile").contains(&format!("--uid {user} ")));
    for container in containers {
        assert_eq!(container["image"], main["image"]);
        let rights = &container["securityContext"];
        assert_eq!(rights["capabilities"]["drop"], serde_json::json!(["ALL"]));
        assert_eq!(
            (&rights["readOnlyRootFilesystem"], &rights["allowPrivilegeEscalation"]),
            (&true.into(), &false.into())
        );
    }
    assert_eq!(pod["securityContext"]["fsGroupChangePolicy"], "OnRootMismatch");
}

/// Runs what the manifests run: the keys are copied into a volume that its group can write to, and the service starts
/// with the configuration.
#[test]
fn the_manifests_start_a_service() {
    let all = manifests();
    let pod = &all[2]["spec"]["template"]["spec"];
    let home = Home::new();
    let (data, keys) = (home.folder.file("data"), home.folder.file("home/state"));
    fs::create_dir(&data).unwrap();
    // As fsGroup makes it.
    fs::set_permissions(&data, fs::Permissions::from_mode(0o2770)).unwrap();
    let here = |text: &str| text.replace("/data", data.to_str().unwrap()).replace("/keys", keys.to_str().unwrap());
    let script = pod["initContainers"][0]["command"][2].as_str().unwrap();
    for _ in 0..2 {
        let copied = Command::new("sh").args(["-euc", &here(script)]).output().unwrap();
        assert!(copied.status.success(), "{}", stderr(&copied));
    }
    let text = all[0]["data"]["service.toml"].as_str().unwrap();
    let text = here(text).replace("0.0.0.0:8420", "127.0.0.1:0").replace("0.0.0.0:8421", "127.0.0.1:0");
    let config = home.folder.file("service.toml");
    fs::write(&config, text + &stream("visits", 1, 3)).unwrap();
    let doctor = command("doctor --config").arg(&config).output().unwrap();
    assert!(doctor.status.success(), "{}", stdout(&doctor));
    let serving = Serving::start(command("serve --config").arg(&config));
    await_ready(&serving);
    assert!(ask(&serving.url, "/metrics", "").starts_with("HTTP/1.1 200"));
    assert_eq!(serving.terminate().0, Some(0));
    assert!(data.join("state/tidegate.db").exists() && data.join("state/marks").exists());
}
