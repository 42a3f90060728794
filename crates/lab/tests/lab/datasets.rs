//! Loaders, on small files made here.

use std::path::Path;

use tidegate_lab::datasets::scalar::Domain;
use tidegate_lab::datasets::{self, DataError, Options, load, wide};
use tidegate_lab::{CountStream, Stream};

use crate::support::{counts, directory, gzip, numbers, symbols, write};

fn load_any(data_dir: &Path, name: &str) -> Result<Stream, DataError> {
    load(name, &Options { data_dir: Some(data_dir.to_owned()), ..Options::default() })
}

fn load_from(data_dir: &Path, name: &str) -> Result<CountStream, DataError> {
    load_any(data_dir, name).map(counts)
}

fn wide_error(content: impl AsRef<[u8]>) -> String {
    wide::read("w.csv", content.as_ref()).unwrap_err().to_string()
}

mod tables {
    use super::*;

    #[test]
    fn a_wide_table_is_read_from_a_path_compressed_or_not() {
        let folder = directory("wide");
        let content = "t,red,green\n7,1,2\n8,3,4\n9,0,1\n";
        for (name, bytes) in [("a.csv", content.as_bytes().to_vec()), ("b.csv.gz", gzip(content))] {
            let path = folder.join(name);
            write(&path, bytes);
            let stream = counts(load(path.to_str().unwrap(), &Options::default()).unwrap());
            assert_eq!(stream.counts(), [[1, 2], [3, 4], [0, 1]]);
            assert_eq!(stream.labels(), ["red", "green"]);
            assert_eq!(stream.name(), path.to_str().unwrap());
        }
        let cut = Options { length: Some(1), population: Some(300), ..Options::default() };
        assert_eq!(counts(load(folder.join("a.csv").to_str().unwrap(), &cut).unwrap()).counts(), [[100, 200]]);
    }

    #[test]
    fn what_is_wrong_in_a_wide_table_is_named() {
        let count = "expected a count: a whole number, zero or more";
        for bad in ["-1", "1.5", "many", "", "99999999999999999999"] {
            let error = wide_error(format!("t,a,b\n0,1,2\n1,3,{bad}\n"));
            assert_eq!(error, format!("w.csv, line 3, field \"b\": {count}"));
        }
        assert_eq!(wide_error("t,a,b\n0,1\n"), "w.csv, line 2: it has 2 fields, but 3 are expected");
        let timestamp = "w.csv, line 3, field \"t\": expected a timestamp that is one more than the last";
        for next in ["0", "2"] {
            assert_eq!(wide_error(format!("t,a,b\n0,1,2\n{next},1,2\n")), timestamp);
        }
        let no_time = "w.csv, line 2, field \"t\": expected a timestamp: a whole number, zero or more";
        assert_eq!(wide_error("t,a,b\nnow,1,2\n"), no_time);
        assert_eq!(wide_error("t,a,b\n"), "w.csv: the stream has no timestamps");
        assert_eq!(wide_error("t,a\n0,1\n"), "w.csv: a domain needs at least two values, but 1 were given");
        assert_eq!(wide_error("t,a,a\n0,1,1\n"), "w.csv: the value \"a\" occurs twice in the domain");
        assert!(wide_error("t,a,b\n0,0,0\n").starts_with("w.csv: timestamp 0 must have between 1 and "));
    }

    #[test]
    fn a_table_of_another_form_is_not_mistaken_for_a_wide_one() {
        assert!(wide_error("1,2,3\n4,5,6\n").starts_with("w.csv, line 1: the fields must be t,<value>"));
        assert!(wide_error("t,user,value\n0,9,1\n").contains("count the users of each value"));
        assert!(wide_error("t,value\n0,9\n").contains("count the users of each value"));
        assert_eq!(wide_error(""), "w.csv, line 1: the file is empty");
    }

    #[test]
    fn damaged_files_are_errors() {
        assert_eq!(wide_error(b"t,a,b\n0,1,\xff\n"), "w.csv, line 2: it is not valid UTF-8");
        assert_eq!(wide_error(b"t,\xff,b\n0,1,2\n"), "w.csv, line 1: it is not valid UTF-8");
        let folder = directory("damaged");
        let path = folder.join("cut.csv.gz");
        let rows: String = (0..2_000).map(|t| format!("{t},{},{}\n", t * 7 % 31, 1 + t * 13 % 37)).collect();
        let whole = gzip(format!("t,a,b\n{rows}"));
        assert!(load_bytes(&path, &whole).is_ok());
        for length in [2, 9, 12, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
            let error = load_bytes(&path, &whole[..length]).unwrap_err();
            assert!(matches!(error, DataError::Read { .. }), "{length}: {error}");
        }
        let mut flipped = whole.clone();
        let checksum = whole.len() - 6;
        flipped[checksum] ^= 1;
        assert!(matches!(load_bytes(&path, &flipped), Err(DataError::Read { .. })));
    }

    fn load_bytes(path: &Path, bytes: &[u8]) -> Result<CountStream, DataError> {
        write(path, bytes);
        load(path.to_str().unwrap(), &Options::default()).map(counts)
    }
}

mod json_lines {
    use super::*;

