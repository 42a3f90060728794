//! Loaders of streams of numbers.

use super::load_any;
use crate::support::{directory, gzip, numbers, write};

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
    assert!(items("1\n1560\n").unwrap_err().ends_with("field \"item\": expected a number within the domain, 0..1559"));
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
    let read = |rows: &str| read("unemployment", "unemployment/unemployment.csv", format!("DATE,LNU03000018\n{rows}"));
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
        read("outpatient_ilinet_cdc", "outpatient_ilinet/ILINet_cdc_1997_2025.csv", format!("title\n{fields}\n{rows}"))
    };
    assert_eq!(cdc(&weeks).unwrap(), [10.0, 20.0]);
    let error = cdc(&format!("{weeks}{weeks}")).unwrap_err();
    assert!(error.ends_with("line 5, field \"WEEK\": expected a week that is later than the last"), "{error}");
}
