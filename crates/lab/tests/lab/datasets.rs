//! Loaders, on small files made here.

use std::path::Path;

use tidegate_lab::datasets::scalar::Domain;
use tidegate_lab::datasets::{self, DataError, Options, load, wide};
use tidegate_lab::{CountStream, Stream};

use crate::support::{counts, directory, gzip, numbers, write};

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
}

#[test]
fn unknown_and_missing_data_sets_are_explained() {
    let error = load("tdrive", &Options::default()).unwrap_err().to_string();
    assert!(error.contains("did you mean tdrive_counts?") && error.contains("lns, sin, log"), "{error}");
    let error = load("foursquare", &Options::default()).unwrap_err();
    assert!(matches!(error, DataError::NoDirectory { dataset } if dataset == "foursquare_lbsn2vec"));
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
        // Tuesday: user 7 at 3 then 5 (out of order in the file), user 8 at 2. Thursday: user 8 in another city. Friday: user 9.
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