    fn error(content: &str) -> String {
        wide::read("w.ndjson", content.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn lines_of_json_are_tables_compressed_or_not() {
        let folder = directory("json-lines");
        let content = "{\"red\": 1, \"t\": 7, \"green\": 2}\n\n{\"t\":8,\"green\":\"4\",\"red\":3.0}\n";
        for (name, bytes) in [("a.ndjson", content.as_bytes().to_vec()), ("b.jsonl.gz", gzip(content))] {
            let path = folder.join(name);
            write(&path, bytes);
            let stream = counts(load(path.to_str().unwrap(), &Options::default()).unwrap());
            assert_eq!(stream.counts(), [[1, 2], [3, 4]]);
            assert_eq!(stream.labels(), ["red", "green"]);
        }
        let domain = Some(Domain { low: -1.0, high: 5.0, resolution: Some(0.5) });
        let path = folder.join("c.ndjson");
        write(&path, "{\"t\": 0, \"value\": -0.5}\n{\"value\": 2, \"t\": 3}");
        let stream = load(path.to_str().unwrap(), &Options { domain, ..Options::default() }).unwrap();
        assert_eq!(numbers(stream).values(), [-0.5, 2.0]);
    }

    #[test]
    fn what_is_wrong_in_a_line_of_json_is_named_without_what_stands_there() {
        let first = "{\"t\": 0, \"a\": 1, \"b\": 2}\n";
        for bad in ["{", "[1]", "secret"] {
            assert_eq!(error(&format!("{first}{bad}\n")), "w.ndjson, line 2: it is not a JSON object");
        }
        for (bad, expected) in [
            ("{\"t\": 1, \"a\": true, \"b\": 2}", "a count: a whole number, zero or more"),
            ("{\"t\": 1, \"a\": null, \"b\": 1}", "a text or a number"),
        ] {
            let expected = format!("w.ndjson, line 2, field \"a\": expected {expected}");
            assert_eq!(error(&format!("{first}{bad}\n")), expected);
        }
        let twice = "{\"t\": 1, \"a\": 1, \"a\": 2}";
        assert_eq!(error(&format!("{first}\n{twice}\n")), "w.ndjson, line 3, field \"a\": expected to be there, once");
        for bad in ["{\"t\": 1, \"a\": 1}", "{\"t\": 1, \"a\": 1, \"c\": 2}"] {
            let expected = "w.ndjson, line 2, field \"b\": expected to be there, once";
            assert_eq!(error(&format!("{first}{bad}\n")), expected);
        }
        assert!(error(&format!("{first}{{\"t\":1,\"a\":1,\"b\":1,\"c\":1}}\n")).starts_with("w.ndjson, line 2: "));
        let count = "w.ndjson, line 2, field \"b\": expected a count: a whole number, zero or more";
        assert_eq!(error(&format!("{first}{{\"t\": 1, \"a\": 1, \"b\": -2}}\n")), count);
        assert!(error("{\"a\": 1, \"b\": 2}").contains("line 1: the fields must be t,<value>,<value>"));
        let not_text = [first.as_bytes(), b"{\"t\": 1, \"a\": 1, \"b\": \"\xff\"}\n"].concat();
        let error = wide::read("w.ndjson", not_text.as_slice()).unwrap_err().to_string();
        assert_eq!(error, "w.ndjson, line 2: it is not valid UTF-8");
    }

    #[test]
    fn a_mark_of_the_byte_order_is_no_part_of_a_table() {
        let stream = wide::read("w.csv", "\u{feff}t,a,b\n0,1,2\n".as_bytes()).unwrap();
        assert_eq!(stream.counts(), [[1, 2]]);
    }
}

mod lending_club {
    use super::*;

    fn amounts(stream: &CountStream, timestamp: usize) -> Vec<(usize, u64)> {
        let row = stream.counts()[timestamp].iter().enumerate();
        row.filter(|(_, count)| **count > 0).map(|(value, count)| (value, *count)).collect()
    }

    #[test]
    fn loans_are_counted_by_month_and_steps_of_25_dollars() {
        let folder = directory("loans");
        let sample = "id,issue_d,loan_amnt,grade\n1,Dec-2015,1000.0,C\n2,Nov-2007,40000,A\n3,Dec-2015,1024.99,B\n\
                      4,Feb-2016,0,B\n";
        write(&folder.join("lending_club/accepted_2007_2018_sample.csv"), sample);
        let stream = load_from(&folder, "lending_club").unwrap();
        assert_eq!((stream.length(), stream.domain(), stream.labels()[40].as_str()), (3, 1_601, "$1000"));
        assert_eq!(amounts(&stream, 0), [(1_600, 1)]);
        assert_eq!(amounts(&stream, 1), [(40, 2)]);
        assert_eq!(amounts(&stream, 2), [(0, 1)]);
        assert!(stream.stand_in().unwrap().contains("3000 loans"));
        // The whole download has other fields, and totals at the end.
        let whole = "id,member_id,loan_amnt,funded_amnt,issue_d,desc\n68407277,,3600.0,3600.0,Dec-2015,\"two\nlines\"\n\
                     Total amount funded in policy code 1: 460296150,,,,,\n";
        write(&folder.join("lending_club/accepted_2007_to_2018Q4.csv.gz"), gzip(whole));
        let stream = load_from(&folder, "lending_club").unwrap();
        assert_eq!((stream.length(), amounts(&stream, 0)), (1, vec![(144, 1)]));
        assert_eq!(stream.stand_in(), None);
        let year = "id,issue_d,loan_status,funded_amnt_inv\n87451,2018-01-01,0,12000.0\n1,2018-02-01,1,750\n";
        write(&folder.join("lending_club/creditmodel_2018_31766.csv.gz"), gzip(year));
        let stream = load_from(&folder, "lending_club_2018").unwrap();
        assert_eq!((amounts(&stream, 0), amounts(&stream, 1)), (vec![(480, 1)], vec![(30, 1)]));
    }

    #[test]
    fn malformed_loans_are_errors() {
        let folder = directory("loans-errors");
        let read = |content: &str| {
            write(&folder.join("lending_club/accepted_2007_2018_sample.csv"), content);
            load_from(&folder, "lending_club").unwrap_err().to_string()
        };
        for month in ["Dez-2015", "2015-12-02", "2015-13-01", "", "Dec-x"] {
            let error = read(&format!("issue_d,loan_amnt\n{month},1000\n"));
            assert!(error.ends_with("line 2, field \"issue_d\": expected a month: Dec-2015 or 2015-12-01"), "{error}");
        }
        for amount in ["NaN", "-1", "40001", "much", ""] {
            let error = read(&format!("issue_d,loan_amnt\nDec-2015,{amount}\n"));
            assert!(error.ends_with("field \"loan_amnt\": expected an amount of dollars, 0 to 40000"), "{error}");
        }
        assert!(read("issue_d,amount\n").ends_with("line 1: a field loan_amnt is missing"));
        assert!(read("issue_d,loan_amnt\n").ends_with("the stream has no timestamps"));
    }
}

mod taobao_userbehavior {
    use super::*;

    /// The first second of 2017-11-25 in China.
    const FIRST: u64 = 1_511_539_200;

    fn held(stream: &CountStream, timestamp: usize) -> Vec<(usize, u64)> {
        let row = stream.counts()[timestamp].iter().enumerate();
        row.filter(|(_, count)| **count > 0).map(|(value, count)| (value, *count)).collect()
    }

    #[test]
    fn users_hold_the_group_of_what_they_did_last() {
        let folder = directory("taobao");
        let events = [
            (1, 118, "pv", FIRST),
            // Later in the same ten minutes, though on an earlier line, the other way round.
            (2, 116, "buy", FIRST + 599),
            (2, 0, "cart", FIRST + 598),
            (1, 5, "fav", FIRST + 1_200),
            (3, 7, "pv", FIRST + 3 * 86_400 - 1),
            // Left out, and with them user 4: before and after the three days.
            (4, 1, "pv", FIRST - 1),
            (4, 1, "pv", FIRST + 3 * 86_400),
        ];
        let lines: String = events
            .iter()
            .map(|(user, category, behaviour, time)| format!("{user},9,{category},{behaviour},{time}\n"))
            .collect();
        let excerpt = format!("user,item,category,behavior,ts\n{lines}");
        write(&folder.join("taobao_userbehavior/taobao_9days_815users.csv.gz"), gzip(excerpt));
        let stream = load_from(&folder, "taobao_userbehavior").unwrap();
        assert_eq!((stream.length(), stream.domain()), (432, 118));
        assert_eq!(held(&stream, 0), [(0, 1), (2, 1), (117, 1)]);
        assert_eq!(held(&stream, 1), held(&stream, 0));
        assert_eq!(held(&stream, 2), [(0, 1), (6, 1), (117, 1)]);
        assert_eq!(held(&stream, 431), [(6, 1), (8, 1), (117, 1)]);
        assert!(stream.stand_in().unwrap().contains("766 users"));
        // The download has no header.
        write(&folder.join("taobao_userbehavior/UserBehavior.csv"), &lines);
        let whole = load_from(&folder, "taobao_userbehavior").unwrap();
        assert_eq!(whole.counts(), stream.counts());
        assert!(!whole.stand_in().unwrap().contains("766 users"));
        let minutes =
            format!("user,item,category,behavior,ts\n1,1,3,pv,{}\n2,1,4,pv,{}\n", 1_511_658_000, 1_511_658_060);
        write(&folder.join("taobao_userbehavior/taobao_130min_66454users.csv.gz"), gzip(minutes));
        let stream = load_from(&folder, "taobao_userbehavior_minutes").unwrap();
        assert_eq!((held(&stream, 0), held(&stream, 1)), (vec![(0, 1), (4, 1)], vec![(4, 1), (5, 1)]));
    }

    #[test]
    fn malformed_events_are_errors() {
        let folder = directory("taobao-errors");
        for (line, why) in [
            ("x,1,1,pv,1511539200", "field \"user\": expected the number of a user"),
            ("1,1,x,pv,1511539200", "field \"category\": expected the number of a category"),
            ("1,1,1,look,1511539200", "field \"behavior\": expected pv, cart, fav or buy"),
            ("1,1,1,pv,now", "field \"ts\": expected a time in seconds since 1970"),
            ("1,1,1,pv", "it has 4 fields, but 5 are expected"),
        ] {
            write(&folder.join("taobao_userbehavior/UserBehavior.csv"), format!("1,1,1,pv,-28800\n{line}\n"));
            let error = load_from(&folder, "taobao_userbehavior").unwrap_err().to_string();
            assert!(error.contains("line 2") && error.ends_with(why), "{error}");
        }
        write(&folder.join("taobao_userbehavior/UserBehavior.csv"), "1,1,1,pv,5\n");
        let error = load_from(&folder, "taobao_userbehavior").unwrap_err().to_string();
        assert!(error.ends_with("the stream has no timestamps"), "{error}");
    }
}

mod scalars {
    use std::io::{Read, Write};

    use tidegate_lab::datasets::scalar::{Reading, Readings};

    use super::*;

    fn load_scalar(content: &str, low: f64, high: f64, resolution: Option<f64>) -> Result<Stream, DataError> {
        let domain = Some(Domain { low, high, resolution });
        datasets::load_from("s.csv", content.as_bytes(), &Options { domain, ..Options::default() })
    }

    fn scalar_error(content: &str) -> String {
        load_scalar(content, 0.0, 10.0, None).unwrap_err().to_string()
    }

    #[test]
    fn a_scalar_table_has_the_domain_that_is_given() {
        let stream = numbers(load_scalar("t,value\n3,1\n4,10\n9,0\n", 0.0, 10.0, None).unwrap());
        assert_eq!(stream.values(), [1.0, 10.0, 0.0]);
        assert_eq!((stream.grid().high(), stream.grid().step()), (10.0, 1.0));
        let stream = numbers(load_scalar("t,value\r\n0,-1.25\r\n", -2.0, 2.0, Some(0.1)).unwrap());
        assert_eq!((stream.values(), stream.grid().width()), (&[-1.25][..], 40));
        // As spreadsheets save them: a byte order mark, quotes.
        assert!(load_scalar("\u{feff}\"t\",\"value\"\n\"0\",\"1\"\n", 0.0, 1.0, None).is_ok());
        let without = datasets::load_from("s.csv", "t,value\n0,1\n".as_bytes(), &Options::default());
        assert!(matches!(without, Err(DataError::NoDomain { .. })));
        let wide = load_scalar("t,a,b\n0,1,1\n", 0.0, 1.0, None).unwrap_err();
        assert!(matches!(wide, DataError::OwnDomain { .. }));
        let domain = Some(Domain { low: 0.0, high: 1.0, resolution: None });
        assert!(matches!(load("sin", &Options { domain, ..Options::default() }), Err(DataError::OwnDomain { .. })));
        assert!(matches!(load_scalar("t,value\n0,1\n", 1.0, 1.0, None), Err(DataError::Domain(_))));
        assert!(matches!(load_scalar("t,value\n0,1\n", 0.0, 1.0, Some(0.0)), Err(DataError::Domain(_))));
    }

    #[test]
    fn what_is_wrong_in_a_scalar_table_is_named() {
        let value = "s.csv, line 3, field \"value\": expected ";
        for (bad, expected) in [
            ("NaN", "a number"),
            ("inf", "a number"),
            ("", "a number"),
            ("1 2", "a number"),
            ("11", "a number within the domain, 0..10"),
            ("-0.5", "a number within the domain, 0..10"),
            ("0.5", "a whole number, for the resolution is 1 unless another is given"),
        ] {
            assert_eq!(scalar_error(&format!("t,value\n0,1\n1,{bad}\n")), format!("{value}{expected}"));
        }
        for (bad, expected) in [
            ("0", "a timestamp that is later than the last"),
            ("-1", "a timestamp: a whole number, zero or more"),
            ("1.0", "a timestamp: a whole number, zero or more"),
        ] {
            let message = scalar_error(&format!("t,value\n0,1\n{bad},1\n"));
            assert_eq!(message, format!("s.csv, line 3, field \"t\": expected {expected}"));
        }
        assert_eq!(scalar_error("t,value\n0,1\n1\n"), "s.csv, line 3: it has 1 fields, but 2 are expected");
        assert_eq!(scalar_error("t,value\n"), "s.csv: the stream has no timestamps");
        let readings = Readings::new("s.csv", "t,number\n".as_bytes()).unwrap_err().to_string();
        assert_eq!(readings, "s.csv, line 1: the fields must be t,value");
    }

    #[test]
    fn a_reading_is_there_as_soon_as_its_line_is() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"t,value\n5,1.5\n").unwrap();
        // The pipe stays open, so whoever waited for more would wait for ever.
        let mut readings = Readings::new("pipe", reader).unwrap();
        assert_eq!(readings.next().unwrap().unwrap(), Reading { timestamp: 5, value: 1.5 });
        writer.write_all(b"6,-2\n7").unwrap();
        assert_eq!(readings.next().unwrap().unwrap(), Reading { timestamp: 6, value: -2.0 });
        drop(writer);
        assert!(matches!(readings.next(), Some(Err(DataError::Width { line: 4, .. }))));
        assert!(readings.next().is_none());
    }

