//! Fuzz targets on fixed inputs: hand-written seeds and thousands of mutations.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;

use tidegate_kernel::noise::Below;
use tidegate_kernel::oracle::Aggregate;
use tidegate_kernel::{Randomness, SeededRandom};

use crate::fuzz_bodies;

const MUTATIONS: u64 = 20_000;

/// A uniform index below `bound`.
fn below(bound: usize, random: &mut SeededRandom) -> usize {
    Below::new(NonZeroU64::new(bound as u64).unwrap()).sample(random) as usize
}

/// Mutates an input: flips a bit; sets, inserts or removes a byte; repeats a piece; or truncates it.
fn mutate(input: &mut Vec<u8>, random: &mut SeededRandom) {
    // Bytes with a meaning in the formats.
    const TELLING: &[u8] = b"0123456789.-+eE\"[]{},: nt\x00\x01\x7f\x80\xff";
    for _ in 0..=below(4, random) {
        let at = below(input.len() + 1, random);
        let byte = if below(2, random) == 0 { TELLING[below(TELLING.len(), random)] } else { random.next_word() as u8 };
        match (below(8, random), input.get_mut(at)) {
            (0..=1, Some(old)) => *old ^= 1 << below(8, random),
            (2..=3, Some(old)) => *old = byte,
            (4, Some(_)) => drop(input.remove(at)),
            (5, Some(_)) => {
                let end = (at + 1 + below(8, random)).min(input.len());
                input.extend_from_within(at..end);
            }
            (6, _) => input.truncate(at),
            _ => input.insert(at, byte),
        }
    }
}

/// Runs a body on each seed and on many mutations of them.
fn run(body: fn(&[u8]), seeds: &[&[u8]]) {
    seeds.iter().for_each(|seed| body(seed));
    body(&[]);
    let mut random = SeededRandom::new(0xf022);
    for _ in 0..MUTATIONS {
        let mut input = seeds[below(seeds.len(), &mut random)].to_vec();
        mutate(&mut input, &mut random);
        body(&input);
    }
}

#[test]
fn epsilon_text() {
    run(
        fuzz_bodies::epsilon_text,
        &[
            b"1",
            b"0.5",
            b".000000001",
            b"1000",
            b"999.9999999999",
            b"0.0000000000000000000001",
            b"-1",
            b"inf",
            b"NaN",
            b"\"0.25\"",
            b"1e-9",
            b"340282366920938463463374607431768211456",
        ],
    );
}

#[test]
fn ledger_json() {
    run(
        fuzz_bodies::ledger_json,
        &[
            include_bytes!("../golden/ledger_v1.json"),
            br#"{"version":1,"budget":"1","window":"unbounded","clock":7,"closed":false,"spends":[[5,"0.7"]]}"#,
            br#"{"version":1,"budget":9,"window":{"timestamps":1},"clock":null,"closed":false,"spends":[]}"#,
            concat!(
                r#"{"version":1,"budget":"2","window":{"timestamps":3},"clock":18446744073709551615,"#,
                r#""closed":true,"spends":[[18446744073709551613,"1"]]}"#
            )
            .as_bytes(),
        ],
    );
}

#[test]
fn ledger_postcard() {
    // Version, budget, window, clock, closed, and the spends after their number.
    run(
        fuzz_bodies::ledger_postcard,
        &[
            &[1, 100, 0, 5, 1, 9, 0, 3, 5, 10, 7, 20, 9, 30],
            &[1, 100, 1, 1, 9, 1, 1, 5, 100],
            &[1, 1, 0, 1, 0, 0, 0],
            &[1, 3, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1, 50, 0, 2, 0, 1, 50, 2],
        ],
    );
}

#[test]
fn ledger_operations() {
    // Budget, window and start, then pairs of what to do and with how much.
    run(
        fuzz_bodies::ledger_operations,
        &[
            &[10, 2, 0, 5, 3, 69, 4, 2, 0, 69, 5, 69, 3, 3, 0, 133, 7, 1, 0, 69, 9],
            &[50, 0, 0, 5, 20, 133, 20, 2, 0, 133, 10, 3, 0, 68, 1, 69, 1],
            &[7, 255, 1, 5, 1, 253, 3, 2, 0, 69, 3, 245, 200, 4, 0],
            &[20, 15, 3, 69, 5, 69, 5, 69, 5, 197, 1, 229, 9, 65, 0, 64, 0, 4, 0, 76, 0, 133, 19, 69, 20],
        ],
    );
}

