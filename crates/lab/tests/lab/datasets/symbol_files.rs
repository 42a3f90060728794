//! Loaders of streams of symbols.

use super::load_any;
use crate::support::{directory, gzip, symbols, write};

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
    assert!(excerpt(b"1 2\n3 \xff\n").unwrap_err().ends_with("line 2: it is not valid UTF-8: save the file as UTF-8"));

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