    /// A line without an end.
    struct Endless(u64);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += buffer.len() as u64;
            buffer.fill(b'7');
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_line_without_an_end_is_an_error_before_it_fills_the_memory() {
        let mut source = Endless(0);
        for (beginning, last_line) in [("t,value\n0,", 1), ("t,value\n0,\"\n", 2)] {
            let mut readings = Readings::new("pipe", beginning.as_bytes().chain(&mut source)).unwrap();
            let error = readings.next().unwrap().unwrap_err().to_string();
            let expected = "it cannot be read on: the line is longer than 16777216 bytes";
            assert_eq!(error, format!("pipe, after line {last_line}: {expected}"));
        }
        assert!(source.0 <= 2 * (16 << 20), "{}", source.0);
    }
}

#[test]
fn synthetic_streams_have_the_papers_size_unless_told() {
    let stream = counts(load("sin", &Options::default()).unwrap());
    assert_eq!((stream.length(), stream.population(0), stream.stand_in()), (800, 200_000, None));
    let lns = |seed| load("lns", &Options { seed, length: Some(5), ..Options::default() }).unwrap();
    assert_eq!(lns(1), lns(1));
    assert_ne!(lns(1), lns(2));
    let walk = numbers(load("walk", &Options::default()).unwrap());
    assert_eq!((walk.values().len(), walk.grid().width()), (800, 1_000));
    let population = Options { population: Some(5), ..Options::default() };
    assert!(matches!(load("walk", &population), Err(DataError::Adjusted(_))));
    let chain = |options: &Options| symbols(load("markov_90", options).unwrap());
    assert_eq!(chain(&Options::default()).sequences().iter().map(Vec::len).collect::<Vec<_>>(), [10_000]);
    let five = chain(&Options { length: Some(7), ..population });
    assert!(five.sequences().len() == 5 && five.sequences().iter().all(|sequence| sequence.len() == 7));
}

