//! Loaders of streams of counts.

use std::path::Path;

use tidegate_lab::CountStream;
use tidegate_lab::datasets::DatasetError;

use super::load_from;
use crate::support::{directory, gzip, write};

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

    fn read(data_dir: &Path, trips: &str) -> Result<CountStream, DatasetError> {
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
