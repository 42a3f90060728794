use std::path::Path;

use tidegate::mechanisms::{self, Family, Mechanism};
use tidegate::spec::StreamSpec;
use tidegate::stream::Stream;

/// The rest of the least spec of a mechanism, as the keys of a JSON object.
pub(crate) fn rest(mechanism: &Mechanism) -> String {
    let classes =
        r#""classes": [{ "name": "a", "epsilon": 1, "window": 2 }, { "name": "b", "epsilon": 2, "window": 3 }]"#;
    let model = r#""model": { "prior": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.2, 0.8]] }"#;
    let length = if mechanism.short_name == "batched" { r#", "length": 2"# } else { "" };
    match (mechanism.family, mechanism.by_class) {
        (_, true) => format!(r#""domain": ["x", "y"], {classes}"#),
        (Family::Local, _) => r#""epsilon": 1, "window": 3, "domain": ["x", "y"], "population": 100"#.to_owned(),
        (Family::Central, _) => r#""epsilon": 1, "window": 3, "domain": ["x", "y"]"#.to_owned(),
        (Family::Scalar, _) => {
            r#""epsilon": 1, "domain": { "low": 0, "high": 100 }, "protects": "reading", "delay": 2"#.to_owned()
        }
        (Family::Sequence, _) if mechanism.keys.is_empty() => r#""epsilon": 1, "domain": ["x", "y"]"#.to_owned(),
        (Family::Sequence, _) => format!(r#""epsilon": 1, "domain": ["x", "y"], {model}{length}"#),
    }
}

/// The least spec of a mechanism, by its full name.
pub(crate) fn least_spec(mechanism: &Mechanism) -> StreamSpec {
    spec(&format!(r#""mechanism": "{}", {}"#, mechanism.full_name, rest(mechanism))).unwrap()
}

fn spec(keys: &str) -> Result<StreamSpec, serde_json::Error> {
    serde_json::from_str(&format!("{{ {keys} }}"))
}

#[test]
fn every_mechanism_is_found_by_its_names() {
    for mechanism in mechanisms::all() {
        assert_eq!(mechanisms::find(mechanism.full_name), Ok(mechanism));
        assert_eq!(mechanisms::find(mechanism.name()), Ok(mechanism));
        assert_eq!(mechanisms::find_in(mechanism.family, mechanism.short_name), Ok(mechanism));
        assert_eq!(mechanism.full_name, format!("{}.{}", mechanism.family, mechanism.short_name));
        let twins = mechanisms::all().filter(|other| other.full_name == mechanism.full_name);
        assert_eq!(twins.count(), 1, "{mechanism}");
    }
}

#[test]
fn a_short_name_of_several_families_is_refused() {
    let error = mechanisms::find("track").unwrap_err().to_string();
    assert_eq!(
        error,
        "\"track\" is the mechanism of several families; write one of: local.track, central.track, scalar.track"
    );
    let error = mechanisms::find("central.trak").unwrap_err().to_string();
    assert!(error.contains("did you mean central.track?"), "{error}");
}

#[test]
fn every_name_can_be_pasted_into_a_spec() {
    for mechanism in mechanisms::all() {
        let rest = rest(mechanism);
        let named = format!(r#""mechanism": "{}", {rest}"#, mechanism.name());
        let short = format!(r#""family": "{}", "mechanism": "{}", {rest}"#, mechanism.family, mechanism.short_name);
        let (named, short) = (spec(&named).unwrap(), spec(&short).unwrap());
        assert_eq!(named, short, "{mechanism}");
        assert_eq!(named.family(), mechanism.family);
        let base = mechanism.variant_of.unwrap_or(mechanism.short_name);
        assert_eq!(named.mechanism().short_name, base);
        assert!(Stream::new(named).is_ok(), "{mechanism}");
    }
}

#[test]
fn a_variant_sets_the_keys_that_it_fixes() {
    for mechanism in mechanisms::all() {
        let json = serde_json::to_value(least_spec(mechanism)).unwrap();
        for (key, preset) in mechanism.presets {
            assert_eq!(json[*key], preset.to_json(), "{mechanism}");
            let twice = format!(r#""{key}": {}, "mechanism": "{mechanism}", {}"#, preset.to_json(), rest(mechanism));
            let error = spec(&twice).unwrap_err().to_string();
            assert_eq!(error, format!("{key}: {mechanism} fixes it; delete this key"));
        }
    }
}

#[test]
fn family_and_full_name_must_agree() {
    let error = spec(r#""family": "central", "mechanism": "local.lpa", "domain": 2"#).unwrap_err().to_string();
    assert!(error.starts_with("there is no central mechanism \"local.lpa\""), "{error}");
}

#[test]
fn every_mechanism_has_a_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for mechanism in mechanisms::all() {
        let page = docs.join(mechanism.page());
        assert!(page.is_file(), "{mechanism}: {} is missing", page.display());
    }
}

/// The table of docs/mechanisms.md. `TIDEGATE_UPDATE=1` writes it anew.
#[test]
fn the_documented_table_is_the_list() {
    let mut table = String::from(
        "| mechanism | family | releases | rounds | by class | keys of its own | summary |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for mechanism in mechanisms::all() {
        let fixed = |key: &str| mechanism.presets.iter().find(|(fixed, _)| *fixed == key);
        let key = |key: &&str| match fixed(key) {
            Some((_, value)) => format!("`{key}` = {}", value.to_json()),
            None => format!("`{key}`"),
        };
        let keys: Vec<String> = mechanism.keys.iter().map(key).collect();
        let by_class = if mechanism.by_class { "yes" } else { "" };
        let line = format!(
            "| [`{}`]({}) | {} | {} | {} | {by_class} | {} | {} |\n",
            mechanism.name(),
            mechanism.page(),
            mechanism.family,
            mechanism.output.name(),
            mechanism.rounds,
            keys.join(", "),
            mechanism.summary,
        );
        table.push_str(&line);
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mechanisms.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, _) = text.split_once("| mechanism |").unwrap();
    let current = format!("{head}{table}");
    if std::env::var_os("TIDEGATE_UPDATE").is_some() {
        std::fs::write(&page, current).unwrap();
    } else {
        assert_eq!(text, current, "run this test with TIDEGATE_UPDATE=1");
    }
}

/// A key that is given twice, or a number that is none, could weaken a guarantee in silence.
#[test]
fn refuses_specs_that_would_have_to_be_guessed_at() {
    let rest = r#""mechanism": "ba", "window": 10, "domain": ["a", "b"]"#;
    let error = |json: &str| spec(json).unwrap_err().to_string();
    assert!(error(&format!(r#"{rest}, "epsilon": 0.1, "epsilon": 10"#)).contains("the key epsilon is given twice"));
    let nested = r#""mechanism": "laplace", "epsilon": 1, "domain": { "low": 0, "high": 9, "high": 1 }"#;
    assert!(error(nested).contains("the key high is given twice"));
    for family in ["5", "null"] {
        assert!(spec(&format!(r#"{rest}, "epsilon": 1, "family": {family}"#)).is_err(), "{family}");
    }
    for number in ["nan", "inf"] {
        let toml = format!(
            "mechanism = \"contin\"\nepsilon = 1\nthreshold = {number}\ndomain = {{ low = 0, high = 9 }}\n\
                 protects = \"reading\"\n"
        );
        let error = toml::from_str::<StreamSpec>(&toml).unwrap_err().to_string();
        assert!(error.contains("is not a finite number"), "{error}");
    }
}