#[test]
fn synthetic_data_sets_have_the_shape_that_is_listed() {
    for dataset in datasets::ALL.iter().filter(|dataset| !dataset.is_real()) {
        let stream = load(dataset.name, &Options::default()).unwrap();
        assert_eq!(stream.to_string(), format!("{}: {}", dataset.name, dataset.shape));
        assert_eq!((stream.kind(), stream.stand_in()), (dataset.kind(), dataset.stands_in_for));
    }
}

#[test]
fn names_and_aliases_stand_for_one_data_set_each() {
    let names = datasets::ALL.iter().flat_map(|set| std::iter::once(set.name).chain(set.aliases.iter().copied()));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn a_chain_of_any_size_is_found_by_its_settings() {
    let options = Options { length: Some(20), population: Some(2), seed: 3, ..Options::default() };
    let chain = symbols(load("markov:5:0.25", &options).unwrap());
    assert_eq!((chain.domain(), chain.sequences().len(), chain.sequences()[1].len()), (5, 2, 20));
    for name in ["markov:", "markov:5", "markov:x:0.5", "markov:5:x", "markov:5:NaN", "markov:-5:0.5"] {
        let error = load(name, &options).unwrap_err();
        assert!(error.to_string().contains("markov:SYMBOLS:STAY"), "{error}");
    }
    for name in ["markov:1:0.5", "markov:5:1.5", "markov:1000000:0.5"] {
        assert!(matches!(load(name, &options), Err(DataError::Generate(_))), "{name}");
    }
}

#[test]
fn unknown_and_missing_data_sets_are_explained() {
    let error = load("tdrive_count", &Options::default()).unwrap_err().to_string();
    assert!(error.contains("did you mean tdrive_counts?") && error.contains("lns, sin, log"), "{error}");
    let error = load("foursquare", &Options::default()).unwrap_err();
    assert!(matches!(error, DataError::NoDirectory { dataset } if dataset == "foursquare_lbsn2vec"));
    for (alias, name) in [("outpatient", "outpatient_ilinet"), ("covid19", "covid19_death"), ("loan", "lending_club")] {
        assert_eq!(datasets::by_name(alias).map(|dataset| dataset.name), Some(name));
    }
    let folder = directory("empty");
    for dataset in datasets::ALL.iter().filter(|dataset| dataset.is_real()) {
        assert!(matches!(load_from(&folder, dataset.name), Err(DataError::Open { .. })), "{}", dataset.name);
    }
    assert!(matches!(load("missing.csv", &Options::default()), Err(DataError::Open { .. })));
    assert!(load_from(&folder, folder.to_str().unwrap()).is_err(), "a directory is no file");
}

mod tdrive_counts {
    use super::*;

    fn row(fill: impl Fn(usize) -> String) -> String {
        (0..64).map(fill).collect::<Vec<_>>().join(",")
    }

    fn error(data_dir: &Path, content: String) -> String {
        write(&data_dir.join("tdrive_counts/td.csv"), content);
        load_from(data_dir, "tdrive_counts").unwrap_err().to_string()
    }

    #[test]
    fn the_stream_is_the_file() {
        let folder = directory("tdrive");
        let (first, second) = (row(|cell| cell.to_string()), row(|_| "1".to_owned()));
        let sum = |total: u64| format!("{total}{}\n{first}\n{second}\n", ",".repeat(63));
        write(&folder.join("tdrive_counts/td.csv"), sum(2016 + 64));
        let stream = load_from(&folder, "tdrive_counts").unwrap();
        assert_eq!((stream.length(), stream.domain(), stream.population(0), stream.population(1)), (2, 64, 2016, 64));
        assert!(stream.stand_in().is_some());

        assert!(error(&folder, sum(2016)).ends_with("lines may be missing"));
        assert!(error(&folder, format!("{first}\n")).contains("line 1: expected the sum of all counts"));
        let negative = row(|cell| if cell == 4 { "-1".to_owned() } else { "0".to_owned() });
        let message = error(&folder, format!("63{}\n{negative}\n", ",".repeat(63)));
        assert!(
            message.ends_with("line 2, field \"number 5\": expected a count: a whole number, zero or more"),
            "{message}"
        );
    }
}

mod nyc_taxi_ge {
    use super::*;

    const HEADER: &str = "vendor_id,pickup_datetime,dropoff_datetime,passenger_count,trip_distance,pickup_location_id,\
                          dropoff_location_id,payment_type,fare_amount,tip_amount,total_amount,file_month";

    fn trip(date: &str, fare: &str, month: &str) -> String {
        format!("1.0,{date} 12:00:00,x,1.0,1.0,1,2,1.0,{fare},0.0,0.0,{month}\n")
    }

    /// A trip of 5 dollars and some cents on each of the 275 days.
    fn every_day() -> String {
        let months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 2];
        let days = (1..).zip(months).flat_map(|(month, days)| (1..=days).map(move |day| (month, day)));
        days.map(|(month, day)| trip(&format!("2019-{month:02}-{day:02}"), "5.75", &format!("2019-{month:02}")))
            .collect()
    }

    fn read(data_dir: &Path, trips: &str) -> Result<CountStream, DataError> {
        let path = data_dir.join("nyc_taxi_ge/yellow_2018_2020_36x10000.csv.gz");
        write(&path, gzip(format!("{HEADER}\n{trips}")));
        load_from(data_dir, "nyc_taxi_ge")
    }

    #[test]
    fn trips_are_counted_by_day_and_whole_dollars() {
        let folder = directory("taxi");
        let extra = [
            trip("2019-01-01", "149.99", "2019-01"),
            trip("2019-10-02", "0.5", "2019-10"),
            // Left out: refunds, beyond the domain, another month's file, outside the days.
            trip("2019-01-01", "-5", "2019-01"),
            trip("2019-01-01", "0", "2019-01"),
            trip("2019-01-01", "150", "2019-01"),
            trip("2019-01-01", "429490.2", "2019-01"),
            trip("2019-01-01", "9", "2019-02"),
            trip("2019-10-03", "9", "2019-10"),
            trip("2018-12-31", "9", "2018-12"),
            trip("2008-12-31", "9", "2019-08"),
        ];
        let stream = read(&folder, &(every_day() + &extra.concat())).unwrap();
        assert_eq!((stream.length(), stream.domain()), (275, 150));
        assert!(stream.counts().iter().all(|row| row[5] == 1));
        assert_eq!((stream.population(0), stream.counts()[0][149]), (2, 1));
        assert_eq!((stream.population(274), stream.counts()[274][0]), (2, 1));
        assert_eq!((1..274).map(|day| stream.population(day)).sum::<u64>(), 273);
    }

    #[test]
    fn monthly_files_as_they_are_published_take_the_place_of_the_sample() {
        let folder = directory("taxi-months");
        let months = [31, 29, 31, 30, 31, 30, 31, 31, 30, 1];
        for (month, days) in (1..).zip(months) {
            let trips: String = (1..=days).map(|day| format!("2,2024-{month:02}-{day:02} 00:10:00,x,7.20\n")).collect();
            // The clock of the last trip was wrong.
            let file = format!(
                "VendorID,tpep_pickup_datetime,store_and_fwd_flag,fare_amount\n{trips}2,2024-05-01 00:00:00,x,9\n"
            );
            let file = if month == 5 { file.replace("2,2024-05-01 00:00:00,x,9\n", "") } else { file };
            let name = format!("nyc_taxi_ge/yellow_tripdata_2024-{month:02}.csv.gz");
            write(&folder.join(name), gzip(file));
        }
        // Of another year, and the sample, which is not read.
        let other = "tpep_pickup_datetime,fare_amount\n2025-01-01 00:00:00,3\n";
        write(&folder.join("nyc_taxi_ge/yellow_tripdata_sample_2025-01.csv"), other);
        write(&folder.join("nyc_taxi_ge/yellow_2018_2020_36x10000.csv.gz"), "nothing");
        let stream = load_from(&folder, "nyc_taxi_ge").unwrap();
        assert_eq!((stream.length(), stream.domain()), (275, 150));
        assert!(stream.counts().iter().all(|row| row[7] == 1 && row.iter().sum::<u64>() == 1));
        assert!(stream.stand_in().unwrap().ends_with("the trips of 2024 that the folder holds"));
    }

    #[test]
    fn malformed_trips_are_errors() {
        let folder = directory("taxi-errors");
        let error = |trips: &str| read(&folder, trips).unwrap_err().to_string();
        for fare in ["NaN", "", "free", "inf"] {
            let message = error(&trip("2019-01-01", fare, "2019-01"));
            assert!(message.ends_with("line 2, field \"fare_amount\": expected an amount of dollars"), "{message}");
        }
        for date in ["2019-13-01", "2019-01-32", "2019-00-01", "yesterday", "2019/01/01", "é2019-01-0"] {
            let message = error(&trip(date, "5", "2019-01"));
            assert!(message.contains("line 2, field \"pickup_datetime\": expected a date"), "{date}: {message}");
        }
        assert!(error("").ends_with("timestamp 0 must have between 1 and 9007199254740992 users"));
    }
}