#[test]
fn oracle_report() {
    // Kind, domain and epsilon, then a batch of well-formed reports: of each oracle, and of each length of an index.
    run(
        fuzz_bodies::oracle_report,
        &[
            &[0, 3, 12, 0, 4, 2, 1],
            &[0, 253, 12, 231, 3, 0, 0],
            &[0, 255, 25, 0, 0, 1, 255, 255, 0],
            &[1, 9, 12, 0b1010_0101, 0b111, 0, 0b100],
            &[2, 6, 0, 255, 0, 17],
            &[2, 65, 100, 1, 2, 3, 4, 5, 6, 7, 8, 0b111],
            &[3, 98, 12, 1, 2, 3, 4, 5, 6, 7, 8, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0],
            &[4, 98, 12, 1, 2, 3, 4, 5, 6, 7, 8, 2, 8, 7, 6, 5, 4, 3, 2, 1, 0],
            &[4, 10, 250, 1, 2, 3, 4, 5, 6, 7, 8, 3, 2, 1],
            &[5, 5, 12, 0, 1, 2, 3, 4, 5, 6, 7],
            &[5, 254, 12, 255, 255, 1],
            &[6, 9, 12, 0b1010, 1, 1, 0b101, 0b110, 1],
            &[6, 0, 255, 1, 2],
        ],
    );
}

#[test]
fn aggregate_json() {
    let seeds: [&[u8]; 5] = [
        include_bytes!("../golden/aggregates_v1.json"),
        br#"[{"version":1,"oracle":"grr","domain":3,"epsilon":"1","reports":4,"counts":[1,2,1]}]"#,
        br#"[{"version":1,"oracle":"hadamard","domain":3,"epsilon":20,"reports":0,"counts":[0,0,0,0]}]"#,
        concat!(
            r#"[{"version":1,"oracle":"olh","domain":2,"epsilon":0.000000001,"#,
            r#""reports":4611686018427387904,"counts":[9,0]}]"#
        )
        .as_bytes(),
        br#"[{"version":1,"oracle":"subset","domain":6,"epsilon":"0.5","reports":5,"counts":[3,2,1,2,2,0]}]"#,
    ];
    for seed in seeds {
        serde_json::from_slice::<Vec<Aggregate>>(seed).expect("a seed is a list of aggregates");
    }
    run(fuzz_bodies::aggregate_json, &seeds);
}

#[test]
fn aggregate_postcard() {
    // Version, oracle, domain, epsilon, reports, and the counts after their number.
    let seeds: [&[u8]; 6] = [
        &[1, 0, 3, 128, 148, 235, 220, 3, 4, 3, 1, 2, 1],
        &[1, 1, 2, 100, 0, 2, 0, 0],
        &[1, 2, 9, 128, 148, 235, 220, 3, 7, 9, 0, 1, 2, 3, 4, 5, 6, 7, 7],
        &[1, 4, 2, 1, 128, 128, 128, 128, 128, 128, 128, 128, 64, 2, 0, 127],
        &[1, 5, 3, 128, 148, 235, 220, 3, 4, 4, 1, 0, 3, 0],
        &[1, 6, 3, 128, 148, 235, 220, 3, 4, 3, 1, 2, 1],
    ];
    for seed in seeds {
        postcard::from_bytes::<Aggregate>(seed).expect("a seed is an aggregate");
    }
    run(fuzz_bodies::aggregate_postcard, &seeds);
}

#[test]
fn every_fuzz_target_also_runs_in_a_test() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let names: BTreeSet<String> = std::fs::read_dir(targets)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let (this_file, of_the_device) = (include_str!("fuzz.rs"), include_str!("../../../device/tests/device/fuzz.rs"));
    for name in &names {
        let is_tested = match name.strip_prefix("device_") {
            // As an argument, or called.
            Some(body) => [")", "("].iter().any(|end| of_the_device.contains(&format!("fuzz_bodies::{body}{end}"))),
            None => this_file.contains(&format!("#[test]\nfn {name}()")),
        };
        assert!(is_tested, "{name} has no test");
    }
    assert!(!names.is_empty());
}
