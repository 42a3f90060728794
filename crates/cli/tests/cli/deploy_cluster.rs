//! The manifests of a cluster in `deploy`: their names, ports and keys fit together and the program.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::service::Home;
use crate::{command, stderr, stdout};

const ROLES: [&str; 3] = ["gateway", "worker", "driver"];

fn read(name: &str) -> String {
    fs::read_to_string(format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn manifests() -> Vec<Value> {
    read("cluster.yml").split("\n---\n").map(|document| serde_yaml_ng::from_str(document).unwrap()).collect()
}

/// Finds the only manifest of a kind and a name.
fn find<'a>(all: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found: Vec<_> = all.iter().filter(|one| one["kind"] == kind && one["metadata"]["name"] == name).collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    found[0]
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// Returns the port of an address such as `0.0.0.0:8420`, `http://host:8222` or `nats-route://host:6222`.
fn port_of(address: &str) -> u64 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}

/// Every container runs without rights, and every mount has a volume.
fn check_pod(pod: &Value, claims: &Value) {
    assert_eq!(
        (&pod["automountServiceAccountToken"], &pod["securityContext"]["runAsNonRoot"]),
        (&false.into(), &true.into())
    );
    let mut volumes = names(&pod["volumes"]);
    volumes.extend(claims.as_array().into_iter().flatten().map(|claim| claim["metadata"]["name"].as_str().unwrap()));
    let containers =
        ["initContainers", "containers"].map(|key| pod[key].as_array().cloned().unwrap_or_default()).concat();
    let mut mounted = BTreeSet::new();
    for container in &containers {
        let rights = &container["securityContext"];
        assert_eq!(rights["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(
            (&rights["readOnlyRootFilesystem"], &rights["allowPrivilegeEscalation"]),
            (&true.into(), &false.into())
        );
        let mounts = container["volumeMounts"].as_array().unwrap();
        mounted.extend(mounts.iter().map(|mount| mount["name"].as_str().unwrap()));
    }
    assert_eq!(mounted, volumes);
}

/// A probe names a port of its container.
fn check_probes(container: &Value) {
    let ports = names(&container["ports"]);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert!(ports.contains(container[probe]["httpGet"]["port"].as_str().unwrap()), "{probe} of {container}");
    }
}

#[test]
fn the_brokers_sync_and_find_each_other() {
    let all = manifests();
    let set = find(&all, "StatefulSet", "tidegate-nats");
    let (spec, pod) = (&set["spec"], &set["spec"]["template"]["spec"]);
    check_pod(pod, &spec["volumeClaimTemplates"]);
    let broker = &pod["containers"][0];
    check_probes(broker);
    let service = find(&all, "Service", spec["serviceName"].as_str().unwrap());
    assert_eq!((&service["spec"]["clusterIP"], &spec["replicas"]), (&"None".into(), &3.into()));
    let labels = &spec["template"]["metadata"]["labels"];
    assert_eq!((&service["spec"]["selector"], &spec["selector"]["matchLabels"]), (labels, labels));
    let text = find(&all, "ConfigMap", "tidegate-nats")["data"]["nats.conf"].as_str().unwrap();
    assert!(text.contains("sync_interval: always") && text.contains("store_dir: /data"), "{text}");
    let hosts: Vec<String> = (0..3).map(|number| format!("tidegate-nats-{number}.tidegate-nats")).collect();
    for host in &hosts {
        assert!(text.contains(&format!("nats-route://{host}:6222")), "{text}");
    }
    let ports: BTreeSet<u64> = [4222, 6222, 8222].into();
    let numbers = |list: &Value, key: &str| -> BTreeSet<u64> {
        list.as_array().unwrap().iter().map(|port| port[key].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&broker["ports"], "containerPort"), ports);
    assert_eq!(numbers(&service["spec"]["ports"], "port"), ports);
    assert!(ports.iter().all(|port| text.contains(&format!("0.0.0.0:{port}\""))), "{text}");
    // Both of the configuration's lists name all brokers, with their ports.
    let settings: toml::Table =
        find(&all, "ConfigMap", "tidegate")["data"]["service.toml"].as_str().unwrap().parse().unwrap();
    let nats = &settings["cluster"]["nats"];
    for (key, scheme, port) in [("servers", "nats", 4222), ("monitoring", "http", 8222)] {
        let expected: Vec<String> = hosts.iter().map(|host| format!("{scheme}://{host}:{port}")).collect();
        assert_eq!(nats[key], toml::Value::try_from(expected).unwrap(), "{key}");
    }
    // The version is one that the program takes.
    let version = tidegate_log::nats::inspection::OLDEST;
    let image = broker["image"].as_str().unwrap();
    assert!(image.starts_with(&format!("nats:{}.{}.{}", version.0, version.1, version.2)), "{image}");
    assert!(read("compose.yml").contains(&format!("image: {image}\n")));
}

#[test]
fn each_role_has_processes_probes_and_a_budget_of_disruptions() {
    let all = manifests();
    let settings: toml::Table =
        find(&all, "ConfigMap", "tidegate")["data"]["service.toml"].as_str().unwrap().parse().unwrap();
    let port = |key: &str| port_of(settings[key].as_str().unwrap());
    let service = &find(&all, "Service", "tidegate")["spec"];
    assert_eq!(service["selector"], json!({ "app": "tidegate", "role": "gateway" }));
    for role in ROLES {
        let spec = &find(&all, "Deployment", &format!("tidegate-{role}"))["spec"];
        let (pod, labels) = (&spec["template"]["spec"], &spec["template"]["metadata"]["labels"]);
        assert_eq!(labels, &json!({ "app": "tidegate", "role": role }));
        let budget = &find(&all, "PodDisruptionBudget", &format!("tidegate-{role}"))["spec"];
        assert_eq!((&budget["selector"]["matchLabels"], &spec["selector"]["matchLabels"]), (labels, labels));
        assert!(spec["replicas"].as_u64() > budget["maxUnavailable"].as_u64(), "{role}");
        check_pod(pod, &Value::Null);
        let main = &pod["containers"][0];
        check_probes(main);
        assert_eq!(main["args"], json!([role, "--config", "/config/service.toml"]));
        assert!(stdout(&command(&format!("{role} --help")).output().unwrap()).contains("--config"), "{role}");
        let ports: Vec<_> = main["ports"].as_array().unwrap().iter().map(|port| &port["containerPort"]).collect();
        assert_eq!(ports, [&port("listen").into(), &port("monitoring").into()] as [&Value; 2]);
        assert_eq!(names(&main["ports"]), ["http", "monitoring"].into());
        let variable = &main["env"][0];
        assert_eq!(variable["name"], "TIDEGATE_STORE");
        // Secrets that the first lines create.
        let text = read("cluster.yml");
        let reference = &variable["valueFrom"]["secretKeyRef"];
        let volumes = pod["volumes"].as_array().unwrap();
        let mut secrets: Vec<_> = volumes.iter().filter_map(|volume| volume["secret"]["secretName"].as_str()).collect();
        secrets.push(reference["name"].as_str().unwrap());
        assert_eq!(secrets.len(), 3);
        for secret in secrets {
            assert!(text.contains(&format!("create secret generic {secret} ")), "{secret}");
        }
        assert!(text.contains(&format!("--from-literal={}='postgres://", reference["key"].as_str().unwrap())));
        // Requests and streams have time to finish.
        assert_eq!(pod["terminationGracePeriodSeconds"], 40);
        let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
        assert!(read("Dockerfile").contains(&format!("--uid {user} ")));
    }
}

/// Runs what the manifests run before a process: keys are copied to where the configuration looks for them.
#[test]
fn the_keys_are_where_the_configuration_says() {
    let all = manifests();
    let home = Home::new();
    let (keys, secrets) = (home.folder.file("keys"), home.folder.file("secrets"));
    fs::create_dir_all(secrets.join("nats")).unwrap();
    fs::create_dir(&keys).unwrap();
    fs::write(secrets.join("nats/password"), "n1").unwrap();
    fs::create_dir(secrets.join("keys")).unwrap();
    for key in ["operator.key", "vault.key"] {
        fs::copy(home.folder.file("home/state").join(key), secrets.join("keys").join(key)).unwrap();
    }
    let here = |text: &str| {
        text.replace("/keys/state", &format!("{}/state", keys.display()))
            .replace("/secrets/", &format!("{}/", secrets.display()))
    };
    let pod = &find(&all, "Deployment", "tidegate-worker")["spec"]["template"]["spec"];
    let script = pod["initContainers"][0]["command"][2].as_str().unwrap();
    let copied = Command::new("sh").args(["-euc", &here(script)]).output().unwrap();
    assert!(copied.status.success(), "{}", stderr(&copied));
    let text = here(find(&all, "ConfigMap", "tidegate")["data"]["service.toml"].as_str().unwrap());
    let settings: toml::Table = text.parse().unwrap();
    let state = settings["state"].as_str().unwrap();
    assert_eq!(fs::read_to_string(settings["cluster"]["nats"]["password_file"].as_str().unwrap()).unwrap(), "n1");
    assert!(fs::exists(format!("{state}/operator.key")).unwrap() && fs::exists(format!("{state}/vault.key")).unwrap());
    // The configuration is taken; only brokers and database are missing here.
    let config = home.folder.file("cluster.toml");
    fs::write(&config, text.replace("\"0.0.0.0:", "\"127.0.0.1:")).unwrap();
    let store = "postgres://tidegate@127.0.0.1:1/tidegate";
    let doctor = command("doctor --json --config").arg(&config).env("TIDEGATE_STORE", store).output().unwrap();
    let checks: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let of = |what: &str| checks.as_array().unwrap().iter().find(|check| check["check"] == what).unwrap();
    assert_eq!((&of("config")["result"], &of("secrets")["result"]), (&"ok".into(), &"ok".into()), "{checks}");
    assert_eq!((&of("store")["result"], &of("brokers")["result"]), (&"fail".into(), &"fail".into()), "{checks}");
}

#[test]
fn the_compose_file_fits_the_program() {
    let text = read("compose.yml");
    let file: Value = serde_yaml_ng::from_str(&text).unwrap();
    let services = &file["services"];
    // The lines of the head are a configuration.
    let lines = text.lines().map_while(|line| line.strip_prefix('#')).map(|line| line.trim_start());
    let lines: Vec<&str> =
        lines.skip_while(|line| !line.starts_with("listen =")).take_while(|line| !line.is_empty()).collect();
    let settings: toml::Table = lines.join("\n").parse().unwrap();
    let nats = &settings["cluster"]["nats"];
    let brokers = ["nats-1", "nats-2", "nats-3"];
    for (key, scheme, port) in [("servers", "nats", 4222), ("monitoring", "http", 8222)] {
        let expected: Vec<String> = brokers.iter().map(|host| format!("{scheme}://{host}:{port}")).collect();
        assert_eq!(nats[key], toml::Value::try_from(expected).unwrap(), "{key}");
    }
    let broker = file["configs"]["nats.conf"]["content"].as_str().unwrap();
    assert!(broker.contains("sync_interval: always"), "{broker}");
    for name in brokers {
        assert!(broker.contains(&format!("nats-route://{name}:6222")) && services[name].is_object(), "{name}");
        assert_eq!(services[name]["volumes"], json!([format!("{name}:/data")]));
        assert!(file["volumes"].as_object().unwrap().contains_key(name));
    }
    for role in ROLES {
        assert_eq!(services[role]["command"], json!([role, "--config", "/cluster/service.toml"]));
        assert_eq!(services[role]["deploy"]["replicas"], 2);
        assert_eq!(services[role]["<<"], file["x-tidegate"], "{role}");
    }
    let shared = &file["x-tidegate"];
    let test = shared["healthcheck"]["test"].as_array().unwrap();
    assert_eq!(
        test[1..].iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" "),
        "/usr/local/bin/tidegate doctor --ready --config /cluster/service.toml"
    );
    assert!(shared["depends_on"].as_object().unwrap().keys().all(|name| services[name].is_object()));
    assert_eq!(
        port_of(services["gateway"]["ports"][0].as_str().unwrap()),
        port_of(settings["listen"].as_str().unwrap())
    );
    assert!(settings["state"].as_str().unwrap().starts_with("/cluster/"));
    // What .env must have is written by the commands of the head.
    for variable in ["NATS_PASSWORD", "TIDEGATE_STORE"] {
        assert!(text.contains(&format!("\"{variable}=")) && text.contains(&format!("${{{variable}:?")), "{variable}");
    }
}