mod foursquare {
    use super::*;

    #[test]
    fn users_hold_the_category_of_their_last_check_in() {
        let folder = directory("foursquare");
        let path = folder.join("foursquare_lbsn2vec/checkins_4cities.csv.gz");
        let header = "city,user,week,hour_of_week,venue,category\n";
        // Tuesday: user 7 at 3 then 5 (out of order in the file), user 8 at 2. Thursday: user 8 in another city.
        // Friday: user 9.
        let rows = "MY,7,0,30,0,5\nMY,7,0,29,0,3\nMY,8,0,30,0,2\nUS,8,0,80,0,521\nID,9,0,97,0,3\n";
        write(&path, gzip(format!("{header}{rows}")));
        let stream = load_from(&folder, "foursquare").unwrap();
        assert_eq!((stream.name(), stream.domain(), stream.length()), ("foursquare_lbsn2vec", 522, 4));
        let held = |timestamp: usize| -> Vec<(usize, u64)> {
            stream.counts()[timestamp].iter().copied().enumerate().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(held(0), [(0, 1), (2, 1), (5, 1)]);
        assert_eq!(held(1), held(0));
        assert_eq!(held(2), [(0, 1), (5, 1), (521, 1)]);
        assert_eq!(held(3), [(3, 1), (5, 1), (521, 1)]);

        for (row, field) in [
            ("MY,7,0,0,0,5", "hour_of_week"),
            ("MY,7,0,169,0,5", "hour_of_week"),
            ("MY,7,0,1,0,522", "category"),
            ("MY,7,0,1,0,0", "category"),
            ("MY,7,4000000000,1,0,1", "week"),
            ("MY,me,0,1,0,1", "user"),
        ] {
            write(&path, gzip(format!("{header}{rows}{row}\n")));
            let error = load_from(&folder, "foursquare").unwrap_err().to_string();
            assert!(error.contains(&format!("line 7, field {field:?}: expected ")), "{error}");
        }
    }

    #[test]
    fn at_most_447_days_are_used() {
        let folder = directory("foursquare-long");
        let path = folder.join("foursquare_lbsn2vec/checkins_4cities.csv.gz");
        write(&path, gzip("city,user,week,hour_of_week,venue,category\nMY,1,0,1,0,1\nMY,2,90,1,0,1\n"));
        let stream = load_from(&folder, "foursquare").unwrap();
        assert_eq!(stream.length(), 447);
        assert_eq!(stream.counts()[446][..2], [1, 1]);
    }

    #[test]
    fn new_york_is_cut_into_cells() {
        let folder = directory("stan");
        let data = folder.join("foursquare_nyc_stan");
        write(&data.join("poi.csv"), "poi,lat,lon\n1,40.55,-74.28\n2,40.99,-73.69\n3,40.60,-74.0\n");
        let check_ins = |rows: &str| write(&data.join("checkins.csv.gz"), gzip(format!("user,poi,minute\n{rows}")));
        check_ins("5,1,1\n5,3,1439\n6,2,2880\n");
        let stream = load_from(&folder, "foursquare_nyc_stan").unwrap();
        assert_eq!((stream.domain(), stream.length(), stream.population(0)), (101, 3, 2));
        // 40.60 is the second row, -74.0 the fifth column: cell 1 + 10 + 4.
        assert_eq!((stream.counts()[0][0], stream.counts()[0][15], stream.counts()[2][100]), (1, 1, 1));
        assert_eq!(stream.counts()[0], stream.counts()[1]);

        check_ins("5,4,1\n");
        let error = load_from(&folder, "foursquare_nyc_stan").unwrap_err().to_string();
        assert!(error.ends_with("line 2, field \"poi\": expected the number of a place that poi.csv has"), "{error}");
        write(&data.join("poi.csv"), "poi,lat,lon\n1,41.0,-74.28\n");
        let error = load_from(&folder, "foursquare_nyc_stan").unwrap_err().to_string();
        assert!(error.ends_with("line 2, field \"lat\": expected a latitude between 40.55 and 41.00"), "{error}");
    }
}

mod number_files {
    use super::*;

    fn read(name: &str, file: &str, content: impl AsRef<[u8]>) -> Result<Vec<f64>, String> {
        let folder = directory(&format!("numbers-{name}"));
        write(&folder.join(file), content);
        let stream = load_any(&folder, name).map(numbers).map_err(|error| error.to_string())?;
        assert_eq!(stream.name(), name);
        Ok(stream.values().to_vec())
    }

    #[test]
    fn single_numbers_are_read_as_published() {
        let deaths = |content: &str| read("covid19_death", "covid19_death/COVID19_DEATH.csv", content);
        assert_eq!(deaths("\u{feff}0.00 \n25974.00 \n7.00 \n").unwrap(), [0.0, 25_974.0, 7.0]);
        for bad in ["x", "NaN", "inf", "-1", "25975"] {
            let error = deaths(&format!("\u{feff}0.00 \n{bad}\n")).unwrap_err();
            let expected = "line 2, field \"deaths\": expected a number within the domain, 0..25974";
            assert!(error.ends_with(expected), "{error}");
        }
        assert!(deaths("1\n2,3\n").unwrap_err().ends_with("line 2: it has 2 fields, but 1 are expected"));
        assert!(deaths("").unwrap_err().ends_with("the stream has no timestamps"));
        assert_eq!(read("covid19_death", "covid19_death/COVID19_DEATH.csv.gz", gzip("1\n2\n")).unwrap(), [1.0, 2.0]);
        let items = |content: &str| read("foodmart", "foodmart/footmart.csv", content);
        assert_eq!(items("214 \n763 \n").unwrap(), [214.0, 763.0]);
        let transactions = |content: &str| read("foodmart", "foodmart/foodmartFIM.txt", content);
        assert_eq!(transactions("214 763 \n5\n").unwrap(), [214.0, 763.0, 5.0]);
        assert!(
            items("1\n1560\n").unwrap_err().ends_with("field \"item\": expected a number within the domain, 0..1559")
        );
    }

    #[test]
    fn weeks_before_the_authors_stream_are_left_out() {
        let header = "mmwr_year,mmwr_week,season,influenza_deaths,pneumonia_deaths,covid19_deaths,total_deaths,\
                      percent_complete\n";
        let read = |rows: &str| {
            let file = "covid19_death/nchs_weekly_chronological.csv";
            read("covid19_death_chronological", file, format!("{header}{rows}"))
        };
        let rows = "2019,39,2018-19,1,2,3,4,> 100%\n2019,40,2019-20,1,2,5,4,> 100%\n2020,1,2019-20,1,2,6,4,> 100%\n";
        assert_eq!(read(rows).unwrap(), [5.0, 6.0]);
        for (row, why) in [
            ("2020,1,x,1,2,3,4,5", "line 5, field \"mmwr_week\": expected a week that is later than the last"),
            ("2019,52,x,1,2,3,4,5", "line 5, field \"mmwr_week\": expected a week that is later than the last"),
            ("2020,54,x,1,2,3,4,5", "line 5, field \"mmwr_week\": expected a week of the year: 1 to 53"),
            ("-5,1,x,1,2,3,4,5", "line 5, field \"mmwr_year\": expected a year: 1900 to 2999"),
            ("2020,2,x,1,2,,4,5", "line 5, field \"covid19_deaths\": expected a number within the domain, 0..25974"),
        ] {
            let error = read(&format!("{rows}{row}\n")).unwrap_err();
            assert!(error.ends_with(why), "{error}");
        }
    }

    #[test]
    fn months_follow_one_another() {
        let today = "observation_date,LNU03000018\n1972-01-01,247\n";
        assert_eq!(read("unemployment", "unemployment/unemployment.csv", today).unwrap(), [247.0]);
        let read =
            |rows: &str| read("unemployment", "unemployment/unemployment.csv", format!("DATE,LNU03000018\n{rows}"));
        assert_eq!(read("1972-01-01,247\n1972-02-01,286\n").unwrap(), [247.0, 286.0]);
        for (second, why) in [
            ("1972-01-01,1", "field \"DATE\": expected a month that is later than the last"),
            ("1972-13-01,1", "field \"DATE\": expected the first day of a month: 2019-01-01"),
            ("1972-03-02,1", "field \"DATE\": expected the first day of a month: 2019-01-01"),
            ("1972-03-01,.", "field \"LNU03000018\": expected a number within the domain, 0..612"),
        ] {
            let error = read(&format!("1972-01-01,247\n{second}\n")).unwrap_err();
            assert!(error.contains("line 3, ") && error.ends_with(why), "{error}");
        }
    }

    #[test]
    fn weeks_that_are_repeated_can_be_read_once() {
        let fields = "REGION TYPE,REGION,YEAR,WEEK,% WEIGHTED ILI,%UNWEIGHTED ILI,AGE 0-4,AGE 25-49,AGE 25-64,AGE 5-24,\
                      AGE 50-64,AGE 65,ILITOTAL,NUM. OF PROVIDERS,TOTAL PATIENTS";
        let row =
            |year: u32, week: u32, patients: u32| format!("National,X,{year},{week},1,1,1,X,1,1,X,1,1,1,{patients} \n");
        let weeks = row(1997, 52, 10) + &row(1998, 1, 20);
        let authors = |rows: &str| format!("PERCENTAGE OF VISITS,,,,,,,,,,,,17733441,,\n{fields}\n{rows}");
        let file = "outpatient_ilinet/ILINet.csv";
        let twice = authors(&format!("{weeks}{weeks}"));
        assert_eq!(read("outpatient_ilinet", file, &twice).unwrap(), [10.0, 20.0, 10.0, 20.0]);
        assert_eq!(read("outpatient_ilinet_once", file, &twice).unwrap(), [10.0, 20.0]);
        let other = authors(&format!("{weeks}{}{}", row(1997, 52, 10), row(1998, 1, 21)));
        let error = read("outpatient_ilinet_once", file, &other).unwrap_err();
        assert!(error.ends_with("line 6, field \"TOTAL PATIENTS\": expected what the same week had before"), "{error}");
        assert!(read("outpatient_ilinet", file, "title\n").unwrap_err().ends_with("the file is empty"));
        assert!(read("outpatient_ilinet", file, "a\nb\nc\n").unwrap_err().contains("the fields must be REGION TYPE,"));

        let cdc = |rows: &str| {
            read(
                "outpatient_ilinet_cdc",
                "outpatient_ilinet/ILINet_cdc_1997_2025.csv",
                format!("title\n{fields}\n{rows}"),
            )
        };
        assert_eq!(cdc(&weeks).unwrap(), [10.0, 20.0]);
        let error = cdc(&format!("{weeks}{weeks}")).unwrap_err();
        assert!(error.ends_with("line 5, field \"WEEK\": expected a week that is later than the last"), "{error}");
    }
}

mod symbol_files {
    use super::*;

    fn read(name: &str, file: &str, content: impl AsRef<[u8]>) -> Result<Vec<Vec<u32>>, String> {
        let folder = directory(&format!("symbols-{name}"));
        write(&folder.join(name).join(file), content);
        let stream = load_any(&folder, name).map(symbols).map_err(|error| error.to_string())?;
        assert_eq!(stream.name(), name);
        Ok(stream.sequences().to_vec())
    }

    #[test]
    fn a_line_is_a_user_and_numbers_begin_with_one() {
        let excerpt = |content: &[u8]| read("kosarak", "kosarak_first100000.txt.gz", content);
        assert_eq!(excerpt(&gzip("1 2 3\n41270\n")).unwrap(), [vec![0, 1, 2], vec![41_269]]);
        assert_eq!(read("kosarak", "kosarak.dat", "1 2 3 \n7 \n").unwrap(), [vec![0, 1, 2], vec![6]]);
        for bad in ["0", "41271", "-1", "x", "2,3", "1.5"] {
            let error = excerpt(&gzip(format!("1\n1 2\n4 {bad} 5\n"))).unwrap_err();
            let why = "line 3, field \"number 2\": expected the number of a page: 1 to 41270";
            assert!(error.ends_with(why), "{error}");
        }
        let whole = gzip((1..3_000).map(|page| format!("{page} {}\n", page * 7 % 4_001 + 1)).collect::<String>());
        assert_eq!(excerpt(&whole).unwrap().len(), 2_999);
        for length in [12, whole.len() / 2, whole.len() - 1] {
            assert!(excerpt(&whole[..length]).unwrap_err().contains("it cannot be read on"), "{length}");
        }
        assert!(excerpt(b"1 2\n3 \xff\n").unwrap_err().ends_with("line 2: it is not valid UTF-8"));

        let msnbc = |content: &str| read("msnbc_spmf", "msnbc_sequences.txt.gz", gzip(content));
        assert_eq!(msnbc("17 1\n").unwrap(), [[16, 0]]);
        assert_eq!(read("msnbc_spmf", "msnbc_sequences.txt", "17 1\n").unwrap(), [[16, 0]]);
        let whole = |content: &str| read("msnbc_spmf", "msnbc990928.seq", content.as_bytes());
        let head = "% Different categories found in input file:\n\nfrontpage news tech\n\n";
        assert_eq!(whole(&format!("{head}% Sequences:\n\n1 1 \n2 \n")).unwrap(), [vec![0, 0], vec![1]]);
        let error = whole(head).unwrap_err();
        assert!(error.ends_with("it has no line \"% Sequences:\", after which the sequences begin"), "{error}");
        assert!(msnbc("18\n").unwrap_err().ends_with("line 1, field \"number 1\": expected a category: 1 to 17"));
    }

    #[test]
    fn every_twentieth_valid_gaze_is_put_into_a_cell() {
        let gaze =
            |rows: &str| read("eye_irf_lookatpoint", "gaze.csv.gz", gzip(format!("subject,t,x,y,status,evt\n{rows}")));
        // Person 1: in the lower left corner, but once, among 41 valid samples; person 2: beyond the upper right.
        let mut rows = String::from("1,0.0,,,False,5\n");
        for sample in 1..=41 {
            let (x, y) = if sample == 21 { (0.1, 0.0) } else { (-22.1, -13.8) };
            rows += &format!("1,0.{sample:03},{x},{y},True,1\n");
        }
        rows += "2,0.0,25.0,99.5,True,1\n";
        assert_eq!(gaze(&rows).unwrap(), [vec![0, 51 * 100 + 50, 0], vec![9_999]]);
        for (row, why) in [
            ("1,0.5,0,0,True,1", "field \"subject\": expected the people one after another, by number"),
            ("2,0.0,0,0,True,1", "field \"t\": expected a time that is later than the last"),
            ("2,0.1,NaN,0,True,1", "field \"x\": expected an angle in degrees"),
            ("2,0.1,0,,True,1", "field \"y\": expected an angle in degrees"),
            ("2,0.1,0,0,yes,1", "field \"status\": expected True or False"),
        ] {
            let error = gaze(&format!("{rows}{row}\n")).unwrap_err();
            assert!(error.contains("line 45, ") && error.ends_with(why), "{error}");
        }
        assert!(gaze("1,0.0,,,False,5\n").unwrap_err().ends_with("user 0 has no symbols"));
    }
}

mod long_tables {
    use tidegate_lab::datasets::Format;
    use tidegate_lab::datasets::long::{Entries, Refused, read_users};
    use tidegate_lab::datasets::scalar::Readings;
    use tidegate_lab::datasets::wide::{LongOrWide, Rows};

    use super::*;

    const DOMAIN: Domain = Domain { low: -1.0, high: 1.0, resolution: None };

    fn counted(content: &str, domain: Domain) -> Result<CountStream, DataError> {
        let options = Options { domain: Some(domain), ..Options::default() };
        datasets::load_from("table", content.as_bytes(), &options).map(counts)
    }

    #[test]
    fn users_of_each_value_are_counted() {
        let stream = counted("t,user,value\n5,a,1\n5,b,-1\n5,c,1\n6,b,0\n", DOMAIN).unwrap();
        assert_eq!(stream.counts(), [[1, 0, 2], [0, 1, 0]]);
        assert_eq!(stream.labels(), ["-1", "0", "1"]);
        let wrong = |content: &str, domain| counted(content, domain).unwrap_err().to_string();
        let outside = "table, line 2, field \"value\": expected a whole number within the domain, -1..1";
        for value in ["2", "0.5", "NaN", "inf", "x", ""] {
            assert_eq!(wrong(&format!("t,user,value\n0,a,{value}\n"), DOMAIN), outside);
        }
        let fine = Domain { resolution: Some(0.5), ..DOMAIN };
        assert!(wrong("t,user,value\n0,a,1\n", fine).contains("the whole numbers of its domain"));
        assert!(wrong("t,user,value\n0,a,1\n0,a,1\n", DOMAIN).contains("line 3, field \"user\""));
        let gap = "table, line 3, field \"t\": expected a timestamp that is the last, or one more";
        assert_eq!(wrong("t,user,value\n0,a,1\n2,a,1\n", DOMAIN), gap);
        assert!(datasets::load_from("table", "t,user,value\n".as_bytes(), &Options::default()).is_err());
    }

    #[test]
    fn lines_of_json_say_the_same_as_csv() {
        let csv = "t,user,value\n0,a,x\n0,7,y\n3,a,\"z, z\"\n";
        let json = "{\"t\":0,\"user\":\"a\",\"value\":\"x\"}\n\n{\"value\":\"y\",\"user\":7,\"t\":0}\n\
                    {\"t\":3,\"user\":\"a\",\"value\":\"z, z\"}";
        let all = |content: &str, format| {
            let mut entries = Entries::new("table", content.as_bytes(), format).unwrap();
            let mut found = Vec::new();
            while let Some(entry) = entries
                .next_checked(|entry| Ok((entry.timestamp, entry.user.to_owned(), entry.value.to_owned())))
                .unwrap()
            {
                found.push(entry);
            }
            found
        };
        let entries = all(csv, Format::Csv);
        assert_eq!(entries, all(json, Format::Ndjson));
        assert_eq!(entries[2], (3, "a".to_owned(), "z, z".to_owned()));
        let readings: Vec<_> = Readings::in_format("n", "{\"value\":-2.5e0,\"t\":4}\n".as_bytes(), Format::Ndjson)
            .unwrap()
            .map(|reading| reading.map(|reading| (reading.timestamp, reading.value)).unwrap())
            .collect();
        assert_eq!(readings, [(4, -2.5)]);
    }

    #[test]
    fn readings_keep_every_digit_and_no_text_is_refused() {
        let all = |content: &str, format| {
            let mut readings = Readings::in_format("n", content.as_bytes(), format).unwrap();
            let mut found = Vec::new();
            while let Some(text) = readings.next_text(|_, text| text.to_owned()).unwrap() {
                found.push(text);
            }
            found
        };
        let long = format!("0.{}1", "0".repeat(100));
        let given = ["1700000000000000129", "1.7000000000000000129e18", &long, "-0.5", "null", "[1]", "NaN", "true"];
        let kept = ["1700000000000000129", "1700000000000000012.9", &long, "-0.5", "", "", "", "true"];
        let lines = |form: &dyn Fn(usize, &str) -> String| -> String {
            given.iter().enumerate().map(|(t, text)| form(t, text) + "\n").collect()
        };
        let json = lines(&|t, text| format!("{{\"t\":{t},\"value\":{text}}}"));
        assert_eq!(all(&json, Format::Ndjson), kept);
        assert_eq!(all(&format!("t,value\n{}", lines(&|t, text| format!("{t},{text}"))), Format::Csv), given);
        assert_eq!(all("{\"t\":0}\n{\"t\":1,\"value\":3}\n{\"t\":2}\n", Format::Ndjson), ["", "3", ""]);
    }

    #[test]
    fn what_is_over_is_refused_and_so_is_what_a_check_refuses() {
        let table = "t,user,value\n4,a,x\n5,a,x\n";
        let mut entries = Entries::new("table", table.as_bytes(), Format::Csv).unwrap().after(Some(4));
        let error = entries.next_checked(|_| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "table, line 2, field \"t\": expected a timestamp after 4, with which the last run ended");
        let refused = Refused { field: "value", expected: "something else".into() };
        let error = entries.next_checked(|_| Err::<(), _>(refused)).unwrap_err().to_string();
        assert_eq!(error, "table, line 3, field \"value\": expected something else");
        let mut rows = Rows::new("wide", "t,x\n4,1\n6,1\n".as_bytes(), Format::Csv).unwrap().after(Some(5));
        assert!(rows.next_row().unwrap_err().to_string().contains("a timestamp after 5"));
        assert_eq!(rows.next_row().unwrap().map(|row| (row.line, row.timestamp)), Some((3, 6)));
    }

    #[test]
    fn the_first_line_tells_whether_a_table_is_long_or_wide() {
        let form = |content: &'static str, format| LongOrWide::new("table", content.as_bytes(), format).unwrap();
        assert!(matches!(form("t,user,value\n", Format::Csv), LongOrWide::Long(_)));
        assert!(matches!(form("t,x,y\n", Format::Csv), LongOrWide::Wide(_)));
        assert!(matches!(form("{\"user\":1,\"value\":2,\"t\":3}", Format::Ndjson), LongOrWide::Long(_)));
        assert!(matches!(form("{\"x\":1,\"t\":3}", Format::Ndjson), LongOrWide::Wide(_)));
    }

    #[test]
    fn a_table_of_users_has_each_once() {
        let mut found = Vec::new();
        let mut take = |user: &str, class: &str| {
            found.push((user.to_owned(), class.to_owned()));
            if class == "no" { Err("another".into()) } else { Ok(()) }
        };
        let mut read = |content: &str| read_users("users", content.as_bytes(), Format::Csv, "class", &mut take);
        read("user,class\na,x\nb,y\n").unwrap();
        let error = read("user,class\na,no\n").unwrap_err().to_string();
        assert_eq!(error, "users, line 2, field \"class\": expected another");
        assert!(read("user,class\na,x\na,x\n").unwrap_err().to_string().contains("line 3, field \"user\""));
        assert!(read("user,group\na,x\n").is_err());
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_number_that_loses_digits_is_nobodys_name() {
        for user in ["1.5", "1.0", "20000000000000000001", "1e3"] {
            let line = format!("{{\"t\":0,\"user\":{user},\"value\":\"x\"}}");
            let error = Entries::new("n", line.as_bytes(), Format::Ndjson).unwrap_err().to_string();
            assert_eq!(error, "n, line 1, field \"user\": expected a text or a whole number");
        }
    }

    #[test]
    fn a_line_of_json_that_never_ends_is_not_held_in_memory() {
        let endless = std::io::Read::chain("{\"t\":\"".as_bytes(), std::io::repeat(b'x'));
        let error = Entries::new("endless", endless, Format::Ndjson).unwrap_err().to_string();
        assert!(error.contains("the line is longer than"), "{error}");
    }
}
